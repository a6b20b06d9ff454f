// Planning dots. See the header.
#include "gpu/dots/DotPlan.h"

#include "gpu/layouts/LayoutRelations.h"
#include "ir/ngpu/Dialect.h"
#include "layout/Constructors.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using nereid::layout::coreShape;
using nereid::layout::coreSize;
using nereid::layout::LinearLayout;

namespace nereid::gpu {

//===--- facts -------------------------------------------------------------------------------===//

namespace {

/// What is known of where a value comes from. `contiguous`: the dimension along which its elements
/// are adjacent in memory.
struct Origin {
  DotSource source = DotSource::Computed;
  std::optional<unsigned> contiguous;
};

/// The dimension of `to` that dimension `dim` of `from` becomes when dimensions of size 1 come and
/// go; nothing for one that goes.
std::optional<unsigned> sameDim(ArrayRef<int64_t> from, ArrayRef<int64_t> to, unsigned dim) {
  if (from[dim] == 1)
    return std::nullopt;
  unsigned before = llvm::count_if(from.take_front(dim), [](int64_t size) { return size != 1; });
  for (auto [i, size] : llvm::enumerate(to))
    if (size != 1 && before-- == 0)
      return i;
  return std::nullopt;
}

class OriginFinder {
public:
  explicit OriginFinder(const transforms::IntegerAnalysis &analysis) : analysis(analysis) {}

  Origin find(Value value) {
    // Operands are traced through few ops; a limit keeps wide expressions cheap.
    if (++steps > 64)
      return {};
    Operation *op = value.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!op || !type)
      return {};
    if (auto load = dyn_cast<tile::LoadOp>(op))
      return {DotSource::Load, contiguousDim(load.getPtr(), type)};
    if (isa<tile::DotOp>(op))
      return {DotSource::Dot, std::nullopt};
    if (auto trans = dyn_cast<tile::TransOp>(op)) {
      Origin source = find(trans.getSrc());
      if (source.contiguous)
        source.contiguous =
            llvm::find(trans.getOrder(), int32_t(*source.contiguous)) - trans.getOrder().begin();
      return source;
    }
    if (auto reshape = dyn_cast<tile::ReshapeOp>(op); reshape && changesUnitDims(reshape)) {
      Origin source = find(reshape.getSrc());
      if (source.contiguous)
        source.contiguous =
            sameDim(tile::shapeOf(reshape.getSrc().getType()), type.getShape(), *source.contiguous);
      return source;
    }
    if (auto hint = dyn_cast<tile::HintOp>(op))
      return find(hint->getOperand(0));
    if (tile::isElementwise(op)) {
      Origin best;
      for (Value operand : op->getOperands()) {
        Origin origin = find(operand);
        if (origin.source == DotSource::Load)
          origin.source = DotSource::Converted;
        if (origin.source == DotSource::Dot)
          return origin;
        if (origin.source == DotSource::Converted && best.source != DotSource::Converted)
          best = origin;
      }
      return best;
    }
    if (isa<tile::DescLoadOp>(op))
      return {DotSource::Load, type.getRank() - 1};
    return {};
  }

private:
  unsigned contiguousDim(Value pointers, RankedTensorType type) {
    unsigned best = type.getRank() - 1;
    int64_t most = analysis.contiguity(pointers, best);
    for (unsigned dim = 0; dim + 1 < unsigned(type.getRank()); ++dim)
      if (int64_t contiguity = analysis.contiguity(pointers, dim); contiguity > most) {
        most = contiguity;
        best = dim;
      }
    return best;
  }

  const transforms::IntegerAnalysis &analysis;
  unsigned steps = 0;
};

/// Is the result reduced along its rows or the A operand of a dot, with nothing but arithmetic in
/// between?
bool wantsRowsTogether(tile::DotOp dot) {
  unsigned last = dot.getType().getRank() - 1;
  SmallVector<Value> work = {dot.getResult()};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (!seen.insert(user).second)
        continue;
      if (auto reduce = dyn_cast<tile::ReduceOp>(user); reduce && reduce.getAxis() == last)
        return true;
      if (auto next = dyn_cast<tile::DotOp>(user); next && use.get() == next.getA())
        return true;
      if (tile::isElementwise(user))
        work.append(user->result_begin(), user->result_end());
    }
  }
  return false;
}

} // namespace

DotFacts gatherDotFacts(tile::DotOp dot, const transforms::IntegerAnalysis &analysis) {
  auto a = cast<RankedTensorType>(dot.getA().getType());
  auto b = cast<RankedTensorType>(dot.getB().getType());
  auto c = cast<RankedTensorType>(dot.getType());
  DotFacts facts;
  facts.shape.assign(c.getShape().begin(), c.getShape().end());
  facts.k = a.getShape().back();
  facts.accumulator = c.getElementType();
  facts.precision = dot.getPrecision();
  facts.maxImprecise = dot.getMaxImpreciseAcc();

  Origin originA = OriginFinder(analysis).find(dot.getA());
  Origin originB = OriginFinder(analysis).find(dot.getB());
  unsigned last = c.getRank() - 1;
  facts.a = {a.getElementType(), originA.source, originA.contiguous.value_or(last) != last - 1};
  facts.b = {b.getElementType(), originB.source, originB.contiguous.value_or(last) == last - 1};
  facts.rowsRead = wantsRowsTogether(dot);
  facts.rowsTogether = originA.source == DotSource::Dot || facts.rowsRead;
  auto untransposed = [](Value value) {
    while (auto trans = value.getDefiningOp<tile::TransOp>())
      value = trans.getSrc();
    return value;
  };
  facts.ontoOperand = untransposed(dot.getA()) == untransposed(dot.getC());
  facts.transposesDot = originA.source == DotSource::Dot && a.getRank() == 2 &&
                        dot.getA().getDefiningOp<tile::TransOp>();
  return facts;
}

//===--- what the units can do ---------------------------------------------------------------===//

int64_t instructionK(Type element) {
  return element.isF64() ? 4 : 256 / int64_t(element.getIntOrFloatBitWidth());
}

namespace {

/// Types that the matrix units multiply, apart from f64 (mma.sync alone).
Obstacle typesObstacle(const DotFacts &facts, const GpuOptions &options) {
  Type a = facts.a.element, b = facts.b.element, acc = facts.accumulator;
  auto unless = [](bool fits) { return fits ? Obstacle::None : Obstacle::Types; };
  if (tile::isFloat8(a) && tile::isFloat8(b))
    return options.machine.fp8Mma ? unless(acc.isF32()) : Obstacle::Device;
  if (a != b)
    return Obstacle::Types;
  if (a.isF16())
    return unless(acc.isF32() || acc.isF16());
  if (a.isBF16())
    return unless(acc.isF32());
  if (a.isF32() && acc.isF32() && facts.precision != tile::InputPrecision::TF32)
    return Obstacle::Precision;
  if (a.isF32())
    return unless(acc.isF32());
  return unless(a.isInteger(8) && acc.isInteger(32));
}

/// The arrangement {groups of four warps along M, along N}, if the shape can be divided so.
std::optional<std::array<int64_t, 2>> wgmmaGroups(const DotFacts &facts, int64_t groups) {
  int64_t m = coreSize(facts.m()), n = coreSize(facts.n());
  int64_t alongM = std::min(groups, m / 64);
  if (alongM == 0)
    return std::nullopt;
  int64_t alongN = groups / alongM;
  // Integer instructions exist for 8, 16, 24, 32 and multiples of 16 columns: powers of two from 8
  // on and their multiples by the odd repeats, but for 8 * odd.
  int64_t least = 8;
  if (facts.accumulator.isInteger() && layout::repeatCount(facts.n()) > 1)
    least = 16;
  if (n / alongN < least)
    return std::nullopt;
  return std::array<int64_t, 2>{alongM, alongN};
}

} // namespace

Obstacle obstacle(MatrixUnit unit, const DotFacts &facts, const GpuOptions &options) {
  if (unit == MatrixUnit::Fma)
    return Obstacle::None;
  if (unit > options.machine.best)
    return Obstacle::Device;
  if (coreSize(facts.k) < instructionK(facts.a.element))
    return Obstacle::Depth;
  if (unit == MatrixUnit::Mma) {
    // Each of the odd repeats takes instructions of its own: with few rows or columns in it, most
    // of their work is lost.
    for (int64_t size : {facts.m(), facts.n()})
      if (coreSize(size) < 8 && layout::repeatCount(size) > 1)
        return size == facts.m() ? Obstacle::Rows : Obstacle::Columns;
    if (facts.a.element.isF64() && facts.b.element.isF64() && facts.accumulator.isF64())
      return Obstacle::None;
    return typesObstacle(facts, options);
  }
  if (options.numWarps % 4 != 0)
    return Obstacle::Warps;
  if (facts.batched())
    return Obstacle::Batches;
  if (Obstacle types = typesObstacle(facts, options); types != Obstacle::None)
    return types;
  if (wgmmaGroups(facts, options.numWarps / 4))
    return Obstacle::None;
  return coreSize(facts.m()) < 64 ? Obstacle::Rows : Obstacle::Columns;
}

//===--- plans -------------------------------------------------------------------------------===//

namespace {

/// The operand's core [.., rows, columns].
SmallVector<int64_t, 4> operandShape(const DotFacts &facts, layout::Operand operand) {
  SmallVector<int64_t, 4> shape(facts.shape);
  shape[shape.size() - (operand == layout::Operand::A ? 1 : 2)] = facts.k;
  return coreShape(shape);
}

/// Dimensions from the fastest on, with K first or second.
SmallVector<unsigned, 4> bufferOrder(unsigned rank, layout::Operand operand, bool kMajor) {
  SmallVector<unsigned, 4> order;
  for (unsigned dim = rank; dim-- > 0;)
    order.push_back(dim);
  if (kMajor != (operand == layout::Operand::A))
    std::swap(order[0], order[1]);
  return order;
}

/// Shared memory with the widest swizzle that fits; `most`: elements along the fastest dimension
/// that a swizzle may span.
LinearLayout operandBuffer(const DotFacts &facts, layout::Operand operand, bool kMajor,
                           int64_t most = INT64_MAX) {
  SmallVector<int64_t, 4> shape = operandShape(facts, operand);
  SmallVector<unsigned, 4> order = bufferOrder(shape.size(), operand, kMajor);
  const DotOperandFacts &of = operand == layout::Operand::A ? facts.a : facts.b;
  unsigned bits = of.element.getIntOrFloatBitWidth();
  int64_t row = std::min(shape[order[0]], most) * bits / 8;
  return layout::sharedSwizzled(shape, order, bits, layout::swizzleFor(row));
}

/// Should groups of warps that find no rows of their own compute copies of the others' results?
/// Where these are reduced along their rows the warps then exchange nothing, neither for the
/// reduction nor for the next product. Measured for attention: it pays while the columns are at
/// most half of K, and few.
bool paysCopies(const DotFacts &facts) {
  constexpr int64_t most = 64;
  return facts.rowsRead && facts.n() <= std::min(facts.k / 2, most);
}

DotPlan planWgmma(const DotFacts &facts, const GpuOptions &options) {
  std::array<int64_t, 2> groups = *wgmmaGroups(facts, options.numWarps / 4);
  if (groups[1] > 1 && paysCopies(facts))
    groups = {groups[0] * groups[1], 1};
  SmallVector<int64_t, 4> core = coreShape(facts.shape);
  bool wide = facts.a.element.getIntOrFloatBitWidth() == 16;
  int64_t groupN = core.back() / groups[1];

  DotPlan plan;
  plan.unit = MatrixUnit::Wgmma;
  plan.warps = {4 * groups[0], groups[1]};
  if (tile::isFloat8(facts.a.element) && facts.maxImprecise < facts.k)
    plan.promoteK = int(facts.maxImprecise);
  plan.accumulator = layout::wgmmaAccumulator(core, plan.warps, std::min<int64_t>(groupN, 256));

  bool fromMemory = facts.a.source == DotSource::Load;
  bool readable = wide || facts.a.kMajor;
  plan.a.kMajor = facts.a.kMajor;
  plan.a.buffer = operandBuffer(facts, layout::Operand::A, facts.a.kMajor);
  bool computed = facts.a.source == DotSource::Dot || facts.a.source == DotSource::Converted;
  // A transpose goes through shared memory in any case, where the unit reads it along its columns.
  bool transposed = wide && facts.transposesDot;
  if ((computed && !facts.ontoOperand && !transposed) || (fromMemory && !readable)) {
    plan.a.storage = DotOperandPlan::Storage::Fragment;
    plan.a.layout = layout::wgmmaOperandA(operandShape(facts, layout::Operand::A), plan.warps,
                                          facts.a.element.getIntOrFloatBitWidth());
  } else {
    plan.a.storage = DotOperandPlan::Storage::Shared;
    plan.a.kMajor = readable ? facts.a.kMajor && !transposed : true;
    plan.a.reordered = !readable;
    if (transposed)
      plan.a.buffer = operandBuffer(facts, layout::Operand::A, false);
    if (!readable)
      plan.a.buffer = operandBuffer(facts, layout::Operand::A, true);
    plan.a.layout = plan.a.buffer;
  }

  // An atom of the swizzle must not span two groups' columns, and needs 32 bytes.
  plan.b.storage = DotOperandPlan::Storage::Shared;
  plan.b.kMajor = facts.b.kMajor || !wide || groupN < 16;
  plan.b.reordered = plan.b.kMajor != facts.b.kMajor;
  plan.b.buffer =
      operandBuffer(facts, layout::Operand::B, plan.b.kMajor, plan.b.kMajor ? INT64_MAX : groupN);
  plan.b.layout = plan.b.buffer;
  return plan;
}

/// The arrangement of the warps for tiles of 16 x 8 (f64: 8 x 8): no tile is computed twice if that
/// can be avoided, then the fewest operand elements are read.
std::array<int64_t, 2> mmaWarps(const DotFacts &facts, int64_t warps) {
  int64_t m = coreSize(facts.m()), n = coreSize(facts.n());
  int64_t tileM = facts.a.element.isF64() ? 8 : 16;
  if (facts.rowsTogether) {
    int64_t alongM = std::clamp<int64_t>(m / tileM, 1, warps);
    return {alongM, warps / alongM};
  }
  std::array<int64_t, 2> best = {warps, 1};
  int64_t bestWork = INT64_MAX, bestRead = INT64_MAX;
  for (int64_t alongM = warps; alongM >= 1; alongM /= 2) {
    int64_t rows = std::max(tileM, m / alongM),
            columns = std::max<int64_t>(8, n / (warps / alongM));
    int64_t work = rows * columns;
    int64_t read = rows * layout::repeatCount(facts.m()) + columns * layout::repeatCount(facts.n());
    if (std::pair(work, read) < std::pair(bestWork, bestRead)) {
      bestWork = work;
      bestRead = read;
      best = {alongM, warps / alongM};
    }
  }
  return best;
}

DotPlan planMma(const DotFacts &facts, const GpuOptions &options) {
  DotPlan plan;
  plan.unit = MatrixUnit::Mma;
  plan.warps = mmaWarps(facts, options.numWarps);
  plan.accumulator =
      layout::mmaAccumulator(coreShape(facts.shape), plan.warps, facts.a.element.isF64() ? 64 : 32);
  for (layout::Operand operand : {layout::Operand::A, layout::Operand::B}) {
    const DotOperandFacts &of = operand == layout::Operand::A ? facts.a : facts.b;
    DotOperandPlan &to = operand == layout::Operand::A ? plan.a : plan.b;
    to.storage = DotOperandPlan::Storage::Fragment;
    to.layout = layout::mmaOperand(operandShape(facts, operand), operand, plan.warps,
                                   of.element.getIntOrFloatBitWidth());
    to.kMajor = of.kMajor;
    to.buffer = operandBuffer(facts, operand, of.kMajor);
  }
  return plan;
}

/// Lanes 4 x 8, a thread's block along a dimension as wide as one read of the operand that is
/// adjacent along it.
DotPlan planFma(const DotFacts &facts, const GpuOptions &options) {
  SmallVector<int64_t, 4> core = coreShape(facts.shape);
  unsigned rank = core.size();
  int64_t m = core[rank - 2], n = core[rank - 1];
  auto vector = [](const DotOperandFacts &operand, int64_t size) {
    int64_t widest = 128 / std::max<int64_t>(operand.element.getIntOrFloatBitWidth(), 32);
    return operand.kMajor ? 1 : std::min(widest, size);
  };
  SmallVector<int64_t, 4> thread(rank, 1), lanes(rank, 1), warps(rank, 1);
  SmallVector<unsigned, 4> order;
  for (unsigned dim = rank; dim-- > 0;)
    order.push_back(dim);
  thread[rank - 2] = vector(facts.a, m);
  thread[rank - 1] = vector(facts.b, n);
  // Threads that find no work of their own shrink the block first.
  int64_t lanesOfWarp = options.machine.lanes;
  int64_t threads = options.numWarps * lanesOfWarp;
  while (thread[rank - 2] * thread[rank - 1] > 1 &&
         m * n / (thread[rank - 2] * thread[rank - 1]) < threads)
    thread[thread[rank - 2] > thread[rank - 1] ? rank - 2 : rank - 1] /= 2;
  int64_t roomM = m / thread[rank - 2], roomN = n / thread[rank - 1];
  int64_t lanesN = std::min<int64_t>(8, roomN),
          lanesM = std::min<int64_t>(lanesOfWarp / lanesN, roomM);
  lanesN = lanesOfWarp / lanesM;
  lanes[rank - 2] = lanesM;
  lanes[rank - 1] = lanesN;
  roomM = std::max<int64_t>(1, roomM / lanesM);
  roomN = std::max<int64_t>(1, roomN / lanesN);
  // As square as the shape admits.
  int64_t left = options.numWarps;
  for (; left > 1; left /= 2) {
    bool alongM = roomM * thread[rank - 2] * lanesM >= roomN * thread[rank - 1] * lanesN;
    if (roomM == 1)
      alongM = false;
    else if (roomN == 1)
      alongM = true;
    warps[alongM ? rank - 2 : rank - 1] *= 2;
    int64_t &room = alongM ? roomM : roomN;
    room = std::max<int64_t>(1, room / 2);
  }

  DotPlan plan;
  plan.unit = MatrixUnit::Fma;
  plan.warps = {warps[rank - 2], warps[rank - 1]};
  plan.accumulator = layout::blocked(core, thread, lanes, warps, order);
  for (layout::Operand operand : {layout::Operand::A, layout::Operand::B}) {
    const DotOperandFacts &of = operand == layout::Operand::A ? facts.a : facts.b;
    DotOperandPlan &to = operand == layout::Operand::A ? plan.a : plan.b;
    to.storage = DotOperandPlan::Storage::Shared;
    to.kMajor = of.kMajor;
    to.buffer = to.layout = operandBuffer(facts, operand, of.kMajor);
  }
  return plan;
}

} // namespace

DotPlan planDot(const DotFacts &facts, const GpuOptions &options) {
  if (canUse(MatrixUnit::Wgmma, facts, options))
    return planWgmma(facts, options);
  if (canUse(MatrixUnit::Mma, facts, options))
    return planMma(facts, options);
  return planFma(facts, options);
}

} // namespace nereid::gpu

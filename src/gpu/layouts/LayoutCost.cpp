#include "gpu/layouts/LayoutCost.h"
#include "layout/Conversion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// What a barrier of the block and the latency around it cost a program.
constexpr double kBarrier = 30;
/// An instruction to the load/store unit, with its share of address arithmetic.
constexpr double kRequest = 1;
/// A sector between L1 and L2.
constexpr double kSector = 0.5;
/// A line of L1 and L2: its tag.
constexpr double kLine = 0.25;

int64_t greatestPowerOfTwo(int64_t value) {
  return value & -value;
}

unsigned wordsOf(unsigned elementBits) {
  return std::max(1u, elementBits / 32);
}

/// The rank of some vectors over GF(2).
unsigned rankOf(SmallVector<uint64_t, 16> columns) {
  unsigned rank = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (!columns[i])
      continue;
    ++rank;
    uint64_t pivot = columns[i] & -columns[i];
    for (size_t j = i + 1; j < columns.size(); ++j)
      if (columns[j] & pivot)
        columns[j] ^= columns[i];
  }
  return rank;
}

/// The number of low bits of `dim` in flat coordinates, and their place.
unsigned flatShift(const LinearLayout &layout, unsigned dim) {
  unsigned shift = 0;
  for (unsigned i = dim + 1; i < layout.rank(); ++i)
    shift += llvm::Log2_64(layout.shape()[i]);
  return shift;
}

double warpsOf(const LinearLayout &layout) {
  return double(layout.size(Axis::Warp));
}

} // namespace

double issueCycles(double slots, const LinearLayout &layout) {
  return slots * std::max(1.0, warpsOf(layout) / 4);
}

/// A block that the copy engine moves: rows in shared memory, which take any vector.
static AccessFacts copyFacts(RankedTensorType type, const Machine &machine) {
  AccessFacts facts;
  facts.machine = machine;
  facts.copied = true;
  facts.elementBytes = tile::sizeInBytes(type.getElementType());
  for (int64_t size : type.getShape()) {
    facts.contiguous.push_back(1);
    facts.constant.push_back(1);
    facts.vector.push_back(1);
    if (facts.vector.size() == size_t(type.getRank())) {
      facts.contiguous.back() = coreSize(size);
      facts.vector.back() = std::min<int64_t>(coreSize(size), 16 / facts.elementBytes);
    }
  }
  return facts;
}

AccessFacts accessFacts(Operation *op, const transforms::IntegerAnalysis &analysis,
                        llvm::function_ref<const transforms::IntegerAnalysis &()> supposed,
                        const Machine &machine) {
  if (isa<tile::DescLoadOp, tile::DescStoreOp, tile::DescReduceOp>(op))
    return copyFacts(cast<tile::DescType>(op->getOperand(0).getType()).getBlockType(), machine);
  Value ptr = op->getOperand(0);
  Value mask = TypeSwitch<Operation *, Value>(op)
                   .Case<tile::LoadOp, tile::StoreOp, tile::Atomic>(
                       [](auto access) { return access.getMask(); })
                   .Default([](Operation *) { return Value(); });
  auto type = cast<RankedTensorType>(ptr.getType());
  AccessFacts facts;
  facts.machine = machine;
  facts.elementBytes = tile::sizeInBytes(cast<tile::PtrType>(type.getElementType()).getPointee());
  const transforms::IntegerInfo *info = analysis.lookup(ptr), *likely = info;
  if (info && llvm::none_of(llvm::enumerate(type.getShape()),
                            [&](auto dim) { return info->contiguity(dim.index()) >= dim.value(); }))
    likely = supposed().lookup(ptr);
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    int64_t core = coreSize(size), contiguous = 1, constant = 1, vector = 1;
    auto within = [&](int64_t length) {
      return length >= size ? core : std::min(greatestPowerOfTwo(length), core);
    };
    if (info) {
      contiguous = within(info->contiguity(dim));
      constant = within(info->constancy(dim));
      vector = std::min({contiguous, std::max<int64_t>(1, 16 / facts.elementBytes),
                         std::max<int64_t>(1, info->divisibility(dim) / facts.elementBytes)});
      if (mask)
        vector = std::min(vector, within(analysis.constancy(mask, dim)));
    }
    facts.contiguous.push_back(likely ? std::max(contiguous, within(likely->contiguity(dim)))
                                      : contiguous);
    facts.constant.push_back(constant);
    facts.vector.push_back(llvm::bit_floor(uint64_t(std::max<int64_t>(vector, 1))));
  }
  return facts;
}

AccessShape accessShape(const AccessFacts &facts, const LinearLayout &layout, int64_t repeats) {
  AccessShape best;
  ArrayRef<uint64_t> registers = layout.flatBases(Axis::Register);
  ArrayRef<uint64_t> lanes = layout.flatBases(Axis::Lane);
  for (unsigned dim = 0; dim < layout.rank(); ++dim) {
    unsigned shift = flatShift(layout, dim);
    unsigned vector = 1;
    while (int64_t(vector) < facts.vector[dim] &&
           llvm::is_contained(registers, uint64_t(vector) << shift))
      vector *= 2;
    // Other places must not step inside the vector.
    uint64_t inside = uint64_t(vector - 1) << shift;
    unsigned steps = 0;
    for (uint64_t column : registers)
      steps += (column & inside) != 0;
    for (uint64_t column : lanes)
      steps += (column & inside) != 0;
    if (steps == llvm::Log2_32(vector))
      best.vector = std::max(best.vector, vector);
  }
  // Lanes whose elements lie in one sector (line) differ only in low bits of a contiguous
  // dimension.
  auto pieces = [&](int64_t bytes, bool ofRegisters) {
    uint64_t same = 0;
    for (unsigned dim = 0; dim < layout.rank(); ++dim) {
      unsigned shift = flatShift(layout, dim);
      int64_t elements = std::max<int64_t>(1, bytes / facts.elementBytes);
      same |= uint64_t(std::min(facts.contiguous[dim], elements) - 1) << shift;
      same |= uint64_t(facts.constant[dim] - 1) << shift;
    }
    SmallVector<uint64_t, 16> columns;
    for (uint64_t column : lanes)
      columns.push_back(column & ~same);
    for (uint64_t column : ofRegisters ? registers : ArrayRef<uint64_t>())
      columns.push_back(column & ~same);
    return 1u << rankOf(columns);
  };
  best.sectors = pieces(facts.machine.sectorBytes, false);
  best.lines = pieces(facts.machine.lineBytes, false);
  best.allSectors =
      int64_t(pieces(facts.machine.sectorBytes, true)) * std::max<int64_t>(1, repeats);
  best.requests = std::max<int64_t>(1, layout.size(Axis::Register) / best.vector) *
                  std::max<int64_t>(1, repeats);
  return best;
}

double accessCost(const AccessFacts &facts, const LinearLayout &layout, int64_t repeats,
                  AccessKind kind) {
  if (facts.copied)
    return sharedStoreCost(layout, 8 * facts.elementBytes, repeats, facts.machine.lanes);
  AccessFacts used = facts;
  if (kind == AccessKind::Atomic)
    for (int64_t &vector : used.vector)
      vector = 1;
  AccessShape shape = accessShape(used, layout, repeats);
  if (kind == AccessKind::Load) // what one instruction brought into L1 serves the next
    return warpsOf(layout) * (double(shape.requests) * (kRequest + shape.lines * kLine) +
                              double(shape.allSectors) * kSector);
  double request = kRequest + shape.lines * kLine +
                   shape.sectors * kSector * (kind == AccessKind::Atomic ? 4 : 1);
  return double(shape.requests) * warpsOf(layout) * request;
}

double sharedStoreCost(const LinearLayout &from, unsigned elementBits, int64_t repeats,
                       unsigned lanes) {
  double bytes = double(from.size(Axis::Register) * repeats) * lanes * elementBits / 8;
  return bytes / 128 * warpsOf(from);
}

double conversionCost(const LinearLayout &from, const LinearLayout &to, unsigned elementBits,
                      int64_t repeats, bool within) {
  if (from == to)
    return 0;
  if (within && elementBits == 16)
    if (std::optional<LinearLayout> source = pairsOf(from), target = pairsOf(to); source && target)
      return conversionCost(*source, *target, 32, repeats, within);
  // One warp after the other has its turn; their instructions are issued by four schedulers.
  ConversionPlan plan =
      planConversion(from, to, elementBits, within ? Ways::WithinWarps : Ways::All);
  if (plan.move == Move::Nothing || plan.move == Move::Registers)
    return 0.001 * double(to.size(Axis::Register) * repeats); // equality is still better
  double barriers = plan.move == Move::Shared ? 2 * kBarrier : 0;
  return double(repeats) *
             (plan.cost.turns * warpsOf(to) + issueCycles(plan.cost.instructions, to)) +
         barriers;
}

double reduceCost(const LinearLayout &layout, unsigned axis, unsigned elementBits, double slots,
                  int64_t repeats, int64_t axisRepeats) {
  LinearLayout result = layout.sliced(axis);
  double registers = double(layout.size(Axis::Register) * repeats);
  double results = double(result.size(Axis::Register) * (repeats / axisRepeats));
  double warps = warpsOf(layout);
  auto crossing = [&](Axis place) {
    return llvm::popcount(result.freeBits(place)) - llvm::popcount(layout.freeBits(place));
  };
  unsigned words = wordsOf(elementBits);
  double cost = issueCycles((registers - results) * slots, layout);
  unsigned lanes = std::max(0, crossing(Axis::Lane));
  cost += lanes * results * (words * warps + issueCycles(slots, layout));
  unsigned across = std::max(0, crossing(Axis::Warp));
  if (across)
    cost += 2 * kBarrier + 25 + results * words * warps * (1 + double(1 << across)) / 2 +
            issueCycles(results * slots * double((1 << across) - 1), layout);
  return cost;
}

double scanCost(const LinearLayout &layout, unsigned axis, unsigned elementBits, double slots,
                int64_t repeats) {
  double registers = double(layout.size(Axis::Register) * repeats);
  double warps = warpsOf(layout);
  unsigned words = wordsOf(elementBits), shift = flatShift(layout, axis);
  uint64_t bits = uint64_t(layout.shape()[axis] - 1) << shift;
  double cost = issueCycles(registers * slots, layout);
  // A step of a lane or warp bit sends the last of the elements below it, which register bits of
  // lower steps hold, and combines it with all above.
  auto steps = [&](Axis place, double perElement) {
    for (uint64_t column : layout.flatBases(place)) {
      uint64_t step = column & bits;
      if (!step)
        continue;
      double senders = registers;
      for (uint64_t reg : layout.flatBases(Axis::Register))
        if ((reg & bits) && (reg & bits) < step)
          senders /= 2;
      cost += senders * perElement * words + issueCycles(registers * slots, layout);
    }
  };
  steps(Axis::Lane, warps);
  double before = cost;
  steps(Axis::Warp, 2 * warps);
  if (cost > before)
    cost += 2 * kBarrier + 25;
  return cost;
}

double slotsOf(Operation *op) {
  auto bitsOf = [](Type type) {
    Type element = tile::elementOf(type);
    return element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  };
  unsigned bits = op->getNumResults() ? bitsOf(op->getResult(0).getType()) : 32;
  double wide = bits > 32 ? 2 : 1;
  return TypeSwitch<Operation *, double>(op)
      .Case<arith::ConstantOp, tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::TransOp,
            tile::ReshapeOp, tile::JoinOp, tile::SplitOp, tile::CatOp, tile::HintOp,
            tile::PtrCastOp, tile::IntToPtrOp, tile::PtrToIntOp, arith::BitcastOp, tile::UnsplatOp>(
          [](auto) { return 0.0; })
      .Case<arith::DivFOp, math::SqrtOp, math::RsqrtOp, math::PowFOp, tile::DivRNOp, tile::SqrtRNOp,
            arith::RemFOp>([&](auto) { return 16 * wide; })
      .Case<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp>(
          [&](auto) { return bits > 32 ? 60.0 : 20.0; })
      .Case<arith::MulIOp>([&](auto) { return bits > 32 ? 4.0 : 1.0; })
      .Case<arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp, arith::FPToUIOp, arith::ExtFOp,
            arith::TruncFOp, tile::FpCastOp>([](auto) { return 2.0; })
      .Case<arith::IndexCastOp>([](auto) { return 1.0; })
      .Case<math::Exp2Op, math::ExpOp, math::Log2Op, math::LogOp>([&](auto) { return 10 * wide; })
      .Case<math::AbsFOp, math::AbsIOp, math::FmaOp, math::FloorOp, math::CeilOp>(
          [&](auto) { return wide; })
      .Case<tile::ExternOp, tile::MapElementwiseOp>([](auto) { return 40.0; })
      .Default([&](Operation *other) {
        if (isa_and_nonnull<math::MathDialect>(other->getDialect()))
          return 24 * wide;
        return wide;
      });
}

double slotsOf(Region &combiner) {
  double slots = 0;
  for (Operation &op : combiner.front().without_terminator())
    slots += slotsOf(&op);
  return std::max(slots, 1.0);
}

double registerCharge(const LinearLayout &layout, unsigned elementBits, int64_t repeats) {
  double words = double(layout.size(Axis::Register) * repeats) * std::max(elementBits, 8u) / 32.0;
  // A thread has 255 at most; two tensors of half of that already spill.
  return words <= 128 ? 0 : (words - 128) * 8;
}

} // namespace nereid::gpu

// PointersToDescriptors: loads of blocks through plain pointers become loads through descriptors,
// which a copy engine serves.
//
//     for k:  a = load(a_ptr + rows[:, None] * stride + k * 64 + columns[None, :],
//                      columns[None, :] < K - k * 64)
//
// reads the block at [start of rows, k * 64] of a tensor with M rows and K columns. Where that can
// be shown (AffineForms.h), the loop gets a second version,
//
//     desc = make_descriptor a_ptr [M, K] strides [stride] optional
//     if desc_mapped(desc) and ...:  for k:  a = desc_load desc [start, k * 64]
//     else:                          the loop as it was
//
// and what is not known at compile time is tested once, before the loop:
//
//  - The engine can describe the tensor: address and strides are multiples of 16 bytes, sizes and
//    strides are positive (`tile.desc_mapped`, answered by the launcher).
//  - Coordinates are not negative and fit 32 bits: a negative one is outside for the engine, but
//  not
//    for a pointer.
//  - Offsets of 32 bits, and both sides of the mask's comparisons, do not wrap.
//  - `% M` begins anew nowhere in the block, unless what comes of these rows is never stored
//    (UnusedRows.h): the engine reads zeros there.
//
// A dimension without mask and remainder is as long as 32 bits allow. A loop is changed when all
// loads that feed its products can be, and when nothing in it writes to memory: then no load passes
// a store that may be to the same place. What was written before the loop is visible to the engine
// behind a fence (gpu/copies).
//
// Runs at the end of the tile passes, which make scalars of what blocks of pointers advance by.
#include "transforms/PointersToDescriptors.h"

#include "explain/Report.h"
#include "ir/tile/Dialect.h"
#include "transforms/AffineForms.h"
#include "transforms/CopyEngine.h"
#include "transforms/Explain.h"
#include "transforms/IntegerAnalysis.h"
#include "transforms/LaunchNumber.h"
#include "transforms/Passes.h"
#include "transforms/UnusedRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::transforms {
#define GEN_PASS_DEF_POINTERSTODESCRIPTORS
#include "transforms/Passes.h.inc"

namespace {
using namespace nereid::tile;

constexpr int64_t anyLength = INT32_MAX; ///< of a dimension that nothing bounds
constexpr size_t maxRank = 5;            ///< of tensors that the engine knows
constexpr double largestConstant = 1e12; ///< in a condition that is tested
/// What the engine takes for a row does not shrink with rows of less than 128 bytes. With fewer
/// multiply-adds than these for each such row, or more rows than these for each warp, a loop of
/// products waits for it.
constexpr int64_t fullRowBytes = 128, leastWorkOfShortRow = 2560, mostShortRows = 16;
/// Multiply-adds of a launch from which on the engine is faster: its maps, mbarriers and the first
/// wait cost more than they save in launches of a few microseconds.
constexpr int64_t leastWorkOfLaunch = int64_t(1) << 30;
/// Rows and columns of the result from which on it is. With fewer a product waits for memory, and
/// copies by threads, some of which are masked off, were up to 1.3 times as fast.
constexpr int64_t leastRows = 256;

/// Does a product of the loop's body wait for `value`?
bool feedsProduct(Value value, Block *body, unsigned depth = 0) {
  return depth < 16 && llvm::any_of(
                           value.getUses(),
                           [&](OpOperand &use) {
                             Operation *user = use.getOwner();
                             if (user->getBlock() != body || user->getNumRegions())
                               return false;
                             if (isa<DotOp>(user))
                               return use.getOperandNumber() < 2;
                             return isMemoryEffectFree(user) &&
                                    llvm::any_of(user->getResults(), [&](Value result) {
                                      return feedsProduct(result, body, depth + 1);
                                    });
                           });
}

/// May the loop write to memory, or order accesses to it?
bool mayWrite(scf::ForOp loop) {
  return loop.getBody()
      ->walk([](Operation *op) {
        bool reads = isa<LoadOp, DescLoadOp, AssumeOp>(op) ||
                     op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() || isMemoryEffectFree(op);
        return reads ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

/// One dimension of the tensor that a load reads a block of.
struct Dimension {
  int dim;           ///< of the load; -1: the block has one element along it, as in one of a batch
  int64_t size;      ///< of the block
  Polynomial stride; ///< in elements
  Polynomial start;  ///< coordinate of the block
  Polynomial length; ///< of the tensor
};

/// A load and what it becomes.
struct Copy {
  LoadOp load;
  Value base;                     ///< an argument of the kernel
  Polynomial offset;              ///< of the tensor's first element, a number of the launch
  SmallVector<Dimension, 5> dims; ///< those without one of the load first, the contiguous one last
  Value desc;
};

/// One loop.
class Versions {
public:
  Versions(scf::ForOp loop, const IntegerAnalysis &analysis, const DominanceInfo &dominance)
      : loop(loop), analysis(analysis), dominance(dominance), forms(loop), b(loop),
        loc(loop.getLoc()) {}

  /// Why the loop stays as it is, and the load that is to blame; null when it need not.
  /// `warps`: those of a program; also loops stay for which the engine is not known to be faster.
  /// 0: it need not be.
  const char *plan(LoadOp &culprit, unsigned warps);
  void rewrite();
  MutableArrayRef<Copy> all() { return copies; }

private:
  const char *planLoad(LoadOp load);
  const char *dimensionsOf(Copy &copy, const PointerForm &form);
  const char *lengthsOf(Copy &copy, const PointerForm &form, ArrayRef<MaskLimit> limits);
  const char *checkCoordinates(Copy &copy);
  const char *checkConditions();
  const char *checkSpeed(LoadOp &culprit, unsigned warps);
  int64_t workOfTurn();
  Value isLongLaunch();
  bool isOfLaunch(const Polynomial &number) const;
  bool canCheck(const FormCondition &condition);
  bool isBefore(Value value) const;

  Value constant(int64_t value, Type type) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
  }
  Value wide(Value value);
  Value sum(const Polynomial &number, Type type, Value variable);
  void require(Value condition) {
    holds = holds ? arith::AndIOp::create(b, loc, holds, condition).getResult() : condition;
  }
  void testAll();
  void test(const FormCondition &condition);
  void testEnd(const FormCondition &condition, Value variable);
  void makeDescriptor(Copy &copy);
  void replaceLoad(const Copy &copy, LoadOp load, Value variable);

  scf::ForOp loop;
  const IntegerAnalysis &analysis;
  const DominanceInfo &dominance;
  AffineForms forms;
  SmallVector<Copy, 2> copies;
  OpBuilder b;
  Location loc;
  bool testsLength = false; ///< short launches take the version for threads
  Value holds;              ///< all that must
  Value first, last;        ///< turns of the loop, 64 bits
};

//===--- planning ----------------------------------------------------------------------------===//

/// Results of loops are not: another loop's versions take its place.
bool Versions::isBefore(Value value) const {
  return !value.getDefiningOp<scf::ForOp>() && dominance.properlyDominates(value, loop);
}

/// Can a launcher compute it?
bool Versions::isOfLaunch(const Polynomial &number) const {
  if (number.constant())
    return true;
  return number.isValid() && number.all().size() == 1 && number.all()[0].factors.size() == 1 &&
         launchNumber(number.all()[0].factors[0]).has_value();
}

/// `term` divided by a stride, which is one number or value times a number; nothing where it is no
/// multiple.
static std::optional<Polynomial> partAlong(const Polynomial::Term &term, const Polynomial &stride) {
  const Polynomial::Term &unit = stride.all()[0];
  if (term.coefficient % unit.coefficient)
    return std::nullopt;
  Polynomial::Factors factors = term.factors;
  if (!unit.factors.empty()) {
    auto *found = llvm::find(factors, unit.factors[0]);
    if (found == factors.end())
      return std::nullopt;
    factors.erase(found);
  }
  Polynomial part = Polynomial::number(term.coefficient / unit.coefficient);
  for (Value factor : factors)
    part = part.times(Polynomial::of(factor));
  return part;
}

/// Each dimension of the block is one of the tensor: its step is the tensor's stride, and the part
/// of the offset that is a multiple of the stride is where it starts.
const char *Versions::dimensionsOf(Copy &copy, const PointerForm &form) {
  auto type = cast<RankedTensorType>(copy.load.getType());
  std::optional<unsigned> contiguous;
  for (unsigned d = 0; d < type.getRank(); ++d) {
    const Polynomial &stride = form.offsets.steps[d];
    if (type.getDimSize(d) == 1 || stride.isZero())
      return "the block repeats elements, or has a dimension of size 1";
    if (stride.constant() == 1) {
      if (contiguous)
        return "two dimensions of the block have stride 1";
      contiguous = d;
      continue;
    }
    if (!isOfLaunch(stride) || stride.all()[0].coefficient < 0)
      return "a stride is not known before the launch";
    copy.dims.push_back({int(d), type.getDimSize(d), stride, {}, {}});
  }
  if (!contiguous)
    return "no dimension of the block is known to be contiguous";
  copy.dims.push_back(
      {int(*contiguous), type.getDimSize(*contiguous), Polynomial::number(1), {}, {}});

  // Strides that are values first: a multiple of a constant stride is found by chance more easily.
  SmallVector<Dimension *> order;
  for (Dimension &dim : copy.dims)
    order.push_back(&dim);
  llvm::stable_sort(order, [](Dimension *a, Dimension *b) {
    auto rank = [](Dimension *dim) { return dim->stride.constant().value_or(INT64_MAX); };
    return rank(a) > rank(b);
  });
  SmallVector<Dimension, 2> further;
  for (const Polynomial::Term &term : form.offsets.base.all()) {
    Dimension *home = nullptr;
    Polynomial part;
    for (Dimension *dim : order)
      if (std::optional<Polynomial> found = partAlong(term, dim->stride)) {
        home = dim;
        part = *found;
        break;
      }
    if (home == order.back() && term.factors.size() > 1) {
      auto isOfLaunch = [](Value factor) { return launchNumber(factor).has_value(); };
      if (llvm::all_of(term.factors, isOfLaunch)) {
        copy.offset = copy.offset.plus(part);
        continue;
      }
      // A product with a number of the launch, as `batch * stride`, is a dimension by itself.
      if (auto *factor = llvm::find_if(term.factors, isOfLaunch); factor != term.factors.end()) {
        auto *known = llvm::find_if(
            further, [&](Dimension &each) { return each.stride == Polynomial::of(*factor); });
        if (known == further.end()) {
          further.push_back({-1, 1, Polynomial::of(*factor), {}, {}});
          known = &further.back();
        }
        home = known;
        part = *partAlong(term, known->stride);
      }
    }
    home->start = home->start.plus(part);
  }
  copy.dims.insert(copy.dims.begin(), further.begin(), further.end());
  return copy.dims.size() > maxRank ? "its tensor has more than five dimensions" : nullptr;
}

const char *Versions::lengthsOf(Copy &copy, const PointerForm &form, ArrayRef<MaskLimit> limits) {
  for (Dimension &dim : copy.dims) {
    std::optional<Polynomial> length;
    for (const MaskLimit &limit : limits) {
      if (int(limit.dim) != dim.dim)
        continue;
      Polynomial end = dim.start.plus(limit.limit);
      if (length && !(*length == end))
        return "its mask bounds a dimension twice";
      length = end;
    }
    const std::optional<Wrap> wrap =
        dim.dim < 0 ? std::nullopt : form.offsets.wraps[unsigned(dim.dim)];
    if (wrap) {
      if (!(wrap->start == dim.start) || (length && !(*length == wrap->bound)))
        return "a remainder is added to something else along the same dimension";
      length = wrap->bound;
      // The forms that a store's mask needs hold under conditions too.
      size_t before = forms.conditions.size();
      bool unused = areUnused(copy.load.getResult(), unsigned(dim.dim),
                              wrap->bound.plus(wrap->start, -1), forms, loop);
      if (unused)
        unused = std::all_of(forms.conditions.begin() + ptrdiff_t(before), forms.conditions.end(),
                             [&](const FormCondition &each) { return canCheck(each); });
      if (!unused) {
        forms.conditions.erase(forms.conditions.begin() + ptrdiff_t(before),
                               forms.conditions.end());
        FormCondition inside{{wrap->bound.plus(wrap->start, -1), {}, {}}, {}, 0, INT64_MAX};
        inside.least = dim.size;
        forms.conditions.push_back(inside);
      }
    }
    if (!length)
      length = Polynomial::number(anyLength);
    bool known = length->constant() ? *length->constant() > 0 && *length->constant() <= anyLength
                                    : length->value() && isOfLaunch(*length) &&
                                          length->value().getType().isInteger(32);
    if (!known)
      return "where the tensor ends is not known before the launch";
    dim.length = *length;
  }
  return nullptr;
}

/// Coordinates are 32-bit numbers that are not negative; the last one a multiple of 16 bytes.
const char *Versions::checkCoordinates(Copy &copy) {
  auto type = cast<RankedTensorType>(copy.load.getType());
  for (const Dimension &dim : copy.dims)
    forms.conditions.push_back({{dim.start, {}, {}}, {}, 0, anyLength - dim.size});
  int64_t elements = copyBytes / sizeInBytes(type.getElementType());
  for (const Polynomial::Term &term : copy.dims.back().start.all()) {
    int64_t divisor = term.coefficient & -term.coefficient;
    for (Value factor : term.factors)
      divisor *= std::min<int64_t>(analysis.divisibility(factor, 0), copyBytes);
    if (divisor % std::max<int64_t>(elements, 1))
      return "where the block starts along the contiguous dimension is not known to be a multiple "
             "of 16 bytes";
  }
  return nullptr;
}

const char *Versions::planLoad(LoadOp load) {
  forms.why = nullptr;
  auto type = dyn_cast<RankedTensorType>(load.getType());
  if (!type || type.getRank() < 2 || type.getRank() > 5)
    return "it is no block of two to five dimensions";
  if (load.getIsVolatile() || load.getCache() == CacheModifier::CV)
    return "it is volatile";
  Value other = load.getOther();
  if (auto splat = other ? other.getDefiningOp<SplatOp>() : nullptr)
    other = splat.getSrc();
  if (load.getMask() && other && !matchPattern(other, m_Zero()) &&
      !matchPattern(other, m_PosZeroFloat()))
    return "`other` is not zero";
  if (!type.getElementType().isIntOrFloat() || sizeInBytes(type.getElementType()) > copyBytes / 2 ||
      type.getElementType().isInteger(1))
    return "the copy engine does not move its elements";
  std::optional<PointerForm> form = forms.pointers(load.getPtr());
  if (!form)
    return forms.why;
  if (cast<PtrType>(form->argument.getType()).getPointee() != type.getElementType())
    return "it reads an argument that points to another type";
  SmallVector<MaskLimit> limits;
  if (load.getMask()) {
    std::optional<SmallVector<MaskLimit>> found = forms.mask(load.getMask());
    if (!found)
      return forms.why;
    limits = *found;
  }
  Copy copy{load, form->argument, {}, {}, {}};
  if (const char *why = dimensionsOf(copy, *form))
    return why;
  SmallVector<int64_t> shape;
  for (const Dimension &dim : copy.dims)
    shape.push_back(dim.size);
  if (!blocksFit(DescType::get(type.getContext(), shape, type.getElementType(), Padding::Zero)))
    return "the copy engine moves blocks of 1024 bytes or more, with rows of 32 bytes or more and "
           "sizes that are powers of two";
  if (const char *why = lengthsOf(copy, *form, limits))
    return why;
  if (const char *why = checkCoordinates(copy))
    return why;
  copies.push_back(copy);
  return nullptr;
}

/// Can it be computed before the loop, at its first and last turn, in 64 bits?
bool Versions::canCheck(const FormCondition &condition) {
  SmallVector<const Polynomial *, 4> parts = {&condition.form.base};
  for (const Polynomial &step : condition.form.steps)
    parts.push_back(&step);
  double most = 0;
  for (auto [i, part] : llvm::enumerate(parts)) {
    if (!part->isValid())
      return false;
    double size = i ? double(condition.sizes[i - 1]) : 1;
    for (const Polynomial::Term &term : part->all()) {
      if (term.factors.empty() && std::abs(double(term.coefficient)) > largestConstant)
        return false;
      double largest = std::abs(double(term.coefficient)) * size;
      unsigned turns = 0;
      for (Value factor : term.factors) {
        bool turn = factor == loop.getInductionVar();
        turns += turn;
        if (!turn && !isBefore(factor))
          return false;
        if (factor.getType().getIntOrFloatBitWidth() > 32) {
          // By itself, with a constant on the other side of the comparison.
          bool alone = parts.size() == 1 && term.factors.size() == 1 &&
                       std::abs(term.coefficient) == 1 && part->all().size() <= 2;
          if (!alone)
            return false;
          continue;
        }
        largest *= 2147483648.0;
      }
      if (turns > 1)
        return false;
      if (!term.factors.empty())
        most += largest;
    }
  }
  return most < 8e18; // below 2^63
}

const char *Versions::checkConditions() {
  for (const FormCondition &condition : forms.conditions)
    if (!canCheck(condition))
      return "its offsets have too many variable factors to be tested before the loop";
  return nullptr;
}

/// Multiply-adds of a turn of the loop.
int64_t Versions::workOfTurn() {
  int64_t work = 0;
  for (auto dot : loop.getBody()->getOps<DotOp>())
    work += dot.getType().getNumElements() * dot.getA().getType().getShape().back();
  return work;
}

/// What measurements say (docs/descriptors.md).
const char *Versions::checkSpeed(LoadOp &culprit, unsigned warps) {
  int64_t shortRows = 0;
  if (!llvm::hasSingleElement(loop.getBody()->getOps<DotOp>()))
    return "only loops with one product are known to be faster with the copy engine "
           "(`NEREID_TENSOR_COPIES=always` takes others too)";
  for (Copy &copy : copies) {
    auto type = cast<RankedTensorType>(copy.load.getType());
    int64_t bytes = sizeInBytes(type.getElementType()), row = copy.dims.back().size;
    culprit = copy.load;
    if (bytes != 2)
      return "only blocks of 16-bit numbers are known to arrive faster through the copy engine "
             "(`NEREID_TENSOR_COPIES=always` takes others too)";
    if (row * bytes < fullRowBytes)
      shortRows += type.getNumElements() / row;
  }
  if (shortRows * leastWorkOfShortRow > workOfTurn() || shortRows > mostShortRows * warps)
    return "the copy engine is slow with rows of less than 128 bytes, and the loop has few "
           "products or warps for each of them (`NEREID_TENSOR_COPIES=always` uses it all the "
           "same)";
  return nullptr;
}

const char *Versions::plan(LoadOp &culprit, unsigned warps) {
  SmallVector<LoadOp> loads;
  for (auto load : loop.getBody()->getOps<LoadOp>())
    if (isa<RankedTensorType>(load.getType()) && feedsProduct(load, loop.getBody()))
      loads.push_back(load);
  if (loads.empty() || loop.getNumResults() == 0)
    return nullptr;
  culprit = loads[0];
  std::optional<APInt> step = loop.getConstantStep();
  if (loop.getUnsignedCmp() || !loop.getInductionVar().getType().isInteger(32) || !step ||
      !step->isStrictlyPositive())
    return "the loop does not count signed 32-bit numbers up by a constant";
  if (mayWrite(loop))
    return "its loop writes to memory, maybe where it reads";
  for (LoadOp load : loads) {
    culprit = load;
    if (const char *why = planLoad(load))
      return why;
  }
  if (const char *why = checkConditions())
    return why;
  // A loop within another one belongs to programs that run long.
  testsLength = warps && !loop->getParentOfType<LoopLikeOpInterface>();
  return warps ? checkSpeed(culprit, warps) : nullptr;
}

//===--- rewriting ---------------------------------------------------------------------------===//

Value Versions::wide(Value value) {
  Type type = b.getI64Type();
  return value.getType() == type ? value : arith::ExtSIOp::create(b, loc, type, value).getResult();
}

/// The polynomial in `type`, with `variable` for the loop's.
Value Versions::sum(const Polynomial &number, Type type, Value variable) {
  auto fitted = [&](Value value) -> Value {
    unsigned width = value.getType().getIntOrFloatBitWidth(), wanted = type.getIntOrFloatBitWidth();
    if (width < wanted)
      return arith::ExtSIOp::create(b, loc, type, value);
    return width > wanted ? arith::TruncIOp::create(b, loc, type, value).getResult() : value;
  };
  Value total;
  for (const Polynomial::Term &term : number.all()) {
    Value product;
    for (Value factor : term.factors) {
      Value each = fitted(factor == loop.getInductionVar() ? variable : factor);
      product = product ? arith::MulIOp::create(b, loc, product, each).getResult() : each;
    }
    if (!product)
      product = constant(term.coefficient, type);
    else if (term.coefficient != 1)
      product = arith::MulIOp::create(b, loc, product, constant(term.coefficient, type));
    total = total ? arith::AddIOp::create(b, loc, total, product).getResult() : product;
  }
  return total ? total : constant(0, type);
}

/// At one turn of the loop: steps are not negative, so the ends of the range are at the first and
/// the last index.
void Versions::testEnd(const FormCondition &condition, Value variable) {
  Type type = b.getI64Type();
  // The constant goes to the other side: one 64-bit value is then compared as it is.
  Polynomial base = condition.form.base;
  int64_t offset = 0;
  for (const Polynomial::Term &term : condition.form.base.all())
    if (term.factors.empty())
      offset = term.coefficient;
  base = base.plus(Polynomial::number(offset), -1);
  int64_t least, most;
  bool boundedBelow = !llvm::SubOverflow(condition.least, offset, least);
  bool boundedAbove =
      condition.most != INT64_MAX && !llvm::SubOverflow(condition.most, offset, most);
  Value low = sum(base, type, variable), high = low;
  for (auto [step, size] : llvm::zip(condition.form.steps, condition.sizes)) {
    if (step.isZero())
      continue;
    Value each = sum(step, type, variable);
    if (!step.constant() || *step.constant() < 0)
      require(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, each, constant(0, type)));
    Value span = arith::MulIOp::create(b, loc, each, constant(size - 1, type));
    high = arith::AddIOp::create(b, loc, high, span);
  }
  if (boundedBelow)
    require(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, low, constant(least, type)));
  if (boundedAbove)
    require(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, high, constant(most, type)));
}

void Versions::test(const FormCondition &condition) {
  bool varies = condition.form.base.contains(loop.getInductionVar());
  for (const Polynomial &step : condition.form.steps)
    varies |= step.contains(loop.getInductionVar());
  testEnd(condition, first);
  if (varies)
    testEnd(condition, last);
}

void Versions::makeDescriptor(Copy &copy) {
  auto type = cast<RankedTensorType>(copy.load.getType());
  SmallVector<int64_t> block;
  SmallVector<Value> shape, strides;
  for (const Dimension &dim : copy.dims) {
    block.push_back(dim.size);
    shape.push_back(sum(dim.length, b.getI32Type(), {}));
    if (&dim != &copy.dims.back())
      strides.push_back(sum(dim.stride, b.getI64Type(), {}));
  }
  auto desc = DescType::get(b.getContext(), block, type.getElementType(), Padding::Zero);
  Value base = copy.base;
  if (!copy.offset.isZero())
    base = AddPtrOp::create(b, loc, base.getType(), base, sum(copy.offset, b.getI64Type(), {}));
  copy.desc = MakeDescriptorOp::create(b, copy.load.getLoc(), desc, base, shape, strides,
                                       /*copy_engine=*/true, /*optional=*/true, IntegerAttr());
}

/// Do all turns of all programs have enough work for the engine's costs at the start, and are there
/// enough rows and columns?
Value Versions::isLongLaunch() {
  Type type = b.getI64Type();
  int64_t step = loop.getConstantStep()->getSExtValue();
  Value turns =
      arith::SubIOp::create(b, loc, wide(loop.getUpperBound()), wide(loop.getLowerBound()));
  for (int axis = 0; axis < 3; ++axis)
    turns = arith::MulIOp::create(b, loc, turns,
                                  wide(NumProgramsOp::create(b, loc, b.getI32Type(), axis)));
  int64_t least = llvm::divideCeil(leastWorkOfLaunch, workOfTurn()) * step;
  Value isLong =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, turns, constant(least, type));
  for (const Copy &copy : copies)
    for (const Dimension &dim : copy.dims) {
      if (dim.dim < 0 || dim.start.contains(loop.getInductionVar()))
        continue;
      Value rows = sum(dim.length, type, {});
      Value enough =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, rows, constant(leastRows, type));
      isLong = arith::AndIOp::create(b, loc, isLong, enough);
    }
  return isLong;
}

/// Everything that must hold at run time. Short launches do not read the maps, which are not in the
/// constant cache yet.
void Versions::testAll() {
  scf::IfOp tests;
  if (testsLength) {
    tests = scf::IfOp::create(b, loc, b.getI1Type(), isLongLaunch(), /*withElseRegion=*/true);
    b.setInsertionPointToStart(tests.thenBlock());
  }
  for (Copy &copy : copies)
    require(DescMappedOp::create(b, copy.load.getLoc(), copy.desc));
  first = wide(loop.getLowerBound());
  last = arith::SubIOp::create(b, loc, wide(loop.getUpperBound()), constant(1, b.getI64Type()));
  for (const FormCondition &condition : forms.conditions)
    test(condition);
  if (!tests)
    return;
  scf::YieldOp::create(b, loc, holds);
  b.setInsertionPointToStart(tests.elseBlock());
  scf::YieldOp::create(b, loc, constant(0, b.getI1Type()));
  b.setInsertionPointAfter(tests);
  holds = tests.getResult(0);
}

void Versions::replaceLoad(const Copy &copy, LoadOp load, Value variable) {
  b.setInsertionPoint(load);
  auto desc = cast<DescType>(copy.desc.getType());
  auto type = cast<RankedTensorType>(load.getType());
  SmallVector<Value> coords;
  SmallVector<int64_t> shape;
  SmallVector<int32_t> order(size_t(type.getRank()));
  bool turned = false;
  for (const Dimension &dim : copy.dims) {
    coords.push_back(sum(dim.start, b.getI32Type(), variable));
    if (dim.dim < 0)
      continue;
    order[size_t(dim.dim)] = int32_t(shape.size());
    turned |= dim.dim != int(shape.size());
    shape.push_back(dim.size);
  }
  Value block = DescLoadOp::create(b, load.getLoc(), type.clone(desc.getShape()), copy.desc, coords,
                                   load.getCache(), load.getEvict());
  if (shape.size() < copy.dims.size())
    block = ReshapeOp::create(b, load.getLoc(), type.clone(shape), block);
  if (turned)
    block = TransOp::create(b, load.getLoc(), type, block, order);
  load.replaceAllUsesWith(block);
  load.erase();
}

void Versions::rewrite() {
  for (Copy &copy : copies)
    makeDescriptor(copy);
  testAll();

  auto versions = scf::IfOp::create(b, loc, loop.getResultTypes(), holds, /*withElseRegion=*/true);
  loop->replaceAllUsesWith(versions->getResults());
  IRMapping map;
  OpBuilder inThen = OpBuilder::atBlockEnd(versions.thenBlock());
  auto copied = cast<scf::ForOp>(inThen.clone(*loop, map));
  scf::YieldOp::create(inThen, loc, copied.getResults());
  for (Copy &copy : copies)
    replaceLoad(copy, map.lookup(copy.load.getResult()).getDefiningOp<LoadOp>(),
                copied.getInductionVar());
  loop->moveBefore(versions.elseBlock(), versions.elseBlock()->end());
  OpBuilder inElse = OpBuilder::atBlockEnd(versions.elseBlock());
  scf::YieldOp::create(inElse, loc, loop.getResults());
  loop->setAttr(withoutCopiesName, b.getUnitAttr());
  loop->removeAttr("tile.warp_specialize");
}

//===--- the pass ----------------------------------------------------------------------------===//

struct PointersToDescriptorsPass
    : public impl::PointersToDescriptorsBase<PointersToDescriptorsPass> {
  PointersToDescriptorsPass() = default;
  PointersToDescriptorsPass(explain::Report *report, unsigned warps)
      : report(report), warps(warps) {}

  void note(LoadOp load, const char *why) {
    if (report)
      report->blocks.push_back(
          {placeOf(load.getLoc()), transforms::shapeOf(load.getType()), why ? why : ""});
  }

  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation()->walk([&](scf::ForOp loop) {
      auto function = loop->getParentOfType<func::FuncOp>();
      bool inner = false;
      loop.getBody()->walk([&](LoopLikeOpInterface) { inner = true; });
      if (!inner && function && function->hasAttr("tile.kernel"))
        loops.push_back(loop);
    });
    if (loops.empty())
      return;
    IntegerAnalysis analysis(getOperation());
    DominanceInfo dominance(getOperation());
    // All are planned before any is changed: the analyses are of the kernel as it was.
    std::vector<Versions> planned;
    planned.reserve(loops.size());
    for (scf::ForOp loop : loops) {
      Versions versions(loop, analysis, dominance);
      LoadOp culprit;
      const char *why = versions.plan(culprit, warps);
      if (why)
        note(culprit, why);
      else if (culprit)
        planned.push_back(std::move(versions));
    }
    for (Versions &versions : planned) {
      for (Copy &copy : versions.all())
        note(copy.load, nullptr);
      versions.rewrite();
    }
    if (planned.empty())
      return;
    // The new versions hold pointers that nobody uses, and carry what these need.
    OpPassManager manager(getOperation()->getName());
    manager.addPass(createCombine());
    manager.addPass(createSimplifyLoops());
    manager.addPass(createCombine());
    manager.addPass(createCSEPass());
    if (failed(runPipeline(manager, getOperation())))
      signalPassFailure();
  }

  explain::Report *report = nullptr;
  unsigned warps = 0; ///< 0: all loops that can have a version
};

} // namespace

std::unique_ptr<Pass> createPointersToDescriptors(explain::Report *report, unsigned warps) {
  return std::make_unique<PointersToDescriptorsPass>(report, warps);
}

} // namespace nereid::transforms

// Lowers dots that no matrix unit supports to dots that one supports.
//
//   - K below what a unit takes at once is filled up with zeros; strict mode refuses it.
//   - `tf32x3`: a = ah + al with ah rounded to the 19 bits that the unit reads, al the rest
//     (exact), and a b = al bh + ah bl + ah bh, what is smallest first; al bl is below f32's
//     precision. Were ah truncated, al would have the sign of a, and both al bl and the bits
//     of al that the unit ignores would be missing on one side: each product would be too
//     small, by 3e-7 of itself on average. The sum of the three is added to the accumulator
//     outside of the unit, which truncates its sums where an addition rounds.
//     `bf16x3`, `bf16x6`: the same with two and three parts of 8 bits. Where an operand is
//     infinite, or 0 meets infinity in the smaller products, these are NaN and count as 0.
//   - 8-bit floats where no unit takes them: as f16, which holds every value of them.
//   - Accumulators of f16 for 8-bit floats: f32 inside.
//   - The transposed product, (b' a')' instead of a b, where wgmma can read only that: types that
//     are not 16 bits wide with row-major B, which as the first operand may come through registers;
//     and results with too few rows but enough columns.
#include "gpu/Passes.h"
#include "gpu/dots/DotPlan.h"
#include "gpu/layouts/AccessWidth.h"
#include "layout/Constructors.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

Type withElement(Value value, Type element) {
  return cast<RankedTensorType>(value.getType()).clone(element);
}

/// Strict mode: K as small as this the language does not promise.
llvm::Error checkK(tile::DotOp dot) {
  int64_t bits = elementOf(dot.getA()).getIntOrFloatBitWidth();
  int64_t least = bits == 64 ? 4 : 256 / bits;
  int64_t k = cast<RankedTensorType>(dot.getA().getType()).getShape().back();
  if (k >= least)
    return llvm::Error::success();
  std::string place;
  if (auto line = dot.getLoc()->findInstanceOf<FileLineColLoc>())
    place = (line.getFilename().getValue() + ":" + Twine(line.getLine()) + ": ").str();
  return llvm::createStringError(
      "%sInput shapes should have M >= 1, N >= 1 and K >= %lld, found K = %lld", place.c_str(),
      static_cast<long long>(least), static_cast<long long>(k));
}

tile::DotOp product(OpBuilder &b, tile::DotOp like, Value x, Value y, Value c) {
  return tile::DotOp::create(b, like.getLoc(), c.getType(), x, y, c, tile::InputPrecision::TF32,
                             like.getMaxImpreciseAcc());
}

//===--- parts of f32
//--------------------------------------------------------------------------===//

/// `value` as a sum of parts, the greatest first, the last one what is left: exact.
SmallVector<Value, 3> partsOf(OpBuilder &b, Location loc, Value value, unsigned count,
                              llvm::function_ref<Value(Value)> leading) {
  SmallVector<Value, 3> parts;
  for (unsigned i = 0; i + 1 < count; ++i) {
    Value part = leading(value);
    parts.push_back(part);
    value = arith::SubFOp::create(b, loc, value, part); // NaN where `value` is infinite
  }
  parts.push_back(value);
  return parts;
}

/// `value` with the bits of `mask` alone.
Value masked(OpBuilder &b, Location loc, Value value, uint32_t mask) {
  auto integers = cast<RankedTensorType>(withElement(value, b.getI32Type()));
  Value bits = arith::BitcastOp::create(b, loc, integers, value);
  Value kept = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(integers, APInt(32, mask)));
  return arith::BitcastOp::create(b, loc, value.getType(),
                                  arith::AndIOp::create(b, loc, bits, kept));
}

/// An f32 rounded to the nearest of 19 bits, which tf32 has; ties away from zero. Half of the last
/// place is added first, 2^-11 times the power of two in `value`: unlike an addition to its bits,
/// this keeps infinities and NaN as they are. What rounds up beyond f32 becomes infinite.
Value tf32Part(OpBuilder &b, Location loc, Value value) {
  auto constant = [&](float number) {
    return DenseElementsAttr::get(cast<RankedTensorType>(value.getType()), APFloat(number));
  };
  Value power = masked(b, loc, value, 0xFF800000u);
  Value half = arith::ConstantOp::create(b, loc, constant(0x1p-11f));
  Value raised = math::FmaOp::create(b, loc, power, half, value);
  return masked(b, loc, raised, 0xFFFFE000u);
}

/// Replaces `dot` by the products of its operands' parts whose numbers together are below the
/// number of parts; what is left out is below f32's precision.
void multiplyParts(OpBuilder &b, tile::DotOp dot, ArrayRef<Value> x, ArrayRef<Value> y) {
  Location loc = dot.getLoc();
  auto type = cast<RankedTensorType>(dot.getType());
  Value zero = arith::ConstantOp::create(b, loc, type, cast<TypedAttr>(b.getZeroAttr(type)));
  Value small = zero;
  for (unsigned order = x.size() - 1; order > 0; --order)
    for (unsigned i = 0; i <= order; ++i)
      small = product(b, dot, x[order - i], y[i], small);
  Value isNaN = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, small, small);
  small = arith::SelectOp::create(b, loc, isNaN, zero, small);
  Value sum = product(b, dot, x[0], y[0], small);
  dot.getResult().replaceAllUsesWith(arith::AddFOp::create(b, loc, dot.getC(), sum));
  dot.erase();
}

void splitTf32(tile::DotOp dot) {
  OpBuilder b(dot);
  auto leading = [&](Value value) { return tf32Part(b, dot.getLoc(), value); };
  auto x = partsOf(b, dot.getLoc(), dot.getA(), 2, leading);
  auto y = partsOf(b, dot.getLoc(), dot.getB(), 2, leading);
  multiplyParts(b, dot, x, y);
}

void splitBf16(tile::DotOp dot, unsigned count) {
  OpBuilder b(dot);
  Location loc = dot.getLoc();
  auto narrow = [&](Value value) -> Value {
    return arith::TruncFOp::create(b, loc, withElement(value, b.getBF16Type()), value);
  };
  auto split = [&](Value value) {
    Type wide = value.getType();
    auto parts = partsOf(b, loc, value, count, [&](Value rest) -> Value {
      return arith::ExtFOp::create(b, loc, wide, narrow(rest));
    });
    for (Value &part : parts)
      part = narrow(part);
    return parts;
  };
  auto x = split(dot.getA()), y = split(dot.getB());
  multiplyParts(b, dot, x, y);
}

//===--- 8-bit floats
//--------------------------------------------------------------------------===//

/// The dot with other operands or another accumulator.
tile::DotOp replace(tile::DotOp dot, Value x, Value y) {
  OpBuilder b(dot);
  auto result = product(b, dot, x, y, dot.getC());
  result.setPrecision(dot.getPrecision());
  dot.getResult().replaceAllUsesWith(result);
  dot.erase();
  return result;
}

tile::DotOp widenOperands(tile::DotOp dot) {
  OpBuilder b(dot);
  auto widen = [&](Value value) -> Value {
    return tile::FpCastOp::create(b, dot.getLoc(), withElement(value, b.getF16Type()), value);
  };
  return replace(dot, widen(dot.getA()), widen(dot.getB()));
}

tile::DotOp widenAccumulator(tile::DotOp dot) {
  OpBuilder b(dot);
  Location loc = dot.getLoc();
  Type wide = withElement(dot.getC(), b.getF32Type());
  Value c = arith::ExtFOp::create(b, loc, wide, dot.getC());
  auto result = product(b, dot, dot.getA(), dot.getB(), c);
  Value narrow = arith::TruncFOp::create(b, loc, dot.getType(), result);
  dot.getResult().replaceAllUsesWith(narrow);
  dot.erase();
  return result;
}

//===--- small K
//-------------------------------------------------------------------------------===//

/// `value` with dimension `dim` as long as `size`, with zeros at its end: copies of the whole, of
/// which the first stays. No element moves for it.
Value filledUp(OpBuilder &b, Location loc, Value value, unsigned dim, int64_t size) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  int64_t before = shape[dim];
  SmallVector<int64_t> copies(shape);
  copies.insert(copies.begin() + dim, 1);
  value = tile::ExpandDimsOp::create(b, loc, type.clone(copies), value, int32_t(dim));
  copies[dim] = size / before;
  value = tile::BroadcastOp::create(b, loc, type.clone(copies), value);
  shape[dim] = size;
  type = type.clone(shape);
  value = tile::ReshapeOp::create(b, loc, type, value, /*any_order=*/false);

  auto vector = RankedTensorType::get({size}, b.getI32Type());
  Value index = tile::RangeOp::create(b, loc, vector, 0, int32_t(size));
  Value end = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(vector, b.getI32IntegerAttr(int32_t(before))));
  Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, end);
  SmallVector<int64_t> unit(shape.size(), 1);
  unit[dim] = size;
  for (unsigned d = 0; d < shape.size(); ++d)
    if (d != dim) {
      auto now = cast<RankedTensorType>(first.getType());
      SmallVector<int64_t> wider(now.getShape());
      wider.insert(wider.begin() + d, 1);
      first = tile::ExpandDimsOp::create(b, loc, now.clone(wider), first, int32_t(d));
    }
  first = tile::BroadcastOp::create(b, loc, RankedTensorType::get(shape, b.getI1Type()), first);
  Value zero = arith::ConstantOp::create(b, loc, type, cast<TypedAttr>(b.getZeroAttr(type)));
  return arith::SelectOp::create(b, loc, first, value, zero);
}

/// The facts of a dot that need no analysis.
DotFacts plainFacts(tile::DotOp dot) {
  DotFacts facts;
  auto c = cast<RankedTensorType>(dot.getType());
  facts.shape.assign(c.getShape().begin(), c.getShape().end());
  facts.k = cast<RankedTensorType>(dot.getA().getType()).getShape().back();
  facts.a.element = elementOf(dot.getA());
  facts.b.element = elementOf(dot.getB());
  facts.accumulator = c.getElementType();
  facts.precision = dot.getPrecision();
  return facts;
}

/// Fills K up for the matrix unit, where more K is all that it lacks.
void fillUpK(tile::DotOp dot, const GpuOptions &options) {
  DotFacts facts = plainFacts(dot);
  int64_t least = instructionK(facts.a.element);
  if (facts.k >= least || least % facts.k)
    return;
  facts.k = least;
  if (!canUse(MatrixUnit::Mma, facts, options))
    return;
  OpBuilder b(dot);
  unsigned rank = facts.shape.size();
  Value x = filledUp(b, dot.getLoc(), dot.getA(), rank - 1, least);
  Value y = filledUp(b, dot.getLoc(), dot.getB(), rank - 2, least);
  replace(dot, x, y);
}

//===--- the transposed product
//----------------------------------------------------------------===//

DotFacts transposed(const DotFacts &facts) {
  DotFacts result = facts;
  std::swap(result.shape[0], result.shape[1]);
  // A's rows become B's columns: what is adjacent along K stays so.
  std::swap(result.a, result.b);
  return result;
}

/// Is the transposed product one that wgmma computes, and this one not, or at a higher price?
bool shouldTranspose(const DotFacts &facts, const GpuOptions &options) {
  if (facts.batched() || facts.rowsTogether)
    return false;
  DotFacts other = transposed(facts);
  if (!canUse(MatrixUnit::Wgmma, other, options))
    return false;
  bool narrowOrWide = facts.a.element.getIntOrFloatBitWidth() != 16;
  if (!canUse(MatrixUnit::Wgmma, facts, options))
    return !narrowOrWide || facts.a.kMajor;
  return narrowOrWide && !facts.b.kMajor && facts.b.source == DotSource::Load && facts.a.kMajor &&
         facts.a.source == DotSource::Load;
}

void transpose(tile::DotOp dot) {
  OpBuilder b(dot);
  Location loc = dot.getLoc();
  auto turned = [&](Value value) -> Value {
    auto type = cast<RankedTensorType>(value.getType());
    Type result =
        RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
    return tile::TransOp::create(b, loc, result, value, ArrayRef<int32_t>{1, 0});
  };
  auto result = product(b, dot, turned(dot.getB()), turned(dot.getA()), turned(dot.getC()));
  dot.getResult().replaceAllUsesWith(turned(result));
  dot.erase();
}

/// A loop that carries a matrix, uses it only transposed and yields a transposed one carries the
/// transposed matrix: the layout of what is carried is then the unit's own.
void carryTransposed(scf::ForOp loop) {
  constexpr int32_t order[] = {1, 0};
  auto source = [&](Value value) -> Value {
    auto trans = value.getDefiningOp<tile::TransOp>();
    return trans && trans.getOrder() == ArrayRef(order) ? trans.getSrc() : Value();
  };
  Operation *yield = loop.getBody()->getTerminator();
  for (auto [i, carried] : llvm::enumerate(loop.getRegionIterArgs())) {
    Value next = source(yield->getOperand(i));
    if (!next || carried.use_empty() || !llvm::all_of(carried.getUsers(), [&](Operation *user) {
          return isa<tile::TransOp>(user) && source(user->getResult(0));
        }))
      continue;
    OpBuilder b(loop);
    Location loc = loop.getLoc();
    OpOperand &init = loop.getInitArgsMutable()[i];
    init.set(b.createOrFold<tile::TransOp>(loc, next.getType(), init.get(), order));
    carried.setType(next.getType());
    for (Operation *user : llvm::make_early_inc_range(carried.getUsers())) {
      user->getResult(0).replaceAllUsesWith(carried);
      user->erase();
    }
    Operation *last = yield->getOperand(i).getDefiningOp();
    yield->setOperand(i, next);
    if (last->use_empty())
      last->erase();
    b.setInsertionPointAfter(loop);
    Value result = loop.getResult(i);
    Type before = result.getType();
    result.setType(next.getType());
    auto back = tile::TransOp::create(b, loc, before, result, order);
    result.replaceAllUsesExcept(back, back);
  }
}

} // namespace

llvm::Error legaliseDots(func::FuncOp kernel, const GpuOptions &options) {
  SmallVector<tile::DotOp> dots;
  auto collect = [&] {
    dots.clear();
    kernel.walk([&](tile::DotOp dot) { dots.push_back(dot); });
  };
  collect();
  if (dots.empty())
    return llvm::Error::success();
  if (kernel->hasAttr("tile.strict"))
    for (tile::DotOp dot : dots)
      if (llvm::Error error = checkK(dot))
        return error;

  for (tile::DotOp dot : dots) {
    bool fp8 = tile::isFloat8(elementOf(dot.getA()));
    if (fp8 && elementOf(dot.getC()).isF16())
      dot = widenAccumulator(dot);
    if (fp8) {
      // A K below the unit's is padded below.
      DotFacts facts = plainFacts(dot);
      facts.k = std::max(facts.k, instructionK(facts.a.element));
      if (!canUse(MatrixUnit::Mma, facts, options))
        widenOperands(dot);
      continue;
    }
    if (!elementOf(dot.getA()).isF32())
      continue;
    switch (dot.getPrecision()) {
    case tile::InputPrecision::TF32:
    case tile::InputPrecision::IEEE:
      break;
    case tile::InputPrecision::TF32x3:
      splitTf32(dot);
      break;
    case tile::InputPrecision::BF16x3:
      splitBf16(dot, 2);
      break;
    case tile::InputPrecision::BF16x6:
      splitBf16(dot, 3);
      break;
    }
  }

  collect();
  for (tile::DotOp dot : dots)
    fillUpK(dot, options);

  if (options.machine.best != MatrixUnit::Wgmma || options.numWarps % 4)
    return llvm::Error::success();
  collect();
  SmallVector<tile::DotOp> toTranspose;
  {
    transforms::IntegerAnalysis analysis = addressAnalysis(kernel);
    for (tile::DotOp dot : dots)
      if (shouldTranspose(gatherDotFacts(dot, analysis), options))
        toTranspose.push_back(dot);
  }
  for (tile::DotOp dot : toTranspose)
    transpose(dot);
  if (!toTranspose.empty()) // inner loops first
    kernel.walk<WalkOrder::PostOrder>([](scf::ForOp loop) { carryTransposed(loop); });
  return llvm::Error::success();
}

} // namespace nereid::gpu

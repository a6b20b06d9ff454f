// Verifiers and memory effects of the tile operations. Folding is in Folds.cpp.
#include "ir/tile/Dialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

#include "ir/tile/OpInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "ir/tile/Ops.cpp.inc"

using namespace mlir;

namespace nereid::tile {
namespace {

Attribute encodingOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getEncoding() : Attribute();
}

/// Checks that `type` has the shape of `like` (both scalar, or equal sizes), and its layout.
LogicalResult sameShape(Operation *op, StringRef what, Type type, StringRef likeWhat, Type like) {
  if (isa<RankedTensorType>(type) == isa<RankedTensorType>(like) &&
      shapeOf(type) == shapeOf(like) && encodingOf(type) == encodingOf(like))
    return success();
  return op->emitOpError() << what << " must have the shape of " << likeWhat << ": expected "
                           << withShapeOf(elementOf(type), like) << ", found " << type;
}

LogicalResult sameElement(Operation *op, StringRef what, Type found, Type expected) {
  if (elementOf(found) == expected)
    return success();
  return op->emitOpError() << what << " must have elements of type " << expected << ", found "
                           << found;
}

LogicalResult expectType(Operation *op, StringRef what, Type found, Type expected) {
  if (found == expected)
    return success();
  return op->emitOpError() << what << " must be of type " << expected << ", found " << found;
}

/// Checks the shape and the elements of a tensor that an op arranges anew from tensors of the type
/// `src`. Where those have a layout, the result has one of its own.
LogicalResult expectTensor(Operation *op, StringRef what, Type found, ArrayRef<int64_t> shape,
                           Type src) {
  auto tensor = dyn_cast<RankedTensorType>(found);
  Type element = elementOf(src);
  if (tensor && tensor.getShape() == shape && tensor.getElementType() == element &&
      (!isa<RankedTensorType>(src) || bool(tensor.getEncoding()) == bool(encodingOf(src))))
    return success();
  return expectType(op, what, found, RankedTensorType::get(shape, element));
}

/// The type that an access through `ptr` moves: the pointee with the pointer's shape.
Type accessed(Type ptr) {
  return withShapeOf(cast<PtrType>(elementOf(ptr)).getPointee(), ptr);
}

/// What load, store and atomics have in common.
LogicalResult verifyAccess(Operation *op, Type ptr, StringRef what, Type value, Value mask) {
  if (elementOf(accessed(ptr)).isInteger(1))
    return op->emitOpError("moves i1 through memory: booleans are accessed through an i8 pointer");
  if (failed(expectType(op, what, value, accessed(ptr))))
    return failure();
  return mask ? sameShape(op, "mask", mask.getType(), "the pointer", ptr) : success();
}

template <typename Op> LogicalResult verifyCombination(Op op, bool dropsAxis) {
  auto srcs = op.getSrcs();
  if (srcs.empty())
    return op.emitOpError("needs at least one operand");
  Type first = srcs.front().getType();
  for (Value src : srcs)
    if (failed(sameShape(op, "every operand", src.getType(), "the first", first)))
      return failure();
  llvm::SmallVector<int64_t> shape(shapeOf(first));
  if (op.getAxis() >= shape.size())
    return op.emitOpError() << "axis " << op.getAxis() << " is out of range for " << first;
  if (dropsAxis)
    shape.erase(shape.begin() + op.getAxis());

  unsigned n = srcs.size();
  if (op->getNumResults() != n)
    return op.emitOpError() << "expected " << n << " results, one per operand, found "
                            << op->getNumResults();
  Block &body = op.getCombine().front();
  if (body.getNumArguments() != 2 * n)
    return op.emitOpError() << "the combiner must take " << 2 * n << " arguments, found "
                            << body.getNumArguments();
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield)
    return op.emitOpError("the combiner must end in `tile.yield`");
  if (yield.getValues().size() != n)
    return op.emitOpError() << "the combiner must yield " << n << " values, found "
                            << yield.getValues().size();
  for (unsigned i = 0; i < n; ++i) {
    Type element = elementOf(srcs[i].getType());
    Type src = srcs[i].getType(), found = op->getResult(i).getType();
    Type expected = dropsAxis ? found : src;
    if (failed(shape.empty() ? expectType(op, "result", found, element)
                             : expectTensor(op, "result", found, shape, src)) ||
        failed(expectType(op, "result", found, expected)) ||
        failed(expectType(op, "combiner argument", body.getArgument(i).getType(), element)) ||
        failed(expectType(op, "combiner argument", body.getArgument(n + i).getType(), element)) ||
        failed(expectType(op, "yielded value", yield.getValues()[i].getType(), element)))
      return failure();
  }
  return success();
}

} // namespace

//===--- creation and shape
//-----------------------------------------------------------------------===//

LogicalResult RangeOp::verify() {
  int64_t length = int64_t(int32_t(getEnd())) - int32_t(getStart());
  if (length <= 0)
    return emitOpError() << "end must be greater than start, found " << int32_t(getStart())
                         << " to " << int32_t(getEnd());
  if (shapeOf(getType()).size() != 1 || shapeOf(getType())[0] != length)
    return emitOpError() << "must give tensor<" << length << "xi32>, found " << getType();
  return success();
}

LogicalResult SplatOp::verify() {
  return sameElement(*this, "result", getType(), getSrc().getType());
}

LogicalResult UnsplatOp::verify() {
  if (cast<RankedTensorType>(getSrc().getType()).getNumElements() != 1)
    return emitOpError() << "expects a tensor of one element, found " << getSrc().getType();
  return expectType(*this, "result", getType(), elementOf(getSrc().getType()));
}

LogicalResult BroadcastOp::verify() {
  Type src = getSrc().getType();
  if (failed(sameElement(*this, "result", getType(), elementOf(src))))
    return failure();
  auto from = shapeOf(src), to = shapeOf(getType());
  if (from.size() != to.size())
    return emitOpError() << "source and result must have the same rank: " << src << " and "
                         << getType();
  for (auto [f, t] : llvm::zip(from, to))
    if (f != t && f != 1)
      return emitOpError() << "cannot repeat a dimension of size " << f << " to " << t << ": "
                           << src << " to " << getType();
  return success();
}

LogicalResult ExpandDimsOp::verify() {
  auto src = cast<RankedTensorType>(getSrc().getType());
  if (int64_t(getAxis()) > src.getRank())
    return emitOpError() << "axis " << getAxis() << " is out of range for " << src;
  llvm::SmallVector<int64_t> shape(src.getShape());
  shape.insert(shape.begin() + getAxis(), 1);
  return expectTensor(*this, "result", getType(), shape, src);
}

LogicalResult ReshapeOp::verify() {
  auto src = cast<RankedTensorType>(getSrc().getType()), result = cast<RankedTensorType>(getType());
  if (failed(sameElement(*this, "result", result, src.getElementType())))
    return failure();
  if (src.getNumElements() != result.getNumElements())
    return emitOpError() << "must keep the number of elements: " << src.getNumElements() << " in "
                         << src << ", " << result.getNumElements() << " in " << result;
  return success();
}

LogicalResult TransOp::verify() {
  auto src = cast<RankedTensorType>(getSrc().getType());
  llvm::SmallVector<bool> seen(src.getRank());
  if (int64_t(getOrder().size()) != src.getRank())
    return emitOpError() << "order must name each of the " << src.getRank() << " dimensions once";
  llvm::SmallVector<int64_t> shape;
  for (int32_t dim : getOrder()) {
    if (dim < 0 || dim >= src.getRank() || std::exchange(seen[dim], true))
      return emitOpError() << "order must name each of the " << src.getRank() << " dimensions once";
    shape.push_back(src.getDimSize(dim));
  }
  return expectTensor(*this, "result", getType(), shape, src);
}

LogicalResult JoinOp::verify() {
  llvm::SmallVector<int64_t> shape(shapeOf(getLhs().getType()));
  shape.push_back(2);
  return expectTensor(*this, "result", getType(), shape, getLhs().getType());
}

LogicalResult SplitOp::verify() {
  auto src = cast<RankedTensorType>(getSrc().getType());
  if (src.getShape().back() != 2)
    return emitOpError() << "expects a last dimension of size 2, found " << src;
  if (failed(src.getRank() == 1
                 ? expectType(*this, "first result", getLhs().getType(), src.getElementType())
                 : expectTensor(*this, "first result", getLhs().getType(),
                                src.getShape().drop_back(), src)))
    return failure();
  return expectType(*this, "second result", getRhs().getType(), getLhs().getType());
}

LogicalResult CatOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  if (failed(sameElement(*this, "second operand", rhs, lhs.getElementType())))
    return failure();
  if (lhs.getRank() != rhs.getRank() || getDim() >= lhs.getRank())
    return emitOpError() << "cannot concatenate " << lhs << " and " << rhs << " along dimension "
                         << getDim();
  llvm::SmallVector<int64_t> shape(lhs.getShape());
  for (int64_t i = 0; i < lhs.getRank(); ++i)
    if (i != int64_t(getDim()) && lhs.getDimSize(i) != rhs.getDimSize(i))
      return emitOpError() << "operands must agree in dimension " << i << ": " << lhs << " and "
                           << rhs;
  shape[getDim()] += rhs.getDimSize(getDim());
  return expectTensor(*this, "result", getType(), shape, lhs);
}

LogicalResult SliceOp::verify() {
  auto src = cast<RankedTensorType>(getSrc().getType()), result = cast<RankedTensorType>(getType());
  size_t rank = src.getRank();
  if (size_t(result.getRank()) != rank || getOffsets().size() != rank || getSteps().size() != rank)
    return emitOpError() << "needs an offset, a step and a size per dimension of " << src;
  for (size_t i = 0; i < rank; ++i) {
    int64_t first = getOffsets()[i], last = first + (result.getDimSize(i) - 1) * getSteps()[i];
    if (std::min(first, last) < 0 || std::max(first, last) >= src.getDimSize(i))
      return emitOpError() << "takes elements " << first << " to " << last << " of dimension " << i
                           << " of " << src;
  }
  return expectTensor(*this, "result", result, result.getShape(), src);
}

LogicalResult ExchangeOp::verify() {
  auto type = cast<RankedTensorType>(getType());
  if (int64_t(getAxis()) >= type.getRank())
    return emitOpError() << "axis " << getAxis() << " is out of range for " << type;
  int64_t size = type.getDimSize(getAxis());
  if (!llvm::isPowerOf2_64(size) || int64_t(getMask()) >= size)
    return emitOpError() << "needs an axis of a power-of-two size above the mask " << getMask()
                         << ", found " << size;
  return success();
}

LogicalResult GatherOp::verify() {
  auto src = cast<RankedTensorType>(getSrc().getType());
  auto indices = cast<RankedTensorType>(getIndices().getType());
  if (src.getRank() != indices.getRank() || int64_t(getAxis()) >= src.getRank())
    return emitOpError() << "cannot gather from " << src << " with " << indices << " along axis "
                         << getAxis();
  for (int64_t i = 0; i < src.getRank(); ++i)
    if (i != int64_t(getAxis()) && src.getDimSize(i) != indices.getDimSize(i))
      return emitOpError() << "operands must agree in dimension " << i << ": " << src << " and "
                           << indices;
  return expectTensor(*this, "result", getType(), indices.getShape(), src);
}

LogicalResult HistogramOp::verify() {
  auto src = cast<RankedTensorType>(getSrc().getType());
  if (src.getRank() != 1)
    return emitOpError() << "counts a vector, found " << src;
  if (shapeOf(getType()).size() != 1)
    return emitOpError() << "gives a vector of counts, found " << getType();
  return getMask() ? sameShape(*this, "mask", getMask().getType(), "the operand", src) : success();
}

//===--- pointers and conversions
//-----------------------------------------------------------------===//

LogicalResult AddPtrOp::verify() {
  if (elementOf(getOffset().getType()).isInteger(1))
    return emitOpError("takes offsets of 8 to 64 bits, found i1");
  return sameShape(*this, "offset", getOffset().getType(), "the pointer", getPtr().getType());
}

LogicalResult IntToPtrOp::verify() {
  if (!elementOf(getSrc().getType()).isInteger(64))
    return emitOpError() << "expects 64-bit integers, found " << getSrc().getType();
  return success();
}

LogicalResult PtrToIntOp::verify() {
  if (!elementOf(getType()).isInteger(64))
    return emitOpError() << "gives 64-bit integers, found " << getType();
  return success();
}

LogicalResult PtrCastOp::verify() {
  auto from = cast<PtrType>(elementOf(getSrc().getType())),
       to = cast<PtrType>(elementOf(getType()));
  if (from.getAddressSpace() != to.getAddressSpace())
    return emitOpError() << "cannot change the address space: " << from << " to " << to;
  return success();
}

LogicalResult FpCastOp::verify() {
  Type from = elementOf(getSrc().getType()), to = elementOf(getType());
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  if (from == to)
    return emitOpError() << "must change the type, found " << from << " on both sides";
  if (getRounding() == Rounding::RTZ && toBits >= fromBits)
    return emitOpError() << "rounds towards zero only where it narrows, found " << from << " to "
                         << to;
  if (getRounding() == Rounding::RTNE && fromBits != 8 && toBits != 8)
    return emitOpError() << "from " << from << " to " << to
                         << " is written as `arith.extf` or `arith.truncf`";
  return success();
}

//===--- memory
//-----------------------------------------------------------------------------------===//

LogicalResult LoadOp::verify() {
  if (failed(verifyAccess(*this, getPtr().getType(), "result", getType(), getMask())))
    return failure();
  if (!getOther())
    return success();
  if (!getMask())
    return emitOpError("has `other` without a mask");
  return expectType(*this, "other", getOther().getType(), getType());
}

LogicalResult StoreOp::verify() {
  return verifyAccess(*this, getPtr().getType(), "value", getValue().getType(), getMask());
}

/// An access that only reads or only writes is ordered on one side at most.
static LogicalResult verifyOrder(Atomic op, MemSemantic ordered) {
  if (op.getSem() == ordered || op.getSem() == MemSemantic::Relaxed)
    return success();
  return op.emitOpError() << "must be " << stringifyMemSemantic(ordered) << " or relaxed, found "
                          << stringifyMemSemantic(op.getSem());
}

LogicalResult AtomicLoadOp::verify() {
  if (failed(verifyAccess(*this, getPtr().getType(), "result", getType(), getMask())))
    return failure();
  return verifyOrder(*this, MemSemantic::Acquire);
}

bool AtomicLoadOp::changesMemory() {
  return false;
}

LogicalResult AtomicStoreOp::verify() {
  if (failed(verifyAccess(*this, getPtr().getType(), "value", getValue().getType(), getMask())))
    return failure();
  return verifyOrder(*this, MemSemantic::Release);
}

LogicalResult AtomicRMWOp::verify() {
  Type element = elementOf(getValue().getType());
  switch (getKind()) {
  case AtomicKind::FAdd:
  case AtomicKind::FMax:
  case AtomicKind::FMin:
    if (!isa<FloatType>(element))
      return emitOpError() << stringifyAtomicKind(getKind()) << " needs floats, found " << element;
    break;
  case AtomicKind::Xchg:
    break;
  default:
    if (!isa<IntegerType>(element))
      return emitOpError() << stringifyAtomicKind(getKind()) << " needs integers, found "
                           << element;
  }
  return verifyAccess(*this, getPtr().getType(), "value", getValue().getType(), getMask());
}

LogicalResult AtomicCASOp::verify() {
  return verifyAccess(*this, getPtr().getType(), "value", getValue().getType(), getMask());
}

void LoadOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  effects.emplace_back(MemoryEffects::Read::get());
  if (getIsVolatile())
    effects.emplace_back(MemoryEffects::Write::get());
}

/// The effects of code that nothing is known about, unless its author says that it has none.
static void
foreignEffects(bool pure,
               SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  if (pure)
    return;
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}

void ExternOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  foreignEffects(getPure(), effects);
}

void InlineAsmOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  foreignEffects(getPure(), effects);
}

//===--- tensor descriptors
//-----------------------------------------------------------------------===//

/// Coordinates and block of an access through `desc`.
static LogicalResult verifyBlock(Operation *op, Type desc, size_t coords, StringRef what,
                                 Type block) {
  auto type = cast<DescType>(desc);
  if (coords != type.getRank())
    return op->emitOpError() << "needs one coordinate per dimension: expected " << type.getRank()
                             << ", found " << coords;
  if (failed(sameElement(op, what, block, type.getElementType())))
    return failure();
  auto withoutOnes = [](ArrayRef<int64_t> shape) {
    return llvm::to_vector(llvm::make_filter_range(shape, [](int64_t size) { return size != 1; }));
  };
  if (shapeOf(block).size() > type.getRank() ||
      withoutOnes(shapeOf(block)) != withoutOnes(type.getShape()))
    return op->emitOpError() << what << " must have the shape of the block: expected "
                             << type.getBlockType() << ", found " << block;
  return success();
}

static LogicalResult verifyRows(Operation *op, Type desc, Type rows, StringRef what, Type block) {
  auto type = cast<DescType>(desc);
  if (type.getRank() != 2 || type.getShape()[0] != 1)
    return op->emitOpError() << "needs blocks of one row, found " << type;
  if (shapeOf(rows).size() != 1)
    return op->emitOpError() << "needs a vector of rows, found " << rows;
  return expectType(
      op, what, block,
      RankedTensorType::get({shapeOf(rows)[0], type.getShape()[1]}, type.getElementType()));
}

static LogicalResult verifyDim(Operation *op, Type desc, int64_t dim) {
  if (dim < cast<DescType>(desc).getRank())
    return success();
  return op->emitOpError() << "dimension " << dim << " is out of range for " << desc;
}

LogicalResult MakeDescriptorOp::verify() {
  auto type = cast<DescType>(getType());
  auto base = cast<PtrType>(getBase().getType());
  if (base.getPointee() != type.getElementType() || base.getAddressSpace() != 1)
    return emitOpError() << "needs a pointer to " << type.getElementType()
                         << " in global memory, found " << base;
  if (getShape().size() != type.getRank() || getStrides().size() + 1 != type.getRank())
    return emitOpError() << "needs " << type.getRank() << " sizes and " << type.getRank() - 1
                         << " strides for " << type << ", found " << getShape().size() << " and "
                         << getStrides().size();
  if (getOptional() && !getCopyEngine())
    return emitOpError() << "is optional for a copy engine: needs `copy_engine`";
  return success();
}

LogicalResult DescShapeOp::verify() {
  return verifyDim(*this, getDesc().getType(), getDim());
}
LogicalResult DescStrideOp::verify() {
  return verifyDim(*this, getDesc().getType(), getDim());
}

LogicalResult DescLoadOp::verify() {
  return verifyBlock(*this, getDesc().getType(), getCoords().size(), "result", getType());
}
LogicalResult DescStoreOp::verify() {
  return verifyBlock(*this, getDesc().getType(), getCoords().size(), "value", getValue().getType());
}

LogicalResult DescReduceOp::verify() {
  Type element = cast<DescType>(getDesc().getType()).getElementType();
  bool isFloatKind =
      llvm::is_contained({AtomicKind::FAdd, AtomicKind::FMax, AtomicKind::FMin}, getKind());
  if (getKind() == AtomicKind::Xchg || isFloatKind != isa<FloatType>(element))
    return emitOpError() << "cannot " << stringifyAtomicKind(getKind()) << " elements of type "
                         << element;
  return verifyBlock(*this, getDesc().getType(), getCoords().size(), "value", getValue().getType());
}

LogicalResult DescGatherOp::verify() {
  return verifyRows(*this, getDesc().getType(), getRows().getType(), "result", getType());
}
LogicalResult DescScatterOp::verify() {
  return verifyRows(*this, getDesc().getType(), getRows().getType(), "value", getValue().getType());
}

//===--- arithmetic
//-------------------------------------------------------------------------------===//

LogicalResult ExternOp::verify() {
  for (Value arg : getArgs())
    if (failed(sameShape(*this, "every operand", arg.getType(), "the result", getType())))
      return failure();
  return success();
}

LogicalResult InlineAsmOp::verify() {
  if (getResult().empty())
    return emitOpError("needs a result");
  Type first = getResult().front().getType();
  for (Type type : getResultTypes())
    if (failed(sameShape(*this, "every result", type, "the first", first)))
      return failure();
  for (Value arg : getArgs())
    if (failed(sameShape(*this, "every operand", arg.getType(), "the result", first)))
      return failure();
  return success();
}

LogicalResult MapElementwiseOp::verify() {
  if (getSrcs().empty() || getResult().empty())
    return emitOpError("needs an operand and a result");
  Type first = getSrcs().front().getType();
  Block &body = getBody().front();
  auto yield = body.empty() ? YieldOp() : dyn_cast<YieldOp>(body.back());
  if (!yield)
    return emitOpError("the region must end in `tile.yield`");
  size_t pack = getPack();
  if (cast<RankedTensorType>(first).getNumElements() % pack)
    return emitOpError() << "cannot take " << pack << " elements at a time of " << first;
  if (body.getNumArguments() != pack * getSrcs().size() ||
      yield.getValues().size() != pack * getResult().size())
    return emitOpError() << "the region must take and yield " << pack
                         << " scalars per operand and result";
  for (auto [i, src] : llvm::enumerate(getSrcs())) {
    if (failed(sameShape(*this, "every operand", src.getType(), "the first", first)))
      return failure();
    for (size_t j = 0; j < pack; ++j)
      if (failed(expectType(*this, "region argument", body.getArgument(i * pack + j).getType(),
                            elementOf(src.getType()))))
        return failure();
  }
  for (auto [i, result] : llvm::enumerate(getResult())) {
    if (failed(sameShape(*this, "every result", result.getType(), "the operands", first)))
      return failure();
    for (size_t j = 0; j < pack; ++j)
      if (failed(expectType(*this, "yielded value", yield.getValues()[i * pack + j].getType(),
                            elementOf(result.getType()))))
        return failure();
  }
  return success();
}

LogicalResult DotOp::verify() {
  auto a = cast<RankedTensorType>(getA().getType()), b = cast<RankedTensorType>(getB().getType());
  auto c = cast<RankedTensorType>(getType());
  int64_t rank = a.getRank();
  if (rank < 2 || b.getRank() != rank || c.getRank() != rank)
    return emitOpError() << "operands must have the same rank of at least 2: " << a << ", " << b
                         << " and " << c;
  if (a.getShape().drop_back(2) != b.getShape().drop_back(2) ||
      a.getShape().drop_back(2) != c.getShape().drop_back(2))
    return emitOpError() << "batch dimensions must agree: " << a << ", " << b << " and " << c;
  int64_t m = a.getDimSize(rank - 2), k = a.getDimSize(rank - 1), n = b.getDimSize(rank - 1);
  if (b.getDimSize(rank - 2) != k)
    return emitOpError() << "inner dimensions must agree: " << k << " columns in " << a << ", "
                         << b.getDimSize(rank - 2) << " rows in " << b;
  if (c.getDimSize(rank - 2) != m || c.getDimSize(rank - 1) != n)
    return emitOpError() << "the accumulator must be " << m << "x" << n << ", found " << c;

  Type ta = a.getElementType(), tb = b.getElementType(), tc = c.getElementType();
  if (ta != tb && !(isFloat8(ta) && isFloat8(tb)))
    return emitOpError() << "operands must have the same element type: " << ta << " and " << tb;
  bool fits = false;
  if (isFloat8(ta) || ta.isF16())
    fits = tc.isF32() || tc.isF16();
  else if (ta.isBF16() || ta.isF32())
    fits = tc.isF32();
  else if (ta.isF64())
    fits = tc.isF64();
  else if (ta.isInteger(8))
    fits = tc.isInteger(32);
  if (!fits)
    return emitOpError() << "cannot multiply " << ta << " and accumulate in " << tc;
  return success();
}

LogicalResult ReduceOp::verify() {
  return verifyCombination(*this, /*dropsAxis=*/true);
}
LogicalResult ScanOp::verify() {
  return verifyCombination(*this, /*dropsAxis=*/false);
}

//===--- hints and debugging
//----------------------------------------------------------------------===//

LogicalResult HintOp::verify() {
  Type element = elementOf(getType());
  if (!isa<IntegerType, PtrType>(element))
    return emitOpError() << "speaks of integers and pointers, found " << getType();
  size_t rank = std::max<size_t>(shapeOf(getType()).size(), 1);
  auto check = [&](StringRef what, std::optional<ArrayRef<int64_t>> values) -> LogicalResult {
    if (!values)
      return success();
    if (values->size() != rank)
      return emitOpError() << what << " must have " << rank << " numbers, found " << values->size();
    for (int64_t value : *values)
      if (value < 1)
        return emitOpError() << what << " must be positive, found " << value;
    return success();
  };
  if (failed(check("divisibility", getDivisibility())) ||
      failed(check("contiguity", getContiguity())))
    return failure();
  return check("constancy", getConstancy());
}

LogicalResult AssertOp::verify() {
  return getMask() ? sameShape(*this, "mask", getMask().getType(), "the condition",
                               getCondition().getType())
                   : success();
}

LogicalResult PrintOp::verify() {
  if (getIsSigned().size() != getArgs().size())
    return emitOpError() << "needs one signedness per value: " << getArgs().size() << " values, "
                         << getIsSigned().size() << " given";
  return success();
}

} // namespace nereid::tile

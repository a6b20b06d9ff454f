// Verifiers, folds and effects of the ngpu operations.
#include "ir/ngpu/Dialect.h"
#include "layout/Constructors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

#define GET_OP_CLASSES
#include "ir/ngpu/Ops.cpp.inc"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::ngpu {
namespace {

LogicalResult hasLayout(Operation *op, StringRef what, Type type) {
  if (!isa<RankedTensorType>(type) || layoutOf(type))
    return success();
  return op->emitOpError() << what << " needs a layout, found " << type;
}

LogicalResult sameContent(Operation *op, StringRef what, ArrayRef<int64_t> shape, Type element,
                          ArrayRef<int64_t> otherShape, Type otherElement) {
  if (shape == otherShape && element == otherElement)
    return success();
  auto error = op->emitOpError() << what << ": ";
  llvm::interleave(shape, error, "x");
  error << "x" << element << " against ";
  llvm::interleave(otherShape, error, "x");
  return error << "x" << otherElement;
}

LogicalResult tensorFitsBuffer(Operation *op, Type tensorType, BufferType buffer) {
  auto tensor = cast<RankedTensorType>(tensorType);
  if (failed(hasLayout(op, "the tensor", tensor)))
    return failure();
  return sameContent(op, "tensor and buffer differ", tensor.getShape(), tensor.getElementType(),
                     buffer.getShape(), buffer.getElementType());
}

/// a[.., M, K] x b[.., K, N] + c[.., M, N]
LogicalResult dotShapes(Operation *op, ArrayRef<int64_t> a, ArrayRef<int64_t> b,
                        ArrayRef<int64_t> c) {
  size_t rank = c.size();
  if (rank < 2 || a.size() != rank || b.size() != rank)
    return op->emitOpError("operands and accumulator must have one rank of at least 2");
  if (a.drop_back(2) != b.drop_back(2) || a.drop_back(2) != c.drop_back(2) ||
      a[rank - 2] != c[rank - 2] || a[rank - 1] != b[rank - 2] || b[rank - 1] != c[rank - 1])
    return op->emitOpError("shapes of a x b + c do not fit");
  return success();
}

std::pair<ArrayRef<int64_t>, Type> contentOf(Type type) {
  if (auto buffer = dyn_cast<BufferType>(type))
    return {buffer.getShape(), buffer.getElementType()};
  auto tensor = cast<RankedTensorType>(type);
  return {tensor.getShape(), tensor.getElementType()};
}

} // namespace

//===--- layouts
//---------------------------------------------------------------------------------===//

LogicalResult ConvertLayoutOp::verify() {
  auto from = cast<RankedTensorType>(getSrc().getType());
  auto to = cast<RankedTensorType>(getType());
  if (failed(hasLayout(*this, "the source", from)) || failed(hasLayout(*this, "the result", to)))
    return failure();
  if (getWithinWarps() && getPieces())
    return emitOpError("goes through shared memory in `pieces`, which `within_warps` excludes");
  return sameContent(*this, "source and result differ", from.getShape(), from.getElementType(),
                     to.getShape(), to.getElementType());
}

OpFoldResult ConvertLayoutOp::fold(FoldAdaptor) {
  if (getSrc().getType() == getType())
    return getSrc();
  if (auto other = getSrc().getDefiningOp<ConvertLayoutOp>()) {
    if (other.getSrc().getType() == getType())
      return other.getSrc();
    if (getWithinWarps())
      return {}; // from the other one's source, elements might cross warps
    getSrcMutable().assign(other.getSrc());
    return getResult();
  }
  return {};
}

//===--- shared memory
//---------------------------------------------------------------------------===//

void LocalAllocOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Allocate::get(), getOperation()->getOpResult(0),
                       SharedMemory::get());
  if (getSrc())
    effects.emplace_back(MemoryEffects::Write::get(), getOperation()->getOpResult(0),
                         SharedMemory::get());
}

LogicalResult LocalAllocOp::verify() {
  return getSrc() ? tensorFitsBuffer(*this, getSrc().getType(), getType()) : success();
}

LogicalResult SlotOp::verify() {
  BufferType from = getBuffer().getType(), to = getType();
  if (from.getShape().size() <= from.getLayout().getLayout().rank())
    return emitOpError("the buffer has one copy only");
  if (from.getLayout() != to.getLayout())
    return emitOpError("the layout must stay");
  return sameContent(*this, "result is not the buffer without its first dimension",
                     from.getShape().drop_front(), from.getElementType(), to.getShape(),
                     to.getElementType());
}

LogicalResult SubviewOp::verify() {
  BufferType from = getBuffer().getType(), to = getType();
  if (from.getElementType() != to.getElementType())
    return emitOpError("the element type must stay");
  if (from.getShape().size() != to.getShape().size() || getOffsets().size() != to.getShape().size())
    return emitOpError("needs an offset per dimension, and the result has the buffer's rank");
  for (auto [size, part, offset] : llvm::zip(from.getShape(), to.getShape(), getOffsets()))
    if (offset < 0 || offset % part || offset + part > size)
      return emitOpError() << "a part of " << part << " at " << offset
                           << " does not lie on a grid within " << size;
  return success();
}

LogicalResult TransBufferOp::verify() {
  BufferType from = getBuffer().getType(), to = getType();
  if (from.getLayout().getLayout().rank() != from.getShape().size())
    return emitOpError("works on one copy: take a slot first");
  if (getOrder().size() != from.getShape().size())
    return emitOpError("the order must name every dimension");
  for (auto [i, dim] : llvm::enumerate(getOrder()))
    if (dim < 0 || size_t(dim) >= from.getShape().size() ||
        to.getShape()[i] != from.getShape()[dim])
      return emitOpError("the result's shape is not the permuted one");
  if (to.getLayout().getLayout() != from.getLayout().getLayout().transposed(getOrder()))
    return emitOpError("the result's layout is not the permuted one");
  return success();
}

LogicalResult ReshapeBufferOp::verify() {
  BufferType from = getBuffer().getType(), to = getType();
  if (from.getLayout().getLayout().rank() != from.getShape().size())
    return emitOpError("works on one copy: take a slot first");
  if (ShapedType::getNumElements(from.getShape()) != ShapedType::getNumElements(to.getShape()))
    return emitOpError("the number of elements must stay");
  if (to.getLayout().getLayout() != from.getLayout().getLayout().reshaped(to.getShape()))
    return emitOpError("the result's layout is not the reshaped one");
  return success();
}

LogicalResult LocalLoadOp::verify() {
  return tensorFitsBuffer(*this, getType(), getBuffer().getType());
}

LogicalResult LocalStoreOp::verify() {
  return tensorFitsBuffer(*this, getSrc().getType(), getBuffer().getType());
}

LogicalResult SumBlocksOp::verify() {
  auto kernel = (*this)->getParentOfType<func::FuncOp>();
  return !kernel || kernel->hasAttr(splitsName)
             ? success()
             : emitOpError() << "is only for kernels with `" << splitsName << "`";
}

//===--- asynchronous copies
//---------------------------------------------------------------------===//

LogicalResult AsyncCopyOp::verify() {
  auto pointers = cast<RankedTensorType>(getPtr().getType());
  auto pointer = dyn_cast<tile::PtrType>(pointers.getElementType());
  if (!pointer)
    return emitOpError("copies from a tensor of pointers");
  if (failed(hasLayout(*this, "the pointers", pointers)))
    return failure();
  BufferType buffer = getBuffer().getType();
  if (failed(sameContent(*this, "pointers and buffer differ", pointers.getShape(),
                         pointer.getPointee(), buffer.getShape(), buffer.getElementType())))
    return failure();
  int64_t bytes = int64_t(getContiguity()) * tile::sizeInBytes(pointer.getPointee());
  if (bytes != 4 && bytes != 8 && bytes != 16)
    return emitOpError() << "one copy has 4, 8 or 16 bytes, found " << bytes;
  if (getMask()) {
    auto mask = cast<RankedTensorType>(getMask().getType());
    if (!mask.getElementType().isInteger(1) || mask.getShape() != pointers.getShape() ||
        mask.getEncoding() != pointers.getEncoding())
      return emitOpError("the mask must have the pointers' shape and layout");
  }
  return success();
}

LogicalResult ProgramsOp::verify() {
  auto kernel = (*this)->getParentOfType<func::FuncOp>();
  return !kernel || kernel->hasAttr(persistentName)
             ? success()
             : emitOpError() << "is only for kernels with `" << persistentName << "`";
}

namespace {

/// What a fetch of a thread's own elements and the read of them have in common.
LogicalResult isOwnBuffer(Operation *op, RankedTensorType pointers, BufferType buffer, Value mask,
                          int64_t contiguity) {
  auto pointer = dyn_cast<tile::PtrType>(pointers.getElementType());
  if (!pointer)
    return op->emitOpError("copies from a tensor of pointers");
  if (failed(hasLayout(op, "the pointers", pointers)))
    return failure();
  int64_t element = tile::sizeInBytes(pointer.getPointee());
  if (int64_t bytes = contiguity * element; bytes != 4 && bytes != 8 && bytes != 16)
    return op->emitOpError() << "one copy has 4, 8 or 16 bytes, found " << bytes;
  auto kernel = op->getParentOfType<func::FuncOp>();
  int64_t blocks = kernel ? blockCount(kernel) : 1;
  if (int64_t needed = pointers.getNumElements() * element / blocks; buffer.getBytes() < needed)
    return op->emitOpError() << "needs a buffer of " << needed << " bytes, found "
                             << buffer.getBytes();
  if (mask && cast<RankedTensorType>(mask.getType()) !=
                  RankedTensorType::get(pointers.getShape(), IntegerType::get(op->getContext(), 1),
                                        pointers.getEncoding()))
    return op->emitOpError("the mask must have the pointers' shape and layout");
  return success();
}

} // namespace

LogicalResult FetchOp::verify() {
  return isOwnBuffer(*this, cast<RankedTensorType>(getPtr().getType()), getBuffer().getType(),
                     getMask(), getContiguity());
}

LogicalResult FetchedOp::verify() {
  auto pointers = cast<RankedTensorType>(getPtr().getType());
  if (failed(isOwnBuffer(*this, pointers, getBuffer().getType(), getMask(), getContiguity())))
    return failure();
  Type pointee = cast<tile::PtrType>(pointers.getElementType()).getPointee();
  if (getType() != RankedTensorType::get(pointers.getShape(), pointee, pointers.getEncoding()))
    return emitOpError("the result must have the pointers' shape, layout and element type");
  if (getOther() && getOther().getType() != getType())
    return emitOpError("`other` must have the type of the result");
  return getOther() && !getMask() ? emitOpError("has `other` without a mask") : success();
}

//===--- matrix units
//----------------------------------------------------------------------------===//

namespace {

/// Equal, but for the order of the registers.
bool samePlaces(const LinearLayout &x, const LinearLayout &y) {
  if (x.shape() != y.shape() || x.bases(Axis::Lane) != y.bases(Axis::Lane) ||
      x.bases(Axis::Warp) != y.bases(Axis::Warp) ||
      x.bits(Axis::Register) != y.bits(Axis::Register))
    return false;
  return llvm::all_of(x.bases(Axis::Register), [&](const Coords &basis) {
    return llvm::is_contained(y.bases(Axis::Register), basis);
  });
}

LinearLayout layoutFrom(Type type) {
  return layoutOf(type).getLayout();
}

/// Whether some arrangement of the warps along M and N satisfies `fits`.
bool anyArrangement(const LinearLayout &accumulator,
                    llvm::function_ref<bool(std::array<int64_t, 2>)> fits) {
  int64_t warps = accumulator.size(Axis::Warp);
  for (int64_t alongM = 1; alongM <= warps; alongM *= 2)
    if (fits({alongM, warps / alongM}))
      return true;
  return false;
}

/// The types that both matrix units know.
LogicalResult unitTypes(Operation *op, Type a, Type b, Type c) {
  bool known = tile::isFloat8(a)         ? tile::isFloat8(b) && c.isF32()
               : a != b                  ? false
               : a.isF16()               ? c.isF32() || c.isF16()
               : a.isInteger(8)          ? c.isInteger(32)
               : a.isF64()               ? c.isF64()
               : a.isBF16() || a.isF32() ? c.isF32()
                                         : false;
  if (known)
    return success();
  return op->emitOpError() << "no unit multiplies " << a << " by " << b << " into " << c;
}

LogicalResult wholeSteps(Operation *op, Type element, int64_t k) {
  int64_t step = element.isF64() ? 4 : 256 / element.getIntOrFloatBitWidth();
  if (coreSize(k) % step == 0)
    return success();
  return op->emitOpError() << "K is not made of whole steps of " << step << ", found " << k;
}

} // namespace

LogicalResult MmaOp::verify() {
  for (Type type : {getA().getType(), getB().getType(), getC().getType()})
    if (failed(hasLayout(*this, "every operand", type)))
      return failure();
  auto [aShape, a] = contentOf(getA().getType());
  auto [bShape, b] = contentOf(getB().getType());
  auto [cShape, c] = contentOf(getC().getType());
  if (failed(dotShapes(*this, aShape, bShape, cShape)) || failed(unitTypes(*this, a, b, c)) ||
      failed(wholeSteps(*this, a, aShape.back())))
    return failure();
  LinearLayout accumulator = layoutFrom(getC().getType());
  unsigned bits = a.getIntOrFloatBitWidth();
  bool fits = anyArrangement(accumulator, [&](std::array<int64_t, 2> warps) {
    return samePlaces(accumulator,
                      mmaAccumulator(accumulator.shape(), warps, bits == 64 ? 64 : 32)) &&
           samePlaces(layoutFrom(getA().getType()),
                      mmaOperand(coreShape(aShape), Operand::A, warps, bits)) &&
           samePlaces(layoutFrom(getB().getType()),
                      mmaOperand(coreShape(bShape), Operand::B, warps, bits));
  });
  return fits ? success() : emitOpError("layouts are not the fragments of mma.sync");
}

LogicalResult FmaDotOp::verify() {
  if (failed(hasLayout(*this, "the accumulator", getC().getType())))
    return failure();
  ArrayRef<int64_t> c = contentOf(getC().getType()).first;
  if (failed(dotShapes(*this, getA().getType().getShape(), getB().getType().getShape(), c)))
    return failure();
  // A thread has rows times columns.
  for (const Coords &basis : layoutFrom(getC().getType()).bases(Axis::Register))
    if (llvm::count_if(basis, [](int32_t at) { return at != 0; }) > 1)
      return emitOpError("registers of the accumulator must differ in one dimension each");
  return success();
}

LogicalResult WgmmaOp::verify() {
  if (failed(hasLayout(*this, "the accumulator", getC().getType())) ||
      failed(hasLayout(*this, "a", getA().getType())))
    return failure();
  if (warpCount(*this) % 4)
    return emitOpError("needs groups of 4 warps");
  auto [aShape, a] = contentOf(getA().getType());
  auto [cShape, c] = contentOf(getC().getType());
  Type b = getB().getType().getElementType();
  if (failed(dotShapes(*this, aShape, getB().getType().getShape(), cShape)) ||
      failed(unitTypes(*this, a, b, c)) || failed(wholeSteps(*this, a, aShape.back())))
    return failure();
  if (cShape.size() != 2 || a.isF64())
    return emitOpError("multiplies two matrices of at most 32 bits");
  if (getPromoteK() < 0 || (getPromoteK() && !tile::isFloat8(a)))
    return emitOpError("`promote_k` is for 8-bit floats, and not negative");
  LinearLayout accumulator = layoutFrom(getC().getType());
  bool isTensor = isa<RankedTensorType>(getA().getType());
  bool fits = anyArrangement(accumulator, [&](std::array<int64_t, 2> warps) {
    // A group of four warps has 16 rows each; groups that find none hold copies.
    if (warps[0] % 4 || accumulator.shape()[0] < 4 * 16 || accumulator.shape()[1] < 8 * warps[1])
      return false;
    int64_t columns = accumulator.shape()[1] / warps[1];
    for (int64_t width = std::min<int64_t>(columns, 256); width >= 8; width /= 2)
      if (samePlaces(accumulator, wgmmaAccumulator(accumulator.shape(), warps, width)))
        return !isTensor ||
               samePlaces(layoutFrom(getA().getType()),
                          wgmmaOperandA(coreShape(aShape), warps, a.getIntOrFloatBitWidth()));
    return false;
  });
  return fits ? success() : emitOpError("layouts are not those of wgmma");
}

void WgmmaOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  for (OpOperand &operand : getOperation()->getOpOperands())
    if (isa<BufferType>(operand.get().getType()))
      effects.emplace_back(MemoryEffects::Read::get(), &operand, SharedMemory::get());
}

LogicalResult WgmmaWaitOp::verify() {
  if (getPending() < 0 || getPending() > 7)
    return emitOpError() << "at most 7 groups can be left in flight, found " << getPending();
  if (getValues().getTypes() != getResults().getTypes())
    return emitOpError("results have the types of the operands");
  return success();
}

//===--- warp specialisation
//---------------------------------------------------------------------===//

void WarpSpecializeOp::getSuccessorRegions(RegionBranchPoint point,
                                           SmallVectorImpl<RegionSuccessor> &successors) {
  if (point.isParent()) {
    for (Region &part : getParts())
      successors.emplace_back(&part);
    return;
  }
  // The op ends when all regions have; its results are region 0's.
  if (point.getTerminatorPredecessorOrNull()->getParentRegion()->getRegionNumber() == 0)
    successors.emplace_back(getOperation(), getResults());
}

void WarpSpecializeOp::getRegionInvocationBounds(ArrayRef<Attribute>,
                                                 SmallVectorImpl<InvocationBounds> &bounds) {
  bounds.append(getParts().size(), InvocationBounds(1, 1));
}

LogicalResult WarpSpecializeOp::verify() {
  if (getParts().empty() || getPartitionWarps().size() + 1 != getParts().size())
    return emitOpError("needs one more region than partition_warps");
  if (getRegisters().size() != getParts().size())
    return emitOpError("needs registers for every region");
  for (int32_t warps : getPartitionWarps())
    if (warps <= 0)
      return emitOpError("a part has at least one warp");
  if (!isa<func::FuncOp>(getOperation()->getParentOp()))
    return emitOpError("stands in the kernel's outermost block");
  for (int32_t registers : getRegisters())
    if (registers && (registers < 24 || registers > 256 || registers % 8))
      return emitOpError() << "registers are 0 or a multiple of 8 from 24 to 256, found "
                           << registers;
  if (llvm::any_of(getRegisters(), [](int32_t registers) { return registers != 0; }) &&
      warpCount(*this) % 4)
    return emitOpError("gives registers to groups of four warps");
  for (auto [number, part] : llvm::enumerate(getParts())) {
    auto yield = dyn_cast<PartYieldOp>(part.front().back());
    if (!yield)
      return emitOpError("every region ends in `ngpu.part_yield`");
    if (number > 0 && yield.getValues().size())
      return emitOpError("only region 0 yields values");
    if (number == 0 && yield.getValues().getTypes() != getResultTypes())
      return emitOpError("region 0 must yield the results");
    if (number > 0) {
      WalkResult walked = part.walk([&](Operation *op) {
        for (Value operand : op->getOperands())
          if (isa<RankedTensorType>(operand.getType()) &&
              !part.isAncestor(operand.getParentRegion()))
            return WalkResult::interrupt();
        return WalkResult::advance();
      });
      if (walked.wasInterrupted())
        return emitOpError("a part cannot use tensors from outside: other threads hold them");
    }
  }
  return success();
}

//===--- channels
//--------------------------------------------------------------------------------===//

LogicalResult ChannelType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                  int64_t slots) {
  if (slots < 1)
    return emitError() << "a channel has at least one slot, found " << slots;
  return success();
}

/// Of ops that reach the other block of a pair.
static LogicalResult isInPairs(Operation *op) {
  auto kernel = op->getParentOfType<func::FuncOp>();
  return !kernel || isPaired(kernel)
             ? success()
             : op->emitOpError() << "is only for kernels with `" << pairsName << "`";
}

LogicalResult ChannelOp::verify() {
  if (getReaders() <= 0)
    return emitOpError("has at least one reader");
  return getPaired() ? isInPairs(*this) : success();
}

LogicalResult TmaLoadOp::verify() {
  if (bool(getShared()) != bool(getTurn()))
    return emitOpError("a shared copy has a turn, and only that");
  return getShared() ? isInPairs(*this) : success();
}

LogicalResult MBarrierArriveOp::verify() {
  return getBeside() ? isInPairs(*this) : success();
}

LogicalResult ChannelPutOp::verify() {
  Block &body = getBody().front();
  if (body.getNumArguments() != 1 || !isMBarrier(body.getArgument(0).getType()))
    return emitOpError("the region's one argument is the mbarrier that its copies signal");
  bool any = false;
  for (Operation &op : body) {
    if (auto load = dyn_cast<TmaLoadOp>(op)) {
      if (load.getBarrier() != body.getArgument(0) || load.getPredicate() ||
          (load.getShared() && !getBeside()))
        return load.emitOpError("signals the region's mbarrier, always, and in the other block of "
                                "a pair only with `beside`");
      any = true;
    } else if (!isMemoryEffectFree(&op)) {
      return emitOpError() << "may hold only copies and pure operations, found " << op.getName();
    }
  }
  return any ? success() : emitOpError("copies nothing: its slot would never be filled");
}

} // namespace nereid::ngpu

#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

#include "ir/ngpu/Dialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/ngpu/Attributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/ngpu/Types.cpp.inc"

namespace nereid::ngpu {
namespace {

/// `[[1, 0], [2, 0]]`
ParseResult parseBases(AsmParser &parser, SmallVectorImpl<Coords> &bases) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    Coords coords;
    auto one = [&]() { return parser.parseInteger(coords.emplace_back()); };
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, one))
      return failure();
    bases.push_back(coords);
    return success();
  });
}

/// The greatest power of two, up to 1024 bytes, whose bits the layout's XORs (swizzle) reach: bytes
/// from which the pattern repeats.
int64_t swizzleSpan(const LinearLayout &layout, unsigned elementBits) {
  // A swizzled column maps to more than one dimension, or shares a dimension's bit with another.
  int64_t span = 0;
  for (unsigned bit = 0; bit < layout.bits(Axis::Offset); ++bit) {
    unsigned ones = 0;
    for (int32_t c : layout.basis(Axis::Offset, bit))
      ones += llvm::popcount(uint32_t(c));
    if (ones > 1)
      span = (int64_t(1) << (bit + 1)) * elementBits / 8;
  }
  return std::min<int64_t>(span, 1024);
}

/// Layouts are long: printed IR names each once, at the top.
struct LayoutAliases : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attr, raw_ostream &os) const final {
    if (!isa<LayoutAttr>(attr))
      return AliasResult::NoAlias;
    os << "layout";
    return AliasResult::FinalAlias;
  }
};

} // namespace

void NGPUDialect::initialize() {
  addInterfaces<LayoutAliases>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/ngpu/Attributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/ngpu/Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/ngpu/Ops.cpp.inc"
      >();
}

//===--- the layout attribute
//--------------------------------------------------------------------===//

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  getLayout().print(printer.getStream());
  printer << ">";
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  std::array<SmallVector<Coords, 8>, kAxes> bases;
  SmallVector<int64_t> shape;
  auto entry = [&]() -> ParseResult {
    llvm::SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    if (name == "shape")
      return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() {
        return parser.parseInteger(shape.emplace_back());
      });
    for (unsigned axis = 0; axis < kAxes; ++axis)
      if (name == axisName(Axis(axis)))
        return parseBases(parser, bases[axis]);
    return parser.emitError(loc, "expected shape, register, lane, warp, block or offset");
  };
  llvm::SMLoc start = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, entry))
    return {};
  for (int64_t size : shape)
    if (size <= 0 || !llvm::isPowerOf2_64(size)) {
      parser.emitError(start, "sizes of a layout are powers of two");
      return {};
    }
  for (auto &axis : bases)
    for (const Coords &coords : axis) {
      if (coords.size() != shape.size()) {
        parser.emitError(start, "every basis has an entry per dimension of the shape");
        return {};
      }
      for (auto [c, size] : llvm::zip(coords, shape))
        if (c < 0 || c >= size) {
          parser.emitError(start, "a basis lies outside the shape");
          return {};
        }
    }
  return LayoutAttr::get(parser.getContext(), LinearLayout(shape, std::move(bases)));
}

//===--- buffers
//---------------------------------------------------------------------------------===//

void BufferType::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printDimensionList(getShape());
  printer << "x" << getElementType() << ", ";
  printer.printAttribute(getLayout());
  printer << ">";
}

Type BufferType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  LayoutAttr layout;
  llvm::SMLoc start = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseDimensionList(shape, false, true) ||
      parser.parseType(element) || parser.parseComma() || parser.parseAttribute(layout) ||
      parser.parseGreater())
    return {};
  return BufferType::getChecked([&]() { return parser.emitError(start); }, parser.getContext(),
                                shape, element, layout);
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type element, LayoutAttr layout) {
  const LinearLayout &map = layout.getLayout();
  if (map.rank() > shape.size())
    return emitError() << "the layout has more dimensions than the buffer";
  ArrayRef<int64_t> inner = shape.take_back(map.rank());
  if (ArrayRef<int64_t>(coreShape(inner)) != map.shape())
    return emitError() << "the layout is of another shape than the buffer";
  if (map.bits(Axis::Register) || map.bits(Axis::Lane) || map.bits(Axis::Warp))
    return emitError() << "a buffer's layout has offset bits only";
  return success();
}

ArrayRef<int64_t> BufferType::getInnerShape() const {
  return getShape().take_back(getLayout().getLayout().rank());
}

int64_t BufferType::getSlots() const {
  int64_t slots = 1;
  for (int64_t size : getShape().drop_back(getLayout().getLayout().rank()))
    slots *= size;
  return slots;
}

/// Bytes of one copy by itself.
static int64_t copyBytes(BufferType type) {
  int64_t elements = type.getLayout().getLayout().size(Axis::Offset);
  for (int64_t size : type.getInnerShape())
    elements *= repeatCount(size);
  return elements * tile::sizeInBytes(type.getElementType());
}

int64_t BufferType::getSlotBytes() const {
  return getSlots() > 1 ? llvm::alignTo(copyBytes(*this), getAlignment()) : copyBytes(*this);
}

int64_t BufferType::getBytes() const {
  return getSlots() * getSlotBytes();
}

int64_t BufferType::getAlignment() const {
  int64_t span = swizzleSpan(getLayout().getLayout(), 8 * tile::sizeInBytes(getElementType()));
  // The copy engine writes to multiples of 128 bytes.
  int64_t bytes = copyBytes(*this), least = bytes >= 128 ? 128 : bytes == 8 ? 8 : 16;
  return std::max(span, least);
}

//===--- helpers
//---------------------------------------------------------------------------------===//

bool isMBarrier(Type type) {
  auto buffer = dyn_cast<BufferType>(type);
  return buffer && buffer.getElementType().isInteger(64) &&
         ShapedType::getNumElements(buffer.getShape()) == 1;
}

void loadDialects(MLIRContext &context) {
  tile::loadDialects(context);
  context.loadDialect<NGPUDialect>();
}

LayoutAttr layoutOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_if_present<LayoutAttr>(tensor.getEncoding()) : LayoutAttr();
}

RankedTensorType withLayout(Type type, LayoutAttr layout) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape(), tensor.getElementType(), layout);
}

RankedTensorType withLayout(Type type, const LinearLayout &layout) {
  return withLayout(type, LayoutAttr::get(type.getContext(), layout));
}

unsigned registerCount(RankedTensorType type) {
  int64_t count = layoutOf(type).getLayout().size(Axis::Register);
  for (int64_t size : type.getShape())
    count *= repeatCount(size);
  return count;
}

RegisterPlace registerPlace(RankedTensorType type, unsigned reg) {
  const LinearLayout &map = layoutOf(type).getLayout();
  int64_t coreRegisters = map.size(Axis::Register);
  RegisterPlace place{map.apply(Axis::Register, reg % coreRegisters), {}};
  place.repeatOffset.resize(type.getRank());
  int64_t repeat = reg / coreRegisters;
  for (int dim = type.getRank() - 1; dim >= 0; --dim) {
    int64_t count = repeatCount(type.getDimSize(dim));
    place.repeatOffset[dim] = repeat % count * coreSize(type.getDimSize(dim));
    repeat /= count;
  }
  return place;
}

//===--- attributes on functions and on ops of other dialects ---------------------------------===//

constexpr StringLiteral scratchName = "ngpu.scratch";

LogicalResult NGPUDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  constexpr StringLiteral ofFunctions[] = {
      "ngpu.num_warps",    "ngpu.num_blocks",  "ngpu.num_lanes",     "ngpu.sm",
      "ngpu.shared_bytes", "ngpu.tensor_maps", "ngpu.optional_maps", splitsName,
      pairsName,           persistentName,     sendBytesName};
  StringRef name = attribute.getName().strref();
  if (name == specialisedName) {
    if (!isa<LoopLikeOpInterface>(op) || !isa<UnitAttr>(attribute.getValue()))
      return op->emitOpError() << "`" << name << "` is a mark of a loop";
    return success();
  }
  if (name == byGroupName) {
    if (!isa<LocalAllocOp>(op) || !isa<UnitAttr>(attribute.getValue()))
      return op->emitOpError() << "`" << name << "` is a mark of a buffer";
    return success();
  }
  if (name == sendsName) {
    if (!isa<tile::ReduceOp>(op) || !isa<UnitAttr>(attribute.getValue()))
      return op->emitOpError() << "`" << name << "` is a mark of a reduction";
    return success();
  }
  bool isFunction = isa<func::FuncOp>(op), ofFunction = llvm::is_contained(ofFunctions, name);
  if (!ofFunction && name != scratchName)
    return op->emitOpError() << "the ngpu dialect has no attribute `" << name << "`";
  if (ofFunction != isFunction)
    return op->emitOpError() << "`" << name << "` belongs to "
                             << (ofFunction ? "a function" : "an op with scratch memory");
  auto number = dyn_cast<IntegerAttr>(attribute.getValue());
  if (!number || !number.getType().isInteger(32) || number.getInt() < 0)
    return op->emitOpError() << "`" << name << "` is " << attribute.getValue()
                             << ": expected an i32 that is not negative";
  return success();
}

unsigned sendBytes(Operation *kernel) {
  auto bytes = kernel->getAttrOfType<IntegerAttr>(sendBytesName);
  return bytes ? unsigned(bytes.getInt()) : 0;
}

std::optional<uint32_t> scratchOffset(Operation *op) {
  auto offset = op->getAttrOfType<IntegerAttr>(scratchName);
  return offset ? std::optional(uint32_t(offset.getInt())) : std::nullopt;
}

void setScratchOffset(Operation *op, uint32_t bytes) {
  op->setAttr(scratchName, Builder(op->getContext()).getI32IntegerAttr(int32_t(bytes)));
}

unsigned warpCount(Operation *op) {
  for (Operation *at = op; at; at = at->getParentOp()) {
    if (auto attr = at->getAttrOfType<IntegerAttr>("ngpu.num_warps"))
      return attr.getInt();
    auto special = dyn_cast_if_present<WarpSpecializeOp>(at->getParentOp());
    if (!special)
      continue;
    unsigned part = at->getParentRegion()->getRegionNumber();
    if (part > 0)
      return special.getPartitionWarps()[part - 1];
  }
  return 4;
}

WarpSpecializeOp warpSpecializeOf(Operation *kernel) {
  for (Region &region : kernel->getRegions())
    for (Block &block : region)
      for (auto op : block.getOps<WarpSpecializeOp>())
        return op;
  return {};
}

FurtherWarps furtherWarps(WarpSpecializeOp op) {
  // Registers are given to groups of four warps.
  bool groups = llvm::any_of(op.getRegisters(), [](int32_t registers) { return registers != 0; });
  unsigned own = warpCount(op), at = own;
  FurtherWarps result;
  for (int32_t warps : op.getPartitionWarps()) {
    result.first.push_back(at);
    at += groups ? llvm::alignTo(unsigned(warps), 4) : warps;
  }
  result.count = at - own;
  return result;
}

unsigned blockCount(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto attr = op->getAttrOfType<IntegerAttr>("ngpu.num_blocks"))
      return attr.getInt();
  return 1;
}

unsigned splitCount(Operation *kernel) {
  auto attr = kernel->getAttrOfType<IntegerAttr>(splitsName);
  return attr ? attr.getInt() : 1;
}

bool isPaired(Operation *kernel) {
  return kernel->hasAttr(pairsName);
}

unsigned laneCount(Operation *op) {
  for (; op; op = op->getParentOp())
    if (auto attr = op->getAttrOfType<IntegerAttr>("ngpu.num_lanes"))
      return attr.getInt();
  return 32;
}

} // namespace nereid::ngpu

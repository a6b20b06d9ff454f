#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "ir/tile/Dialect.cpp.inc"
#include "ir/tile/Enums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/tile/Types.cpp.inc"

namespace nereid::tile {
namespace {

/// Every tile op may be inlined anywhere.
struct TileInliner : public DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Operation *, bool) const final { return true; }
  bool isLegalToInline(Region *, Region *, bool, IRMapping &) const final { return true; }
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final { return true; }
};

} // namespace

void TileDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/tile/Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tile/Ops.cpp.inc"
      >();
  addInterfaces<TileInliner>();
}

Operation *TileDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                            Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

void loadDialects(MLIRContext &context) {
  DialectRegistry registry;
  func::registerInlinerExtension(registry); // Without it the inliner refuses every call.
  context.appendDialectRegistry(registry);
  context.loadDialect<TileDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect,
                      scf::SCFDialect, ub::UBDialect>();
}

//===--- tensor descriptors
//-----------------------------------------------------------------------===//

static constexpr unsigned maxDescriptorRank = 5;

Type DescType::parse(AsmParser &parser) {
  llvm::SmallVector<int64_t> shape;
  Type element;
  Padding padding = Padding::Zero;
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    StringRef word;
    auto at = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return {};
    auto known = symbolizePadding(word);
    if (!known) {
      parser.emitError(at, "expected `zero` or `nan`");
      return {};
    }
    padding = *known;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<DescType>(parser.getContext(), shape, element, padding);
}

void DescType::print(AsmPrinter &printer) const {
  printer << "<";
  for (int64_t size : getShape())
    printer << size << "x";
  printer << getElementType();
  if (getPadding() != Padding::Zero)
    printer << ", " << stringifyPadding(getPadding());
  printer << ">";
}

LogicalResult DescType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                               llvm::ArrayRef<int64_t> shape, Type element, Padding padding) {
  if (!isTileShape(shape) || shape.size() > maxDescriptorRank)
    return emitError() << "a descriptor has 1 to " << maxDescriptorRank
                       << " dimensions of positive size, found " << shape.size();
  bool isInt = element.isSignlessInteger() &&
               llvm::is_contained({8, 16, 32, 64}, int(element.getIntOrFloatBitWidth()));
  if (!isInt && !isa<FloatType>(element))
    return emitError() << "a descriptor has elements of one to eight bytes, found " << element;
  if (padding == Padding::NaN && isInt)
    return emitError() << "integers cannot be padded with NaN";
  return success();
}

RankedTensorType DescType::getBlockType() const {
  return RankedTensorType::get(getShape(), getElementType());
}

bool isTileShape(llvm::ArrayRef<int64_t> shape) {
  return !shape.empty() && llvm::all_of(shape, [](int64_t size) { return size > 0; });
}

llvm::ArrayRef<int64_t> shapeOf(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return tensor.getShape();
  return {};
}

Type elementOf(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    return tensor.getElementType();
  return type;
}

Type withShapeOf(Type element, Type like) {
  if (auto tensor = dyn_cast<RankedTensorType>(like))
    return tensor.clone(element);
  return element;
}

bool isFloat8(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(type);
}

unsigned sizeInBytes(Type scalar) {
  if (isa<PtrType>(scalar))
    return 8;
  return (scalar.getIntOrFloatBitWidth() + 7) / 8;
}

} // namespace nereid::tile

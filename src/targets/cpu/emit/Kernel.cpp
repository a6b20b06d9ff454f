#include "targets/cpu/emit/Kernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::cpu {

Kernel::Kernel(OpBuilder &builder, Location location, const Features &features)
    : e(builder, location, features), b(builder) {
  e.outside = [this](Value value) { return scalar(value); };
}

void Kernel::fail(Operation *op, const llvm::Twine &message) {
  if (!error.empty())
    return;
  error = message.str();
  if (op)
    error += " (" + op->getName().getStringRef().str() + ")";
}

Value Kernel::scalar(Value value) {
  if (Value known = scalars.lookup(value))
    return known;
  if (auto constant =
          value.getDefiningOp<arith::ConstantOp>()) // not remembered: it would have to dominate
    return e.constantOf(constant.getValue(), constant.getType());
  fail(value.getDefiningOp(), "internal error: a scalar is used before it is computed");
  return e.zero(value.getType(), 1);
}

unsigned Kernel::knownZeros(Value value, unsigned depth) const {
  if (auto known = Emit::constant(value))
    return *known == 0 ? 63 : llvm::countr_zero(uint64_t(*known));
  if (auto known = argumentZeros.find(value); known != argumentZeros.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  if (!op || depth > 12)
    return 0;
  auto of = [&](unsigned operand) { return knownZeros(op->getOperand(operand), depth + 1); };
  if (isa<arith::MulIOp>(op))
    return std::min(of(0) + of(1), 63u);
  if (isa<arith::AddIOp, arith::SubIOp, arith::OrIOp, arith::XOrIOp>(op))
    return std::min(of(0), of(1));
  if (isa<arith::AndIOp>(op))
    return std::max(of(0), of(1));
  if (isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op))
    return of(0);
  if (isa<arith::SelectOp>(op))
    return std::min(of(1), of(2));
  if (isa<arith::ShLIOp>(op))
    if (auto shift = Emit::constant(op->getOperand(1)); shift && *shift >= 0 && *shift < 63)
      return std::min<unsigned>(of(0) + *shift, 63);
  return 0;
}

Buffer Kernel::constantBuffer(arith::ConstantOp op) {
  if (Buffer known = buffers.lookup(op.getResult()))
    return known;
  auto dense = cast<DenseElementsAttr>(op.getValue());
  auto type = cast<RankedTensorType>(op.getType());
  OpBuilder::InsertionGuard guard(b);
  auto module = entryAnchor->getParentOfType<ModuleOp>();
  b.setInsertionPointToStart(module.getBody());
  // The bytes as memory has them.
  std::string bytes;
  unsigned size = tile::sizeInBytes(type.getElementType());
  auto append = [&](const APInt &bits) {
    uint64_t word = bits.getZExtValue();
    bytes.append(reinterpret_cast<const char *>(&word), size);
  };
  if (isa<IntegerType>(type.getElementType()))
    for (const APInt &element : dense.getValues<APInt>())
      append(element);
  else
    for (const APFloat &element : dense.getValues<APFloat>())
      append(element.bitcastToAPInt());
  std::string name = "nereid_constant_" + std::to_string(constants++);
  auto array = LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size());
  LLVM::GlobalOp::create(b, e.loc, array, true, LLVM::Linkage::Internal, name,
                         b.getStringAttr(bytes), 64);
  b.setInsertionPoint(entryAnchor);
  Buffer buffer{LLVM::AddressOfOp::create(b, e.loc, e.ptr(), name), type};
  buffers[op.getResult()] = buffer;
  return buffer;
}

} // namespace nereid::cpu

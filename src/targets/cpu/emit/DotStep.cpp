// Dots: operands are brought into scratch memory in the accumulating type, the product is
// accumulated there by the micro-kernel. Inside a loop over K the carried accumulator's buffer is
// the result's buffer, so that nothing but the multiply-adds touches it.
#include "targets/cpu/dot/Dot.h"

#include "targets/cpu/emit/Control.h"
#include "targets/cpu/emit/Loops.h"

using namespace mlir;

namespace nereid::cpu {

// `value` with its elements converted to `element`, as a virtual tensor.
static Value converted(Kernel &k, Operation *before, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  OpBuilder b(before);
  auto target = type.clone(element);
  if (isa<Float8E4M3FNType, Float8E5M2Type>(type.getElementType()))
    return tile::FpCastOp::create(b, before->getLoc(), target, value);
  return arith::ExtFOp::create(b, before->getLoc(), target, value);
}

static bool isZero(Value value) {
  Attribute constant;
  if (auto splat = value.getDefiningOp<tile::SplatOp>())
    value = splat.getSrc();
  if (!matchPattern(value, m_Constant(&constant)))
    return false;
  if (auto dense = dyn_cast<SplatElementsAttr>(constant))
    constant = dense.getSplatValue<Attribute>();
  if (auto number = dyn_cast<FloatAttr>(constant))
    return number.getValue().isPosZero();
  auto integer = dyn_cast<IntegerAttr>(constant);
  return integer && integer.getValue().isZero();
}

void emitDot(Kernel &k, tile::DotOp op) {
  auto resultType = cast<RankedTensorType>(op.getType());
  auto aType = cast<RankedTensorType>(op.getA().getType());
  Type element = aType.getElementType();
  DotType type = element.isF64()             ? DotType::F64
                 : isa<IntegerType>(element) ? DotType::I8
                                             : DotType::F32;
  Type operandType = type == DotType::I8    ? element
                     : type == DotType::F64 ? element
                                            : Type(k.b.getF32Type());
  Type accumulatorType = type == DotType::I8    ? Type(k.b.getI32Type())
                         : type == DotType::F64 ? element
                                                : Type(k.b.getF32Type());
  int64_t rank = aType.getRank();
  int64_t m = aType.getDimSize(rank - 2), depth = aType.getDimSize(rank - 1);
  int64_t n = resultType.getDimSize(rank - 1);

  bool narrow = resultType.getElementType() != accumulatorType; // an f16 result
  Buffer target = k.allocate(op.getResult());
  Buffer sum = narrow ? k.allocate(resultType.clone(accumulatorType)) : target;
  bool zeroC = isZero(op.getC());
  if (!zeroC) {
    if (narrow) {
      materializeInto(k, converted(k, op, op.getC(), accumulatorType), sum);
    } else if (Buffer c = k.buffers.lookup(op.getC()); !c || c.base != sum.base) {
      materializeInto(k, op.getC(), sum);
    }
  }
  Buffer a = materialize(k, converted(k, op, op.getA(), operandType));
  Buffer b = materialize(k, converted(k, op, op.getB(), operandType));

  DotPlan plan = planDot(type, m, n, depth, k.e.features);
  auto batches = resultType.getShape().drop_back(2);
  forEachPoint(k, batches, [&](ArrayRef<Value> indices) {
    Value batch = k.e.i64(0);
    for (auto [size, index] : llvm::zip(batches, indices))
      batch = k.e.add(k.e.mul(batch, k.e.i64(size)), index);
    auto part = [&](const Buffer &buffer, int64_t elements) {
      int64_t bytes = elements * tile::sizeInBytes(buffer.type.getElementType());
      return k.e.advance(buffer.base, k.e.mul(batch, k.e.i64(bytes)));
    };
    DotOperands operands;
    operands.a = part(a, m * depth);
    operands.b = part(b, depth * n);
    operands.c = part(sum, m * n);
    operands.aRowStride = depth;
    operands.aColStride = 1;
    operands.bRowStride = n;
    operands.cRowStride = n;
    operands.zeroC = zeroC;
    emitDot(k.b, k.e.loc, plan, operands, k.e.features);
  });
  if (narrow)
    forEachPoint(k, resultType.getShape(), [&](ArrayRef<Value> indices) {
      Point point;
      for (Value index : indices)
        point.push_back({index, -1});
      Value value = Elements(k).read(sum, point);
      Elements(k).write(target, point,
                        k.e.convertFloat(value, accumulatorType, resultType.getElementType()));
    });
  k.buffers[op.getResult()] = target;
}

} // namespace nereid::cpu

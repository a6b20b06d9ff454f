// The pass --nereid-cpu-expand-conversions; see Conversions.h.
#include "targets/cpu/LaneBuilder.h"
#include "targets/cpu/conversions/Conversions.h"

#include "mlir/IR/BuiltinOps.h"

namespace nereid::cpu {
namespace {

using namespace mlir;

bool isNarrow(Type type) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  return element && element.getWidth() <= 16;
}

struct ExpandConversionsPass : PassWrapper<ExpandConversionsPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandConversionsPass)

  ExpandConversionsPass() = default;
  explicit ExpandConversionsPass(const Features &features) {
    hasF16c = features.f16c;
    hasFma = features.fma;
    hasHalf = features.halfArithmetic;
  }
  ExpandConversionsPass(const ExpandConversionsPass &other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const final { return "nereid-cpu-expand-conversions"; }
  llvm::StringRef getDescription() const final {
    return "Replaces conversions and arithmetic on 8- and 16-bit floats by operations of every CPU";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, math::MathDialect>();
  }

  void runOnOperation() final {
    features.f16c = hasF16c;
    features.fma = hasFma;
    features.halfArithmetic = hasHalf;
    llvm::SmallVector<Operation *> found;
    getOperation()->walk([&](Operation *op) {
      if (op->getNumResults() != 1 || isa<TensorType>(op->getResult(0).getType()))
        return;
      bool narrow =
          isNarrow(op->getResult(0).getType()) || llvm::any_of(op->getOperandTypes(), isNarrow);
      auto truncation = dyn_cast<arith::TruncFOp>(op);
      if (narrow ||
          (truncation && truncation.getRoundingmode() == arith::RoundingMode::toward_zero))
        found.push_back(op);
    });
    for (Operation *op : found)
      rewrite(op);
  }

private:
  void rewrite(Operation *op) {
    OpBuilder builder(op);
    Location loc = op->getLoc();
    Type type = op->getResult(0).getType(), element = getElementTypeOrSelf(type);
    auto cast = [&](Value value, Type to, bool towardsZero = false) {
      return emitFloatCast(builder, loc, value, to, towardsZero, features);
    };
    auto replace = [&](Value value) {
      op->getResult(0).replaceAllUsesWith(value);
      op->erase();
    };
    // The same operation on f32, rounded back when its result is a float.
    auto inF32 = [&] {
      OperationState state(loc, op->getName());
      for (Value operand : op->getOperands())
        state.operands.push_back(isNarrow(operand.getType()) ? cast(operand, builder.getF32Type())
                                                             : operand);
      bool isFloat = isa<FloatType>(element);
      state.addTypes(isFloat ? LaneBuilder::withElement(type, builder.getF32Type()) : type);
      state.addAttributes(op->getAttrs());
      Value result = builder.create(state)->getResult(0);
      replace(isFloat ? cast(result, element) : result);
    };

    if (auto truncation = dyn_cast<arith::TruncFOp>(op)) {
      auto mode = truncation.getRoundingmode();
      replace(cast(truncation.getIn(), element, mode == arith::RoundingMode::toward_zero));
    } else if (auto extension = dyn_cast<arith::ExtFOp>(op)) {
      replace(cast(extension.getIn(), element));
    } else if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
      replace(cast(integerToFloat(builder, op), element));
    } else if (features.halfArithmetic && element.isF16() &&
               isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp>(op)) {
      // the machine's
    } else if (isa<arith::FPToSIOp, arith::FPToUIOp, arith::AddFOp, arith::SubFOp, arith::MulFOp,
                   arith::DivFOp, arith::RemFOp, arith::MaximumFOp, arith::MinimumFOp,
                   arith::MaxNumFOp, arith::MinNumFOp, arith::CmpFOp, math::SqrtOp, math::FmaOp,
                   math::FloorOp, math::CeilOp, math::TruncOp, math::RoundOp, math::RoundEvenOp>(
                   op)) {
      inF32();
    } else if (isa<arith::NegFOp, math::AbsFOp>(op)) {
      LaneBuilder l(builder, loc, features);
      Lane bits = l.bits(l(op->getOperand(0)));
      int64_t sign = int64_t(1) << (element.getIntOrFloatBitWidth() - 1);
      replace(l.asFloat(isa<arith::NegFOp>(op) ? bits ^ sign : bits & (sign - 1), element).get());
    } else if (isa<math::CopySignOp>(op)) {
      LaneBuilder l(builder, loc, features);
      Lane magnitude = l.bits(l(op->getOperand(0))), sign = l.bits(l(op->getOperand(1)));
      int64_t mask = int64_t(1) << (element.getIntOrFloatBitWidth() - 1);
      replace(l.asFloat((magnitude & (mask - 1)) | (sign & mask), element).get());
    }
  }

  // The integers as f32 or f64, exactly or rounded to odd, so that the cast that follows rounds
  // them once.
  Value integerToFloat(OpBuilder &builder, Operation *op) {
    LaneBuilder l(builder, op->getLoc(), features);
    Lane x = l(op->getOperand(0));
    bool isSigned = isa<arith::SIToFPOp>(op);
    unsigned width = x.element().getIntOrFloatBitWidth();
    if (width > 32) {
      // Bits below the 53 that f64 holds are gathered in the last one kept.
      Lane kept = x & ~int64_t(0x7ff);
      Lane sticky = l.select((x & 0x7ff) == 0, 0, l.constant(x, 0x800));
      Lane small = isSigned ? l.sra(x, 53) : x >> 53;
      Lane isSmall = isSigned ? (small == 0) | (small == -1) : small == 0;
      x = l.select(isSmall, x, kept | sticky);
    }
    Type wide = width < 32 ? Type(builder.getF32Type()) : builder.getF64Type();
    return (isSigned ? l.convert<arith::SIToFPOp>(x, wide) : l.convert<arith::UIToFPOp>(x, wide))
        .get();
  }

  Features features;
  Option<bool> hasF16c{*this, "f16c", llvm::cl::desc("the machine converts between f16 and f32"),
                       llvm::cl::init(true)};
  Option<bool> hasFma{*this, "fma", llvm::cl::desc("the machine has fused multiply-add"),
                      llvm::cl::init(true)};
  Option<bool> hasHalf{*this, "half", llvm::cl::desc("the machine adds, multiplies, divides f16"),
                       llvm::cl::init(false)};
};

} // namespace

std::unique_ptr<Pass> createExpandConversionsPass(const Features &features) {
  return std::make_unique<ExpandConversionsPass>(features);
}

void registerExpandConversionsPass() {
  PassRegistration<ExpandConversionsPass>();
}

} // namespace nereid::cpu

// The pass --nereid-cpu-expand-math; see Math.h.
#include "targets/cpu/LaneBuilder.h"
#include "targets/cpu/math/Math.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"

namespace nereid::cpu {
namespace {

// Operation name -> kind. math.sqrt and math.absf are what LLVM wants already; they are here for
// 16-bit floats.
std::optional<MathKind> kindOf(mlir::Operation *op) {
  static const auto *names = new llvm::StringMap<MathKind>{
      {"math.exp", MathKind::Exp},     {"math.exp2", MathKind::Exp2},
      {"math.expm1", MathKind::Expm1}, {"math.log", MathKind::Log},
      {"math.log2", MathKind::Log2},   {"math.log1p", MathKind::Log1p},
      {"math.sin", MathKind::Sin},     {"math.cos", MathKind::Cos},
      {"math.sqrt", MathKind::Sqrt},   {"math.rsqrt", MathKind::Rsqrt},
      {"math.erf", MathKind::Erf},     {"math.tanh", MathKind::Tanh},
      {"math.powf", MathKind::Pow},    {"math.fma", MathKind::Fma},
      {"math.absf", MathKind::Abs},    {"math.floor", MathKind::Floor},
      {"math.ceil", MathKind::Ceil},   {"math.trunc", MathKind::Trunc},
      {"math.round", MathKind::Round}, {"math.roundeven", MathKind::RoundEven},
  };
  auto found = names->find(op->getName().getStringRef());
  return found == names->end() ? std::nullopt : std::optional(found->second);
}

struct ExpandMathPass : mlir::PassWrapper<ExpandMathPass, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMathPass)

  ExpandMathPass() = default;
  explicit ExpandMathPass(const Features &features) {
    hasFma = features.fma;
    hasRounding = features.rounding;
  }
  ExpandMathPass(const ExpandMathPass &other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const final { return "nereid-cpu-expand-math"; }
  llvm::StringRef getDescription() const final {
    return "Replaces math operations by inline polynomials on scalars and vectors";
  }
  void getDependentDialects(mlir::DialectRegistry &registry) const final {
    registry.insert<mlir::arith::ArithDialect, mlir::LLVM::LLVMDialect, mlir::scf::SCFDialect,
                    mlir::vector::VectorDialect>();
  }

  void runOnOperation() final {
    Features features;
    features.fma = hasFma;
    features.rounding = hasRounding;
    llvm::SmallVector<std::pair<mlir::Operation *, MathKind>> found;
    getOperation().walk([&](mlir::Operation *op) {
      if (op->getNumResults() == 1 && !llvm::isa<mlir::TensorType>(op->getResult(0).getType()))
        if (auto kind = kindOf(op))
          found.emplace_back(op, *kind);
    });
    for (auto [op, kind] : found)
      replace(op, kind, features);
  }

  static void replace(mlir::Operation *op, MathKind kind, const Features &features) {
    mlir::OpBuilder builder(op);
    LaneBuilder l(builder, op->getLoc(), features);
    mlir::Type type = op->getResult(0).getType(), element = mlir::getElementTypeOrSelf(type);
    bool narrow = element.isF16() || element.isBF16();
    if (!narrow && !element.isF32() && !element.isF64())
      return;
    if (narrow && kind == MathKind::Abs) // of the bits (ExpandConversions.cpp)
      return;
    llvm::SmallVector<mlir::Value> operands;
    for (mlir::Value operand : op->getOperands())
      operands.push_back(
          narrow ? l.convert<mlir::arith::ExtFOp>(l(operand), builder.getF32Type()).get()
                 : operand);
    mlir::Value result = emitMath(builder, op->getLoc(), kind, operands, features);
    if (narrow)
      result = mlir::arith::TruncFOp::create(builder, op->getLoc(), type, result);
    op->replaceAllUsesWith(mlir::ValueRange(result));
    op->erase();
  }

  Option<bool> hasFma{*this, "fma", llvm::cl::desc("the machine has fused multiply-add"),
                      llvm::cl::init(true)};
  Option<bool> hasRounding{*this, "rounding", llvm::cl::desc("the machine rounds to integers"),
                           llvm::cl::init(true)};
};

} // namespace

std::unique_ptr<mlir::Pass> createExpandMathPass(const Features &features) {
  return std::make_unique<ExpandMathPass>(features);
}

void registerExpandMathPass() {
  mlir::PassRegistration<ExpandMathPass>();
}

} // namespace nereid::cpu

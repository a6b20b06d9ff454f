// The pass `differentiate`, for tools: of each kernel of the module whose arguments ask for
// tangents. It must run after the inliner, since a call hides what depends on its arguments, and
// before everything that chooses layouts, splits offsets or rewrites descriptors, which then do for
// tangents what they do for values.
#include "differentiate/Differentiate.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace nereid::differentiate {

std::string Refusal::text() const {
  DiagnosticEngine engine;
  return report(engine, SourceSpan()).message();
}

namespace {

struct DifferentiatePass : PassWrapper<DifferentiatePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DifferentiatePass)

  StringRef getArgument() const final { return "differentiate"; }
  StringRef getDescription() const final {
    return "kernels whose arguments have tangents compute those of their results, in forward mode";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect, ub::UBDialect,
                    tile::TileDialect>();
  }
  void runOnOperation() final {
    for (auto kernel : getOperation().getOps<func::FuncOp>()) {
      if (!kernel->hasAttr("tile.kernel") || !isWanted(kernel))
        continue;
      while (isWanted(kernel))
        if (std::optional<Refusal> refusal = differentiate(kernel)) {
          emitError(refusal->where) << refusal->text();
          return signalPassFailure();
        }
    }
    dropTangentMarks(getOperation());
  }
};

} // namespace

void registerPasses() {
  PassRegistration<DifferentiatePass>();
}

} // namespace nereid::differentiate

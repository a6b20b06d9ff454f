// The front end for callers that also need the source texts of the module.
#pragma once
#include "frontend/frontend.h"

namespace nereid::frontend {

/// As `buildTileModule` without `sources`, which gets the texts of the functions that were walked:
/// locations of the module point into them.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
buildTileModule(mlir::MLIRContext &context, const Function &kernel,
                llvm::ArrayRef<ParamSpec> params, const FrontendOptions &options, Host &host,
                DiagnosticEngine &diagnostics, std::vector<SourceFilePtr> &sources);

} // namespace nereid::frontend

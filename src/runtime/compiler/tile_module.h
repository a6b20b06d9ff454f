// Tile IR that comes as text.
#pragma once

#include "runtime/tile_source.h"

namespace mlir {
class DialectRegistry;
class MLIRContext;
class ModuleOp;
template <typename> class OwningOpRef;
} // namespace mlir

namespace nereid::runtime {

/// The dialects of tile IR.
const mlir::DialectRegistry &tileDialects();

/// See Compiler::readTileSource.
ErrorPtr readTileSource(llvm::StringRef file, std::string text, TileSourcePtr &out);

/// The module of one kernel: others of the text are dropped. The text was read before.
mlir::OwningOpRef<mlir::ModuleOp> parseTileKernel(const TileSource &source, llvm::StringRef kernel,
                                                  mlir::MLIRContext &context);

} // namespace nereid::runtime

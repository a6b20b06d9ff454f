// Kernels given as tile IR instead of source text.
//
// A module of tile IR is read like a module of source: its functions are found by name, created and
// compiled by the same calls. Their source is a text made here, with their names and parameters and
// a mark of the IR; `FunctionRecord::tile` holds the IR, which `compileKernel`
// takes in place of what the front end would build. Types of parameters are known from the IR: a
// signature may be left out, and launches do not specialise on values.
#pragma once

#include "frontend/types.h"
#include "runtime/error.h"

#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>
#include <vector>

namespace nereid::runtime {

struct TileSource {
  struct Kernel {
    std::string name;
    std::vector<std::pair<std::string, frontend::Type>> params;
  };
  std::string file, text;
  std::vector<Kernel> kernels;

  /// Functions of the language with the names and parameters of the kernels.
  std::string declarations() const;
  const Kernel *find(llvm::StringRef name) const;
};

using TileSourcePtr = std::shared_ptr<const TileSource>;

/// Whether a file of this name holds tile IR: `.tile`, `.ttir`, `.mlir`.
bool isTileFile(llvm::StringRef path);

} // namespace nereid::runtime

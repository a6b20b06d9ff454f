#include "runtime/tile_source.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

namespace nereid::runtime {

bool isTileFile(llvm::StringRef path) {
  llvm::StringRef ending = llvm::sys::path::extension(path);
  return ending == ".tile" || ending == ".ttir" || ending == ".mlir";
}

std::string TileSource::declarations() const {
  std::string mark = llvm::utohexstr(llvm::xxh3_64bits(text), true, 16), out;
  for (const Kernel &kernel : kernels) {
    out += "def " + kernel.name + "(";
    for (const auto &[name, type] : kernel.params)
      out += (out.back() == '(' ? "" : ", ") + name;
    out += "):\n    \"tile IR " + mark + "\"\n"; // so that kernels are told apart by their text
  }
  return out;
}

const TileSource::Kernel *TileSource::find(llvm::StringRef name) const {
  auto found = llvm::find_if(kernels, [&](const Kernel &kernel) { return kernel.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

} // namespace nereid::runtime

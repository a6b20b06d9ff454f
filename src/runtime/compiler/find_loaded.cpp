// The compiler as a library of its own, beside this one.
#include "runtime/compiler.h"

#include "support/first_use.h"
#include "support/packages.h"
#include "support/settings.h"

#include <dlfcn.h>
#include <string>

namespace nereid::runtime {
namespace {

struct Found {
  const Compiler *compiler = nullptr;
  std::string problem;
};

/// Beside this library. Not by "$ORIGIN", which is the folder of who calls dlopen: of a wrapper of
/// it (sanitizers have one) where there is one.
std::string libraryPath() {
  Dl_info own;
  std::string path;
  if (::dladdr(reinterpret_cast<const void *>(&libraryPath), &own) && own.dli_fname)
    path = own.dli_fname;
  path.erase(path.rfind('/') + 1);
  return path + NEREID_COMPILER_LIBRARY;
}

/// Never unloaded: kernels have code in it.
Found load() {
  void *library = ::dlopen(libraryPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return {nullptr, ::dlerror()};
  auto *entry = reinterpret_cast<CompilerEntry *>(::dlsym(library, compilerEntryName));
  LentToCompiler lent{NEREID_VERSION, &Settings::current, &packageFolders};
  const Compiler *compiler = entry ? entry(lent) : nullptr;
  if (!compiler)
    return {nullptr, NEREID_COMPILER_LIBRARY " belongs to another version of Nereid"};
  return {compiler, ""};
}

const Found &found() {
  static constinit FirstUse<const Found> once;
  return once.get(load);
}

} // namespace

const Compiler *Compiler::find() {
  return found().compiler;
}

ErrorPtr Compiler::problem() {
  return found().compiler
             ? nullptr
             : makeError(NRD_ERROR_RUNTIME, "", diag::CompilerNotLoaded, found().problem);
}

} // namespace nereid::runtime

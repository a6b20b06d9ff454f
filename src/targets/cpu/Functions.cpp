#include "targets/cpu/Functions.h"

#include "targets/cpu/support_library/SupportLibrary.h"

#include <dlfcn.h>

namespace nereid::cpu {

void *findFunction(llvm::StringRef name) {
  for (const Symbol &symbol : supportSymbols())
    if (name == symbol.name)
      return symbol.address;
  return ::dlsym(RTLD_DEFAULT, name.str().c_str());
}

} // namespace nereid::cpu

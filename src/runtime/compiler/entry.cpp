// What libnereid_compiler.so.1 exports.
#include "runtime/compiler.h"

#include "support/packages.h"
#include "support/settings.h"

#include <string_view>

extern "C" __attribute__((visibility("default"))) const nereid::runtime::Compiler *
nereid_compiler(const nereid::runtime::LentToCompiler &lent) {
  if (std::string_view(lent.version) != NEREID_VERSION)
    return nullptr;
  nereid::Settings::follow(lent.settings);
  nereid::followPackageFolders(lent.packageFolders);
  return &nereid::runtime::linkedCompiler();
}

// What loaded code may call.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace nereid::cpu {

/// The function of this name: one of the support library, or of the C and math libraries of the
/// process. Null when there is none.
void *findFunction(llvm::StringRef name);

} // namespace nereid::cpu

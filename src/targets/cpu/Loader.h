// Object code made callable in this process.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace nereid::cpu {

/// Owns loaded code; the address dies with it.
class LoadedObject {
public:
  virtual ~LoadedObject() = default;
  virtual void *entry() const = 0;
};

/// Loads a relocatable object of this machine and finds `symbol` in it. Undefined symbols are those
/// of the support library and of the C and math libraries of the process. Thread-safe.
llvm::Expected<std::unique_ptr<LoadedObject>> loadObject(llvm::ArrayRef<char> object,
                                                         llvm::StringRef symbol);

} // namespace nereid::cpu

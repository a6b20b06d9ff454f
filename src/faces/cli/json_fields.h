// Fields of the compiler's JSON: "" or 0 where one is missing.
#pragma once
#include "llvm/Support/JSON.h"

#include <cstdint>
#include <string>

namespace nereid::cli {

inline std::string textOf(const llvm::json::Object &object, llvm::StringRef name) {
  return object.getString(name).value_or("").str();
}
inline int64_t numberOf(const llvm::json::Object &object, llvm::StringRef name) {
  return object.getInteger(name).value_or(0);
}
/// The line of a fact's "place".
inline int64_t lineOf(const llvm::json::Object &object) {
  const llvm::json::Object *place = object.getObject("place");
  return place ? numberOf(*place, "line") : 0;
}
/// The text of a fact's "type".
inline std::string typeOf(const llvm::json::Object &object) {
  const llvm::json::Object *type = object.getObject("type");
  return type ? textOf(*type, "text") : "";
}

} // namespace nereid::cli

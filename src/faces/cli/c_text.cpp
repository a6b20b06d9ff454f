#include "faces/cli/c_text.h"

#include "llvm/ADT/STLExtras.h"

namespace nereid::cli {

std::string cName(const std::string &name) {
  static constexpr llvm::StringRef keywords[] = {
      "alignas",       "alignof",     "and_eq",     "asm",       "auto",      "bitand",
      "bitor",         "bool",        "case",       "catch",     "char",      "char16_t",
      "char32_t",      "char8_t",     "co_await",   "co_return", "co_yield",  "compl",
      "concept",       "const",       "const_cast", "consteval", "constexpr", "constinit",
      "decltype",      "default",     "delete",     "do",        "double",    "dynamic_cast",
      "enum",          "explicit",    "export",     "extern",    "false",     "float",
      "friend",        "goto",        "inline",     "int",       "long",      "mutable",
      "namespace",     "new",         "noexcept",   "not_eq",    "nullptr",   "operator",
      "or_eq",         "private",     "protected",  "public",    "register",  "reinterpret_cast",
      "requires",      "restrict",    "short",      "signed",    "sizeof",    "static",
      "static_assert", "static_cast", "struct",     "switch",    "template",  "this",
      "thread_local",  "throw",       "true",       "typedef",   "typeid",    "typename",
      "typeof",        "union",       "unsigned",   "using",     "virtual",   "void",
      "volatile",      "wchar_t",     "xor",        "xor_eq"};
  return llvm::is_contained(keywords, name) ? name + "_" : name;
}

std::string elementType(llvm::StringRef element, bool isCpp) {
  if (element == "fp32")
    return "float";
  if (element == "fp64")
    return "double";
  if (element == "u1" || element == "i1")
    return isCpp ? "bool" : "uint8_t";
  if (element == "fp16")
    return isCpp ? "nereid::half" : "uint16_t";
  if (element == "bf16")
    return isCpp ? "nereid::bfloat16" : "uint16_t";
  if (element == "fp8e4nv")
    return isCpp ? "nereid::float8e4m3" : "uint8_t";
  if (element == "fp8e5")
    return isCpp ? "nereid::float8e5m2" : "uint8_t";
  if (element.starts_with("fp8"))
    return "uint8_t";
  return (element.starts_with("u") ? "uint" : "int") + element.drop_front().str() + "_t";
}

} // namespace nereid::cli

#include "syntax/dump.h"

#include <bit>
#include <cstdio>

namespace nereid::syntax {

namespace {

std::string_view astName(const Node &node) {
  if (auto *stmt = dynCast<UnsupportedStmt>(&node))
    return stmt->astName;
  if (auto *expr = dynCast<UnsupportedExpr>(&node))
    return expr->astName;
  if (auto *part = dynCast<UnsupportedPart>(&node))
    return part->astName;
  return kindName(node.kind);
}

class TextDumper {
public:
  std::string out;

  void dump(const Node &node) {
    out += astName(node);
    out += '(';
    bool first = true;
    visit(node, [&](const auto &self) {
      self.visitFields([&](const char *name, const auto &value) {
        if (empty(value))
          return;
        out += first ? "" : ", ";
        first = false;
        out += name;
        out += '=';
        print(value);
      });
    });
    out += ')';
  }

private:
  template <typename T> static bool empty(const T &value) {
    if constexpr (std::is_pointer_v<T>)
      return !value;
    else if constexpr (requires { value.empty(); })
      return value.empty();
    else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, char> ||
                       std::is_same_v<T, uint32_t>)
      return !value;
    else
      return false;
  }

  template <typename T> void print(const T &value) {
    if constexpr (std::is_pointer_v<T>) {
      if (value)
        dump(*value);
      else
        out += "None";
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      quote(value);
    } else if constexpr (std::is_same_v<T, Constant>) {
      printConstant(value);
    } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, uint32_t>) {
      out += std::to_string(unsigned(value));
    } else if constexpr (std::is_same_v<T, char>) {
      quote(std::string_view(&value, 1));
    } else if constexpr (std::is_enum_v<T>) {
      out += opName(value);
    } else {
      out += '[';
      bool first = true;
      for (const auto &element : value) {
        out += first ? "" : ", ";
        first = false;
        print(element);
      }
      out += ']';
    }
  }

  void quote(std::string_view text) {
    out += '\'';
    for (char c : text) {
      if (c == '\'' || c == '\\') {
        out += '\\';
        out += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char code[8];
        std::snprintf(code, sizeof code, "\\x%02x", unsigned(c));
        out += code;
      } else {
        out += c;
      }
    }
    out += '\'';
  }

  void printConstant(const Constant &constant) {
    char number[40];
    switch (constant.constantKind) {
    case ConstantKind::None:
      out += "None";
      break;
    case ConstantKind::True:
      out += "True";
      break;
    case ConstantKind::False:
      out += "False";
      break;
    case ConstantKind::Ellipsis:
      out += "Ellipsis";
      break;
    case ConstantKind::Int:
      if (auto value = constant.asUint64()) {
        out += std::to_string(*value);
        break;
      }
      out += "0x";
      for (size_t i = constant.words.size(); i-- > 0;) {
        bool top = i + 1 == constant.words.size();
        std::snprintf(number, sizeof number, top ? "%llx" : "%016llx",
                      static_cast<unsigned long long>(constant.words[i]));
        out += number;
      }
      break;
    case ConstantKind::Float:
    case ConstantKind::Imaginary:
      std::snprintf(number, sizeof number, "%.17g", constant.number);
      out += number;
      if (constant.constantKind == ConstantKind::Imaginary)
        out += 'j';
      break;
    case ConstantKind::Bytes:
      out += 'b';
      [[fallthrough]];
    case ConstantKind::Str:
      quote(constant.text);
      break;
    }
  }
};

/// A literal's exact value: "i:" and hexadecimal digits, "f:" or "j:" and the bits of the double,
/// "s:" or "b:" and the bytes in hexadecimal, "?" for text with a character only named.
std::string exactValue(const Constant &constant) {
  std::string out;
  char digits[24];
  auto bits = [&](uint64_t word, bool padded) {
    std::snprintf(digits, sizeof digits, padded ? "%016llx" : "%llx",
                  static_cast<unsigned long long>(word));
    out += digits;
  };
  switch (constant.constantKind) {
  case ConstantKind::Int:
    out = "i:";
    for (size_t i = constant.words.size(); i-- > 0;)
      bits(constant.words[i], i + 1 != constant.words.size());
    return out;
  case ConstantKind::Float:
  case ConstantKind::Imaginary:
    out = constant.constantKind == ConstantKind::Float ? "f:" : "j:";
    bits(std::bit_cast<uint64_t>(constant.number), true);
    return out;
  case ConstantKind::Str:
  case ConstantKind::Bytes:
    if (constant.hasNamedCharacter)
      return "?";
    out = constant.isStr() ? "s:" : "b:";
    for (unsigned char c : constant.text) {
      out += "0123456789abcdef"[c >> 4];
      out += "0123456789abcdef"[c & 15];
    }
    return out;
  case ConstantKind::None:
    return "None";
  case ConstantKind::True:
    return "True";
  case ConstantKind::False:
    return "False";
  case ConstantKind::Ellipsis:
    return "Ellipsis";
  }
  return out;
}

void dumpRange(const Node &node, std::string &out) {
  bool positioned = !isa<Arguments>(node) && !isa<WithItem>(node) && !isa<Comprehension>(node);
  if (auto *part = dynCast<UnsupportedPart>(&node))
    positioned = part->astName != "match_case";
  if (positioned) {
    out += "[\"";
    out += astName(node);
    out += "\", " + std::to_string(node.range.begin) + ", " + std::to_string(node.range.end);
    if (auto *constant = dynCast<Constant>(&node))
      out += ", \"" + exactValue(*constant) + "\"";
    out += "]\n";
  }
  forEachChild(node, [&](const Node &child) { dumpRange(child, out); });
}

} // namespace

std::string dumpText(const Node &node) {
  TextDumper dumper;
  dumper.dump(node);
  return std::move(dumper.out);
}

std::string dumpRanges(const Module &module) {
  std::string out;
  for (const Stmt *statement : module.body())
    dumpRange(*statement, out);
  return out;
}

} // namespace nereid::syntax

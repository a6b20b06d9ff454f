// Formatted strings (`f"{x:03d}"`) of known values, and Python's format specifications.
#include "frontend/interpreter.h"
#include "frontend/known.h"

#include "llvm/ADT/SmallString.h"

#include <cmath>
#include <cstdio>

namespace nereid::frontend {

using namespace nereid::syntax;
using llvm::failure;

/// A known value by a format specification: alignment, sign, `#`, width, `,`, precision and the
/// types d x b o e f g % s.
static std::optional<std::string> formatKnown(const Value &value, llvm::StringRef spec) {
  if (spec.empty())
    return strOfKnown(value);
  char fill = ' ', align = 0;
  if (spec.size() > 1 && llvm::StringRef("<>^").contains(spec[1])) {
    fill = spec[0];
    align = spec[1];
    spec = spec.drop_front(2);
  } else if (llvm::StringRef("<>^").contains(spec[0])) {
    align = spec[0];
    spec = spec.drop_front();
  }
  bool plus = spec.consume_front("+");
  bool prefixed = spec.consume_front("#");
  if (spec.consume_front("0") && !align) {
    fill = '0';
    align = '=';
  }
  unsigned width = 0, precision = 6;
  spec.consumeInteger(10, width);
  bool grouped = spec.consume_front(",");
  bool hasPrecision = spec.consume_front(".");
  if (hasPrecision && spec.consumeInteger(10, precision))
    return std::nullopt;
  char type = spec.empty() ? 0 : spec.back();
  if (spec.size() > 1 || width > 1000 || precision > 1000)
    return std::nullopt;
  std::string text;
  bool number = value.isNumber();
  if (value.is<llvm::APSInt>() &&
      (type == 0 || type == 'd' || type == 'x' || type == 'X' || type == 'b' || type == 'o')) {
    unsigned radix = type == 'x' || type == 'X' ? 16 : type == 'b' ? 2 : type == 'o' ? 8 : 10;
    llvm::SmallString<32> digits;
    value.get<llvm::APSInt>().toString(digits, radix);
    text = type == 'x' ? digits.str().lower() : digits.str().str();
    if (prefixed && radix != 10)
      text.insert(text[0] == '-' ? 1 : 0, std::string("0") + type);
    if (grouped)
      for (int at = int(text.size()) - 3, sign = text[0] == '-'; at > sign; at -= 3)
        text.insert(size_t(at), ",");
  } else if (grouped || prefixed) {
    return std::nullopt;
  } else if (number && (type == 'f' || type == 'e' || type == 'g' || type == '%')) {
    double real = value.is<double>() ? value.get<double>()
                  : value.is<bool>() ? double(value.get<bool>())
                                     : toDouble(value.get<llvm::APSInt>());
    const char *format = type == 'e' ? "%.*e" : type == 'g' ? "%.*g" : "%.*f";
    char buffer[2048];
    real = std::isnan(real) ? std::fabs(real) : type == '%' ? real * 100 : real; // no `-nan`
    snprintf(buffer, sizeof buffer, format, int(precision), real);
    text = type == '%' ? std::string(buffer) + "%" : buffer;
  } else if ((type == 0 || type == 's') && !plus) {
    text = strOfKnown(value);
    if (hasPrecision && !value.is<std::string>())
      return std::nullopt;
    if (hasPrecision)
      text = text.substr(0, precision);
  } else {
    return std::nullopt;
  }
  if (plus && text[0] != '-')
    text.insert(text.begin(), '+');
  if (text.size() >= width)
    return text;
  size_t missing = width - text.size();
  if (!align)
    align = number ? '>' : '<';
  if (align == '<')
    return text + std::string(missing, fill);
  if (align == '^')
    return std::string(missing / 2, fill) + text + std::string(missing - missing / 2, fill);
  size_t sign = align == '=' && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return text.insert(sign, std::string(missing, fill));
}

FailureOr<Value> Interpreter::visitJoinedStr(const JoinedStr &node) {
  std::string text;
  for (const Expr *part : node.values) {
    auto *field = dynCast<FormattedValue>(part);
    if (!field) {
      auto value = visit(*part);
      if (failed(value))
        return failure();
      text += strOfKnown(*value);
      continue;
    }
    auto value = visit(*field->value);
    if (failed(value))
      return failure();
    if (const Value *known = knownOrNull(*value))
      value = Value(*known);
    std::string spec;
    if (field->formatSpec) {
      auto visited = visit(*field->formatSpec);
      if (failed(visited))
        return failure();
      spec = strOfKnown(*visited);
    }
    if (field->conversion == 'r' || field->conversion == 'a')
      value = Value(value->repr());
    else if (field->conversion == 's')
      value = Value(strOfKnown(*value));
    if (failed(spendOver(*value, spanOf(*field))))
      return failure();
    auto formatted = formatKnown(*value, spec);
    if (!formatted)
      return error(diag::FormatSpecification, spanOf(*field), spec, value->kindName());
    text += *formatted;
    if (text.size() > maxValueBytes)
      return error(diag::ValueTooLarge, {}, "string", int64_t(maxValueBytes));
  }
  return Value(std::move(text));
}

} // namespace nereid::frontend

#include "faces/cli/arguments.h"

#include "faces/cli/formula.h"
#include "faces/cli/signature.h"
#include "support/text.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APInt.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numbers>

namespace nereid::cli {
namespace {

struct ElementRow {
  std::string_view name;
  nrd_dtype dtype;
  unsigned bits;
  const llvm::fltSemantics &(*semantics)(); ///< null: an integer
};

const ElementRow elements[] = {
    {"fp32", NRD_FP32, 32, llvm::APFloat::IEEEsingle},
    {"fp16", NRD_FP16, 16, llvm::APFloat::IEEEhalf},
    {"bf16", NRD_BF16, 16, llvm::APFloat::BFloat},
    {"fp64", NRD_FP64, 64, llvm::APFloat::IEEEdouble},
    {"fp8e4nv", NRD_FP8E4NV, 8, llvm::APFloat::Float8E4M3FN},
    {"fp8e5", NRD_FP8E5, 8, llvm::APFloat::Float8E5M2},
    {"i1", NRD_INT1, 8, nullptr},
    {"i8", NRD_INT8, 8, nullptr},
    {"i16", NRD_INT16, 16, nullptr},
    {"i32", NRD_INT32, 32, nullptr},
    {"i64", NRD_INT64, 64, nullptr},
    {"u8", NRD_UINT8, 8, nullptr},
    {"u16", NRD_UINT16, 16, nullptr},
    {"u32", NRD_UINT32, 32, nullptr},
    {"u64", NRD_UINT64, 64, nullptr},
};

const ElementRow *elementOf(std::string_view name) {
  auto *row = std::ranges::find(elements, name, &ElementRow::name);
  return row == std::end(elements) ? nullptr : row;
}

/// Fillings repeat a table of 65,536 numbers.
constexpr size_t kTable = 1 << 16;

/// A sequence of numbers that look random and are always the same.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double uniform(uint64_t seed) {
  return double(mixed(seed) >> 11) * 0x1p-53;
}

double sample(std::string_view filling, uint64_t i) {
  if (filling == "rand")
    return uniform(i);
  // Box and Muller's pair of a uniform radius and angle.
  double radius = std::sqrt(-2 * std::log(1 - uniform(2 * i)));
  return radius * std::cos(2 * std::numbers::pi * uniform(2 * i + 1));
}

/// The bytes of a number in an element type.
uint64_t encoded(double value, const ElementRow &element) {
  if (!element.semantics)
    return uint64_t(int64_t(value));
  llvm::APFloat number(value);
  bool lost = false;
  number.convert(element.semantics(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return number.bitcastToAPInt().getZExtValue();
}

void fill(void *memory, const TensorSpec &spec, uint64_t seed) {
  const ElementRow &element = *elementOf(spec.element);
  size_t size = element.bits / 8, count = size_t(spec.count());
  auto *bytes = static_cast<char *>(memory);
  auto write = [&](size_t i, uint64_t bits) { std::memcpy(bytes + i * size, &bits, size); };
  if (spec.filling == "zeros" || spec.filling == "empty") {
    std::memset(memory, 0, count * size);
  } else if (spec.filling == "ones") {
    uint64_t one = encoded(1, element);
    for (size_t i = 0; i < count; ++i)
      write(i, one);
  } else if (spec.filling == "arange") {
    for (size_t i = 0; i < count; ++i)
      write(i, encoded(double(i), element));
  } else if (spec.filling == "randint") {
    for (size_t i = 0; i < count; ++i) {
      uint64_t number = mixed(seed * 1000003 + i) % uint64_t(std::max<int64_t>(spec.below, 1));
      write(i, element.semantics ? encoded(double(number), element) : number);
    }
  } else {
    std::vector<uint64_t> table(std::min(kTable, count));
    for (size_t i = 0; i < table.size(); ++i)
      table[i] = encoded(sample(spec.filling, seed * kTable + i), element);
    for (size_t i = 0; i < count; ++i)
      write(i, i < table.size() ? table[i] : table[mixed(seed + i) % table.size()]);
  }
}

/// Splits at colons outside of brackets.
std::vector<std::string> splitAtColons(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '(' || c == '<') - (c == ')' || c == '>');
    if (c == ':' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// "4096x4096", "(M)x(2*N)", "(M, 2*N)", "M,N": sizes, each a number, a name or a formula in
/// brackets.
std::vector<std::string> splitSizes(std::string_view text) {
  // The brackets of a tuple: those around everything with a comma between them.
  int open = 0;
  bool isWhole = text.starts_with('(') && text.ends_with(')');
  for (size_t i = 0; i < text.size() && isWhole; ++i) {
    open += (text[i] == '(') - (text[i] == ')');
    isWhole = open > 0 || i + 1 == text.size();
  }
  std::string_view inner = isWhole ? text.substr(1, text.size() - 2) : text;
  std::vector<std::string> items = splitSignature(std::string(inner));
  if (items.size() > 1 && items.back().empty()) // (M,) as in Python
    items.pop_back();
  if (items.size() > 1 || inner.ends_with(','))
    return items;
  std::vector<std::string> parts(1);
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    depth += (c == '(') - (c == ')');
    // An x between sizes, not one inside a name.
    bool between = (c == 'x' || c == 'X' || c == '*') && depth == 0 && i > 0 &&
                   (text[i - 1] == ')' || llvm::isDigit(text[i - 1])) && i + 1 < text.size() &&
                   (text[i + 1] == '(' || llvm::isDigit(text[i + 1]));
    if (between)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

constexpr std::string_view fillings[] = {"randn",  "rand",  "zeros",  "ones",
                                         "arange", "empty", "randint"};

class Reader {
public:
  Reader(ArgumentList &list, DiagnosticEngine &diagnostics)
      : list(list), diagnostics(diagnostics) {}

  /// Everything but formulas and tensors, whose sizes may be formulas: false for those.
  bool plain(ArgumentValue &value) {
    const std::string &text = value.text;
    using Kind = ArgumentValue::Kind;
    llvm::StringRef digits = text;
    bool isNegative = digits.consume_front("-");
    if (!isNegative)
      digits.consume_front("+");
    bool hasBase = digits.size() > 1 && digits[0] == '0' && llvm::isAlpha(digits[1]);
    llvm::APInt magnitude;
    if (!digits.empty() && llvm::isDigit(digits[0]) &&
        !digits.getAsInteger(hasBase ? 0 : 10, magnitude)) {
      magnitude = magnitude.zext(magnitude.getBitWidth() + 65);
      if (isNegative)
        magnitude.negate();
      if (!magnitude.isSignedIntN(64))
        diagnostics.report(diag::NumberTooLarge, {}, text);
      value.kind = Kind::Integer;
      value.integer = magnitude.trunc(64).getSExtValue();
      return true;
    }
    if (text == "True" || text == "False" || text == "true" || text == "false") {
      value.kind = Kind::Bool;
      value.integer = text[0] == 'T' || text[0] == 't';
      return true;
    }
    if (text == "None") {
      value.kind = Kind::None;
      return true;
    }
    char *end = nullptr;
    double number = std::strtod(text.c_str(), &end);
    if (!text.empty() && !*end && (llvm::isDigit(text[0]) || strchr("+-.", text[0]))) {
      value.kind = Kind::Float;
      value.number = number;
      return true;
    }
    return false;
  }

  void rest(size_t index) {
    ArgumentValue &value = list.values[index];
    using Kind = ArgumentValue::Kind;
    if (value.kind != Kind::Missing || value.text.empty())
      return;
    std::vector<std::string> parts = splitAtColons(value.text);
    if (parts.size() >= 2 && !list.constant[index])
      return tensor(value, parts, list.names[index]);
    std::string text = value.text;
    if (text.size() >= 2 && (text[0] == '\'' || text[0] == '"') && text.back() == text[0])
      text = text.substr(1, text.size() - 2);
    else if (auto formula = asFormula(text)) {
      value.kind = Kind::Integer;
      value.integer = *formula;
      return;
    }
    value.kind = Kind::Text;
    value.text = text;
    if (!list.constant[index])
      diagnostics.report(diag::CliBadArgument, {}, list.names[index], text);
  }

private:
  /// The value of a formula whose names are all known; a lone name that is none is a text.
  std::optional<int64_t> asFormula(const std::string &text) {
    DiagnosticEngine quiet;
    auto formula = parseFormula(text, quiet);
    if (!formula)
      return std::nullopt;
    return evaluateFormula(
        *formula, text, [&](std::string_view name) { return list.integerOf(name); }, quiet);
  }

  void tensor(ArgumentValue &value, const std::vector<std::string> &parts,
              const std::string &name) {
    TensorSpec spec;
    std::string filling = parts[0];
    if (size_t bracket = filling.find('('); bracket != std::string::npos) {
      if (auto below = asFormula(filling.substr(bracket)))
        spec.below = *below;
      filling.resize(bracket);
    }
    spec.filling = filling;
    std::vector<std::string_view> known(std::begin(fillings), std::end(fillings));
    if (std::ranges::find(known, filling) == known.end()) {
      std::string_view near = nearestName(filling, known);
      diagnostics.report(diag::CliUnknownFilling, {}, filling, name,
                         near.empty() ? "`randn`, `rand`, `zeros`, `ones`, `arange`, `empty` or "
                                        "`randint(N)`"
                                      : "`" + std::string(near) + "`");
      return;
    }
    for (const std::string &size : splitSizes(parts[1])) {
      auto number = asFormula(size);
      if (!number || *number < 0 || *number > int64_t(1) << 40) {
        diagnostics.report(diag::CliBadSize, {}, size, name);
        return;
      }
      spec.sizes.push_back(*number);
    }
    spec.element = parts.size() > 2 ? parts[2] : "fp32";
    const ElementRow *element = elementOf(spec.element);
    if (!element || parts.size() > 3) {
      std::string names;
      for (const ElementRow &row : elements)
        names += (names.empty() ? "`" : ", `") + std::string(row.name) + "`";
      diagnostics.report(diag::CliUnknownElement, {}, parts.back(), name, names);
      return;
    }
    if (!element->semantics && (filling == "randn" || filling == "rand")) {
      diagnostics.report(diag::CliFillingOfFloats, {}, filling, name, spec.element);
      return;
    }
    if (filling == "randint" && spec.below <= 0)
      spec.below = 128;
    spec.dtype = element->dtype;
    spec.bits = element->bits;
    value.kind = ArgumentValue::Kind::Tensor;
    value.tensor = std::move(spec);
  }

  ArgumentList &list;
  DiagnosticEngine &diagnostics;
};

} // namespace

std::optional<int64_t> ArgumentList::integerOf(std::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name && (values[i].kind == ArgumentValue::Kind::Integer ||
                             values[i].kind == ArgumentValue::Kind::Bool))
      return values[i].integer;
  return std::nullopt;
}

bool ArgumentList::complete() const {
  return std::ranges::none_of(values, [](const ArgumentValue &value) {
    return value.kind == ArgumentValue::Kind::Missing;
  });
}

ArgumentList readArguments(nrd_function *function, const std::vector<std::string> &texts,
                           DiagnosticEngine &diagnostics) {
  ArgumentList list;
  for (size_t i = 0; i < nrd_function_param_count(function); ++i) {
    list.names.emplace_back(nrd_function_param_name(function, i));
    list.constant.push_back(nrd_function_param_is_constexpr(function, i));
    list.values.emplace_back();
  }
  for (const std::string &text : texts) {
    size_t equals = text.find('=');
    if (equals == std::string::npos) {
      diagnostics.report(diag::CliMissingValue, {}, "--arg", "NAME=VALUE");
      continue;
    }
    std::string name = text.substr(0, equals);
    auto at = std::ranges::find(list.names, name);
    if (at == list.names.end()) {
      std::vector<std::string_view> known(list.names.begin(), list.names.end());
      std::string_view near = nearestName(name, known);
      if (near.empty())
        diagnostics.report(diag::UnknownKeyword, {}, nrd_function_name(function), name);
      else
        diagnostics.report(diag::UnknownKeywordNear, {}, nrd_function_name(function), name, near);
      continue;
    }
    list.values[at - list.names.begin()].text = text.substr(equals + 1);
  }
  Reader reader(list, diagnostics);
  for (ArgumentValue &value : list.values)
    reader.plain(value);
  // Formulas may use one another's values, in any order.
  DiagnosticEngine quiet;
  Reader earlier(list, quiet);
  for (size_t round = 0; round < list.names.size(); ++round)
    for (size_t i = 0; i < list.names.size(); ++i) {
      ArgumentValue before = list.values[i];
      earlier.rest(i);
      if (list.values[i].kind != ArgumentValue::Kind::Integer)
        list.values[i] = before;
    }
  for (size_t i = 0; i < list.names.size(); ++i)
    reader.rest(i);
  return list;
}

std::vector<std::string> signatureOf(nrd_function *function, const ArgumentList &list,
                                     DiagnosticEngine &diagnostics) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < list.names.size(); ++i) {
    const ArgumentValue &value = list.values[i];
    auto integerText = [&] {
      std::string type = value.integer == int32_t(value.integer) ? "i32" : "i64";
      if (list.constant[i])
        return std::to_string(value.integer);
      return type + (value.integer == 1 ? ":1" : value.integer % 16 == 0 ? ":16" : "");
    };
    switch (value.kind) {
    case ArgumentValue::Kind::Missing:
      // Values left out at the end are the function's defaults.
      if (!nrd_function_param_has_default(function, i))
        diagnostics.report(diag::LaunchMissingArgument, {}, nrd_function_name(function),
                           list.names[i]);
      break;
    case ArgumentValue::Kind::Integer:
      texts.push_back(integerText());
      break;
    case ArgumentValue::Kind::Float:
      texts.push_back(list.constant[i] ? value.text : "fp32");
      break;
    case ArgumentValue::Kind::Bool:
      texts.push_back(list.constant[i] ? (value.integer ? "True" : "False") : "u1");
      break;
    case ArgumentValue::Kind::None:
      texts.push_back("None");
      break;
    case ArgumentValue::Kind::Text:
      texts.push_back("'" + value.text + "'");
      break;
    case ArgumentValue::Kind::Tensor:
      texts.push_back("*" + value.tensor.element + ":16");
      break;
    }
  }
  return texts;
}

std::optional<std::array<uint32_t, 3>> readGrid(const std::string &text, const ArgumentList &list,
                                                DiagnosticEngine &diagnostics) {
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::vector<std::string> parts = splitSignature(text);
  if (parts.empty() || parts.size() > 3) {
    diagnostics.report(diag::CliBadFormula, {}, text);
    return std::nullopt;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    auto formula = parseFormula(parts[i], diagnostics);
    auto number =
        formula ? evaluateFormula(
                      *formula, parts[i],
                      [&](std::string_view name) { return list.integerOf(name); }, diagnostics)
                : std::nullopt;
    if (!number)
      return std::nullopt;
    if (*number < 0 || *number > INT32_MAX) {
      diagnostics.report(diag::BadGrid, {}, int64_t(i), *number);
      return std::nullopt;
    }
    grid[i] = uint32_t(*number);
  }
  return grid;
}

int LaunchMemory::allocate(const ArgumentList &all) {
  for (size_t i = 0; i < all.names.size(); ++i) {
    const ArgumentValue &value = all.values[i];
    nrd_arg arg{};
    switch (value.kind) {
    case ArgumentValue::Kind::Missing:
      continue;
    case ArgumentValue::Kind::Integer:
      arg.kind = NRD_ARG_INT;
      arg.i = value.integer;
      break;
    case ArgumentValue::Kind::Bool:
      arg.kind = NRD_ARG_BOOL;
      arg.i = value.integer;
      break;
    case ArgumentValue::Kind::Float:
      arg.kind = NRD_ARG_FLOAT;
      arg.f = value.number;
      break;
    case ArgumentValue::Kind::None:
      arg.kind = NRD_ARG_NONE;
      break;
    case ArgumentValue::Kind::Text:
      constants.emplace_back(nrd_value_str(value.text.data(), value.text.size()));
      arg.kind = NRD_ARG_VALUE;
      arg.v = constants.back().get();
      break;
    case ArgumentValue::Kind::Tensor: {
      int64_t bytes = value.tensor.bytes();
      size_t rounded = (size_t(std::max<int64_t>(bytes, 1)) + 63) / 64 * 64;
      void *host = std::aligned_alloc(64, rounded);
      if (!host) {
        DiagnosticEngine diagnostics;
        diagnostics.report(diag::CliNoMemory, {}, bytes, all.names[i]);
        usageError(diagnostics);
        return 1;
      }
      fill(host, value.tensor, i + 1);
      memory.push_back(host);
      arg.kind = NRD_ARG_POINTER;
      arg.dtype = uint8_t(value.tensor.dtype);
      arg.memory = NRD_MEMORY_HOST;
      arg.p = host;
      arg.low = host;
      arg.high = static_cast<char *>(host) + bytes;
      break;
    }
    }
    list.push_back(arg);
  }
  return 0;
}

LaunchMemory::~LaunchMemory() {
  for (void *block : memory)
    std::free(block);
}

} // namespace nereid::cli

#include "explain/Hints.h"

namespace nereid::explain {
namespace {

struct Row {
  std::string_view name;
  Severity severity;
  std::string_view what, remedy;
};

constexpr Row rows[] = {
#define HINT(Name, Severity_, What, Remedy) {#Name, Severity::Severity_, What, Remedy},
#include "explain/hints.def"
#undef HINT
};

std::string fill(std::string_view text, const std::vector<std::string> &facts) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' && i + 2 < text.size() && text[i + 2] == '}' &&
        size_t(text[i + 1] - '0') < facts.size()) {
      result += facts[text[i + 1] - '0'];
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

} // namespace

Severity Hint::severity() const {
  return rows[size_t(kind)].severity;
}

std::string_view Hint::name() const {
  return rows[size_t(kind)].name;
}

Hint makeHint(HintKind kind, SourcePlace place, const std::vector<std::string> &facts) {
  const Row &row = rows[size_t(kind)];
  return {kind, std::move(place), fill(row.what, facts), fill(row.remedy, facts)};
}

} // namespace nereid::explain

// Advice: what costs a kernel time, where, and what to do about it. The texts are in hints.def.
#pragma once
#include "explain/SourcePlace.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nereid::explain {

enum class HintKind : uint8_t {
#define HINT(Name, Severity, What, Remedy) Name,
#include "explain/hints.def"
#undef HINT
};

enum class Severity : uint8_t { Note, Cost };

struct Hint {
  HintKind kind;
  SourcePlace place;
  std::string what, remedy;

  Severity severity() const;
  std::string_view name() const; ///< "Uncoalesced"
};

/// Fills in the text of a hint.
Hint makeHint(HintKind kind, SourcePlace place, const std::vector<std::string> &facts);

} // namespace nereid::explain

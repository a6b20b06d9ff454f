// A place in a kernel's source, as reports, advice and the errors of code generators name it.
#pragma once
#include <string>

namespace nereid::explain {

/// Lines and columns count from 1; line 0: no place in particular.
struct SourcePlace {
  std::string file;
  unsigned line = 0, column = 0;
  bool operator==(const SourcePlace &) const = default;
};

} // namespace nereid::explain

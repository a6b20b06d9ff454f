#include "support/call_notes.h"

#include <cstdint>
#include <vector>

namespace nereid {

/// Longer chains of calls are cut in the middle.
static constexpr size_t maxCallNotes = 12;

Diagnostic &addCalls(Diagnostic &diagnostic, std::span<const SourceSpan> calls) {
  // One note for calls from one place that follow each other: a function that calls itself.
  struct RepeatedCall {
    SourceSpan call;
    int64_t times;
  };
  std::vector<RepeatedCall> places;
  for (const SourceSpan &call : calls) {
    if (!call)
      continue;
    bool again = !places.empty() && places.back().call.file == call.file &&
                 places.back().call.range == call.range;
    if (again)
      ++places.back().times;
    else
      places.push_back({call, 1});
  }
  int64_t leftOut = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i + 1 >= maxCallNotes && i + 1 < places.size()) {
      leftOut += places[i].times;
      continue;
    }
    if (leftOut)
      diagnostic.note(diag::CallsLeftOut, places[maxCallNotes - 1].call, leftOut);
    if (places[i].times > 1)
      diagnostic.note(diag::CalledRepeatedly, places[i].call, places[i].times);
    else
      diagnostic.note(diag::CalledFromHere, places[i].call);
  }
  return diagnostic;
}

} // namespace nereid

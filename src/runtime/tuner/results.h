// Results of tuning on disk (cache/store.h): for a kernel with its configurations, and the values
// it was tuned for, the times of all configurations and the best.
//
// The caller's key is a text that holds everything it knows to matter: source, configurations,
// values, types. What the library knows is added here: this compiler's build and the settings that
// decide what code comes out, and the machine: of a GPU its name, architecture, size and assembler,
// of a CPU its model, instruction set and number of threads.
#pragma once

#include "runtime/tuner/search.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nereid::runtime {

struct TuningResult {
  std::string kernel; ///< its name, for who looks at the folder
  size_t best = 0;
  /// The seconds it was allowed to take when that was not enough for all configurations; else 0.
  double cutShortAfter = 0;
  /// Of each configuration: infinite for one that failed, nothing for one that was not measured.
  std::vector<std::optional<Timing>> times;
};

/// `device`: a CUDA device's number, -1 for the CPU. `budget`: seconds that tuning could take now,
/// 0 for any number: a result that less time has cut short counts as none. Nothing when results are
/// not kept (NEREID_TUNING_CACHE, NEREID_CACHE).
std::optional<TuningResult> findTuningResult(std::string_view key, int device, size_t configs,
                                             double budget);
void keepTuningResult(std::string_view key, int device, const TuningResult &result);

/// The content of a file; reading gives nothing for what is no such content.
std::string encodeTuningResult(const TuningResult &result);
std::optional<TuningResult> decodeTuningResult(std::string_view content);

/// What a result is only good for: a text.
std::string tuningMachine(int device);

} // namespace nereid::runtime

// Results of tuning on disk (cache/store.h): for a kernel with its configurations, and the values
// it was tuned for, the times of all configurations and the best.
//
// The caller's key is a text that holds everything it knows to matter: source, configurations,
// values, types. The library adds its own part here: this compiler's build and the settings that
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
/// 0 for any number: a result that was cut short by a smaller budget is not used. nullopt when
/// results are not stored (NEREID_TUNING_CACHE, NEREID_CACHE).
std::optional<TuningResult> findTuningResult(std::string_view key, int device, size_t configs,
                                             double budget);
void keepTuningResult(std::string_view key, int device, const TuningResult &result);

/// The content of a file; reading gives nullopt for other content.
std::string encodeTuningResult(const TuningResult &result);
std::optional<TuningResult> decodeTuningResult(std::string_view content);

/// The machine for which a result is valid, as a text.
std::string tuningMachine(int device);

} // namespace nereid::runtime

// Estimates what a launch moves and computes, and a lower bound of its time, from the compiler's
// report on the kernel and the launch's arguments.
#pragma once
#include "explain/PeakRates.h"
#include "faces/cli/arguments.h"

#include "llvm/Support/JSON.h"

#include <array>
#include <map>

namespace nereid::cli {

struct Estimate {
  bool complete = true; ///< every loop's length is known
  /// Bytes that the programs ask for, and those that memory must move at least: each tensor once,
  /// as far as their sizes are known.
  double requested = 0, moved = 0;
  std::map<std::string, double> operations; ///< by arithmetic (explain/PeakRates.h)
  double flops() const;                     ///< without "special"
  /// Seconds: of the memory, of the second-level cache, of each arithmetic; "" for what is unknown.
  std::map<std::string, double> seconds;
  std::string bound; ///< the largest of `seconds`
  double least() const;
};

/// `grid`, `list`: of the launch. Without a machine there are no times. Of a large grid up to 1,024
/// programs are looked at, evenly spread.
Estimate estimate(const llvm::json::Object &report, const ArgumentList &list,
                  const std::array<uint32_t, 3> &grid,
                  const std::optional<explain::PeakRates> &machine);

/// "reads 16384 bytes of `a_ptr` x (K + 63) / 64": the work of one program, a line each.
std::vector<std::string> workLines(const llvm::json::Object &report);

/// The device's figures as a machine, or those of a well-known one of the architecture.
std::optional<explain::PeakRates> peakRatesFor(const llvm::json::Object &report, int device);

} // namespace nereid::cli

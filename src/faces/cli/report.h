// Human-readable reports on a kernel: as text, and as one page of HTML.
#pragma once
#include "faces/cli/estimate.h"

#include "llvm/Support/JSON.h"

#include <optional>
#include <string>
#include <vector>

namespace nereid::cli {

/// One stage of the compilation; `places` has the line of the source for each of its lines, or 0.
struct StageText {
  std::string name, title;
  std::vector<std::string> lines;
  std::vector<unsigned> places;
  std::string missing; ///< why there is no text
};

/// What was measured on a device.
struct Measured {
  std::string device;
  double median = 0, low = 0,
         high = 0; ///< seconds; the middle, a fifth of the runs is outside each
  unsigned runs = 0;
  bool cold = false; ///< caches were emptied before every run
};

struct ReportView {
  llvm::json::Object report; ///< the stage "explain"
  std::vector<StageText> stages;
  std::optional<explain::PeakRates> machine;
  std::optional<Estimate> estimate;
  std::optional<Measured> measured;
  std::string launch; ///< "grid 4096, 1, 1; n = 4096": what estimate and measurement are of
};

std::string reportText(const ReportView &view);
std::string reportPage(const ReportView &view);

/// "512 B", "96 KiB", "227.5 KiB": of memory of the chip.
std::string memoryText(int64_t bytes);
/// "1.25 ms", "3.1 GB", "4.2 TB/s".
std::string timeText(double seconds);
std::string amountText(double amount, std::string_view unit);

} // namespace nereid::cli

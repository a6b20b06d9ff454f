// What a device can do at most: the roof over a kernel's estimated and measured rates.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace nereid::explain {

/// Peak rates of one device. Where there is no device to ask, those of a well-known one of the
/// architecture, which `name` names.
struct PeakRates {
  std::string name;
  int multiprocessors = 0;
  double clock = 0;          ///< Hz, of the multiprocessors
  double bandwidth = 0;      ///< bytes a second, of the memory
  double cacheBandwidth = 0; ///< bytes a second from L2: 64 bytes a cycle and multiprocessor
  int sm = 0;
  /// Of a CPU: operations a second by arithmetic, as measured, and how many threads did that; of a
  /// GPU empty and 0.
  std::map<std::string, double, std::less<>> measured;
  int threads = 0;

  /// Operations a second of an arithmetic: "fp16 product" (also bf16), "fp8 product",
  /// "tf32 product", "int8 product", "fp64 product", "fp32", "fp64", "int32", "special" (exp, log,
  /// sqrt, division). 0 when it is not known.
  double rate(std::string_view arithmetic) const;
};

/// What the driver tells of a device; all 0 where it does not.
struct DeviceFigures {
  std::string name;
  int multiprocessors = 0;
  double clockKhz = 0, memoryClockKhz = 0;
  int busBits = 0;
};

/// Nothing for an architecture that is not known.
std::optional<PeakRates> peakRatesOf(int sm, const DeviceFigures *device = nullptr);

} // namespace nereid::explain

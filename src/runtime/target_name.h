// What a kernel is compiled for, as options and settings name it: "cpu", "cuda" (the GPU it is
// launched on), "cuda:90", and Triton's other spellings "cuda:90:32" and "sm_90".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nereid::runtime {

enum class Backend : uint8_t { Cpu, Cuda };

struct TargetName {
  Backend backend = Backend::Cpu;
  uint16_t arch = 0; ///< 90 for sm_90; 0 for that of the device (and on the CPU)

  static std::optional<TargetName> parse(std::string_view text);
  /// "cpu", "cuda", "cuda:90".
  std::string text() const;
  std::string_view backendText() const { return backend == Backend::Cpu ? "cpu" : "cuda"; }
  /// Equal for equal targets.
  uint16_t code() const { return uint16_t(uint16_t(backend) << 12 | arch); }
  bool operator==(const TargetName &) const = default;
};

} // namespace nereid::runtime

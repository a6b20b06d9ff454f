// Compiles a kernel given as tile IR text and runs it over a grid.
#pragma once
#include "targets/cpu/executor/Executor.h"
#include "targets/generator.h"

#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace nereid::test {

/// One kernel argument in its slot.
struct Slot {
  uint64_t bits = 0;
  template <typename T> Slot(T value) {
    static_assert(sizeof(T) <= 8);
    std::memcpy(&bits, &value, sizeof(T));
  }
};

class TestKernel {
public:
  /// `features` empty: NEREID_CPU_FEATURES or the host's. Ends the test program with a message on
  /// failure.
  explicit TestKernel(const std::string &tileText, const std::string &features = "");
  /// Code for `features`, which have tiles, with functions for their instructions (Tiles.h).
  static TestKernel withEmulatedTiles(const std::string &tileText, const std::string &features);
  cpu::LaunchResult run(std::initializer_list<Slot> args, int gridX = 1, int gridY = 1,
                        int gridZ = 1, cpu::PrintSink print = {}) const;
  const targets::CompiledKernel &compiled() const { return *kernel; }

private:
  TestKernel() = default;
  std::unique_ptr<targets::CompiledKernel> kernel;
};

llvm::Expected<std::unique_ptr<targets::CompiledKernel>>
compileText(const std::string &tileText, const targets::CompileOptions &options);

/// The error text of a compilation that must fail.
std::string compileError(const std::string &tileText, const targets::CompileOptions &options);

} // namespace nereid::test

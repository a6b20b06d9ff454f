#include "runtime/measure/meter.h"

#include <chrono>
#include <cstring>

using namespace nereid::runtime;

namespace {

using Clock = std::chrono::steady_clock;

class Bytes final : public Saved {
public:
  Bytes(const void *array, size_t bytes) : data(new char[bytes]) {
    std::memcpy(data.get(), array, bytes);
  }
  std::unique_ptr<char[]> data;
};

class CpuMeter final : public Meter {
public:
  ErrorPtr begin() override {
    if (cold) {
      // More than the third-level cache of the largest servers a core can fill.
      memory.resize(size_t(256) << 20);
      for (size_t i = 0; i < memory.size(); i += 64)
        ++memory[i];
    }
    start = Clock::now();
    return nullptr;
  }
  ErrorPtr end() override {
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    return nullptr;
  }
  ErrorPtr collect(std::vector<double> &out) override {
    out = std::move(times);
    times.clear();
    return nullptr;
  }
  double resolution() const override { return 0; }
  ErrorPtr zero(void *array, size_t bytes) override {
    std::memset(array, 0, bytes);
    return nullptr;
  }
  ErrorPtr save(const void *array, size_t bytes, std::unique_ptr<Saved> &out) override {
    out = std::make_unique<Bytes>(array, bytes);
    return nullptr;
  }
  ErrorPtr restore(void *array, size_t bytes, const Saved &saved) override {
    std::memcpy(array, static_cast<const Bytes &>(saved).data.get(), bytes);
    return nullptr;
  }

private:
  Clock::time_point start;
  std::vector<double> times;
  std::vector<char> memory;
};

} // namespace

std::unique_ptr<Meter> nereid::runtime::cpuMeter() {
  return std::make_unique<CpuMeter>();
}

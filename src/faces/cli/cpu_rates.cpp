#include "faces/cli/cpu_rates.h"

#include "nereid/nereid.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

namespace json = llvm::json;

namespace nereid::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double shortest = 2e-4; // seconds of one measurement: few are interrupted by other work
constexpr int measurements = 50;

/// The largest rate of `rounds` a second that `run(rounds)` reaches.
double bestRate(const std::function<void(int64_t)> &run) {
  auto seconds = [&](int64_t rounds) {
    auto start = Clock::now();
    run(rounds);
    return std::max(1e-9, std::chrono::duration<double>(Clock::now() - start).count());
  };
  int64_t rounds = 1;
  while (seconds(rounds) < shortest)
    rounds *= 2;
  double best = 0;
  for (int i = 0; i < measurements; ++i)
    best = std::max(best, double(rounds) / seconds(rounds));
  return best;
}

/// As many sums as hide the latency of two multiply-adds a clock, and fit 16 registers.
constexpr int sums = 10;

template <typename Vector>
[[gnu::always_inline]] inline void multiplyAdds(float *memory, int64_t rounds) {
  constexpr size_t lanes = sizeof(Vector) / sizeof(float);
  Vector values[sums], factor, term;
  std::memcpy(values, memory, sizeof values);
  std::memcpy(&factor, memory + sums * lanes, sizeof factor);
  std::memcpy(&term, memory + (sums + 1) * lanes, sizeof term);
  for (int64_t round = 0; round < rounds; ++round)
#pragma GCC unroll 10
    for (int i = 0; i < sums; ++i)
      values[i] = values[i] * factor + term;
  std::memcpy(memory, values, sizeof values);
}

using Vector16 [[gnu::vector_size(16)]] = float;
void multiplyAdds16(float *memory, int64_t rounds) {
  multiplyAdds<Vector16>(memory, rounds);
}
#if defined(__x86_64__)
using Vector32 [[gnu::vector_size(32)]] = float;
using Vector64 [[gnu::vector_size(64)]] = float;
[[gnu::target("avx2,fma")]] void multiplyAdds32(float *memory, int64_t rounds) {
  multiplyAdds<Vector32>(memory, rounds);
}
[[gnu::target("avx512f")]] void multiplyAdds64(float *memory, int64_t rounds) {
  multiplyAdds<Vector64>(memory, rounds);
}
#endif

/// fp32 operations a second of one thread.
double arithmeticRate(unsigned vectorBytes) {
  auto *run = multiplyAdds16;
#if defined(__x86_64__)
  if (vectorBytes == 64)
    run = multiplyAdds64;
  else if (vectorBytes == 32)
    run = multiplyAdds32;
#endif
  size_t lanes = vectorBytes / sizeof(float);
  std::vector<float> memory((sums + 2) * lanes, 0.5f);
  return 2.0 * sums * double(lanes) * bestRate([&](int64_t rounds) { run(memory.data(), rounds); });
}

/// Bytes a second that one thread moves, of arrays of `bytes` in all.
double memoryRate(double bytes) {
  size_t elements = std::max<size_t>(1024, size_t(bytes / 3 / sizeof(float)));
  std::vector<float> a(elements), b(elements, 1), c(elements, 2);
  auto pass = [&](float scale) {
    float *__restrict to = a.data();
    const float *left = b.data(), *right = c.data();
    for (size_t i = 0; i < elements; ++i)
      to[i] = left[i] + scale * right[i];
    asm volatile("" : : "r"(to) : "memory"); // or all passes but one could be left out
  };
  return 3.0 * sizeof(float) * double(elements) * bestRate([&](int64_t passes) {
           while (passes-- > 0)
             pass(float(passes));
         });
}

/// The sum over the threads of what each returns.
double onThreads(int threads, const std::function<double()> &measure) {
  std::vector<double> rates(threads);
  std::barrier together(threads);
  auto work = [&](int i) {
    together.arrive_and_wait();
    rates[i] = measure();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back(work, i);
  work(0);
  for (std::thread &other : others)
    other.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

/// The processor's name, and how many threads launches take.
void describe(explain::PeakRates &machine) {
  machine.threads = 1;
  machine.name = "this CPU";
  char *text = nrd_doctor();
  if (!text)
    return;
  if (auto parsed = json::parse(text)) {
    if (const json::Object *cpu = parsed->getAsObject()->getObject("cpu")) {
      machine.threads = int(std::max<int64_t>(1, cpu->getInteger("threads").value_or(1)));
      machine.name = cpu->getString("name").value_or("CPU").str();
    }
  } else {
    llvm::consumeError(parsed.takeError());
  }
  nrd_string_free(text);
}

} // namespace

explain::PeakRates measuredCpuRates(const json::Object &report, double bytes) {
  explain::PeakRates machine;
  describe(machine);
  machine.name +=
      ", " + std::to_string(machine.threads) + (machine.threads == 1 ? " thread" : " threads");
  bytes = std::clamp(bytes, double(64 << 10), double(256 << 20));
  machine.bandwidth =
      onThreads(machine.threads, [&] { return memoryRate(bytes / machine.threads); });
  const json::Object *used = report.getObject("resources");
  auto width = unsigned(used ? used->getInteger("vector_bytes").value_or(16) : 16);
  double rate = onThreads(machine.threads, [&] { return arithmeticRate(width); });
  int pairs = 1, fours = 1;
  if (const json::Array *products = report.getArray("products"))
    for (const json::Value &product : *products) {
      llvm::StringRef unit = product.getAsObject()->getString("unit").value_or("");
      if (unit.starts_with("vdpbf16ps"))
        pairs = 2;
      if (unit.starts_with("vpdpbusd"))
        fours = 4;
    }
  for (const char *arithmetic : {"fp32", "tf32 product", "fp8 product"})
    machine.measured[arithmetic] = rate;
  for (const char *arithmetic : {"fp64", "fp64 product"})
    machine.measured[arithmetic] = rate / 2;
  machine.measured["fp16 product"] = rate * pairs;
  machine.measured["int8 product"] = rate * fours;
  return machine;
}

} // namespace nereid::cli

#include "runtime/tuner/results.h"

#include "runtime/cache/store.h"
#include "runtime/devices/cpu.h"
#include "runtime/devices/cuda.h"
#include "support/bytes.h"
#include "support/file_identity.h"
#include "support/settings.h"
#include "targets/target.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"

#include <cmath>

using namespace nereid;
using namespace nereid::runtime;

namespace {

constexpr uint32_t version = 1;

/// "AMD EPYC 9654 96-Core Processor", where the system tells.
std::string cpuModel() {
  auto about = llvm::MemoryBuffer::getFileAsStream("/proc/cpuinfo");
  if (!about)
    return "";
  llvm::StringRef text = (*about)->getBuffer();
  for (llvm::StringRef line : llvm::split(text, '\n'))
    if (line.starts_with("model name"))
      return line.split(':').second.trim().str();
  return "";
}

std::string cpuMachine() {
  static const std::string machine = [] {
    std::string text = llvm::sys::getHostCPUName().str() + ";" + cpuModel();
    std::vector<std::string> features;
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      if (feature.second)
        features.push_back(feature.first().str());
    llvm::sort(features);
    for (const std::string &feature : features)
      text += "," + feature;
    return text;
  }();
  return "cpu;" + machine + ";threads=" + std::to_string(cpuThreads());
}

std::string cudaMachine(int device) {
  llvm::json::Object properties;
  if (cuda::properties(device, properties))
    return "";
  std::string text = "cuda";
  for (const char *name :
       {"name", "arch", "multiprocessor_count", "mem_bus_width", "l2_cache_size"})
    if (const llvm::json::Value *value = properties.get(name))
      llvm::raw_string_ostream(text) << ";" << *value;
  if (const targets::Target *target = targets::findTarget("cuda"))
    for (const targets::Tool &tool : target->tools())
      if (tool.name == "assembler")
        text += ";" + tool.found;
  return text;
}

std::optional<cache::Store> store(std::string_view key, int device, cache::Key &out) {
  const Settings &settings = Settings::refresh();
  std::string machine = tuningMachine(device);
  if (!settings.tuningCache || machine.empty())
    return std::nullopt;
  ByteWriter content;
  content.number(version);
  content.text(compilerIdentity());
  content.number(settings.codeIdentity);
  content.text(machine);
  content.text(key);
  out = cache::Key::of(content.bytes());
  return cache::Store::current();
}

} // namespace

std::string runtime::tuningMachine(int device) {
  return device < 0 ? cpuMachine() : cudaMachine(device);
}

std::string runtime::encodeTuningResult(const TuningResult &result) {
  ByteWriter out;
  out.text(result.kernel);
  out.number(uint64_t(result.best));
  out.real(result.cutShortAfter);
  out.list(result.times, [&](const std::optional<Timing> &timing) {
    out.flag(timing.has_value());
    if (!timing)
      return;
    out.real(timing->median);
    out.real(timing->low);
    out.real(timing->high);
  });
  return out.take();
}

std::optional<TuningResult> runtime::decodeTuningResult(std::string_view content) {
  ByteReader in(content);
  TuningResult result;
  result.kernel = in.text();
  result.best = in.number<uint64_t>();
  result.cutShortAfter = in.real();
  in.list([&] {
    std::optional<Timing> &timing = result.times.emplace_back();
    if (!in.flag())
      return;
    timing.emplace();
    timing->median = in.real();
    timing->low = in.real();
    timing->high = in.real();
  });
  if (!in.done() || result.best >= result.times.size() || !result.times[result.best] ||
      !std::isfinite(result.times[result.best]->median))
    return std::nullopt;
  return result;
}

std::optional<TuningResult> runtime::findTuningResult(std::string_view key, int device,
                                                      size_t configs, double budget) {
  cache::Key place;
  std::optional<cache::Store> kept = store(key, device, place);
  std::optional<std::string> content =
      kept ? kept->read(place, cache::EntryKind::Tuning) : std::nullopt;
  std::optional<TuningResult> result = content ? decodeTuningResult(*content) : std::nullopt;
  if (!result || result->times.size() != configs)
    return std::nullopt;
  if (result->cutShortAfter > 0 && (budget <= 0 || budget > result->cutShortAfter))
    return std::nullopt;
  return result;
}

void runtime::keepTuningResult(std::string_view key, int device, const TuningResult &result) {
  cache::Key place;
  if (std::optional<cache::Store> kept = store(key, device, place))
    kept->writeLater(place, cache::EntryKind::Tuning, encodeTuningResult(result));
}

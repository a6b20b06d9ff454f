#include "faces/cli/estimate.h"

#include "explain/Expression.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

namespace json = llvm::json;

namespace nereid::cli {
namespace {

using explain::Expression;

struct Loop {
  int parent = -1;
  Expression lower, step, trips;
};

std::vector<Loop> loopsOf(const json::Object &report) {
  std::vector<Loop> loops;
  if (const json::Array *all = report.getArray("loops"))
    for (const json::Value &value : *all) {
      const json::Object &object = *value.getAsObject();
      auto part = [&](llvm::StringRef name) {
        const json::Value *found = object.get(name);
        return found ? Expression::fromJson(*found) : Expression();
      };
      loops.push_back({int(object.getInteger("parent").value_or(-1)), part("lower"), part("step"),
                       part("trips")});
    }
  return loops;
}

/// One program of a launch: how often each loop's body runs, counted with the loops around it.
class Program {
public:
  Program(const std::vector<Loop> &loops, const ArgumentList &list,
          const std::array<uint32_t, 3> &grid, const std::array<uint32_t, 3> &id)
      : loops(loops), list(list), grid(grid), id(id), trips(loops.size()), seen(loops.size()) {}

  std::optional<double> times(int loop) {
    double product = 1;
    for (; loop >= 0; loop = loops[loop].parent) {
      auto own = tripsOf(loop);
      if (!own)
        return std::nullopt;
      product *= double(*own);
    }
    return product;
  }

private:
  std::optional<int64_t> tripsOf(int loop) {
    if (!seen[loop]) {
      seen[loop] = true;
      trips[loop] = value(loops[loop].trips);
      if (trips[loop])
        trips[loop] = std::max<int64_t>(*trips[loop], 0);
    }
    return trips[loop];
  }
  std::optional<int64_t> value(const Expression &expression) {
    return expression.evaluate([&](const Expression &leaf) -> std::optional<int64_t> {
      switch (leaf.op) {
      case Expression::Op::Argument:
        return list.integerOf(leaf.name);
      case Expression::Op::Program:
        return id[leaf.value];
      case Expression::Op::Programs:
        return grid[leaf.value];
      case Expression::Op::Loop: {
        // The middle of its way.
        const Loop &loop = loops[leaf.value];
        auto count = tripsOf(int(leaf.value)), lower = value(loop.lower), step = value(loop.step);
        if (!count || !lower || !step)
          return std::nullopt;
        return *lower + *step * std::max<int64_t>(*count - 1, 0) / 2;
      }
      default:
        return std::nullopt;
      }
    });
  }

  const std::vector<Loop> &loops;
  const ArgumentList &list;
  const std::array<uint32_t, 3> &grid, id;
  std::vector<std::optional<int64_t>> trips;
  std::vector<bool> seen;
};

bool isBytes(llvm::StringRef what) {
  return what == "read" || what == "write" || what == "atomic";
}

} // namespace

double Estimate::flops() const {
  double sum = 0;
  for (const auto &[name, amount] : operations)
    if (name != "special")
      sum += amount;
  return sum;
}

double Estimate::least() const {
  auto found = seconds.find(bound);
  return found == seconds.end() ? 0 : found->second;
}

Estimate estimate(const json::Object &report, const ArgumentList &list,
                  const std::array<uint32_t, 3> &grid,
                  const std::optional<explain::PeakRates> &machine) {
  Estimate result;
  std::vector<Loop> loops = loopsOf(report);
  uint64_t programs = uint64_t(grid[0]) * grid[1] * grid[2];
  uint64_t looked = std::min<uint64_t>(programs, 1024);
  const json::Array *work = report.getArray("work");
  std::map<std::pair<std::string, bool>, double> byTensor; ///< bytes; true: written
  for (uint64_t i = 0; work && i < looked; ++i) {
    uint64_t flat = programs / looked * i + programs % looked * i / looked;
    Program program(loops, list, grid,
                    {uint32_t(flat % grid[0]), uint32_t(flat / grid[0] % grid[1]),
                     uint32_t(flat / grid[0] / grid[1])});
    double share = double(programs) / double(looked);
    for (const json::Value &value : *work) {
      const json::Object &item = *value.getAsObject();
      auto times = program.times(int(item.getInteger("loop").value_or(-1)));
      if (!times) {
        result.complete = false;
        times = 1;
      }
      double amount = double(item.getInteger("amount").value_or(0)) * *times * share;
      llvm::StringRef what = item.getString("what").value_or("");
      if (!isBytes(what)) {
        result.operations[what.str()] += amount;
        continue;
      }
      std::string name = item.getString("parameter").value_or("").str();
      byTensor[{name, what != "read"}] += amount;
      if (what == "atomic")
        byTensor[{name, false}] += amount;
    }
  }
  for (const auto &[key, bytes] : byTensor) {
    result.requested += bytes;
    double least = bytes;
    for (size_t i = 0; i < list.names.size(); ++i)
      if (list.names[i] == key.first && list.values[i].kind == ArgumentValue::Kind::Tensor)
        least = std::min(least, double(list.values[i].tensor.bytes()));
    result.moved += least;
  }
  if (machine) {
    result.seconds["memory"] = result.moved / machine->bandwidth;
    if (machine->cacheBandwidth > 0)
      result.seconds["L2 cache"] = result.requested / machine->cacheBandwidth;
    for (const auto &[name, amount] : result.operations)
      if (double rate = machine->rate(name); rate > 0)
        result.seconds[name] = amount / rate;
    for (const auto &[name, time] : result.seconds)
      if (result.bound.empty() || time > result.seconds[result.bound])
        result.bound = name;
  }
  return result;
}

std::vector<std::string> workLines(const json::Object &report) {
  std::vector<Loop> loops = loopsOf(report);
  // The same work on one line is one line here.
  std::vector<std::pair<std::string, double>> sums;
  std::vector<std::string> lines;
  if (const json::Array *work = report.getArray("work"))
    for (const json::Value &value : *work) {
      const json::Object &item = *value.getAsObject();
      llvm::StringRef what = item.getString("what").value_or("");
      std::string name = item.getString("parameter").value_or("").str(), times;
      for (int loop = int(item.getInteger("loop").value_or(-1)); loop >= 0;
           loop = loops[loop].parent) {
        std::string count = loops[loop].trips.text();
        bool simple = count.find(' ') == std::string::npos;
        times += " x " + (simple ? count : "(" + count + ")");
      }
      std::string left = isBytes(what)
                             ? (what == "read"    ? "reads "
                                : what == "write" ? "writes "
                                                  : "updates ") +
                                   (name.empty() ? "memory" : "`" + name + "`") + ": {} bytes"
                             : what.str() + ": {} operations";
      double amount = double(item.getInteger("amount").value_or(0));
      std::string key = left + "\n" + times;
      auto known = llvm::find_if(sums, [&](auto &sum) { return sum.first == key; });
      if (known == sums.end())
        sums.push_back({key, amount});
      else
        known->second += amount;
    }
  for (auto &[key, amount] : sums) {
    auto [left, times] = llvm::StringRef(key).split('\n');
    auto [before, after] = left.split("{}");
    lines.push_back(llvm::formatv("{0}{1:F0}{2}{3}", before, amount, after, times).str());
  }
  return lines;
}

std::optional<explain::PeakRates> peakRatesFor(const json::Object &report, int device) {
  int sm = int(report.getInteger("sm").value_or(0));
  if (!sm)
    return std::nullopt;
  explain::DeviceFigures figures;
  char *text = nullptr;
  if (device >= 0) {
    if (nrd_error *error = nrd_cuda_device_properties(device, &text)) {
      nrd_error_free(error);
      text = nullptr;
    }
  }
  if (text) {
    if (auto parsed = json::parse(text)) {
      const json::Object &object = *parsed->getAsObject();
      auto number = [&](llvm::StringRef name) { return object.getNumber(name).value_or(0); };
      if (int(number("arch")) == sm) {
        figures.name = object.getString("name").value_or("GPU").str();
        figures.multiprocessors = int(number("multiprocessor_count"));
        figures.clockKhz = number("sm_clock_rate");
        figures.memoryClockKhz = number("mem_clock_rate");
        figures.busBits = int(number("mem_bus_width"));
      }
    } else {
      llvm::consumeError(parsed.takeError());
    }
    nrd_string_free(text);
  }
  return explain::peakRatesOf(sm, figures.multiprocessors ? &figures : nullptr);
}

} // namespace nereid::cli

#include "runtime/tuner/tuner.h"

#include "runtime/c_api.h"
#include "runtime/devices/arguments.h"
#include "runtime/devices/cuda.h"
#include "runtime/measure/meter.h"
#include "support/settings.h"
#include "support/text.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <unistd.h>

using namespace nereid;
using namespace nereid::runtime;

namespace {

/// Seconds after which a terminal shows where a tuning stands, and from then on how often.
constexpr double quietFor = 2, showEvery = 0.1;

/// Measurements of several tuners would disturb one another.
PerProcess<std::mutex> measuring;

bool isCuda(const TargetName &target) {
  return target.backend == Backend::Cuda;
}

std::string listed(llvm::ArrayRef<std::string> names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "`" : ", `") + name + "`";
  return text.empty() ? "none" : text;
}

} // namespace

/// One launch: an argument for each parameter of the function, and where it goes to.
struct Tuner::Launch {
  llvm::SmallVector<nrd_arg, 32> args;
  nrd_launch how;
  TargetName target;
  int device = -1; ///< a GPU's number
};

//===--- configurations
//----------------------------------------------------------------------------===//

ErrorPtr Tuner::add(llvm::ArrayRef<const char *> names, llvm::ArrayRef<const nrd_value *> values) {
  Config config;
  config.values.resize(function->rules.size());
  for (auto [name, value] : llvm::zip(names, values)) {
    config.text +=
        (config.text.empty() ? "" : ", ") + std::string(name) + "=" + nrd_value_get_text(value);
    std::shared_ptr<nrd_value> own(nrd_value_copy(value), nrd_value_free);
    config.given.emplace_back(name, own);
    auto rule = llvm::find_if(function->rules, [&](const ParamRule &r) { return r.name == name; });
    if (rule == function->rules.end()) {
      if (ErrorPtr error = config.options.values.set(name, *value)) {
        // No option is called alike: perhaps a parameter is.
        std::vector<std::string_view> parameters;
        for (const ParamRule &known : function->rules)
          parameters.push_back(known.name);
        std::string_view near = nearestName(name, parameters);
        if (near.empty() || error->name != "UnknownOption")
          return error;
        return makeError(NRD_ERROR_ARGUMENT, "KeyError", diag::UnknownOptionNear,
                         std::string_view(name), near);
      }
      continue;
    }
    config.values[size_t(rule - function->rules.begin())] = std::move(own);
  }
  auto namesOf = [&](const Config &of) {
    std::vector<std::string> set;
    for (auto [rule, value] : llvm::zip(function->rules, of.values))
      if (value)
        set.push_back(rule.name);
    return set;
  };
  if (!configs.empty() && namesOf(configs.front()) != namesOf(config))
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::TunerConfigsDiffer, function->name,
                     listed(namesOf(configs.front())), listed(namesOf(config)));
  configs.push_back(std::move(config));
  last.store(configs.size(), std::memory_order_relaxed);
  return nullptr;
}

ErrorPtr Tuner::parameters(llvm::ArrayRef<const char *> names, std::vector<size_t> &out) const {
  out.clear();
  for (llvm::StringRef name : names) {
    auto rule = llvm::find_if(function->rules, [&](const ParamRule &r) { return r.name == name; });
    if (rule == function->rules.end())
      return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::TunerNoSuchParameter, function->name,
                       std::string_view(name));
    out.push_back(size_t(rule - function->rules.begin()));
  }
  return nullptr;
}

const nrd_value *Tuner::value(size_t config, std::string_view name) const {
  for (const auto &[known, value] : configs[config].given)
    if (known == name)
      return value.get();
  return nullptr;
}

//===--- one launch
//--------------------------------------------------------------------------------===//

ErrorPtr Tuner::arrange(llvm::ArrayRef<nrd_arg> args, Launch &launch) const {
  size_t given = args.size();
  launch.args.resize(function->rules.size());
  for (size_t i = 0; i < launch.args.size(); ++i) {
    if (configs.front().values[i])
      continue;
    if (args.empty())
      return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchMissingArgument, function->name,
                       function->rules[i].name);
    launch.args[i] = args.consume_front();
  }
  if (!args.empty())
    return makeError(NRD_ERROR_ARGUMENT, "TypeError", diag::LaunchTooManyArguments, function->name,
                     int64_t(given - args.size()), int64_t(given));
  fill(0, launch);
  llvm::SmallVector<nrd_arg, 0> storage;
  llvm::ArrayRef<nrd_arg> leaves = flatten(launch.args, storage);
  if (ErrorPtr error = chooseTarget(&configs.front().options.values, leaves, &launch.how,
                                    launch.target, launch.device))
    return error;
  if (isCuda(launch.target) && launch.device < 0)
    return cuda::deviceOfLaunch(leaves, &launch.how, launch.device);
  return nullptr;
}

void Tuner::fill(size_t config, Launch &launch) const {
  for (auto [arg, value] : llvm::zip(launch.args, configs[config].values))
    if (value) {
      arg = {};
      arg.kind = NRD_ARG_VALUE;
      arg.v = value.get();
    }
}

ErrorPtr Tuner::fillGrid(size_t config, GridFn grid, Launch &launch) const {
  fill(config, launch);
  if (grid(config, launch.how.grid))
    return nullptr;
  return makeError(NRD_ERROR_ARGUMENT, "RuntimeError", diag::TunerGridFailed, function->name);
}

void Tuner::keyOf(const Launch &launch, llvm::SmallVectorImpl<char> &key) const {
  auto add = [&](const void *bytes, size_t size) {
    auto *begin = static_cast<const char *>(bytes);
    key.append(begin, begin + size);
  };
  uint16_t code = launch.target.code();
  add(&code, sizeof code);
  add(&launch.device, sizeof launch.device);
  for (const nrd_arg &arg : launch.args) {
    uint8_t type[] = {arg.kind, arg.kind == NRD_ARG_POINTER ? arg.dtype : uint8_t(0)};
    add(type, sizeof type);
  }
  for (size_t parameter : keys) {
    const nrd_arg &arg = launch.args[parameter];
    switch (arg.kind) {
    case NRD_ARG_VALUE: {
      uint64_t size = arg.v->key.size();
      add(&size, sizeof size);
      add(arg.v->key.data(), size);
      break;
    }
    case NRD_ARG_DESCRIPTOR:
      add(arg.descriptor, sizeof *arg.descriptor);
      break;
    case NRD_ARG_INT:
    case NRD_ARG_UINT:
    case NRD_ARG_BOOL:
    case NRD_ARG_FLOAT:
      add(&arg.u, sizeof arg.u);
      break;
    default: // of a pointer its type is all that matters
      break;
    }
  }
}

ErrorPtr Tuner::launch(llvm::ArrayRef<nrd_arg> args, GridFn grid, const nrd_launch &how) {
  if (configs.empty())
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::TunerNoConfigs, function->name);
  Launch launch;
  launch.how = how;
  size_t config = 0;
  if (ErrorPtr error = arrange(args, launch))
    return error;
  if (ErrorPtr error = choose(launch, grid, config))
    return error;
  last.store(config, std::memory_order_relaxed);
  if (ErrorPtr error = fillGrid(config, grid, launch))
    return error;
  nrd_function handle{function};
  return taken(nrd_dispatch(&handle, launch.args.data(), launch.args.size(),
                            &configs[config].options, &launch.how, nullptr));
}

//===--- which configuration
//-----------------------------------------------------------------------===//

ErrorPtr Tuner::choose(Launch &launch, GridFn grid, size_t &config) {
  if (configs.size() == 1)
    return nullptr;
  llvm::SmallString<192> key;
  keyOf(launch, key);
  Threads &ours = threads.get();
  auto known = [&] {
    std::shared_lock lock(ours.chosen);
    auto found = chosen.find(key);
    if (found == chosen.end())
      return false;
    config = found->second;
    return true;
  };
  if (known()) [[likely]]
    return nullptr;
  {
    std::unique_lock lock(ours.mutex);
    ours.tuned.wait(lock, [&] { return !llvm::is_contained(ours.beingTuned, key.str()); });
    if (known())
      return nullptr;
    ours.beingTuned.push_back(key.str().str());
  }
  ErrorPtr error = tune(launch, key, grid, config);
  if (!error) {
    Working working; // a fork now would leave half of it in the child
    std::unique_lock lock(ours.chosen);
    chosen[key] = config;
  }
  {
    std::lock_guard lock(ours.mutex);
    llvm::erase(ours.beingTuned, key.str());
  }
  ours.tuned.notify_all();
  return error;
}

std::string Tuner::diskKey(llvm::StringRef key) const {
  if (function->host || function->tile)
    return "";
  // The file stands alone: what the function calls and reads is in it.
  std::string text = "C " + function->name + "\n";
  text += function->function.module().source().text();
  for (const Config &config : configs)
    text += "\n" + config.text;
  for (size_t parameter : keys)
    text += "\n" + function->rules[parameter].name;
  // Without the device's number; what it is stands in the key of the file.
  return text + "\n" + key.substr(sizeof(uint16_t) + sizeof(int)).str();
}

/// All configurations on threads, in their order.
struct Tuner::Compilations {
  Compilations(Tuner &tuner, const Launch &launch, size_t threads)
      : tuner(tuner), launch(launch), states(tuner.configs.size()), errors(states.size()) {
    threads = std::min(threads, states.size());
    for (size_t i = 0; i < threads; ++i)
      workers.emplace_back([this] { work(); });
  }
  ~Compilations() {
    next.store(states.size());
    for (std::thread &worker : workers)
      worker.join();
  }

  void work() {
    Launch mine = launch;
    nrd_function handle{tuner.function};
    for (size_t i; (i = next.fetch_add(1)) < states.size();) {
      tuner.fill(i, mine);
      ErrorPtr error = taken(nrd_dispatch(&handle, mine.args.data(), mine.args.size(),
                                          &tuner.configs[i].options, nullptr, nullptr));
      std::lock_guard lock(mutex);
      states[i] = error ? Failed : Ready;
      errors[i] = std::move(error);
      ++done;
      changed.notify_all();
    }
  }

  /// Tells the search what is new. `all`: only when everything is compiled, or half of the budget
  /// is gone.
  void collect(Search &search, std::vector<ErrorPtr> &failures, bool all) {
    std::lock_guard lock(mutex);
    if (all && done < states.size()) {
      if (search.remaining() > search.elapsed())
        return;
      next.store(states.size());
    }
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i] == Ready || (all && states[i] == Waiting))
        search.ready(i);
      if (states[i] == Failed) {
        search.fail(i);
        failures[i] = std::move(errors[i]);
      }
      if (states[i] != Waiting)
        states[i] = Told;
    }
  }

  void wait() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::milliseconds(100));
  }

  enum State : uint8_t { Waiting, Ready, Failed, Told };
  Tuner &tuner;
  const Launch launch;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<size_t> next = 0;
  std::vector<State> states;
  std::vector<ErrorPtr> errors;
  size_t done = 0;
  std::vector<std::thread> workers;
};

ErrorPtr Tuner::tune(Launch &launch, llvm::StringRef key, GridFn grid, size_t &config) {
  const Settings &settings = Settings::refresh();
  double seconds = budget > 0 ? budget : double(settings.tuningBudget);
  std::string text = diskKey(key);
  if (!text.empty())
    if (auto found = findTuningResult(text, launch.device, configs.size(), seconds)) {
      config = found->best;
      Working working;
      std::lock_guard lock(threads.get().mutex);
      lastReport = {std::move(found->times), std::vector<std::string>(configs.size()), config, 0};
      return nullptr;
    }

  bool gpu = isCuda(launch.target);
  std::unique_ptr<Meter> meter = gpu ? nullptr : cpuMeter();
  if (gpu) {
    launch.how.device = uint8_t(launch.device + 1);
    launch.how.stream = cuda::streamOfLaunch(launch.how, launch.device);
    launch.how.with_stream = 1;
    if (ErrorPtr error = cudaMeter(launch.device, launch.how.stream, meter))
      return error;
    meter->setCold(true);
  }

  Search::Plan plan;
  plan.count = configs.size();
  plan.wakes = gpu;
  if (seconds > 0)
    plan.budget = seconds;
  Search search(std::move(plan));
  std::vector<ErrorPtr> failures(configs.size());
  bool shown = false;
  double nextShow = quietFor;
  {
    size_t threads = nrd_tuning_threads();
    Compilations compilations(*this, launch, gpu ? std::max<size_t>(threads - 1, 1) : threads);
    while (true) {
      compilations.collect(search, failures, /*all=*/!gpu);
      Search::Task task = search.next();
      if (search.elapsed() > nextShow && isatty(STDERR_FILENO)) {
        llvm::errs() << "\r" << search.progress(function->name) << "\x1b[K";
        shown = true;
        nextShow = search.elapsed() + showEvery;
      }
      if (task.step == Search::Step::Done)
        break;
      if (task.step == Search::Step::Wait) {
        compilations.wait();
        continue;
      }
      std::lock_guard alone(measuring.get());
      std::vector<double> times;
      ErrorPtr error = run(launch, grid, *meter, task.config, task.runs, times);
      if (!error) {
        search.report(task.config, times.data(), times.size());
        continue;
      }
      bool excused = error->kind == NRD_ERROR_RESOURCES || error->kind == NRD_ERROR_COMPILE ||
                     error->kind == NRD_ERROR_STATIC_ASSERT ||
                     error->kind == NRD_ERROR_UNSUPPORTED || error->kind == NRD_ERROR_INTERNAL;
      if (!excused) {
        if (shown)
          llvm::errs() << "\r\x1b[K";
        return error;
      }
      search.fail(task.config);
      failures[task.config] = std::move(error);
    }
  }
  if (shown)
    llvm::errs() << "\r\x1b[K";

  Report report;
  for (size_t i = 0; i < configs.size(); ++i) {
    report.times.push_back(search.timing(i));
    report.failures.push_back(failures[i] ? failures[i]->summary : "");
  }
  std::optional<size_t> best = search.best();
  if (!best) {
    ErrorPtr first = std::move(failures.front());
    first->message += "\nnone of the configurations works:";
    for (size_t i = 0; i < configs.size(); ++i)
      first->message += "\n  " + configs[i].text + ": " + report.failures[i];
    return first;
  }
  config = report.best = *best;
  if (ErrorPtr error = zeroResets(launch, *meter)) // for the launch that counts
    return error;
  report.seconds = search.elapsed();
  if (!text.empty())
    keepTuningResult(text, launch.device,
                     {function->name, config, search.cutShort() ? seconds : 0, report.times});
  {
    Working working;
    std::lock_guard lock(threads.get().mutex);
    lastReport = std::move(report);
  }
  if (settings.printAutotuning)
    llvm::errs() << reportText();
  return nullptr;
}

//===--- measuring
//---------------------------------------------------------------------------------===//

ErrorPtr Tuner::bytesOf(const Launch &launch, size_t parameter, size_t &bytes) const {
  const nrd_arg &arg = launch.args[parameter];
  bytes = 0;
  if (arg.kind == NRD_ARG_NONE)
    return nullptr; // an optional array that was left out
  if (arg.kind != NRD_ARG_POINTER || !arg.low)
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::TunerNeedsSize,
                     function->rules[parameter].name, kindText(arg));
  bytes = size_t(static_cast<const char *>(arg.high) - static_cast<const char *>(arg.low));
  return nullptr;
}

ErrorPtr Tuner::zeroResets(const Launch &launch, Meter &meter) const {
  size_t bytes = 0;
  for (size_t parameter : resets) {
    if (ErrorPtr error = bytesOf(launch, parameter, bytes))
      return error;
    if (bytes == 0)
      continue;
    if (ErrorPtr error = meter.zero(const_cast<void *>(launch.args[parameter].low), bytes))
      return error;
  }
  return nullptr;
}

ErrorPtr Tuner::run(Launch &launch, GridFn grid, Meter &meter, size_t config, unsigned runs,
                    std::vector<double> &times) {
  if (ErrorPtr error = fillGrid(config, grid, launch))
    return error;
  nrd_function handle{function};
  size_t bytes = 0;
  for (unsigned number = 0; number < runs; ++number) {
    if (ErrorPtr error = zeroResets(launch, meter))
      return error;
    std::vector<std::unique_ptr<Saved>> saved(restores.size());
    for (auto [parameter, copy] : llvm::zip(restores, saved)) {
      if (ErrorPtr error = bytesOf(launch, parameter, bytes))
        return error;
      if (bytes == 0)
        continue;
      if (ErrorPtr error = meter.save(launch.args[parameter].low, bytes, copy))
        return error;
    }
    ErrorPtr error = meter.begin();
    if (!error)
      error = taken(nrd_dispatch(&handle, launch.args.data(), launch.args.size(),
                                 &configs[config].options, &launch.how, nullptr));
    ErrorPtr stop = meter.end();
    for (auto [parameter, copy] : llvm::zip(restores, saved)) {
      ErrorPtr problem = bytesOf(launch, parameter, bytes);
      if (!problem && copy)
        problem = meter.restore(const_cast<void *>(launch.args[parameter].low), bytes, *copy);
      if (!stop)
        stop = std::move(problem);
    }
    if (error || stop) {
      std::vector<double> none;
      ErrorPtr drained = meter.collect(none);
      return error ? std::move(error) : std::move(stop);
    }
  }
  return meter.collect(times);
}

//===--- what was found
//----------------------------------------------------------------------------===//

Tuner::Report Tuner::report() const {
  std::lock_guard lock(threads.get().mutex);
  return lastReport;
}

std::string Tuner::reportText() const {
  Report found = report();
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "tuning of " << function->name;
  if (found.times.empty())
    return text + ": nothing was tuned\n";
  if (found.seconds > 0)
    out << llvm::formatv(": {0:F2} s\n", found.seconds);
  else
    out << ": from disk\n";
  for (size_t i = 0; i < found.times.size(); ++i) {
    const std::optional<Timing> &timing = found.times[i];
    std::string result = !timing ? "not measured"
                         : std::isinf(timing->median)
                             ? "failed"
                             : llvm::formatv("{0:F4} ms", timing->median).str();
    out << llvm::formatv("  {0,12}  {1}{2}\n", result, configs[i].text,
                         i == found.best ? "  <- best" : "");
    if (!found.failures[i].empty())
      out << "                " << found.failures[i] << "\n";
  }
  return text;
}

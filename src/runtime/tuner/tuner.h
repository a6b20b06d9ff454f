// A function with several configurations, of which the fastest is found for each key: the object
// behind `nrd_tuner`.
//
// A key is the values of some parameters, the types of all pointers, and the device. A known one
// costs a look-up under a shared lock. An unknown one is tuned by the first thread that asks,
// others wait for it: all configurations are compiled on threads, and measured as `Search` says, on
// a GPU while others are still being compiled. Results are kept on disk (results.h) unless a host
// answers for the function's names, since what those depend on is not known here.
#pragma once

#include "nereid/tuner.h"
#include "runtime/c_api.h"
#include "runtime/fork.h"
#include "runtime/function.h"
#include "runtime/options.h"
#include "runtime/target_choice.h"
#include "runtime/tuner/results.h"

#include "llvm/ADT/StringMap.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

namespace nereid::runtime {

class Meter;

class Tuner {
public:
  explicit Tuner(std::shared_ptr<FunctionRecord> function) : function(std::move(function)) {
    watchForks();
  }

  /// One configuration. A name is a parameter, whose value it sets, or an option.
  ErrorPtr add(llvm::ArrayRef<const char *> names, llvm::ArrayRef<const nrd_value *> values);
  /// Parameters by name.
  ErrorPtr setKey(llvm::ArrayRef<const char *> names) { return parameters(names, keys); }
  ErrorPtr setResets(llvm::ArrayRef<const char *> names) { return parameters(names, resets); }
  ErrorPtr setRestores(llvm::ArrayRef<const char *> names) { return parameters(names, restores); }
  void setBudget(double seconds) { budget = seconds; }

  struct Config {
    /// By parameter of the function, null for one it does not set.
    std::vector<std::shared_ptr<nrd_value>> values;
    nrd_options options;
    std::vector<std::pair<std::string, std::shared_ptr<nrd_value>>> given; ///< all, by name
    std::string text; ///< "BLOCK=128, num_warps=8"
  };
  const std::vector<Config> &configurations() const { return configs; }
  const nrd_value *value(size_t config, std::string_view name) const;

  /// False ends the launch.
  using GridFn = llvm::function_ref<bool(size_t config, uint32_t grid[3])>;
  /// `args`: one for each parameter that no configuration sets.
  ErrorPtr launch(llvm::ArrayRef<nrd_arg> args, GridFn grid, const nrd_launch &how);

  /// Of the last launch; the number of configurations before the first.
  size_t lastChoice() const { return last.load(std::memory_order_relaxed); }

  /// What the last tuning, on any thread, found.
  struct Report {
    std::vector<std::optional<Timing>> times;
    std::vector<std::string> failures; ///< by configuration; empty for one that works
    size_t best = 0;
    double seconds = 0; ///< 0 when it came from the disk
  };
  Report report() const;
  std::string reportText() const;

private:
  struct Launch; ///< one launch: arguments in place, target, device
  struct Compilations;

  ErrorPtr parameters(llvm::ArrayRef<const char *> names, std::vector<size_t> &out) const;
  ErrorPtr arrange(llvm::ArrayRef<nrd_arg> args, Launch &launch) const;
  void fill(size_t config, Launch &launch) const;
  ErrorPtr fillGrid(size_t config, GridFn grid, Launch &launch) const;
  void keyOf(const Launch &launch, llvm::SmallVectorImpl<char> &key) const;
  ErrorPtr bytesOf(const Launch &launch, size_t parameter, size_t &bytes) const;
  ErrorPtr zeroResets(const Launch &launch, Meter &meter) const;
  ErrorPtr choose(Launch &launch, GridFn grid, size_t &config);
  ErrorPtr tune(Launch &launch, llvm::StringRef key, GridFn grid, size_t &config);
  ErrorPtr run(Launch &launch, GridFn grid, Meter &meter, size_t config, unsigned runs,
               std::vector<double> &times);
  std::string diskKey(llvm::StringRef key) const;

  std::shared_ptr<FunctionRecord> function;
  std::vector<Config> configs;
  std::vector<size_t> keys, resets, restores;
  double budget = 0;

  struct Threads {
    std::shared_mutex chosen; ///< of `chosen`
    std::mutex mutex;         ///< of `lastReport` and what follows
    std::condition_variable tuned;
    std::vector<std::string> beingTuned;
  };
  PerProcess<Threads> threads;
  llvm::StringMap<size_t> chosen;
  std::atomic<size_t> last = 0;
  Report lastReport;
};

} // namespace nereid::runtime

struct nrd_tuner {
  nereid::runtime::Tuner tuner;
};

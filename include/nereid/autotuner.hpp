/** @file
 * @brief The fastest of several configurations of a kernel, found by measuring. A header over the C
 * ABI (tuner.h), for C++20.
 *
 * @code
 * nereid::Autotuner tuner(matmul,
 *                         {{{"BLOCK_M", 64}, {"BLOCK_N", 64}, {"num_warps", 4}},
 *                          {{"BLOCK_M", 128}, {"BLOCK_N", 128}, {"num_warps", 8}}},
 *                         {.key = {"M", "N", "K"}});
 * tuner.launch([&](const nereid::Config &c) {
 *                return nereid::Grid{cdiv(m, c["BLOCK_M"]), cdiv(n, c["BLOCK_N"])};
 *              }, a, b, out, m, n, k);
 * @endcode
 * Without exceptions, with errors as values:
 * @code
 * auto tuner = nereid::Autotuner::tryCreate(matmul, choices, {.key = {"M", "N", "K"}});
 * if (!tuner)
 *   return report(tuner.error());
 * if (nereid::Status status = tuner->tryLaunch(grid, a, b, out, m, n, k); !status)
 *   return report(status.error());
 * @endcode
 * A name in a configuration is a parameter of the kernel, whose value it sets, or an option.
 * Launches give the arguments of all other parameters, in order. The first launch of a key (values
 * of some arguments, types of all pointers, the device) measures; results stay on disk, so that the
 * next process does not measure again.
 */
#ifndef NEREID_AUTOTUNER_HPP
#define NEREID_AUTOTUNER_HPP

#include "nereid/nereid.hpp"
#include "nereid/tuner.h"

#include <concepts>
#include <stdexcept>
#include <variant>

namespace nereid {

/// @cond
namespace detail {
[[noreturn]] inline void noSuchValue(const char *name) {
  std::string text = std::string("the configurations set no integer `") + name + "`";
#if defined(__cpp_exceptions)
  throw std::out_of_range(text);
#else
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
#endif
}
} // namespace detail
/// @endcond

/// Owns a nrd_tuner.
using TunerHandle = Handle<nrd_tuner, nrd_tuner_free>;

/// What one configuration sets: `{{"BLOCK", 128}, {"num_warps", 8}}`.
using Choice =
    std::vector<std::pair<std::string, std::variant<int64_t, bool, double, std::string>>>;

/// A configuration of a tuner.
class Config {
public:
  /// Its number.
  size_t number() const { return index; }
  /// An integer that it sets a parameter or an option to, for a grid. Throws std::out_of_range
  /// (aborts where exceptions are switched off) for what it does not set to an integer.
  uint32_t operator[](const char *name) const {
    std::optional<int64_t> value = integer(name);
    if (!value)
      detail::noSuchValue(name);
    return uint32_t(*value);
  }
  /// The same of any size; nothing for what it does not set to an integer.
  std::optional<int64_t> integer(const char *name) const {
    int64_t value = 0;
    const nrd_value *found = nrd_tuner_value(tuner, index, name);
    return found && nrd_value_get_int(found, &value) ? std::optional(value) : std::nullopt;
  }
  /// "BLOCK=128, num_warps=8"
  std::string_view text() const { return nrd_tuner_text(tuner, index); }

  /// The configuration of this number of a tuner, which must outlive it.
  Config(const nrd_tuner *tuner, size_t index) : tuner(tuner), index(index) {}

private:
  const nrd_tuner *tuner;
  size_t index;
};

/// What a tuner may be told beside its configurations.
struct TunerOptions {
  /// Parameters whose values make a new key.
  std::vector<std::string> key = {};
  /// Arrays that are zeroed before each measured run; launches give them as Buffer, View, std::span
  /// or std::vector, which know their size.
  std::vector<std::string> resetToZero = {};
  /// Arrays that are saved before each measured run and restored after it; given in the same way.
  std::vector<std::string> restoreValue = {};
  /// Seconds that one key may take; 0 for the setting NEREID_TUNING_BUDGET.
  double budget = 0;
};

/// A function with several configurations. Set up on one thread, launched from any.
class Autotuner {
public:
  /// Chooses among `choices`; throws when an option or a name of `options` is unknown.
  Autotuner(const Function &function, const std::vector<Choice> &choices,
            const TunerOptions &options = {})
      : Autotuner(tryCreate(function, choices, options).value()) {}
  /// The same, giving the error back.
  static Result<Autotuner> tryCreate(const Function &function, const std::vector<Choice> &choices,
                                     const TunerOptions &options = {}) {
    Autotuner tuner{TunerHandle(nrd_tuner_new(function.get()))};
    for (const Choice &choice : choices)
      if (Status status = tuner.add(choice); !status)
        return status.error();
    for (const auto &[set, names] : {std::pair(&nrd_tuner_set_key, &options.key),
                                     std::pair(&nrd_tuner_set_resets, &options.resetToZero),
                                     std::pair(&nrd_tuner_set_restores, &options.restoreValue)})
      if (Status status = tuner.name(set, *names); !status)
        return status.error();
    nrd_tuner_set_budget(tuner.handle.get(), options.budget);
    return tuner;
  }

  /// `grid`: a Grid, or a function of the configuration that gives one.
  template <typename Sizes, typename... Args>
    requires std::invocable<Sizes &, const Config &> || std::convertible_to<Sizes, Grid>
  void launch(Sizes &&grid, Args &&...args) {
    tryLaunch(std::forward<Sizes>(grid), std::forward<Args>(args)...).value();
  }
  /// The same, giving the error back. What `grid` throws comes out as it is.
  template <typename Sizes, typename... Args>
    requires std::invocable<Sizes &, const Config &> || std::convertible_to<Sizes, Grid>
  Status tryLaunch(Sizes &&grid, Args &&...args) {
    return tryLaunchAs(Launch(Grid{}), std::forward<Sizes>(grid), std::forward<Args>(args)...);
  }
  /// With what else a launch may say (stream, device, threads); its grid is not looked at.
  template <typename Sizes, typename... Args>
    requires std::invocable<Sizes &, const Config &> || std::convertible_to<Sizes, Grid>
  void launchAs(const Launch &how, Sizes &&grid, Args &&...args) {
    tryLaunchAs(how, std::forward<Sizes>(grid), std::forward<Args>(args)...).value();
  }
  /// The same, giving the error back.
  template <typename Sizes, typename... Args>
    requires std::invocable<Sizes &, const Config &> || std::convertible_to<Sizes, Grid>
  Status tryLaunchAs(const Launch &how, Sizes &&grid, Args &&...args) {
    const std::array<Argument, sizeof...(Args)> list{Argument(std::forward<Args>(args))...};
    nrd_launch raw = detail::rawLaunch(how);
    if constexpr (std::invocable<Sizes &, const Config &>) {
      using Function = std::remove_reference_t<Sizes>;
      Asked asked{const_cast<std::remove_const_t<Function> *>(&grid), nullptr};
      nrd_error *error =
          nrd_tuner_launch(handle.get(), list.data(), list.size(), ask<Function>, &asked, &raw);
#if defined(__cpp_exceptions)
      if (asked.thrown) {
        nrd_error_free(error);
        std::rethrow_exception(asked.thrown);
      }
#endif
      return detail::statusOf(error);
    } else {
      Grid fixed = grid;
      raw.grid[0] = fixed.x;
      raw.grid[1] = fixed.y;
      raw.grid[2] = fixed.z;
      return detail::statusOf(
          nrd_tuner_launch(handle.get(), list.data(), list.size(), nullptr, nullptr, &raw));
    }
  }

  /// How many configurations there are.
  size_t size() const { return nrd_tuner_count(handle.get()); }
  /// One of them.
  Config config(size_t number) const { return {handle.get(), number}; }
  /// That of the last launch; nothing before the first.
  std::optional<Config> best() const {
    size_t number = nrd_tuner_best(handle.get());
    return number < size() ? std::optional(config(number)) : std::nullopt;
  }
  /// Milliseconds (median) of a configuration at the last tuning, infinite for one that failed;
  /// nothing for one that was not measured.
  std::optional<double> milliseconds(size_t number) const {
    double times[3];
    return nrd_tuner_timing(handle.get(), number, times) ? std::optional(times[0]) : std::nullopt;
  }
  /// Of the last tuning; 0 when its result came from disk.
  double seconds() const { return nrd_tuner_seconds(handle.get()); }
  /// A line for each configuration: its time, or why it failed.
  std::string report() const {
    char *text = nrd_tuner_report(handle.get());
    std::string copy = text;
    nrd_string_free(text);
    return copy;
  }
  /// As the C functions take it.
  nrd_tuner *get() const { return handle.get(); }

private:
  explicit Autotuner(TunerHandle handle) : handle(std::move(handle)) {}

  Status add(const Choice &choice) {
    std::vector<const char *> names;
    std::vector<ValueHandle> values;
    std::vector<const nrd_value *> pointers;
    for (const auto &[name, value] : choice) {
      names.push_back(name.c_str());
      values.emplace_back(std::visit(
          [](const auto &v) {
            using T = std::decay_t<decltype(v)>;
            if constexpr (std::is_same_v<T, bool>)
              return nrd_value_bool(v);
            else if constexpr (std::is_same_v<T, int64_t>)
              return nrd_value_int(v);
            else if constexpr (std::is_same_v<T, double>)
              return nrd_value_float(v);
            else
              return nrd_value_str(v.data(), v.size());
          },
          value));
      pointers.push_back(values.back().get());
    }
    return detail::statusOf(
        nrd_tuner_add(handle.get(), names.data(), pointers.data(), names.size()));
  }

  Status name(nrd_error *(*set)(nrd_tuner *, const char *const *, size_t),
              const std::vector<std::string> &names) {
    std::vector<const char *> texts;
    for (const std::string &text : names)
      texts.push_back(text.c_str());
    return detail::statusOf(set(handle.get(), texts.data(), texts.size()));
  }

  /// Carries a grid function, and what it throws, through the C ABI.
  struct Asked {
    void *function;
    std::exception_ptr thrown;
  };
  template <typename Sizes>
  static int ask(void *data, const nrd_tuner *tuner, size_t number, uint32_t sizes[3]) {
    Asked &asked = *static_cast<Asked *>(data);
#if defined(__cpp_exceptions)
    try {
#endif
      Grid grid = (*static_cast<Sizes *>(asked.function))(Config(tuner, number));
      sizes[0] = grid.x;
      sizes[1] = grid.y;
      sizes[2] = grid.z;
#if defined(__cpp_exceptions)
    } catch (...) {
      asked.thrown = std::current_exception();
      return 1;
    }
#endif
    return 0;
  }

  TunerHandle handle;
};

} // namespace nereid
#endif

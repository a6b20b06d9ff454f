// Options of launches: keywords that are no parameters of the kernel.
#include "faces/python/errors.h"
#include "faces/python/function.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace nereid::python {

/// The option that a keyword means. One with the prefix always means an option: without it, it may
/// be the name of a parameter.
constexpr std::string_view optionPrefix = "nereid_";
static std::string optionOf(PyObject *key) {
  std::string option = textOf(key);
  return option.starts_with(optionPrefix) ? option.substr(optionPrefix.size()) : option;
}

static bool refusedOption(const std::string &given) {
  static const std::pair<const char *, const char *> texts[] = {
      {"device_type", "device_type option is deprecated; current target will be used"},
      {"device", "device option is deprecated; current device will be used"},
      {"stream", "stream option is deprecated; current stream will be used"}};
  for (auto [option, text] : texts)
    if (given == option) {
      PyErr_SetString(PyExc_AssertionError, text);
      return true;
    }
  return false;
}

/// Keywords of Triton's launches that say what is already so here, or what changes no result.
static bool acceptedOption(const std::string &option) {
  static const char *names[] = {"allowed_dot_input_precisions",
                                "assume_in_bounds",
                                "backend_name",
                                "cluster_dims",
                                "deprecated_fp8_dot_operand_dtypes",
                                "enable_fast_math",
                                "instrumentation_mode",
                                "max_num_imprecise_acc_default",
                                "supported_fp8_dtypes",
                                "ukernels",
                                "vec_lib",
                                "warp_size"};
  return std::any_of(std::begin(names), std::end(names),
                     [&](const char *name) { return option == name; });
}

static bool setOption(OptionSet &set, PyObject *key, PyObject *value) {
  std::string option = optionOf(key);
  if (refusedOption(option))
    return false;
  if (acceptedOption(option))
    return true;
  if (option == "num_threads" || option == "num_cpu_threads") {
    int overflow = 0;
    long threads = PyLong_AsLongAndOverflow(value, &overflow);
    if (threads < 0 || threads > INT32_MAX || overflow) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "%s must be an integer from 0 to 2147483647, found %R",
                     option.c_str(), value);
      return false;
    }
    set.threads = uint32_t(threads);
    return true;
  }
  if (option == "checked") {
    int truth = PyObject_IsTrue(value);
    if (truth < 0)
      return false;
    set.checked = truth ? 2 : 1;
  }
  ValuePtr converted = toArgument(value);
  if (!converted)
    return false;
  nrd_error *error = nrd_options_set(set.options, option.c_str(), converted.get());
  if (!error)
    return true;
  if (std::strcmp(nrd_error_python_class(error), "KeyError") != 0) {
    raise(error);
    return false;
  }
  std::string given = textOf(key);
  std::string text = "Keyword argument " + given + " was specified but unrecognised";
  std::string detail = nrd_error_summary(error);
  nrd_error_free(error);
  size_t near = detail.find("did you mean");
  if (near != std::string::npos) {
    detail = detail.substr(near);
    if (size_t name = detail.find('`'); given != option && name != std::string::npos)
      detail.insert(name + 1, optionPrefix);
    text += ", " + detail;
  }
  PyErr_SetString(PyExc_KeyError, text.c_str());
  return false;
}

/// Whether no option is given twice, with the prefix and without.
static bool isEachOnce(const Keywords &given) {
  for (size_t i = 0; i < given.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (optionOf(given[i].first) == optionOf(given[j].first)) {
        PyErr_Format(PyExc_TypeError, "%U and %U are the same option: give one of them",
                     given[j].first, given[i].first);
        return false;
      }
  return true;
}

/// Whether these are the same names with the same values. Names that were made at run time are
/// other objects each time.
static bool areSame(const OptionSet &set, const Keywords &given) {
  bool same = set.given.size() == given.size();
  for (size_t i = 0; same && i < given.size(); ++i) {
    PyObject *name = set.given[i].first.get(), *value = set.given[i].second.get();
    same = (name == given[i].first || PyUnicode_Compare(name, given[i].first) == 0) &&
           (value == given[i].second ||
            (Py_TYPE(value) == Py_TYPE(given[i].second) &&
             PyObject_RichCompareBool(value, given[i].second, Py_EQ) == 1));
  }
  if (!same)
    PyErr_Clear(); // a comparison may have failed
  return same;
}

OptionSet *Function::optionsFor(const Keywords &given) {
  for (const auto &set : optionSets) {
    if (areSame(*set, given))
      return set.get();
  }
  if (!isEachOnce(given))
    return nullptr;
  auto set = std::make_unique<OptionSet>();
  set->options = nrd_options_new();
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(defaultOptions.get(), &position, &key, &value);)
    if (!setOption(*set, key, value))
      return nullptr;
  for (size_t i = 0; i < given.size(); ++i) {
    auto [option, setting] = given[i];
    if (!setOption(*set, option, setting))
      return nullptr;
    set->given.push_back({Ref::share(option), Ref::share(setting)});
  }
  optionSets.push_back(std::move(set));
  if (given.empty())
    noOptions = optionSets.back().get();
  return optionSets.back().get();
}

} // namespace nereid::python

#include "runtime/options.h"

#include "runtime/fork.h"
#include "runtime/specialise.h"
#include "support/settings.h"
#include "support/text.h"
#include "support/triton_version.h"

#include "llvm/ADT/StringMap.h"

#include <bit>
#include <mutex>

using namespace nereid;
using namespace nereid::runtime;

static constexpr OptionInfo table[] = {
#define OPTION(Field, Type, Name, Default, Help) {Name, #Type, #Default, Help},
#include "runtime/options.def"
#undef OPTION
};

std::span<const OptionInfo> runtime::allOptions() {
  return table;
}

namespace {

ErrorPtr badValue(std::string_view name, const char *expected, const nrd_value &value) {
  return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadOptionValue, name, expected,
                   value.value.repr());
}

ErrorPtr assign(bool &field, std::string_view name, const nrd_value &value) {
  if (auto *flag = value.value.getIf<bool>()) {
    field = *flag;
    return nullptr;
  }
  auto *number = value.value.getIf<llvm::APSInt>();
  if (!number || (*number != 0 && *number != 1))
    return badValue(name, "True or False", value);
  field = *number == 1;
  return nullptr;
}

ErrorPtr assign(int64_t &field, std::string_view name, const nrd_value &value) {
  if (value.value.isNone())
    return nullptr;
  auto *number = value.value.getIf<llvm::APSInt>();
  if (!number || number->isNegative() || number->getActiveBits() > 31)
    return badValue(name, "an integer from 0 to 2147483647", value);
  field = number->getExtValue();
  return nullptr;
}

ErrorPtr assign(std::string &field, std::string_view name, const nrd_value &value) {
  if (value.value.isNone()) {
    field.clear();
    return nullptr;
  }
  if (auto *pairs = value.value.getIf<frontend::Tuple>()) { // ((name, path), ...), a dictionary
    field.clear();
    for (const frontend::Value &item : pairs->items) {
      auto *pair = item.getIf<frontend::Tuple>();
      bool isPair = pair && pair->items.size() == 2 && pair->items[0].is<std::string>() &&
                    pair->items[1].is<std::string>();
      if (!isPair)
        return badValue(name, "a dictionary {name: path}", value);
      field += (field.empty() ? "" : ";") + pair->items[0].get<std::string>() + "=" +
               pair->items[1].get<std::string>();
    }
    return nullptr;
  }
  auto *text = value.value.getIf<std::string>();
  if (!text)
    return badValue(name, "a string", value);
  field = *text;
  return nullptr;
}

void appendValue(std::string &out, bool value) {
  out += value ? '1' : '0';
}
void appendValue(std::string &out, int64_t value) {
  out += std::to_string(value);
}
void appendValue(std::string &out, const std::string &value) {
  out += value;
}

/// A small number for each distinct text.
uint64_t intern(const std::string &text) {
  Working working; // a fork now would leave the lock taken in the child
  static std::mutex mutex;
  static auto *numbers = new llvm::StringMap<uint64_t>();
  std::lock_guard lock(mutex);
  return numbers->try_emplace(text, numbers->size() + 1).first->second;
}

} // namespace

ErrorPtr Options::set(std::string_view name, const nrd_value &value) {
  if (name == "triton_version" && !value.value.isNone() && !value.value.is<std::string>())
    return badValue(name, "a release of Triton such as `3.8`, as a string", value);
  ErrorPtr error;
  bool known = false;
#define OPTION(Field, Type, Name, Default, Help)                                                   \
  if (name == Name) {                                                                              \
    known = true;                                                                                  \
    error = assign(Field, name, value);                                                            \
    Field##Set = true;                                                                             \
  }
#include "runtime/options.def"
#undef OPTION
  if (!known) {
    std::vector<std::string_view> names;
    for (const OptionInfo &option : table)
      names.push_back(option.name);
    std::string_view near = nearestName(name, names);
    return near.empty()
               ? makeError(NRD_ERROR_ARGUMENT, "KeyError", diag::UnknownOption, name)
               : makeError(NRD_ERROR_ARGUMENT, "KeyError", diag::UnknownOptionNear, name, near);
  }
  if (error)
    return error;
  if ((numWarpsSet && !std::has_single_bit(uint64_t(numWarps))) && name == "num_warps")
    return makeError(NRD_ERROR_ARGUMENT, "AssertionError", diag::WarpsNotPowerOfTwo,
                     value.value.repr());
  bool isCluster = numCtas <= 16 && std::has_single_bit(uint64_t(numCtas));
  if (name == "num_ctas" && !isCluster)
    return badValue(name, "1, 2, 4, 8 or 16", value);
  if (name == "triton_version" && !parseTritonVersion(tritonVersion))
    return badValue(name, "a release of Triton such as `3.8`", value);
  if (name == "target" && !TargetName::parse(target))
    return makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::UnknownTarget, target);
  auto identify = [](const std::string &text) { return text.empty() ? 0 : intern(text); };
  identity = identify(text());
  cpuIdentity = identify(text(Backend::Cpu));
  return nullptr;
}

ErrorPtr Options::chosenTarget(std::optional<TargetName> preferred,
                               std::optional<TargetName> &out) const {
  if (preferred && !targetSet) {
    out = preferred;
    return nullptr;
  }
  const std::string &name = targetSet ? target : Settings::current().target;
  if (name.empty())
    return nullptr;
  out = TargetName::parse(name);
  return out ? nullptr : makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::UnknownTarget, name);
}

std::string Options::text(Backend backend) const {
  std::string out;
#define LAUNCH_OPTION(...)
#define GPU_OPTION(Field, Type, Name, Default, Help)                                               \
  if (Field##Set && backend != Backend::Cpu) {                                                     \
    out += Name "=";                                                                               \
    appendValue(out, Field);                                                                       \
    out += ';';                                                                                    \
  }
#define OPTION(Field, Type, Name, Default, Help)                                                   \
  if (Field##Set) {                                                                                \
    out += Name "=";                                                                               \
    appendValue(out, Field);                                                                       \
    out += ';';                                                                                    \
  }
#include "runtime/options.def"
#undef OPTION
  return out;
}

Options Options::resolved() const {
  const Settings &settings = Settings::current();
  Options result = *this;
  if (!debugSet)
    result.debug = settings.debug;
  if (!strictSet)
    result.strict = settings.strict;
  if (!tritonVersionSet)
    result.tritonVersion = settings.tritonVersion;
  if (!checkedSet)
    result.checked = settings.checked;
  if (!featuresSet)
    result.features = settings.cpuFeatures;
  if (!fpFusionSet)
    result.fpFusion = settings.fpFusion;
  if (settings.noFpFusion)
    result.fpFusion = false;
  if (!dotPrecisionSet && !settings.f32Default.empty())
    result.dotPrecision = settings.f32Default;
  if (result.features == "native" || result.features == "host")
    result.features.clear();
  return result;
}

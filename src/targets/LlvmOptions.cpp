#include "targets/LlvmOptions.h"

#include "llvm/Support/CommandLine.h"

#include <cassert>
#include <mutex>

namespace nereid::targets {
namespace {

struct Option {
  const char *name, *value;
};

constexpr Option chosen[] = {
    // Addresses in shared memory of NVIDIA GPUs have 32 bits; the data layout follows it.
    {"nvptx-short-ptr", "true"},
    // CodeGenPrepare looks again only at blocks that it changed, however few blocks there are.
    // Otherwise each change makes it visit everything once more, and products with a hundred
    // registers are dear to visit: a quarter of the time of attention's gradient.
    {"cgpp-huge-func", "0"},
    // A vector of equal floats is one constant, not as many as it has elements: InstCombine looks
    // at the constants of an exponential again and again.
    {"use-constant-fp-for-fixed-length-splat", "true"},
};

} // namespace

void setLlvmOptions() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto &options = llvm::cl::getRegisteredOptions();
    for (const Option &option : chosen) {
      // Those of a target that is not built are missing.
      auto found = options.find(option.name);
      if (found == options.end())
        continue;
      [[maybe_unused]] bool wrong = found->second->addOccurrence(0, option.name, option.value);
      assert(!wrong && "LLVM does not know this value");
    }
  });
}

} // namespace nereid::targets

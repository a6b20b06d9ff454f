// The common properties of launches of one kernel, compared argument by argument: most launches of
// a function are like the one before, which this check confirms in fewer steps than the look-up
// takes
// (key, target, device, hash, table), and the arguments are packed on the way.
//
// A pattern says "this kernel" only where the look-up would, too. It therefore holds all that the
// look-up goes by: of each argument kind, element type, memory and the facts that a key has
// (specialise.h); the options, the settings, the target that the process prefers. There is no
// pattern for launches with arguments that it cannot compare: tuples, descriptors, annotated
// parameters, large memory, checked mode.
//
// A pattern never changes once it is made, and lives as long as its function's dispatcher, which
// says which one is looked at (Dispatcher::latest) and forgets them when its kernels are forgotten.
#pragma once

#include "runtime/devices/arguments.h"
#include "runtime/devices/device.h"
#include "runtime/specialise.h"
#include "runtime/target_choice.h"
#include "support/settings.h"

#include <memory>

namespace nereid::runtime {

class alignas(64) LaunchPattern {
public:
  /// Of a launch that has just been done; null for one that no pattern can be made of.
  static std::unique_ptr<const LaunchPattern> of(nrd_kernel &kernel, llvm::ArrayRef<RuleKind> kinds,
                                                 llvm::ArrayRef<nrd_arg> args,
                                                 const Options *options, const nrd_launch &launch,
                                                 const ReadyKernel *ready);

  /// Whether this launch needs the kernel. `slots` then holds its arguments.
  bool matches(llvm::ArrayRef<nrd_arg> args, const Options *options, const nrd_launch &launch,
               Slots &slots) const;

  nrd_kernel *kernel;
  /// On a GPU: the kernel on the one that all pointers lie on, as far as that is known; else null.
  const ReadyKernel *ready;

private:
  enum class Check : uint8_t {
    Nothing,
    Pointer, ///< whether its address is a multiple of 16; its memory is not large
    Integer, ///< integerFacts
    Bool,
    Float,   ///< passed as fp32
    Bits,    ///< a constant
    Constant ///< a constant with a key
  };
  /// Small, so that those of a launch lie in a line or two of the cache.
  struct Expected {
    uint32_t head = 0; ///< the first 4 bytes of the argument; the next 4 are 0
    Check check = Check::Nothing;
    uint8_t facts = 0;
    bool isPassed = false;
  };

  /// Facts about memory that decide the target; they are queried from the driver at each launch.
  enum class Answer : uint8_t { Device, NotDevice, Pageable };
  struct Asked {
    uint16_t pointer; ///< its argument
    Answer answer;
  };

  struct Constant {
    uint64_t bits;
    std::string key; ///< Check::Constant
  };

  static uint8_t integerFacts(int64_t value) {
    return value == 1 ? 1 : (value == int32_t(value) ? 2 : 4) | ((value & 15) == 0 ? 8 : 0);
  }
  static uint64_t headOf(const nrd_arg &arg) {
    static_assert(offsetof(nrd_arg, i) == 8);
    uint64_t head;
    std::memcpy(&head, &arg, sizeof head);
    return head;
  }
  static bool isLarge(const nrd_arg &arg) {
    return uintptr_t(arg.high) - uintptr_t(arg.low) > uintptr_t(1) << 30;
  }
  static bool matchesRest(const Expected &each, const nrd_arg &arg, uint64_t &slot,
                          const Constant *&constant);
  bool expect(RuleKind rule, const nrd_arg &arg, bool isPassed, targets::ScalarKind kind);
  bool fixTarget(llvm::ArrayRef<nrd_arg> args, const Options *options);
  bool fixGpu(llvm::ArrayRef<nrd_arg> args, bool isDecided);
  bool fixCpu(llvm::ArrayRef<nrd_arg> args, bool isChosen);
  bool isAsAsked(llvm::ArrayRef<nrd_arg> args) const;

  const Settings *settings; ///< compared by address: they never change and are never freed
  uint64_t options;
  int preferred;
  uint8_t checked; ///< as the launch says
  llvm::SmallVector<Asked, 0> asked;
  llvm::SmallVector<Constant, 0> constants; ///< in order
  llvm::SmallVector<Expected, 24> expected;
};

inline bool LaunchPattern::matches(llvm::ArrayRef<nrd_arg> args, const Options *options,
                                   const nrd_launch &launch, Slots &slots) const {
  if (args.size() != expected.size() || settings != &Settings::current() ||
      preferred != preferredCode() || (options ? options->id() : 0) != this->options ||
      launch.checked != checked) [[unlikely]]
    return false;
  slots.resize_for_overwrite(args.size());
  uint64_t *end = slots.data();
  const Constant *constant = constants.data();
  const nrd_arg *arg = args.data();
  for (const Expected &each : expected) {
    if (headOf(*arg) != each.head)
      return false;
    uint64_t bits = *end = arg->u;
    // One after the other: a processor foresees these better than a jump through a table.
    if (each.check == Check::Pointer) {
      if (((bits & 15) == 0) != each.facts || isLarge(*arg))
        return false;
    } else if (each.check == Check::Integer) {
      if (integerFacts(int64_t(bits)) != each.facts)
        return false;
    } else if (!matchesRest(each, *arg, *end, constant)) {
      return false;
    }
    end += each.isPassed;
    ++arg;
  }
  slots.truncate(size_t(end - slots.data()));
  return asked.empty() || isAsAsked(args);
}

} // namespace nereid::runtime

// What runs beside the simulated threads: mbarriers, and the engine that copies boxes of tensors.
//
// A copy to shared memory is over as late as it may be: when nobody else can go on. The bytes that
// it will change are spoilt at once, so that who reads them too early, or still reads what was
// there before, computes nonsense. A copy to global memory is under way until the thread that has
// issued it waits for it, which is over when nobody else can go on: its bytes must not change from
// the one to the other.
#pragma once
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace nereid::test {

/// A tensor map, which kernels have the address of. Innermost dimension first, strides in bytes
/// (the first is the element's size).
struct SimulatedMap {
  unsigned rank = 0, swizzleBytes = 0;
  uint64_t base = 0;
  std::array<int64_t, 5> sizes = {}, strides = {}, box = {};
};

class CopyEngine {
public:
  CopyEngine(std::vector<uint8_t> &shared, uint64_t sharedBase)
      : shared(shared), sharedBase(sharedBase) {}

  /// Is this an instruction of the engine or of mbarriers that a thread does by itself?
  static bool knows(llvm::StringRef text);
  /// Is it a wait for an mbarrier?
  static bool isWait(llvm::StringRef text) { return text.contains("mbarrier.try_wait"); }
  /// Is it a wait for copies to global memory?
  static bool isStoreWait(llvm::StringRef text) {
    return text.starts_with("cp.async.bulk.wait_group");
  }
  /// Does it for a thread; empty, or what is wrong.
  std::string run(unsigned thread, llvm::StringRef text,
                  llvm::function_ref<uint64_t(unsigned)> operand);
  /// Has the phase of that parity completed? `wrong`: not an mbarrier.
  bool completed(uint64_t barrier, uint64_t parity, std::string &wrong) const;
  /// Words on their way from a thread of the cluster to `at`, whose bytes the mbarrier counts;
  /// empty, or what is wrong.
  std::string send(uint64_t at, llvm::ArrayRef<uint64_t> words, uint64_t barrier);
  /// Is anything on its way to shared memory?
  bool isReceiving() const { return !underWay.empty(); }
  /// Ends the oldest copy under way; false: there is none.
  bool finishOne();
  /// Are there copies to global memory that nobody has waited for?
  bool isStoring() const {
    return llvm::any_of(stores, [](auto &each) { return !each.second.pending.empty(); });
  }
  /// Called with the bytes that a copy is going to change, from the start of shared memory on.
  std::function<std::string(uint64_t begin, uint64_t end)> onWrite;

  unsigned copies = 0; ///< boxes copied to shared memory
  unsigned sent = 0;   ///< times that words were sent here

private:
  struct Barrier {
    int64_t count = 0, pending = 0, bytes = 0;
    unsigned phase = 0;
  };
  struct Copy {
    uint64_t barrier = 0;
    std::vector<std::pair<uint64_t, uint8_t>> bytes; ///< place and value
  };
  struct Store {
    const SimulatedMap *map;
    uint64_t at;
    std::vector<int64_t> coords;
    unsigned group;
    std::vector<uint8_t> bytes; ///< as they were when it was issued
    bool adds;                  ///< floats
  };
  /// Of one thread.
  struct Stores {
    unsigned groups = 0; ///< committed
    std::vector<Store> pending;
  };
  /// Ends the thread's stores except those of its `pending` last groups; empty, or what is wrong.
  std::string waitForStores(unsigned thread, unsigned pending);
  std::string arrive(uint64_t barrier, int64_t count, int64_t bytes);
  void settle(Barrier &barrier);
  /// Calls `each(byte of shared memory, address in global memory or 0)` for all bytes of a box.
  void forBox(const SimulatedMap &map, uint64_t at, llvm::ArrayRef<int64_t> coords,
              llvm::function_ref<void(uint64_t, uint64_t)> each) const;

  std::vector<uint8_t> &shared;
  uint64_t sharedBase;
  std::map<uint64_t, Barrier> barriers;
  std::vector<Copy> underWay;
  std::map<unsigned, Stores> stores; ///< by thread
};

} // namespace nereid::test

// What runs beside the simulated threads: mbarriers, and the engine that copies boxes of tensors.
//
// A copy to shared memory is over as late as it may be: when nobody else can go on. The bytes that
// it will change are spoilt at once, so that who reads them too early, or still reads what was
// there before, computes nonsense. A copy to global memory is under way until the thread that has
// issued it waits for it, which is over when nobody else can go on: its bytes must not change from
// the one to the other.
//
// A store that has only been waited for as read (`.read`) has not written global memory yet: it
// does when its thread waits for more, or when the block ends.
#pragma once
#include "MemoryOrder.h"
#include "SimulatedMaps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace nereid::test {

class CopyEngine {
public:
  /// `order`: of the cluster's accesses; null where none need be checked.
  CopyEngine(std::vector<uint8_t> &shared, uint64_t sharedBase, unsigned block = 0,
             MemoryOrder *order = nullptr)
      : shared(shared), sharedBase(sharedBase), block(block), order(order) {}

  /// Is this an instruction of the engine or of mbarriers that a thread does by itself?
  static bool knows(llvm::StringRef text);
  /// Is it a wait for an mbarrier?
  static bool isWait(llvm::StringRef text) { return text.contains("mbarrier.try_wait"); }
  /// Is it a wait for copies to global memory?
  static bool isStoreWait(llvm::StringRef text) {
    return text.starts_with("cp.async.bulk.wait_group");
  }
  /// Does it for a thread (its number in the cluster); empty, or what is wrong.
  std::string run(unsigned thread, llvm::StringRef text,
                  llvm::function_ref<uint64_t(unsigned)> operand);
  /// Has the phase of that parity completed? `wrong`: not an mbarrier.
  bool completed(uint64_t barrier, uint64_t parity, std::string &wrong) const;
  /// The thread has waited for the mbarrier; empty, or what is wrong.
  std::string acquire(unsigned thread, uint64_t barrier);
  /// `fence.mbarrier_init` of a thread.
  void fenceInits(unsigned thread);
  /// Words on their way from a thread of the cluster to `at`, whose bytes the mbarrier counts;
  /// empty, or what is wrong.
  std::string send(uint64_t at, llvm::ArrayRef<uint64_t> words, uint64_t barrier);
  /// Is anything on its way to shared memory?
  bool isReceiving() const { return !underWay.empty(); }
  /// Ends the oldest copy under way; false: there is none. `wrong`: nobody counts its bytes.
  bool finishOne(std::string &wrong);
  /// The end of the block: what stores have read is written.
  void land();
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
    uint32_t agent = 0;      ///< of the copies that it counts; their clock is the phase's end
    MemoryOrder::Mark made;  ///< by whom
    bool initFenced = false; ///< by `fence.mbarrier_init`
    MemoryOrder::Knowledge gathered, released; ///< of the arrivals; of completed phases
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
    std::string reduces;        ///< the operation; empty: none
  };
  /// Of one thread.
  struct Stores {
    unsigned groups = 0;                 ///< committed
    std::vector<Store> pending, landing; ///< not read, or not written
    uint32_t agent = 0;
  };
  /// The thread's stores except those of its `pending` last groups have read their buffers, and,
  /// unless `onlyRead`, have written; empty, or what is wrong.
  std::string waitForStores(unsigned thread, unsigned pending, bool onlyRead);
  std::string startLoad(unsigned thread, const SimulatedMap &map, uint64_t at,
                        llvm::ArrayRef<int64_t> coords, uint64_t barrier, uint64_t size);
  std::string startStore(unsigned thread, const SimulatedMap &map, uint64_t at,
                         llvm::ArrayRef<int64_t> coords, llvm::StringRef reduces, uint64_t size);
  std::string copyTensor(unsigned thread, llvm::StringRef text,
                         llvm::function_ref<uint64_t(unsigned)> operand);
  void land(const Store &store);
  std::string makeBarrier(unsigned thread, uint64_t at, int64_t count);
  std::string endBarrier(unsigned thread, uint64_t at);
  std::string arrive(unsigned thread, uint64_t barrier, int64_t count, int64_t bytes);
  void settle(Barrier &barrier);
  /// Calls `each(byte of shared memory, address in global memory or 0, its number in the element)`
  /// for all bytes of a box.
  void forBox(const SimulatedMap &map, uint64_t at, llvm::ArrayRef<int64_t> coords,
              llvm::function_ref<void(uint64_t, uint64_t, unsigned)> each) const;

  std::vector<uint8_t> &shared;
  uint64_t sharedBase;
  unsigned block;
  MemoryOrder *order;
  std::map<uint64_t, Barrier> barriers;
  std::vector<Copy> underWay;
  std::map<unsigned, Stores> stores; ///< by thread
};

} // namespace nereid::test

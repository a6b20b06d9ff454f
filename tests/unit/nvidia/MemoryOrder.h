// Which accesses of memory happen before which, across the proxies of PTX's memory model.
//
// Threads access memory through the generic proxy. The copy engine (cp.async.bulk) and the matrix
// unit (wgmma) access it through the async proxy, which sees an ordinary write only behind
// `fence.proxy.async`: behind the write, and before the operation, in the order of happening. The
// fence may be the writer's, before the barrier that both come to, or the issuer's, behind it.
//
// Every thread knows what has happened before: up to which clock of every other thread (`seen`),
// and what of that lies before a fence (`fenced`, for all memory `fencedGlobal`). Barriers and
// mbarriers pass this knowledge on. Operations of the async proxy are agents with clocks of their
// own, which are known where they have been waited for; that they have completed is visible through
// every proxy, without a fence. A read that has ended needs none either: a later write of the other
// proxy cannot change its value. Within the generic proxy, accesses are ordered in the same way.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace nereid::test {

class MemoryOrder {
public:
  struct Knowledge {
    std::vector<uint32_t> seen, fenced, fencedGlobal; ///< by agent; what is not there is 0
    void join(const Knowledge &other);
  };
  /// An operation: at which of its clocks whose it was.
  struct Mark {
    uint32_t agent = 0, clock = 0; ///< clock 0: none
    bool async = false;
  };

  /// `threads`: of all blocks; these are the first agents. `bytes`: of shared memory of a block.
  MemoryOrder(unsigned threads, unsigned blocks, size_t bytes);

  /// Operations that run beside the threads; `name`: for messages.
  uint32_t newAgent(std::string name);
  Mark now(unsigned thread) const { return {thread, known[thread].seen[thread], false}; }
  bool sees(unsigned thread, Mark mark) const { return has(known[thread].seen, mark); }
  /// Does the async proxy see what was written, in an operation that the thread issues now?
  bool fences(unsigned thread, Mark mark) const { return has(known[thread].fenced, mark); }

  //===--- synchronisation -----------------------------------------------------------------===//
  /// A barrier of these threads; `arrived`: of others that have not waited for it.
  void meet(llvm::ArrayRef<unsigned> threads, const Knowledge *arrived = nullptr);
  void release(unsigned thread, Knowledge &into);
  void acquire(unsigned thread, const Knowledge &from) { known[thread].join(from); }
  /// `fence.proxy.async`, of shared memory alone or of all memory.
  void fence(unsigned thread, bool global);
  /// The thread has waited for operations of an agent up to this clock.
  void complete(unsigned thread, Mark mark);

  //===--- accesses: empty, or what is wrong -----------------------------------------------===//
  std::string access(unsigned thread, unsigned block, uint64_t at, unsigned bytes, bool write);
  /// `mark`: of the operation, which all these threads issue together.
  std::string accessAsync(llvm::ArrayRef<unsigned> threads, Mark mark, unsigned block,
                          llvm::ArrayRef<std::pair<uint64_t, uint64_t>> ranges, bool write);
  void writeGlobal(unsigned thread, uint64_t at, unsigned bytes);
  /// The async proxy reads or writes bytes of global memory.
  std::string accessGlobalAsync(unsigned thread, uint64_t at, unsigned bytes) const;

private:
  struct Byte {
    Mark write;
    llvm::SmallVector<Mark, 1> reads; ///< since; of a warp the last one
  };
  static bool has(llvm::ArrayRef<uint32_t> clocks, Mark mark) {
    return !mark.clock || (mark.agent < clocks.size() && clocks[mark.agent] >= mark.clock);
  }
  std::string nameOf(uint32_t agent) const;
  std::string problem(Mark self, bool write, uint64_t at, unsigned block, Mark other,
                      bool otherWrote, bool onlyFence) const;
  void note(Byte &byte, Mark mark, bool write) const;

  unsigned threads;
  std::vector<Knowledge> known; ///< by thread
  std::vector<std::string> names;
  std::vector<std::vector<Byte>> shared;     ///< by block
  std::unordered_map<uint64_t, Mark> global; ///< the last ordinary write, by address
};

} // namespace nereid::test

// Runs emitted LLVM IR as a block of GPU threads would, or the blocks of a cluster, without a GPU.
//
// Every thread is interpreted by itself up to the next operation of its warp (shuffle, ldmatrix) or
// of the block (barrier), which is done when all threads concerned have come to the same one: that
// they do is checked. Shared memory is watched: two threads that touch one byte between two
// barriers, one of them writing, are a race, and an error. Bytes of asynchronous copies land as
// late as they may, where they are waited for (cp.async), or when nobody can go on (the copy
// engine, CopyEngine.h). Where nobody can go on at all the threads are in a deadlock, an error.
// Accesses of threads of different blocks are ordered by barriers of the cluster only. A block must
// not reach another one's shared memory before such a barrier, since that block may not have
// started, nor after the last one, since it may have ended.
// Global memory is the host's; of the programs of a grid one runs at a time, so that none may wait
// for a later one.
//
// Kernels that use the async proxy (the copy engine, wgmma) are checked by MemoryOrder.h too, which
// knows fences and what each single barrier orders.
//
// It knows the instructions that Nereid emits. Anything else is an error that names it.
#pragma once
#include "MemoryOrder.h"
#include "ScalarMath.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Module.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nereid::test {

class WarpSimulator {
public:
  using Words = test::Words;
  /// A call of a function without a body.
  using External =
      std::function<uint64_t(unsigned thread, llvm::StringRef name, const Words &arguments)>;

  /// `warps`: of a block.
  WarpSimulator(const llvm::Module &module, unsigned warps, unsigned sharedBytes,
                unsigned blocks = 1)
      : module(module), threadCount(warps * 32), memories(blocks) {
    for (Memory &memory : memories) {
      memory.bytes.resize(sharedBytes);
      memory.seen.assign(blocks, std::vector<Watch>(sharedBytes));
    }
  }

  void onCall(External function) { external = std::move(function); }
  /// A block of the cluster that goes on only where no other one can. By default all go on in turn.
  std::optional<unsigned> late;
  /// Empty, or what went wrong.
  std::string run(llvm::StringRef entry, const Words &arguments,
                  std::array<uint32_t, 3> programId = {0, 0, 0},
                  std::array<uint32_t, 3> programs = {1, 1, 1});

  unsigned barriers = 0; ///< of a whole block
  unsigned meetings = 0; ///< barriers of the cluster
  uint64_t shuffles = 0; ///< warp-wide
  uint64_t accesses = 0; ///< of shared memory, by single threads
  unsigned copies = 0;   ///< boxes that the copy engine has brought, to every block that gets them
  unsigned sent = 0;     ///< times that a thread has sent words to a block of the cluster
  unsigned shared = 0;   ///< boxes that it has brought to several blocks at once

private:
  struct Thread;
  struct Interpreter;
  /// Accesses of one block's threads to a byte of shared memory: since that block's last barrier,
  /// by whom; and behind how many meetings of the cluster it was last written and read (plus 1).
  struct Watch {
    unsigned epoch = 0;
    int32_t writer = -1, reader = -1; ///< a thread; -2: several
    unsigned written = 0, read = 0;
  };
  struct Memory {
    std::vector<uint8_t> bytes;
    std::vector<std::vector<Watch>> seen; ///< by the block that accesses it
    unsigned reached = 0; ///< by other blocks: behind how many meetings at last, plus 1
  };

  const llvm::Module &module;
  unsigned threadCount, epoch = 1;
  std::vector<Memory> memories;       ///< by block
  std::unique_ptr<MemoryOrder> order; ///< null: the kernel does not use the async proxy
  MemoryOrder::Knowledge ofCluster;   ///< what arrivals at the cluster's barrier have released
  /// Warps that have arrived at the barrier of the cluster that comes next, some of them without
  /// ordering what they did before; and how often the cluster has met.
  unsigned arrived = 0, completed = 0;
  std::vector<Interpreter *> running; ///< the blocks
  /// The cluster meets when every warp has arrived or ended.
  void meet();
  External external;
  std::string error;
};

} // namespace nereid::test

// The threads of WarpSimulator and what runs them. Methods stand by what they are about: values,
// memory and single instructions in WarpInterpreter.cpp, calls and inline assembly of one thread in
// WarpCalls.cpp, what warps and the block do together in WarpSimulator.cpp.
#pragma once
#include "CopyEngine.h"
#include "ScalarMath.h"
#include "WarpSimulator.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Operator.h"

#include <map>
#include <optional>

namespace nereid::test {

/// Shared memory begins here in the simulated address space; addresses below 2^24 + its size.
constexpr uint64_t kSharedBase = 1 << 24;
/// Here that of the first block of the cluster as others see it; the next one's is this much
/// further.
constexpr uint64_t kClusterBase = 1 << 25, kClusterStride = 1 << 20;

/// What the values of a function are to one thread. The threads of a cluster share the numbers of
/// values, so that a look-up stays in the cache; a table of values by thread did not.
class Registers {
public:
  using Numbers = llvm::DenseMap<const llvm::Value *, unsigned>;
  void share(Numbers &all) { numbers = &all; }
  /// Valid until the next one; empty for a value that the thread has not computed.
  WarpSimulator::Words &operator[](const llvm::Value *value) {
    unsigned number = numbers->try_emplace(value, numbers->size()).first->second;
    if (number >= words.size())
      words.resize(std::max<size_t>(number + 1, numbers->size()));
    return words[number];
  }

private:
  Numbers *numbers = nullptr;
  std::vector<WarpSimulator::Words> words;
};

struct WarpSimulator::Thread {
  unsigned id = 0;
  const llvm::BasicBlock *block = nullptr, *previous = nullptr;
  llvm::BasicBlock::const_iterator next;
  Registers values;
  const llvm::CallInst *waiting = nullptr; ///< at an operation of several threads
  bool done = false;
  /// Of the first of four warps: bytes of shared memory that products read, by group not waited
  /// for; the last one is the latest.
  std::vector<std::vector<std::pair<uint64_t, uint64_t>>> products;
  unsigned issued = 0; ///< groups of products, of which it was one thread
  /// The calls of functions that were not inlined, outermost first, and where each goes on.
  struct Frame {
    const llvm::CallInst *call;
    const llvm::BasicBlock *block, *previous;
    llvm::BasicBlock::const_iterator next;
  };
  std::vector<Frame> frames;
  /// Bytes that cp.async brings to an address of shared memory. They land when they are waited for,
  /// which is as late as they may: what reads them earlier sees what was there before.
  struct Arrival {
    uint64_t at;
    std::vector<uint8_t> bytes;
  };
  std::vector<std::vector<Arrival>> copies = {{}}; ///< by group; the last one is open
  /// Memory of its own, which calls without a body read their arguments from.
  std::map<const llvm::AllocaInst *, std::vector<uint64_t>> stack;
};

struct WarpSimulator::Interpreter {
  Interpreter(WarpSimulator &sim, unsigned rank, std::array<uint32_t, 3> programId,
              std::array<uint32_t, 3> programs)
      : sim(sim), rank(rank), threads(sim.threadCount), warps(sim.threadCount / 32),
        data(sim.module.getDataLayout()), programId(programId), programs(programs),
        engine(sim.memories[rank].bytes, kSharedBase, rank, sim.order.get()) {
    for (unsigned warp = 0; sim.order && warp < sim.threadCount / 32; ++warp)
      productAgents.push_back(sim.order->newAgent("a product of warp " + std::to_string(warp)));
  }
  WarpSimulator &sim;
  unsigned rank;                       ///< of the block
  std::vector<uint32_t> productAgents; ///< by warp: each waits for its part of a product
  std::vector<Thread> threads;
  bool done = false;
  /// Of the cluster's barrier, by warp: how often it has arrived, and whether the last time ordered
  /// its accesses before.
  struct Arrivals {
    unsigned count = 0;
    bool releases = false;
  };
  std::vector<Arrivals> warps;
  unsigned epoch = 0;   ///< barriers of the block, counted on from the simulator's
  unsigned met = 0;     ///< meetings of the cluster that this block has waited for
  unsigned ordered = 0; ///< those that order accesses
  const llvm::DataLayout &data;
  std::array<uint32_t, 3> programId, programs;
  CopyEngine engine;
  bool fail(const llvm::Twine &message);
  /// The number of a thread in the cluster.
  unsigned inCluster(const Thread &thread) const { return rank * sim.threadCount + thread.id; }
  /// Threads that meet at a barrier.
  void meet(llvm::ArrayRef<unsigned> numbers, const MemoryOrder::Knowledge *others = nullptr) {
    if (sim.order)
      sim.order->meet(numbers, others);
  }
  /// The thread has waited for its groups of products but the last ones.
  void endProducts(const Thread &thread, unsigned pending) {
    if (sim.order && thread.issued > pending)
      sim.order->complete(inCluster(thread),
                          {productAgents[thread.id / 32], thread.issued - pending, true});
  }
  bool unknown(const llvm::Value &value);
  //===--- values and memory ---------------------------------------------------------------===//
  Words constant(const llvm::Constant *value);
  uint64_t constantData(const llvm::GlobalVariable *global);
  llvm::DenseMap<const llvm::GlobalVariable *, std::vector<uint8_t>> tables;
  Words get(Thread &thread, const llvm::Value *value);
  template <typename Get> uint64_t address(const llvm::GEPOperator *gep, Get get) {
    uint64_t at = get(gep->getPointerOperand())[0];
    for (auto it = llvm::gep_type_begin(gep); it != llvm::gep_type_end(gep); ++it) {
      uint64_t index = get(it.getOperand())[0];
      if (llvm::StructType *structure = it.getStructTypeOrNull()) {
        at += data.getStructLayout(structure)->getElementOffset(index);
        continue;
      }
      at += signedOf(index, it.getOperand()->getType()->getIntegerBitWidth()) *
            int64_t(it.getSequentialElementStride(data));
    }
    return at;
  }
  /// A byte of the shared memory of a block of the cluster.
  struct Place {
    unsigned block;
    uint64_t at;
  };
  std::optional<Place> placeOf(uint64_t address) const;
  bool touch(Thread &thread, Place place, unsigned bytes, bool write);
  /// Accesses of other blocks that no barrier of the cluster orders with this one.
  bool checkBlocks(Thread &thread, Place place, bool write);
  /// An atomic addition of 32 bits in shared memory, which others may do to the same bytes.
  bool addAtomically(Thread &thread, uint64_t at, uint32_t number, Words &before);
  /// One access of `bytes` bytes of global memory: a GPU stops where they straddle a multiple.
  bool checkGlobal(uint64_t at, uint64_t bytes);
  uint8_t *memory(Thread &thread, uint64_t at, unsigned bytes, bool write);
  bool load(Thread &thread, uint64_t at, llvm::Type *type, Words &words);
  bool store(Thread &thread, uint64_t at, llvm::Type *type, const Words &words);
  //===--- single threads ------------------------------------------------------------------===//
  static bool isWide(llvm::Type *type) { return type->isIntegerTy(128); }
  /// What operations on 128 bits, and their truncation, give; as far as products of 64 bits need
  /// them.
  std::optional<Words> wide(Thread &thread, const llvm::Instruction &op);
  bool isShared(uint64_t at) const;
  /// A read-modify-write in global memory: programs and threads run one after the other there.
  bool modify(const llvm::AtomicRMWInst &op, uint64_t at, uint64_t number, Words &before);
  /// Goes on in a function that was not inlined, and behind its call.
  void invoke(Thread &thread, const llvm::CallInst &call, const llvm::Function &callee);
  void leave(Thread &thread, const llvm::ReturnInst &op);
  /// Until the thread waits for others or ends.
  bool runThread(Thread &thread);
  void enter(Thread &thread, const llvm::BasicBlock *block);
  bool step(Thread &thread);
  bool visitCall(Thread &thread, const llvm::CallInst &call);
  /// Numbers of the thread and of its program, by the intrinsic that reads them.
  std::optional<uint32_t> specialRegister(const Thread &thread, unsigned intrinsic) const;
  /// Of a function that is no intrinsic.
  bool callFunction(Thread &thread, const llvm::CallInst &call);
  /// `@$p ld.global.v2.b32 {$0, $1}, [$4+16];` and the like, one instruction.
  bool visitAsm(Thread &thread, const llvm::CallInst &call);
  /// `cp.async.ca.shared.global.L2::128B [$0], [$1], 8, $2;`, `cp.async.commit_group;` and
  /// `cp.async.wait_group 1;`. The last operand of a copy is the bytes to read, or a predicate that
  /// forbids reading any.
  template <typename Value>
  bool visitCopy(Thread &thread, const llvm::CallInst &call, llvm::StringRef opcode,
                 llvm::StringRef rest, bool active, Value value);
  /// What `atom.relaxed.gpu.global.OPERATION.TYPE` leaves in memory; nothing if it is unknown here.
  std::optional<uint64_t> combine(llvm::StringRef operation, llvm::StringRef type, uint64_t old,
                                  uint64_t number);
  /// `atom.relaxed.gpu.global.add.v2.f32 {$0, $1}, [$2+8], {$3, $4};` and the like.
  template <typename Value>
  bool visitAtomic(Thread &thread, const llvm::CallInst &call, llvm::StringRef opcode,
                   llvm::StringRef rest, bool active, Value value);
  //===--- several threads -----------------------------------------------------------------===//
  static bool ofBlock(const llvm::CallInst *call);
  static bool waitsForBarrier(const llvm::CallInst *call);
  /// Barriers that enough threads have come to; true: some have gone on.
  bool runArrivals(llvm::MutableArrayRef<Thread> warp);
  /// By the number of a barrier of some warps: threads that have arrived without waiting.
  std::map<uint64_t, uint64_t> arrived;
  std::map<uint64_t, MemoryOrder::Knowledge> released; ///< by them
  bool runBarriers(std::vector<Thread> &threads);
  /// The text of the wait for copies to global memory at which a thread is; empty: it is not.
  static llvm::StringRef storeWaitOf(const Thread &thread);
  /// An instruction of the copy engine or of mbarriers, of this block or of others of the cluster.
  bool runEngine(Thread &thread, const llvm::CallInst &call, llvm::StringRef text);
  /// This block is about to change the shared memory of another one.
  bool reach(unsigned block);
  /// Ends the first of these waits; false: there is none, or the copy was disturbed.
  bool endStoreWait(std::vector<Thread> &threads);
  /// Nobody can go on: says what they wait for.
  bool failAsStuck();
  /// The copy engine must not overwrite what products in flight read.
  void watchProducts();
  /// Of four warps.
  static bool ofGroup(const llvm::CallInst *call);
  /// Matrix instructions of 32 or 128 threads, one after the other.
  bool runProducts(llvm::MutableArrayRef<Thread> threads);
  /// These bytes of shared memory are read by products that these threads have issued.
  bool issueProducts(llvm::MutableArrayRef<Thread> threads,
                     llvm::ArrayRef<std::pair<uint64_t, uint64_t>> reads);
  llvm::SmallVector<unsigned> numbersOf(llvm::ArrayRef<Thread> some) const {
    return llvm::map_to_vector(some, [&](const Thread &thread) { return inCluster(thread); });
  }
  bool runWarp(llvm::MutableArrayRef<Thread> warp);
  bool storeMatrices(llvm::MutableArrayRef<Thread> warp, const llvm::CallInst &call);
  static bool ofCluster(const llvm::CallInst *call);
  /// A warp at one of the halves of the cluster's barrier; `moved`: it has gone on.
  bool runMeeting(unsigned warp, llvm::MutableArrayRef<Thread> lanes, bool &moved);
  /// Warps that have ended count as arrived.
  bool isOver(unsigned warp) const;
  /// The warps that wait for the cluster go on together, if it has met.
  bool leaveMeeting();
  /// Every thread as far as it comes. `moved`: somebody has gone on.
  bool runRound(bool &moved);
  /// The end of the block: whether others may have reached its shared memory later.
  bool checkEnd();
};

} // namespace nereid::test

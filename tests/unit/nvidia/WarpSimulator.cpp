#include "WarpSimulator.h"

#include "MatrixUnits.h"
#include "WarpInterpreter.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <cstring>
#include <memory>

using namespace llvm;

namespace nereid::test {

using Words = WarpSimulator::Words;

bool WarpSimulator::Interpreter::ofBlock(const CallInst *call) {
  switch (call->getIntrinsicID()) {
  case Intrinsic::nvvm_barrier_cta_sync_aligned_all:
  case Intrinsic::nvvm_barrier_cta_sync_aligned_count:
  case Intrinsic::nvvm_barrier_cta_arrive_aligned_count:
    return true;
  default:
    return false;
  }
}

bool WarpSimulator::Interpreter::ofGroup(const CallInst *call) {
  auto *code = dyn_cast<InlineAsm>(call->getCalledOperand());
  return code && StringRef(code->getAsmString()).contains("wgmma.mma_async");
}

bool WarpSimulator::Interpreter::waitsForBarrier(const CallInst *call) {
  auto *code = dyn_cast<InlineAsm>(call->getCalledOperand());
  return code && CopyEngine::isWait(code->getAsmString());
}

bool WarpSimulator::Interpreter::runProducts(MutableArrayRef<Thread> threads) {
  const CallInst &call = *threads[0].waiting;
  std::string text = cast<InlineAsm>(call.getCalledOperand())->getAsmString().str();
  unsigned results = count(call.getType());
  std::vector<Words> registers(threads.size());
  for (auto [thread, words] : zip(threads, registers))
    for (unsigned i = 0; i < results; ++i) // wgmma's are tied to the first arguments
      words.push_back(get(thread, call.getArgOperand(i))[0]);
  MatrixThreads group;
  auto argument = [&](unsigned thread, unsigned number) {
    return get(threads[thread], call.getArgOperand(number - results))[0];
  };
  group.read = [&](unsigned thread, unsigned number) {
    return number < results ? registers[thread][number] : argument(thread, number);
  };
  group.write = [&](unsigned thread, unsigned number, uint64_t word) {
    registers[thread][number] = word;
  };
  std::vector<std::pair<uint64_t, uint64_t>> reads;
  group.shared = [&](uint64_t at, unsigned bytes, uint64_t &word) {
    if (reads.empty() || reads.back().second != at)
      reads.push_back({at, at + bytes});
    reads.back().second = at + bytes;
    if (!touch(threads[0], {rank, at}, bytes, false))
      return false;
    word = 0;
    std::memcpy(&word, sim.memories[rank].bytes.data() + at, bytes);
    return true;
  };
  StringMap<bool> predicates;
  StringMap<std::pair<unsigned, uint64_t>> sums;
  group.named = [&](unsigned thread, StringRef name) {
    auto [number, added] = sums.lookup(name);
    return argument(thread, number) + added;
  };
  group.predicate = [&](StringRef name) { return predicates.lookup(name); };
  SmallVector<StringRef> lines;
  StringRef(text).split(lines, ';');
  bool isWarp = threads.size() == 32;
  for (StringRef line : lines) {
    line = line.trim(" \n{}");
    if (line.consume_front("setp.ne.b32 ")) {
      auto [name, value] = line.split(", ");
      unsigned number = 0;
      bool isOperand = value.consume_front("$");
      value.consumeInteger(10, number);
      predicates[name] = isOperand ? argument(0, number) : number;
    } else if (line.consume_front("add.s64 ")) { // a descriptor: an operand and a constant
      SmallVector<StringRef> parts;
      line.split(parts, ", ");
      std::pair<unsigned, uint64_t> &sum = sums[parts[0]];
      parts[1].drop_front().getAsInteger(10, sum.first);
      parts[2].getAsInteger(10, sum.second);
    } else if (line.starts_with(isWarp ? "mma.sync" : "wgmma.mma_async")) {
      if (isWarp)
        line = StringRef(text); // with its last brace
      if (std::string wrong = multiply(line, group); !wrong.empty())
        return fail(wrong);
    }
  }
  if (!isWarp && !issueProducts(threads, reads))
    return false;
  if (text.find("wgmma.wait_group.sync.aligned 0") != std::string::npos) {
    threads[0].products.clear();
    for (Thread &thread : threads)
      endProducts(thread, 0);
  }
  for (auto [thread, words] : zip(threads, registers)) {
    thread.values[&call] = words;
    thread.waiting = nullptr;
  }
  return true;
}

bool WarpSimulator::Interpreter::issueProducts(MutableArrayRef<Thread> threads,
                                               ArrayRef<std::pair<uint64_t, uint64_t>> reads) {
  threads[0].products.push_back(reads.vec());
  SmallVector<unsigned> numbers;
  for (Thread &thread : threads) {
    numbers.push_back(inCluster(thread));
    ++thread.issued;
  }
  std::string wrong;
  for (unsigned warp = 0; sim.order && wrong.empty() && warp < 4; ++warp)
    wrong = sim.order->accessAsync(
        numbers, {productAgents[threads[0].id / 32 + warp], threads[0].issued, true}, rank, reads,
        false);
  return wrong.empty() || fail(wrong);
}

bool WarpSimulator::Interpreter::runWarp(MutableArrayRef<Thread> warp) {
  if (auto *code = dyn_cast<InlineAsm>(warp[0].waiting->getCalledOperand());
      code && StringRef(code->getAsmString()).starts_with("mma.sync"))
    return runProducts(warp);
  const CallInst &call = *warp[0].waiting;
  auto argument = [&](Thread &thread, unsigned i) { return get(thread, call.getArgOperand(i))[0]; };
  std::array<Words, 32> results;
  auto shuffle = [&](auto source) {
    ++sim.shuffles;
    for (unsigned lane = 0; lane < 32; ++lane)
      results[lane] = {argument(warp[source(lane, argument(warp[lane], 2))], 1)};
  };
  auto redux = [&](auto combine) {
    ++sim.shuffles;
    uint32_t all = argument(warp[0], 0);
    for (unsigned lane = 1; lane < 32; ++lane)
      all = combine(all, uint32_t(argument(warp[lane], 0)));
    results.fill({all});
  };
  auto matrices = [&](unsigned n, bool transposed) {
    for (Words &words : results)
      words.assign(n, 0);
    for (unsigned m = 0; m < n; ++m)
      for (unsigned row = 0; row < 8; ++row) {
        Thread &owner = warp[8 * m + row];
        uint64_t at = argument(owner, 0);
        Words line;
        if (at % 16)
          return fail("a row of a matrix is misaligned");
        if (!load(owner, at, FixedVectorType::get(Type::getInt16Ty(call.getContext()), 8), line))
          return false;
        for (unsigned column = 0; column < 8; ++column) {
          unsigned r = transposed ? column : row, c = transposed ? row : column;
          results[4 * r + c / 2][m] |= line[column] << 16 * (c % 2);
        }
      }
    return true;
  };
  using U = uint32_t;
  switch (call.getIntrinsicID()) {
  case Intrinsic::nvvm_bar_warp_sync:
    if (sim.threadCount == 32) { // the barrier of a block of one warp
      ++sim.barriers;
      ++epoch;
    }
    meet(numbersOf(warp));
    break;
  case Intrinsic::nvvm_shfl_sync_bfly_i32:
    shuffle([](unsigned lane, uint64_t mask) { return lane ^ unsigned(mask); });
    break;
  case Intrinsic::nvvm_shfl_sync_idx_i32:
    shuffle([](unsigned, uint64_t from) { return unsigned(from) & 31; });
    break;
  case Intrinsic::nvvm_shfl_sync_up_i32:
    shuffle([](unsigned lane, uint64_t by) { return lane >= by ? lane - unsigned(by) : lane; });
    break;
  case Intrinsic::nvvm_vote_any_sync: {
    bool any = any_of(warp, [&](Thread &thread) { return argument(thread, 1) & 1; });
    results.fill({uint64_t(any)});
    break;
  }
  case Intrinsic::nvvm_redux_sync_add:
    redux([](U a, U b) { return a + b; });
    break;
  case Intrinsic::nvvm_redux_sync_max:
    redux([](U a, U b) { return int32_t(a) > int32_t(b) ? a : b; });
    break;
  case Intrinsic::nvvm_redux_sync_min:
    redux([](U a, U b) { return int32_t(a) < int32_t(b) ? a : b; });
    break;
  case Intrinsic::nvvm_redux_sync_umax:
    redux([](U a, U b) { return std::max(a, b); });
    break;
  case Intrinsic::nvvm_redux_sync_umin:
    redux([](U a, U b) { return std::min(a, b); });
    break;
  case Intrinsic::nvvm_redux_sync_and:
    redux([](U a, U b) { return a & b; });
    break;
  case Intrinsic::nvvm_redux_sync_or:
    redux([](U a, U b) { return a | b; });
    break;
  case Intrinsic::nvvm_redux_sync_xor:
    redux([](U a, U b) { return a ^ b; });
    break;
  case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_b16:
  case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_b16:
  case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16:
    if (!matrices(count(call.getType()), false))
      return false;
    break;
  case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_trans_b16:
  case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16:
  case Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16:
    if (!matrices(count(call.getType()), true))
      return false;
    break;
  default:
    if (isa<InlineAsm>(call.getCalledOperand())) {
      if (!storeMatrices(warp, call))
        return false;
      break;
    }
    return unknown(call);
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!results[lane].empty())
      warp[lane].values[&call] = results[lane];
    warp[lane].waiting = nullptr;
  }
  return true;
}

bool WarpSimulator::Interpreter::storeMatrices(MutableArrayRef<Thread> warp, const CallInst &call) {
  StringRef text = cast<InlineAsm>(call.getCalledOperand())->getAsmString();
  bool transposed = text.contains(".trans");
  for (unsigned m = 0; m + 1 < call.arg_size(); ++m)
    for (unsigned row = 0; row < 8; ++row) {
      Thread &owner = warp[8 * m + row];
      uint64_t at = get(owner, call.getArgOperand(0))[0];
      if (at % 16)
        return fail("a row of a matrix is misaligned");
      Words line;
      for (unsigned column = 0; column < 8; ++column) {
        unsigned r = transposed ? column : row, c = transposed ? row : column;
        uint64_t word = get(warp[4 * r + c / 2], call.getArgOperand(m + 1))[0];
        line.push_back(word >> 16 * (c % 2) & 0xffff);
      }
      if (!store(owner, at, FixedVectorType::get(Type::getInt16Ty(call.getContext()), 8), line))
        return false;
    }
  return true;
}

/// Warps that arrive without waiting go on at once; they count when the barrier's others come.
bool WarpSimulator::Interpreter::runArrivals(MutableArrayRef<Thread> warp) {
  const CallInst &call = *warp[0].waiting;
  if (call.getIntrinsicID() != Intrinsic::nvvm_barrier_cta_arrive_aligned_count)
    return false;
  uint64_t number = get(warp[0], call.getArgOperand(0))[0];
  arrived[number] += warp.size();
  for (Thread &thread : warp)
    if (sim.order)
      sim.order->release(inCluster(thread), released[number]);
  if (arrived[number] >= get(warp[0], call.getArgOperand(1))[0])
    fail("barrier " + Twine(number) + ": more arrivals than it expects");
  for (Thread &thread : warp)
    thread.waiting = nullptr;
  return true;
}

bool WarpSimulator::Interpreter::runBarriers(std::vector<Thread> &threads) {
  std::map<uint64_t, std::vector<Thread *>> waiting; // by the barrier's number
  for (Thread &thread : threads)
    if (thread.waiting && ofBlock(thread.waiting))
      waiting[get(thread, thread.waiting->getArgOperand(0))[0]].push_back(&thread);
  bool moved = false;
  for (auto &[number, group] : waiting) {
    const CallInst &call = *group[0]->waiting;
    uint64_t expected =
        call.arg_size() > 1 ? get(*group[0], call.getArgOperand(1))[0] : threads.size();
    // Only the meeting of all warps of a divided kernel is written in two places.
    bool same = all_of(group, [&](Thread *thread) { return thread->waiting == &call; });
    if (group.size() + arrived[number] != expected || (!same && number != 1))
      continue;
    arrived[number] = 0;
    SmallVector<unsigned> numbers;
    for (Thread *thread : group) {
      thread->waiting = nullptr;
      numbers.push_back(inCluster(*thread));
    }
    meet(numbers, &released[number]);
    released[number] = {};
    ++sim.barriers;
    ++epoch;
    moved = true;
  }
  return moved;
}

StringRef WarpSimulator::Interpreter::storeWaitOf(const Thread &thread) {
  auto *code = thread.waiting ? dyn_cast<InlineAsm>(thread.waiting->getCalledOperand()) : nullptr;
  StringRef text = code ? StringRef(code->getAsmString()).trim() : StringRef();
  return CopyEngine::isStoreWait(text) ? text : StringRef();
}

bool WarpSimulator::Interpreter::endStoreWait(std::vector<Thread> &threads) {
  auto found = find_if(threads, [](Thread &thread) { return !storeWaitOf(thread).empty(); });
  if (found == threads.end())
    return false;
  std::string wrong =
      engine.run(inCluster(*found), storeWaitOf(*found), [](unsigned) -> uint64_t { return 0; });
  found->waiting = nullptr;
  return wrong.empty() || fail(wrong);
}

void WarpSimulator::Interpreter::watchProducts() {
  engine.onWrite = [&](uint64_t begin, uint64_t end) -> std::string {
    for (Thread &thread : threads)
      for (auto &reads : thread.products)
        for (auto [from, to] : reads)
          if (from < end && begin < to)
            return "the copy engine overwrites byte " + std::to_string(std::max(from, begin)) +
                   ", which a product in flight reads";
    return "";
  };
}

bool WarpSimulator::Interpreter::reach(unsigned block) {
  if (block == rank)
    return true;
  if (block >= sim.memories.size())
    return fail("the cluster has no block " + Twine(block));
  if (!met)
    return fail("block " + Twine(rank) + " reaches the shared memory of block " + Twine(block) +
                ", which may not have started");
  sim.memories[block].reached = std::max(sim.memories[block].reached, met + 1);
  return true;
}

bool WarpSimulator::Interpreter::runEngine(Thread &thread, const CallInst &call, StringRef text) {
  auto operand = [&](unsigned number) { return get(thread, call.getArgOperand(number))[0]; };
  auto done = [&](const std::string &wrong) { return wrong.empty() || fail(wrong); };
  if (text.starts_with("mbarrier.arrive.shared::cluster")) {
    std::optional<Place> place = placeOf(operand(0));
    if (!place)
      return fail("an arrival beyond shared memory");
    return reach(place->block) &&
           done(sim.running[place->block]->engine.run(
               inCluster(thread), text, [&](unsigned) { return kSharedBase + place->at; }));
  }
  if (text.starts_with("st.async.")) {
    std::optional<Place> place = placeOf(operand(0)), barrier = placeOf(operand(1));
    if (!place || !barrier || place->block != barrier->block)
      return fail("words are sent to another block than the mbarrier that counts them");
    if (place->block >= sim.running.size() || !met)
      return fail("block " + Twine(rank) + " sends to block " + Twine(place->block) +
                  ", which may not have started");
    Interpreter &receiver = *sim.running[place->block];
    if (receiver.done)
      return fail("block " + Twine(rank) + " sends to block " + Twine(place->block) +
                  ", which has ended");
    SmallVector<uint64_t, 4> words;
    for (unsigned i = 2; i < call.arg_size(); ++i)
      words.push_back(operand(i));
    return done(receiver.engine.send(kSharedBase + place->at, words, kSharedBase + barrier->at));
  }
  if (!text.contains(".multicast::cluster"))
    return done(engine.run(inCluster(thread), text, operand));
  // The same places in each block.
  uint64_t mask = operand(unsigned(call.arg_size()) - 1);
  ++sim.shared;
  for (unsigned block = 0; mask >> block; ++block)
    if (mask >> block & 1 &&
        !(reach(block) && done(sim.running[block]->engine.run(inCluster(thread), text, operand))))
      return false;
  return true;
}

bool WarpSimulator::Interpreter::failAsStuck() {
  for (Thread &thread : threads)
    if (thread.waiting && waitsForBarrier(thread.waiting))
      return fail("deadlock: thread " + Twine(thread.id) + " waits for the mbarrier at byte " +
                  Twine(get(thread, thread.waiting->getArgOperand(0))[0] - kSharedBase));
  if (sim.memories.size() > 1)
    return fail("deadlock: the blocks of the cluster wait for one another");
  return fail("warps wait at different barriers");
}

bool WarpSimulator::Interpreter::ofCluster(const CallInst *call) {
  switch (call->getIntrinsicID()) {
  case Intrinsic::nvvm_barrier_cluster_arrive_aligned:
  case Intrinsic::nvvm_barrier_cluster_arrive_relaxed_aligned:
  case Intrinsic::nvvm_barrier_cluster_wait_aligned:
    return true;
  default:
    return false;
  }
}

bool WarpSimulator::Interpreter::runMeeting(unsigned warp, MutableArrayRef<Thread> lanes,
                                            bool &moved) {
  Intrinsic::ID id = lanes[0].waiting->getIntrinsicID();
  Arrivals &mine = warps[warp];
  if (id == Intrinsic::nvvm_barrier_cluster_wait_aligned)
    return mine.count > met || fail("warp " + Twine(warp) + " of block " + Twine(rank) +
                                    " waits for the cluster without having arrived");
  if (mine.count > met)
    return fail("warp " + Twine(warp) + " of block " + Twine(rank) +
                " arrives at the cluster's barrier twice");
  ++mine.count;
  mine.releases = id == Intrinsic::nvvm_barrier_cluster_arrive_aligned;
  ++sim.arrived;
  for (Thread &thread : lanes) {
    thread.waiting = nullptr;
    if (sim.order && mine.releases)
      sim.order->release(inCluster(thread), sim.ofCluster);
  }
  moved = true;
  return true;
}

bool WarpSimulator::Interpreter::isOver(unsigned warp) const {
  return all_of(ArrayRef(threads).slice(32 * warp, 32),
                [](const Thread &thread) { return thread.done; });
}

void WarpSimulator::meet() {
  if (!arrived)
    return;
  for (Interpreter *block : running)
    for (unsigned warp = 0; warp < block->warps.size(); ++warp)
      if (block->warps[warp].count <= completed && !block->isOver(warp))
        return;
  arrived = 0;
  ++completed;
  ++meetings;
}

bool WarpSimulator::Interpreter::leaveMeeting() {
  sim.meet();
  bool allWait = all_of(threads, [](const Thread &thread) {
    return thread.done || (thread.waiting && thread.waiting->getIntrinsicID() ==
                                                 Intrinsic::nvvm_barrier_cluster_wait_aligned);
  });
  if (!allWait || sim.completed == met)
    return false;
  ++met;
  bool released = true;
  for (unsigned warp = 0; warp < warps.size(); ++warp)
    released &= warps[warp].releases || isOver(warp);
  if (released) {
    ++ordered;
    ++epoch;
  }
  for (Thread &thread : threads) {
    thread.waiting = nullptr;
    if (sim.order)
      sim.order->acquire(inCluster(thread), sim.ofCluster);
  }
  return true;
}

bool WarpSimulator::Interpreter::checkEnd() {
  return sim.memories[rank].reached <= met ||
         fail("block " + Twine(rank) + " may have ended when others reach its shared memory");
}

bool WarpSimulator::Interpreter::runRound(bool &moved) {
  for (Thread &thread : threads)
    if (!runThread(thread))
      return false;
  if (all_of(threads, [](const Thread &thread) { return thread.done; })) {
    done = moved = true;
    engine.land();
    if (engine.isReceiving())
      return fail("block " + Twine(rank) + " ends before it has received what is sent to it");
    return !engine.isStoring() || fail("the block ends before the copy engine has read a buffer");
  }
  bool warpsMoved = false;
  for (unsigned warp = 0; warp < threads.size(); warp += 32) {
    MutableArrayRef<Thread> lanes(threads.data() + warp, 32);
    if (any_of(lanes, [](Thread &thread) { return !storeWaitOf(thread).empty(); }))
      continue;
    for (Thread &thread : lanes)
      if (thread.waiting != lanes[0].waiting)
        return fail("the threads of warp " + Twine(warp / 32) + " have diverged");
    const CallInst *call = lanes[0].waiting;
    if (!call)
      continue;
    if (ofCluster(call)) {
      if (!runMeeting(warp / 32, lanes, warpsMoved))
        return false;
      continue;
    }
    if (ofBlock(call)) {
      warpsMoved |= runArrivals(lanes);
      if (!sim.error.empty())
        return false;
      continue;
    }
    if (waitsForBarrier(call)) {
      std::string wrong;
      bool over = engine.completed(get(lanes[0], call->getArgOperand(0))[0],
                                   get(lanes[0], call->getArgOperand(1))[0], wrong);
      if (!wrong.empty())
        return fail(wrong);
      for (Thread &thread : lanes) {
        thread.waiting = over ? nullptr : thread.waiting;
        if (over && wrong.empty())
          wrong = engine.acquire(inCluster(thread), get(thread, call->getArgOperand(0))[0]);
      }
      if (!wrong.empty())
        return fail(wrong);
      warpsMoved |= over;
      continue;
    }
    if (ofGroup(call)) {
      MutableArrayRef<Thread> group(threads.data() + warp / 128 * 128, 128);
      if (all_of(group, [&](Thread &thread) { return thread.waiting == call; })) {
        if (!runProducts(group))
          return false;
        warpsMoved = true;
      }
      continue;
    }
    if (!runWarp(lanes))
      return false;
    warpsMoved = true;
  }
  std::string wrong;
  moved |= warpsMoved || runBarriers(threads) || leaveMeeting() || engine.finishOne(wrong) ||
           endStoreWait(threads);
  return wrong.empty() || fail(wrong);
}

/// Are there instructions of the async proxy?
static bool usesAsyncProxy(const Module &module) {
  for (const Function &function : module)
    for (const Instruction &op : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&op))
        if (auto *code = dyn_cast<InlineAsm>(call->getCalledOperand())) {
          StringRef text = code->getAsmString();
          if (text.contains("async.bulk.tensor") || text.contains("wgmma.mma_async"))
            return true;
        }
  return false;
}

std::string WarpSimulator::run(StringRef entry, const Words &arguments,
                               std::array<uint32_t, 3> programId,
                               std::array<uint32_t, 3> programs) {
  error.clear();
  ++epoch;
  arrived = completed = 0;
  running.clear();
  order.reset();
  ofCluster = {};
  if (usesAsyncProxy(module))
    order = std::make_unique<MemoryOrder>(threadCount * unsigned(memories.size()),
                                          unsigned(memories.size()), memories[0].bytes.size());
  const Function *function = module.getFunction(entry);
  if (!function)
    return "no such function";
  Registers::Numbers numbers;
  std::vector<std::unique_ptr<Interpreter>> blocks;
  for (unsigned rank = 0; rank < memories.size(); ++rank) {
    memories[rank].reached = 0;
    for (std::vector<Watch> &seen : memories[rank].seen)
      for (Watch &watch : seen)
        watch.written = watch.read = 0;
    Interpreter &block =
        *blocks.emplace_back(std::make_unique<Interpreter>(*this, rank, programId, programs));
    running.push_back(&block);
    block.watchProducts();
    block.epoch = epoch;
    for (unsigned id = 0; id < threadCount; ++id) {
      Thread &thread = block.threads[id];
      thread.id = id;
      thread.values.share(numbers);
      for (const Argument &argument : function->args())
        thread.values[&argument] = {
            argument.getArgNo() < arguments.size() ? arguments[argument.getArgNo()] : 0};
      block.enter(thread, &function->getEntryBlock());
    }
  }
  auto isDone = [](const auto &block) { return block->done; };
  while (error.empty() && !all_of(blocks, isDone)) {
    bool moved = false;
    for (auto &block : blocks)
      if (!block->done && block->rank != late && !block->runRound(moved))
        break;
    if (error.empty() && !moved && late && !blocks[*late]->done)
      blocks[*late]->runRound(moved);
    if (error.empty() && !moved)
      (*find_if_not(blocks, isDone))->failAsStuck();
  }
  for (auto &block : blocks) {
    if (error.empty())
      block->checkEnd();
    copies += block->engine.copies;
    sent += block->engine.sent;
    epoch = std::max(epoch, block->epoch);
  }
  return error;
}

} // namespace nereid::test

#include "WarpInterpreter.h"

#include "DeviceMath.h"

#include "llvm/IR/Constants.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace llvm;

namespace nereid::test {

using Words = WarpSimulator::Words;

bool WarpSimulator::Interpreter::fail(const Twine &message) {
  if (sim.error.empty())
    sim.error = message.str();
  return false;
}

bool WarpSimulator::Interpreter::unknown(const Value &value) {
  std::string text;
  raw_string_ostream(text) << "the simulator does not know:" << value;
  return fail(text);
}

WarpSimulator::Words WarpSimulator::Interpreter::constant(const Constant *value) {
  if (auto *integer = dyn_cast<ConstantInt>(value))
    return {integer->getZExtValue()};
  if (auto *number = dyn_cast<ConstantFP>(value))
    return {bitsOf(number->getValueAPF())};
  if (auto *global = dyn_cast<GlobalVariable>(value)) {
    if (global->getAddressSpace() == 3)
      return {kSharedBase};
    return {constantData(global)};
  }
  if (isa<UndefValue, ConstantAggregateZero, ConstantPointerNull>(value)) // and poison
    return Words(count(value->getType()), 0);
  if (auto *expression = dyn_cast<ConstantExpr>(value)) {
    if (auto *gep = dyn_cast<GEPOperator>(expression))
      return {
          address(gep, [&](const Value *operand) { return constant(cast<Constant>(operand)); })};
    if (expression->getOpcode() == Instruction::BitCast)
      return bitcast(constant(expression->getOperand(0)), expression->getOperand(0)->getType(),
                     expression->getType());
    if (expression->isCast())
      return constant(expression->getOperand(0));
    if (expression->getOpcode() == Instruction::Add)
      return {
          maskTo(constant(expression->getOperand(0))[0] + constant(expression->getOperand(1))[0],
                 expression->getType()->getIntegerBitWidth())};
  }
  if (value->getType()->isVectorTy() || value->getType()->isStructTy()) {
    Words words;
    for (unsigned i = 0; i < count(value->getType()); ++i)
      words.push_back(constant(value->getAggregateElement(i))[0]);
    return words;
  }
  unknown(*value);
  return Words(count(value->getType()), 0);
}

uint64_t WarpSimulator::Interpreter::constantData(const GlobalVariable *global) {
  auto &bytes = tables[global];
  if (bytes.empty() && global->hasInitializer()) {
    auto *init = global->getInitializer();
    auto *array = cast<ArrayType>(init->getType());
    unsigned size = data.getTypeStoreSize(array->getElementType());
    for (uint64_t i = 0; i < array->getNumElements(); ++i) {
      uint64_t element = constant(init->getAggregateElement(i))[0];
      for (unsigned byte = 0; byte < size; ++byte)
        bytes.push_back(element >> 8 * byte);
    }
  }
  return reinterpret_cast<uint64_t>(bytes.data());
}

WarpSimulator::Words WarpSimulator::Interpreter::get(Thread &thread, const Value *value) {
  if (auto *known = dyn_cast<Constant>(value))
    return constant(known);
  return thread.values[value];
}

std::optional<WarpSimulator::Interpreter::Place>
WarpSimulator::Interpreter::placeOf(uint64_t address) const {
  uint64_t size = sim.memories[rank].bytes.size();
  if (address >= kSharedBase && address < kSharedBase + size + 4096)
    return Place{rank, address - kSharedBase};
  if (address < kClusterBase || address >= kClusterBase + sim.memories.size() * kClusterStride)
    return std::nullopt;
  return Place{unsigned((address - kClusterBase) / kClusterStride),
               (address - kClusterBase) % kClusterStride};
}

bool WarpSimulator::Interpreter::checkBlocks(Thread &thread, Place place, bool write) {
  Memory &memory = sim.memories[place.block];
  for (unsigned other = 0; other < sim.memories.size(); ++other) {
    const Watch &watch = memory.seen[other][place.at];
    bool otherWrote = watch.written > ordered, otherRead = watch.read > ordered;
    if (other != rank && (otherWrote || (write && otherRead)))
      return fail("race at byte " + Twine(place.at) + " of block " + Twine(place.block) +
                  ": thread " + Twine(thread.id) + " of block " + Twine(rank) +
                  (write ? " writes" : " reads") + " what block " + Twine(other) +
                  (otherWrote ? " wrote" : " read"));
  }
  Watch &mine = memory.seen[rank][place.at];
  (write ? mine.written : mine.read) = ordered + 1;
  return true;
}

bool WarpSimulator::Interpreter::touch(Thread &thread, Place place, unsigned bytes, bool write) {
  auto [block, at] = place;
  Memory &memory = sim.memories[block];
  if (at + bytes > memory.bytes.size())
    return fail("thread " + Twine(thread.id) + " reaches beyond shared memory: byte " + Twine(at));
  if (at % bytes)
    return fail("misaligned access of " + Twine(bytes) + " bytes at " + Twine(at));
  if (!reach(block))
    return false;
  ++sim.accesses;
  int32_t me = thread.id;
  for (unsigned i = 0; i < bytes; ++i) {
    Watch &watch = memory.seen[rank][at + i];
    if (watch.epoch != epoch) {
      watch.epoch = epoch;
      watch.writer = watch.reader = -1;
    }
    bool otherWrote = watch.writer != -1 && watch.writer != me;
    bool otherRead = watch.reader != -1 && watch.reader != me;
    if (otherWrote || (write && otherRead))
      return fail("race at byte " + Twine(at + i) + ": thread " + Twine(me) +
                  (write ? " writes" : " reads") + " what thread " +
                  Twine(otherWrote ? watch.writer : watch.reader) +
                  (otherWrote ? " wrote" : " read"));
    (write ? watch.writer : watch.reader) =
        write || watch.reader == -1 || watch.reader == me ? me : -2;
    if (sim.memories.size() > 1 && !checkBlocks(thread, {block, at + i}, write))
      return false;
  }
  return true;
}

bool WarpSimulator::Interpreter::addAtomically(Thread &thread, uint64_t at, uint32_t number,
                                               Words &before) {
  constexpr int32_t anyone = -3;
  at -= kSharedBase;
  std::vector<uint8_t> &shared = sim.memories[rank].bytes;
  if (at + 4 > shared.size() || at % 4)
    return fail("an atomic operation at byte " + Twine(at));
  for (unsigned i = 0; i < 4; ++i) {
    Watch &watch = sim.memories[rank].seen[rank][at + i];
    if (watch.epoch != epoch)
      watch = {epoch, -1, -1};
    if (watch.reader != -1 || (watch.writer != -1 && watch.writer != anyone))
      return fail("race at byte " + Twine(at + i) + ": an atomic operation and an access");
    watch.writer = anyone;
  }
  uint32_t old;
  std::memcpy(&old, shared.data() + at, 4);
  number += old;
  std::memcpy(shared.data() + at, &number, 4);
  before = {old};
  return true;
}

bool WarpSimulator::Interpreter::checkGlobal(uint64_t at, uint64_t bytes) {
  return at % bytes == 0 ||
         fail("misaligned access of " + Twine(bytes) + " bytes of global memory");
}

uint8_t *WarpSimulator::Interpreter::memory(Thread &thread, uint64_t at, unsigned bytes,
                                            bool write) {
  if (std::optional<Place> place = placeOf(at)) {
    if (!touch(thread, *place, bytes, write))
      return nullptr;
    std::string wrong;
    if (sim.order)
      wrong = sim.order->access(inCluster(thread), place->block, place->at, bytes, write);
    if (!wrong.empty()) {
      fail(wrong);
      return nullptr;
    }
    return sim.memories[place->block].bytes.data() + place->at;
  }
  if (sim.order && write)
    sim.order->writeGlobal(inCluster(thread), at, bytes);
  return reinterpret_cast<uint8_t *>(at);
}

bool WarpSimulator::Interpreter::load(Thread &thread, uint64_t at, Type *type, Words &words) {
  Type *scalar = type->getScalarType();
  unsigned size = divideCeil(bitsIn(scalar), 8), n = count(type);
  uint8_t *from = memory(thread, at, size * n, false);
  if (!from)
    return false;
  words.assign(n, 0);
  for (unsigned i = 0; i < n; ++i)
    std::memcpy(&words[i], from + i * size, size);
  return true;
}

bool WarpSimulator::Interpreter::store(Thread &thread, uint64_t at, Type *type,
                                       const Words &words) {
  unsigned size = divideCeil(bitsIn(type->getScalarType()), 8);
  uint8_t *to = memory(thread, at, size * words.size(), true);
  if (!to)
    return false;
  for (unsigned i = 0; i < words.size(); ++i)
    std::memcpy(to + i * size, &words[i], size);
  return true;
}

std::optional<Words> WarpSimulator::Interpreter::wide(Thread &thread, const Instruction &op) {
  Words a = get(thread, op.getOperand(0)), b;
  if (isa<BinaryOperator>(op))
    b = get(thread, op.getOperand(1));
  if (isa<SExtInst>(op))
    a[0] = uint64_t(signedOf(a[0], bitsIn(op.getOperand(0)->getType())));
  auto result = wideNumber(op.getOpcode(), a, b);
  if (result && isa<TruncInst>(op))
    return Words{maskTo(result->front(), bitsIn(op.getType()))};
  return result;
}

bool WarpSimulator::Interpreter::isShared(uint64_t at) const {
  return placeOf(at).has_value();
}

bool WarpSimulator::Interpreter::modify(const AtomicRMWInst &op, uint64_t at, uint64_t number,
                                        Words &before) {
  Type *type = op.getType();
  uint64_t old = 0;
  std::memcpy(&old, reinterpret_cast<const void *>(at), bitsIn(type) / 8);
  auto left = atomicResult(op.getOperation(), type, old, number);
  if (!left)
    return false;
  std::memcpy(reinterpret_cast<void *>(at), &*left, bitsIn(type) / 8);
  before = {old};
  return true;
}

void WarpSimulator::Interpreter::invoke(Thread &thread, const CallInst &call,
                                        const Function &callee) {
  for (const Argument &argument : callee.args())
    thread.values[&argument] = get(thread, call.getArgOperand(argument.getArgNo()));
  thread.frames.push_back({&call, thread.block, thread.previous, thread.next});
  enter(thread, &callee.getEntryBlock());
}

void WarpSimulator::Interpreter::leave(Thread &thread, const ReturnInst &op) {
  Thread::Frame frame = thread.frames.back();
  thread.frames.pop_back();
  if (Value *result = op.getReturnValue())
    thread.values[frame.call] = get(thread, result);
  thread.block = frame.block;
  thread.previous = frame.previous;
  thread.next = frame.next;
}

bool WarpSimulator::Interpreter::runThread(Thread &thread) {
  while (!thread.done && !thread.waiting)
    if (!step(thread))
      return false;
  return true;
}

void WarpSimulator::Interpreter::enter(Thread &thread, const BasicBlock *block) {
  thread.previous = thread.block;
  thread.block = block;
  thread.next = block->begin();
  std::vector<std::pair<const Value *, Words>> phis;
  for (const PHINode &phi : block->phis()) {
    phis.push_back({&phi, get(thread, phi.getIncomingValueForBlock(thread.previous))});
    ++thread.next;
  }
  for (auto &[phi, words] : phis)
    thread.values[phi] = words;
}

bool WarpSimulator::Interpreter::step(Thread &thread) {
  const Instruction &op = *thread.next++;
  auto operand = [&](unsigned i) { return get(thread, op.getOperand(i)); };
  auto part = [&](const Value *whole, uint64_t i) { // without a copy of the other parts
    return isa<Constant>(whole) ? get(thread, whole)[i] : thread.values[whole][i];
  };
  Words result;
  if (auto *call = dyn_cast<CallInst>(&op)) {
    return visitCall(thread, *call);
  } else if (auto *branch = dyn_cast<BranchInst>(&op)) {
    bool taken = branch->isUnconditional() || get(thread, branch->getCondition())[0];
    enter(thread, branch->getSuccessor(taken ? 0 : 1));
    return true;
  } else if (auto *end = dyn_cast<ReturnInst>(&op)) {
    if (thread.frames.empty())
      thread.done = true;
    else
      leave(thread, *end);
    return true;
  } else if (isWide(op.getType()) || (isa<TruncInst>(op) && isWide(op.getOperand(0)->getType()))) {
    auto words = wide(thread, op);
    if (!words)
      return unknown(op);
    result = *words;
  } else if (isa<BinaryOperator>(op)) {
    Words a = operand(0), b = operand(1);
    for (unsigned i = 0; i < a.size(); ++i) {
      auto word = binary(op.getOpcode(), op.getType()->getScalarType(), a[i], b[i]);
      if (!word)
        return unknown(op);
      result.push_back(*word);
    }
  } else if (op.getOpcode() == Instruction::FNeg) {
    for (uint64_t word : operand(0))
      result.push_back(word ^ uint64_t(1) << (bitsIn(op.getType()->getScalarType()) - 1));
  } else if (auto *comparison = dyn_cast<CmpInst>(&op)) {
    Words a = operand(0), b = operand(1);
    for (unsigned i = 0; i < a.size(); ++i)
      result.push_back(compare(comparison->getPredicate(),
                               op.getOperand(0)->getType()->getScalarType(), a[i], b[i]));
  } else if (isa<SelectInst>(op)) {
    Words condition = operand(0), yes = operand(1), no = operand(2);
    for (unsigned i = 0; i < yes.size(); ++i)
      result.push_back(condition[condition.size() == 1 ? 0 : i] ? yes[i] : no[i]);
  } else if (isa<BitCastInst>(op)) {
    result = bitcast(operand(0), op.getOperand(0)->getType(), op.getType());
  } else if (auto *cast = dyn_cast<CastInst>(&op)) {
    for (uint64_t word : operand(0)) {
      auto converted = convert(*cast, word);
      if (!converted)
        return unknown(op);
      result.push_back(*converted);
    }
  } else if (auto *gep = dyn_cast<GetElementPtrInst>(&op)) {
    result = {address(llvm::cast<GEPOperator>(gep),
                      [&](const Value *value) { return get(thread, value); })};
  } else if (auto *slot = dyn_cast<AllocaInst>(&op)) {
    auto &words = thread.stack[slot];
    words.resize(divideCeil(data.getTypeAllocSize(slot->getAllocatedType()).getFixedValue(), 8));
    result = {reinterpret_cast<uint64_t>(words.data())};
  } else if (auto *access = dyn_cast<LoadInst>(&op)) {
    if (access->getPointerAddressSpace() == 1 &&
        !checkGlobal(operand(0)[0], access->getAlign().value()))
      return false;
    if (!load(thread, operand(0)[0], op.getType(), result))
      return false;
  } else if (auto *access = dyn_cast<StoreInst>(&op)) {
    if (access->getPointerAddressSpace() == 1 &&
        !checkGlobal(operand(1)[0], access->getAlign().value()))
      return false;
    return store(thread, operand(1)[0], op.getOperand(0)->getType(), operand(0));
  } else if (auto *atomic = dyn_cast<AtomicRMWInst>(&op)) {
    uint64_t at = operand(0)[0];
    bool adds = atomic->getOperation() == AtomicRMWInst::Add;
    if (adds && op.getType()->isIntegerTy(32) && at < kClusterBase && isShared(at)) {
      if (!addAtomically(thread, at, uint32_t(operand(1)[0]), result))
        return false;
    } else if (isShared(at) || !modify(*atomic, at, operand(1)[0], result)) {
      return unknown(op);
    } else if (sim.order) {
      sim.order->writeGlobal(inCluster(thread), at, bitsIn(op.getType()) / 8);
    }
  } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&op)) {
    uint64_t at = operand(0)[0], old = 0;
    if (isShared(at))
      return unknown(op);
    unsigned size = bitsIn(exchange->getCompareOperand()->getType()) / 8;
    std::memcpy(&old, reinterpret_cast<const void *>(at), size);
    bool equal = old == operand(1)[0];
    if (uint64_t value = operand(2)[0]; equal)
      std::memcpy(reinterpret_cast<void *>(at), &value, size);
    result = {old, equal};
  } else if (isa<InsertElementInst>(op)) {
    result = operand(0);
    result[operand(2)[0]] = operand(1)[0];
  } else if (isa<ExtractElementInst>(op)) {
    result = {part(op.getOperand(0), operand(1)[0])};
  } else if (auto *shuffle = dyn_cast<ShuffleVectorInst>(&op)) {
    Words all = operand(0), more = operand(1);
    all.insert(all.end(), more.begin(), more.end());
    for (int index : shuffle->getShuffleMask())
      result.push_back(index < 0 ? 0 : all[index]);
  } else if (auto *extract = dyn_cast<ExtractValueInst>(&op)) {
    result = {part(op.getOperand(0), extract->getIndices()[0])};
  } else if (auto *insert = dyn_cast<InsertValueInst>(&op)) {
    result = operand(0);
    result[insert->getIndices()[0]] = operand(1)[0];
  } else if (isa<FreezeInst>(op)) {
    result = operand(0);
  } else {
    return unknown(op);
  }
  thread.values[&op] = std::move(result);
  return true;
}

} // namespace nereid::test

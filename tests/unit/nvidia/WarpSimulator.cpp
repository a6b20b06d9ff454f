#include "WarpSimulator.h"

#include "DeviceMath.h"
#include "MatrixUnits.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/GetElementPtrTypeIterator.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>
#include <optional>

using namespace llvm;

namespace nereid::test {

using Words = WarpSimulator::Words;

/// Shared memory begins here in the simulated address space; addresses below 2^24 + its size.
constexpr uint64_t kSharedBase = 1 << 24;

struct WarpSimulator::Thread {
  unsigned id = 0;
  const BasicBlock *block = nullptr, *previous = nullptr;
  BasicBlock::const_iterator next;
  DenseMap<const Value *, Words> values;
  const CallInst *waiting = nullptr; ///< at an operation of several threads
  bool done = false;
  unsigned depth = 0;            ///< of functions that the kernel has called
  std::optional<Words> returned; ///< what the innermost of them gives back, once it ends
  /// Bytes that cp.async brings to an address of shared memory. They land when they are waited for,
  /// which is as late as they may: what reads them earlier sees what was there before.
  struct Arrival {
    uint64_t at;
    std::vector<uint8_t> bytes;
  };
  std::vector<std::vector<Arrival>> copies = {{}}; ///< by group; the last one is open
};

namespace {

uint64_t maskTo(uint64_t value, unsigned bits) {
  return bits >= 64 ? value : value & ((uint64_t(1) << bits) - 1);
}
int64_t signedOf(uint64_t value, unsigned bits) {
  return bits >= 64 ? int64_t(value) : SignExtend64(value, bits);
}
APFloat floatOf(uint64_t value, Type *type) {
  return APFloat(type->getFltSemantics(), APInt(type->getPrimitiveSizeInBits(), value));
}
uint64_t bitsOf(const APFloat &value) {
  return value.bitcastToAPInt().getZExtValue();
}
unsigned bitsIn(Type *scalar) {
  return scalar->isPointerTy() ? 64 : unsigned(scalar->getPrimitiveSizeInBits());
}

} // namespace

struct WarpSimulator::Interpreter {
  Interpreter(WarpSimulator &sim, std::array<uint32_t, 3> programId,
              std::array<uint32_t, 3> programs)
      : sim(sim), data(sim.module.getDataLayout()), programId(programId), programs(programs) {}

  WarpSimulator &sim;
  const DataLayout &data;
  std::array<uint32_t, 3> programId, programs;

  bool fail(const Twine &message) {
    if (sim.error.empty())
      sim.error = message.str();
    return false;
  }
  bool unknown(const Value &value) {
    std::string text;
    raw_string_ostream(text) << "the simulator does not know:" << value;
    return fail(text);
  }

  //===--- values and memory ---------------------------------------------------------------===//

  Words constant(const Constant *value) {
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

  uint64_t constantData(const GlobalVariable *global) {
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
  DenseMap<const GlobalVariable *, std::vector<uint8_t>> tables;

  static unsigned count(Type *type) {
    if (auto *vector = dyn_cast<FixedVectorType>(type))
      return vector->getNumElements();
    if (auto *structure = dyn_cast<StructType>(type))
      return structure->getNumElements();
    return 1;
  }

  Words get(Thread &thread, const Value *value) {
    if (auto *known = dyn_cast<Constant>(value))
      return constant(known);
    return thread.values[value];
  }

  template <typename Get> uint64_t address(const GEPOperator *gep, Get get) {
    uint64_t at = get(gep->getPointerOperand())[0];
    for (auto it = gep_type_begin(gep); it != gep_type_end(gep); ++it) {
      uint64_t index = get(it.getOperand())[0];
      if (StructType *structure = it.getStructTypeOrNull()) {
        at += data.getStructLayout(structure)->getElementOffset(index);
        continue;
      }
      at += signedOf(index, it.getOperand()->getType()->getIntegerBitWidth()) *
            int64_t(it.getSequentialElementStride(data));
    }
    return at;
  }

  bool touch(Thread &thread, uint64_t at, unsigned bytes, bool write) {
    if (at + bytes > sim.shared.size())
      return fail("thread " + Twine(thread.id) + " reaches beyond shared memory: byte " +
                  Twine(at));
    if (at % bytes)
      return fail("misaligned access of " + Twine(bytes) + " bytes at " + Twine(at));
    ++sim.accesses;
    int32_t me = thread.id;
    for (unsigned i = 0; i < bytes; ++i) {
      Watch &watch = sim.seen[at + i];
      if (watch.epoch != sim.epoch)
        watch = {sim.epoch, -1, -1};
      bool otherWrote = watch.writer != -1 && watch.writer != me;
      bool otherRead = watch.reader != -1 && watch.reader != me;
      if (otherWrote || (write && otherRead))
        return fail("race at byte " + Twine(at + i) + ": thread " + Twine(me) +
                    (write ? " writes" : " reads") + " what thread " +
                    Twine(otherWrote ? watch.writer : watch.reader) +
                    (otherWrote ? " wrote" : " read"));
      (write ? watch.writer : watch.reader) =
          write || watch.reader == -1 || watch.reader == me ? me : -2;
    }
    return true;
  }

  /// An atomic addition of 32 bits in shared memory, which others may do to the same bytes.
  bool addAtomically(Thread &thread, uint64_t at, uint32_t number, Words &before) {
    constexpr int32_t anyone = -3;
    at -= kSharedBase;
    if (at + 4 > sim.shared.size() || at % 4)
      return fail("an atomic operation at byte " + Twine(at));
    for (unsigned i = 0; i < 4; ++i) {
      Watch &watch = sim.seen[at + i];
      if (watch.epoch != sim.epoch)
        watch = {sim.epoch, -1, -1};
      if (watch.reader != -1 || (watch.writer != -1 && watch.writer != anyone))
        return fail("race at byte " + Twine(at + i) + ": an atomic operation and an access");
      watch.writer = anyone;
    }
    uint32_t old;
    std::memcpy(&old, sim.shared.data() + at, 4);
    number += old;
    std::memcpy(sim.shared.data() + at, &number, 4);
    before = {old};
    return true;
  }

  /// One access of `bytes` bytes of global memory: a GPU stops where they straddle a multiple.
  bool checkGlobal(uint64_t at, uint64_t bytes) {
    return at % bytes == 0 ||
           fail("misaligned access of " + Twine(bytes) + " bytes of global memory");
  }

  uint8_t *memory(Thread &thread, uint64_t at, unsigned bytes, bool write) {
    if (isShared(at)) {
      if (!touch(thread, at - kSharedBase, bytes, write))
        return nullptr;
      return sim.shared.data() + (at - kSharedBase);
    }
    return reinterpret_cast<uint8_t *>(at);
  }

  bool load(Thread &thread, uint64_t at, Type *type, Words &words) {
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
  bool store(Thread &thread, uint64_t at, Type *type, const Words &words) {
    unsigned size = divideCeil(bitsIn(type->getScalarType()), 8);
    uint8_t *to = memory(thread, at, size * words.size(), true);
    if (!to)
      return false;
    for (unsigned i = 0; i < words.size(); ++i)
      std::memcpy(to + i * size, &words[i], size);
    return true;
  }

  //===--- single threads ------------------------------------------------------------------===//

  std::optional<uint64_t> binary(unsigned opcode, Type *type, uint64_t a, uint64_t b) {
    unsigned bits = bitsIn(type);
    if (type->isFloatingPointTy()) {
      APFloat x = floatOf(a, type), y = floatOf(b, type);
      switch (opcode) {
      case Instruction::FAdd:
        x.add(y, APFloat::rmNearestTiesToEven);
        return bitsOf(x);
      case Instruction::FSub:
        x.subtract(y, APFloat::rmNearestTiesToEven);
        return bitsOf(x);
      case Instruction::FMul:
        x.multiply(y, APFloat::rmNearestTiesToEven);
        return bitsOf(x);
      case Instruction::FDiv:
        x.divide(y, APFloat::rmNearestTiesToEven);
        return bitsOf(x);
      default:
        return std::nullopt;
      }
    }
    switch (opcode) {
    case Instruction::Add:
      return maskTo(a + b, bits);
    case Instruction::Sub:
      return maskTo(a - b, bits);
    case Instruction::Mul:
      return maskTo(a * b, bits);
    case Instruction::And:
      return a & b;
    case Instruction::Or:
      return a | b;
    case Instruction::Xor:
      return a ^ b;
    case Instruction::Shl:
      return b >= bits ? 0 : maskTo(a << b, bits);
    case Instruction::LShr:
      return b >= bits ? 0 : a >> b;
    case Instruction::AShr:
      return maskTo(signedOf(a, bits) >> std::min<uint64_t>(b, 63), bits);
    case Instruction::UDiv:
      return b ? a / b : 0;
    case Instruction::URem:
      return b ? a % b : 0;
    case Instruction::SDiv:
      return b ? maskTo(signedOf(a, bits) / signedOf(b, bits), bits) : 0;
    case Instruction::SRem:
      return b ? maskTo(signedOf(a, bits) % signedOf(b, bits), bits) : 0;
    default:
      return std::nullopt;
    }
  }

  static bool compare(CmpInst::Predicate predicate, Type *type, uint64_t a, uint64_t b) {
    if (CmpInst::isFPPredicate(predicate))
      return FCmpInst::compare(floatOf(a, type), floatOf(b, type), predicate);
    unsigned bits = bitsIn(type);
    return ICmpInst::compare(APInt(bits, a), APInt(bits, b), predicate);
  }

  std::optional<uint64_t> convert(const CastInst &cast, uint64_t value) {
    Type *from = cast.getSrcTy()->getScalarType(), *to = cast.getDestTy()->getScalarType();
    switch (cast.getOpcode()) {
    case Instruction::Trunc:
    case Instruction::ZExt:
    case Instruction::PtrToInt:
    case Instruction::IntToPtr:
    case Instruction::AddrSpaceCast:
      return maskTo(value, bitsIn(to));
    case Instruction::SExt:
      return maskTo(signedOf(value, bitsIn(from)), bitsIn(to));
    case Instruction::FPExt:
    case Instruction::FPTrunc: {
      APFloat number = floatOf(value, from);
      bool lost;
      number.convert(to->getFltSemantics(), APFloat::rmNearestTiesToEven, &lost);
      return bitsOf(number);
    }
    case Instruction::SIToFP:
    case Instruction::UIToFP: {
      APFloat number(to->getFltSemantics());
      number.convertFromAPInt(APInt(bitsIn(from), value), cast.getOpcode() == Instruction::SIToFP,
                              APFloat::rmNearestTiesToEven);
      return bitsOf(number);
    }
    case Instruction::FPToSI:
    case Instruction::FPToUI: {
      APSInt number(bitsIn(to), cast.getOpcode() == Instruction::FPToUI);
      bool exact;
      floatOf(value, from).convertToInteger(number, APFloat::rmTowardZero, &exact);
      return number.getZExtValue();
    }
    default:
      return std::nullopt;
    }
  }

  static Words bitcast(const Words &words, Type *from, Type *to) {
    unsigned fromBits = bitsIn(from->getScalarType()), toBits = bitsIn(to->getScalarType());
    Words result(count(to), 0);
    for (unsigned bit = 0, all = fromBits * words.size(); bit < all; ++bit)
      if (words[bit / fromBits] >> bit % fromBits & 1)
        result[bit / toBits] |= uint64_t(1) << bit % toBits;
    return result;
  }

  static bool isWide(Type *type) { return type->isIntegerTy(128); }

  /// What operations on 128 bits, and their truncation, give; as far as products of 64 bits need
  /// them.
  std::optional<Words> wide(Thread &thread, const Instruction &op) {
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

  bool isShared(uint64_t at) const {
    return at >= kSharedBase && at < kSharedBase + sim.shared.size() + 4096;
  }

  /// A read-modify-write in global memory: programs and threads run one after the other there.
  bool modify(const AtomicRMWInst &op, uint64_t at, uint64_t number, Words &before) {
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

  /// Runs a function that was not inlined; it is of one thread, since blocks are inlined.
  bool invoke(Thread &thread, const CallInst &call, const Function &callee) {
    auto block = thread.block, previous = thread.previous;
    auto next = thread.next;
    for (const Argument &argument : callee.args())
      thread.values[&argument] = get(thread, call.getArgOperand(argument.getArgNo()));
    ++thread.depth;
    enter(thread, &callee.getEntryBlock());
    thread.returned.reset();
    while (!thread.returned) {
      if (!step(thread))
        return false;
      if (thread.waiting)
        return fail("an operation of several threads in " + callee.getName());
    }
    --thread.depth;
    if (!call.getType()->isVoidTy())
      thread.values[&call] = std::move(*thread.returned);
    thread.returned.reset();
    thread.block = block;
    thread.previous = previous;
    thread.next = next;
    return true;
  }

  /// Until the thread waits for others or ends.
  bool runThread(Thread &thread) {
    while (!thread.done && !thread.waiting)
      if (!step(thread))
        return false;
    return true;
  }

  void enter(Thread &thread, const BasicBlock *block) {
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

  bool step(Thread &thread) {
    const Instruction &op = *thread.next++;
    auto operand = [&](unsigned i) { return get(thread, op.getOperand(i)); };
    Words result;
    if (auto *call = dyn_cast<CallInst>(&op)) {
      return visitCall(thread, *call);
    } else if (auto *branch = dyn_cast<BranchInst>(&op)) {
      bool taken = branch->isUnconditional() || get(thread, branch->getCondition())[0];
      enter(thread, branch->getSuccessor(taken ? 0 : 1));
      return true;
    } else if (isa<ReturnInst>(op)) {
      if (thread.depth)
        thread.returned = op.getNumOperands() ? operand(0) : Words();
      else
        thread.done = true;
      return true;
    } else if (isWide(op.getType()) ||
               (isa<TruncInst>(op) && isWide(op.getOperand(0)->getType()))) {
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
      if (adds && op.getType()->isIntegerTy(32) && isShared(at)) {
        if (!addAtomically(thread, at, uint32_t(operand(1)[0]), result))
          return false;
      } else if (isShared(at) || !modify(*atomic, at, operand(1)[0], result)) {
        return unknown(op);
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
      result = {operand(0)[operand(1)[0]]};
    } else if (auto *shuffle = dyn_cast<ShuffleVectorInst>(&op)) {
      Words all = operand(0), more = operand(1);
      all.insert(all.end(), more.begin(), more.end());
      for (int index : shuffle->getShuffleMask())
        result.push_back(index < 0 ? 0 : all[index]);
    } else if (auto *extract = dyn_cast<ExtractValueInst>(&op)) {
      result = {operand(0)[extract->getIndices()[0]]};
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

  bool visitCall(Thread &thread, const CallInst &call) {
    auto argument = [&](unsigned i) { return get(thread, call.getArgOperand(i))[0]; };
    if (isa<InlineAsm>(call.getCalledOperand()))
      return visitAsm(thread, call);
    Intrinsic::ID id = call.getIntrinsicID();
    auto give = [&](uint64_t word) {
      thread.values[&call] = {word};
      return true;
    };
    auto floats = [&](auto function) {
      Words a = get(thread, call.getArgOperand(0)), b = get(thread, call.getArgOperand(1)), result;
      Type *type = call.getType()->getScalarType();
      for (unsigned i = 0; i < a.size(); ++i)
        result.push_back(bitsOf(function(floatOf(a[i], type), floatOf(b[i], type))));
      thread.values[&call] = result;
      return true;
    };
    auto integers = [&](CmpInst::Predicate predicate) {
      uint64_t a = argument(0), b = argument(1);
      return give(compare(predicate, call.getType(), a, b) ? a : b);
    };
    // Approximations are better here than on the device.
    auto number = [&](unsigned i) {
      return double(floatOf(argument(i), Type::getFloatTy(call.getContext())).convertToFloat());
    };
    auto single = [&](double value) { return give(bitsOf(APFloat(float(value)))); };
    auto narrowed = [&](unsigned i, RoundingMode mode = APFloat::rmNearestTiesToEven) {
      APFloat value = floatOf(argument(i), call.getArgOperand(i)->getType());
      bool inexact = false;
      value.convert(call.getType()->getScalarType()->getFltSemantics(), mode, &inexact);
      return bitsOf(value);
    };
    auto rounded = [&](RoundingMode mode) {
      APFloat value = floatOf(argument(0), call.getType());
      value.roundToIntegral(mode);
      return give(bitsOf(value));
    };
    switch (id) {
    case Intrinsic::nvvm_read_ptx_sreg_tid_x:
      return give(thread.id);
    case Intrinsic::nvvm_read_ptx_sreg_ctaid_x:
      return give(programId[0]);
    case Intrinsic::nvvm_read_ptx_sreg_ctaid_y:
      return give(programId[1]);
    case Intrinsic::nvvm_read_ptx_sreg_ctaid_z:
      return give(programId[2]);
    case Intrinsic::nvvm_read_ptx_sreg_nctaid_x:
      return give(programs[0]);
    case Intrinsic::nvvm_read_ptx_sreg_nctaid_y:
      return give(programs[1]);
    case Intrinsic::nvvm_read_ptx_sreg_nctaid_z:
      return give(programs[2]);
    case Intrinsic::assume:
    case Intrinsic::lifetime_start:
    case Intrinsic::lifetime_end:
      return true;
    case Intrinsic::smax:
      return integers(CmpInst::ICMP_SGT);
    case Intrinsic::smin:
      return integers(CmpInst::ICMP_SLT);
    case Intrinsic::umax:
      return integers(CmpInst::ICMP_UGT);
    case Intrinsic::umin:
      return integers(CmpInst::ICMP_ULT);
    case Intrinsic::maxnum:
      return floats([](APFloat a, APFloat b) { return maxnum(a, b); });
    case Intrinsic::minnum:
      return floats([](APFloat a, APFloat b) { return minnum(a, b); });
    case Intrinsic::maximum:
      return floats([](APFloat a, APFloat b) { return maximum(a, b); });
    case Intrinsic::minimum:
      return floats([](APFloat a, APFloat b) { return minimum(a, b); });
    case Intrinsic::copysign:
      return floats([](APFloat a, APFloat b) { return APFloat::copySign(a, b); });
    case Intrinsic::fabs:
      return give(bitsOf(abs(floatOf(argument(0), call.getType()))));
    case Intrinsic::nvvm_ex2_approx:
    case Intrinsic::nvvm_ex2_approx_ftz:
      return single(std::exp2(number(0)));
    case Intrinsic::nvvm_lg2_approx_f:
    case Intrinsic::nvvm_lg2_approx_ftz_f:
      return single(std::log2(number(0)));
    case Intrinsic::nvvm_mul_rn_f:
      return single(number(0) * number(1));
    case Intrinsic::nvvm_sqrt_approx_f:
    case Intrinsic::nvvm_sqrt_approx_ftz_f:
      return single(std::sqrt(number(0)));
    case Intrinsic::nvvm_rsqrt_approx_f:
    case Intrinsic::nvvm_rsqrt_approx_ftz_f:
      return single(1 / std::sqrt(number(0)));
    case Intrinsic::nvvm_div_full:
    case Intrinsic::nvvm_div_full_ftz:
      return single(number(0) / number(1));
    case Intrinsic::nvvm_rcp_approx_ftz_f:
      return single(1 / number(0));
    case Intrinsic::nvvm_fma_rn_sat_f:
      return single(std::clamp(number(0) * number(1) + number(2), 0.0, 1.0));
    case Intrinsic::floor:
      return rounded(APFloat::rmTowardNegative);
    case Intrinsic::ceil:
      return rounded(APFloat::rmTowardPositive);
    case Intrinsic::trunc:
      return rounded(APFloat::rmTowardZero);
    case Intrinsic::rint:
    case Intrinsic::nearbyint:
    case Intrinsic::roundeven:
      return rounded(APFloat::rmNearestTiesToEven);
    case Intrinsic::sqrt:
    case Intrinsic::nvvm_sqrt_rn_f:
    case Intrinsic::nvvm_sqrt_rn_d: {
      APFloat value = floatOf(argument(0), call.getType());
      if (call.getType()->isFloatTy())
        return give(bitsOf(APFloat(std::sqrt(value.convertToFloat()))));
      if (call.getType()->isDoubleTy())
        return give(bitsOf(APFloat(std::sqrt(value.convertToDouble()))));
      return unknown(call);
    }
    case Intrinsic::nvvm_f2bf16_rn:
    case Intrinsic::nvvm_d2f_rn:
      return give(narrowed(0));
    case Intrinsic::nvvm_f2f16_rz:
    case Intrinsic::nvvm_f2bf16_rz:
    case Intrinsic::nvvm_d2f_rz:
      return give(narrowed(0, APFloat::rmTowardZero));
    case Intrinsic::nvvm_ff2bf16x2_rn:
    case Intrinsic::nvvm_ff2f16x2_rn:
      thread.values[&call] = {narrowed(1), narrowed(0)}; // the first is the upper half
      return true;
    case Intrinsic::nvvm_prmt: { // bytes of both words, by the digits of the third
      uint64_t bytes = argument(0) | argument(1) << 32, word = 0;
      for (unsigned i = 0; i < 4; ++i) {
        unsigned digit = argument(2) >> 4 * i & 15;
        uint64_t byte = bytes >> 8 * (digit & 7) & 0xff;
        word |= (digit & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * i;
      }
      return give(word);
    }
    case Intrinsic::nvvm_ff_to_e5m2x2_rn:
    case Intrinsic::nvvm_ff_to_e4m3x2_rn:
      return give(packFloat8(argument(0), argument(1), id == Intrinsic::nvvm_ff_to_e5m2x2_rn));
    case Intrinsic::nvvm_e4m3x2_to_f16x2_rn:
      thread.values[&call] = {halfOfE4M3(argument(0)), halfOfE4M3(argument(0) >> 8)};
      return true;
    case Intrinsic::fma: {
      Type *type = call.getType()->getScalarType();
      Words x = get(thread, call.getArgOperand(0)), y = get(thread, call.getArgOperand(1)),
            z = get(thread, call.getArgOperand(2));
      for (unsigned i = 0; i < x.size(); ++i) {
        APFloat a = floatOf(x[i], type);
        a.fusedMultiplyAdd(floatOf(y[i], type), floatOf(z[i], type), APFloat::rmNearestTiesToEven);
        x[i] = bitsOf(a);
      }
      thread.values[&call] = x;
      return true;
    }
    case Intrinsic::not_intrinsic: {
      const Function *callee = call.getCalledFunction();
      if (!callee)
        return unknown(call);
      if (!callee->isDeclaration())
        return invoke(thread, call, *callee);
      Words arguments;
      for (const Value *value : call.args())
        arguments.push_back(get(thread, value)[0]);
      if (auto known = deviceFunction(callee->getName(), call.getType(), arguments))
        return give(*known);
      if (!sim.external)
        return unknown(call);
      thread.values[&call] = {sim.external(thread.id, callee->getName(), arguments)};
      return true;
    }
    default:
      thread.waiting = &call;
      return true;
    }
  }

  /// `@$p ld.global.v2.b32 {$0, $1}, [$4+16];` and the like, one instruction.
  bool visitAsm(Thread &thread, const CallInst &call) {
    auto *code = cast<InlineAsm>(call.getCalledOperand());
    StringRef text = StringRef(code->getAsmString()).trim();
    if (text.starts_with("wgmma.wait_group")) { // accumulators pass through
      Words words;
      for (const Value *value : call.args())
        words.push_back(get(thread, value)[0]);
      thread.values[&call] = words;
      return true;
    }
    if (text.starts_with("stmatrix") || text.starts_with("mma.sync") || ofGroup(&call)) {
      thread.waiting = &call;
      return true;
    }
    if (text.empty() || text.starts_with("fence") || text.starts_with("//"))
      return true;
    unsigned results = call.getType()->isVoidTy() ? 0 : count(call.getType());
    // Operands by number: results, then arguments (tied ones included).
    auto value = [&](unsigned number) {
      return get(thread, call.getArgOperand(number - results))[0];
    };
    auto number = [](StringRef &rest) {
      unsigned n = 0;
      rest = rest.drop_until([](char c) { return c == '$'; }).drop_front();
      rest.consumeInteger(10, n);
      return n;
    };
    bool active = true;
    if (text.consume_front("@")) {
      active = value(number(text));
      text = text.trim();
    }
    if (text.starts_with("mov.b") && text.ends_with("$0, $1;")) {
      thread.values[&call] = {value(1)};
      return true;
    }
    StringRef opcode = text.take_until([](char c) { return c == ' ' || c == ';'; });
    StringRef rest = text.drop_front(opcode.size());
    if (opcode.starts_with("createpolicy.")) {
      thread.values[&call] = {0};
      return true;
    }
    if (opcode.starts_with("cp.async.c") || opcode.starts_with("cp.async.wait_group"))
      return visitCopy(thread, call, opcode, rest, active, value);
    if (opcode.starts_with("atom.") || opcode.starts_with("red."))
      return visitAtomic(thread, call, opcode, rest, active, value);
    auto accesses = [&](StringRef name) {
      return opcode.starts_with(name) && opcode.contains(".global") && !opcode.contains(".async");
    };
    bool isLoad = accesses("ld."), isStore = accesses("st.");
    if ((!isLoad && !isStore) || text.count(';') > 1)
      return unknown(call);
    unsigned bits = 0;
    opcode.rsplit('.').second.drop_front().getAsInteger(10, bits);
    StringRef place = rest.drop_until([](char c) { return c == '['; });
    StringRef registers = isLoad ? rest.take_until([](char c) { return c == '['; })
                                 : place.drop_until([](char c) { return c == ']'; });
    SmallVector<unsigned> numbers;
    while (registers.contains('$'))
      numbers.push_back(number(registers));
    uint64_t at = value(number(place));
    int64_t offset = 0;
    if (place.consume_front("+"))
      place.consumeInteger(10, offset);
    Type *word = IntegerType::get(call.getContext(), bits);
    if (active && !checkGlobal(at + offset, bits / 8 * (isLoad ? results : numbers.size())))
      return false;
    if (isLoad) {
      Words loaded(results, 0);
      for (unsigned i = 0; i < results; ++i) {
        // What stays where the predicate is false is tied to the results, in their order.
        loaded[i] = call.arg_size() > results ? get(thread, call.getArgOperand(i))[0] : 0;
        Words one;
        if (!active)
          continue;
        if (!load(thread, at + offset + i * bits / 8, word, one))
          return false;
        loaded[i] = one[0];
      }
      thread.values[&call] = loaded;
      return true;
    }
    for (unsigned i = 0; active && i < numbers.size() && i < call.arg_size(); ++i)
      if (!store(thread, at + offset + i * bits / 8, word, {value(numbers[i])}))
        return false;
    return true;
  }

  /// `cp.async.ca.shared.global.L2::128B [$0], [$1], 8, $2;`, `cp.async.commit_group;` and
  /// `cp.async.wait_group 1;`. The last operand of a copy is the bytes to read, or a predicate that
  /// forbids reading any.
  template <typename Value>
  bool visitCopy(Thread &thread, const CallInst &call, StringRef opcode, StringRef rest,
                 bool active, Value value) {
    unsigned size = 0, pending = 0;
    if (opcode.ends_with("commit_group")) {
      thread.copies.emplace_back();
    } else if (opcode.ends_with("wait_group")) {
      if (rest.trim().consumeInteger(10, pending))
        return fail("a wait for copies without a number");
      while (thread.copies.size() > pending + 1) { // the last one is still open
        for (const Thread::Arrival &arrival : thread.copies.front()) {
          uint8_t *to = memory(thread, arrival.at, arrival.bytes.size(), true);
          if (!to)
            return false;
          std::memcpy(to, arrival.bytes.data(), arrival.bytes.size());
        }
        thread.copies.erase(thread.copies.begin());
      }
    } else if (active) {
      auto [places, sizes] = rest.rsplit("], ");
      sizes.consumeInteger(10, size);
      uint64_t at = value(0), from = value(1), filled = value(2);
      if (call.getArgOperand(2)->getType()->isIntegerTy(1))
        filled = filled ? 0 : size;
      if (filled && !checkGlobal(from, size))
        return false;
      // From here on nobody may touch the place.
      if (!memory(thread, at, size, true))
        return false;
      std::vector<uint8_t> bytes(size, 0); // what lies beyond the source's size is zero
      std::memcpy(bytes.data(), reinterpret_cast<const uint8_t *>(from),
                  std::min<uint64_t>(size, filled));
      thread.copies.back().push_back({at, std::move(bytes)});
    }
    return true;
  }

  /// What `atom.relaxed.gpu.global.OPERATION.TYPE` leaves in memory; nothing if it is unknown here.
  std::optional<uint64_t> combine(StringRef operation, StringRef type, uint64_t old,
                                  uint64_t number) {
    LLVMContext &context = sim.module.getContext();
    Type *real = StringSwitch<Type *>(type)
                     .Case("f16", Type::getHalfTy(context))
                     .Case("bf16", Type::getBFloatTy(context))
                     .Case("f32", Type::getFloatTy(context))
                     .Case("f64", Type::getDoubleTy(context))
                     .Default(nullptr);
    if (operation == "exch")
      return number;
    if (real)
      return operation == "add" ? binary(Instruction::FAdd, real, old, number) : std::nullopt;
    unsigned bits = 0;
    type.drop_front().getAsInteger(10, bits);
    bool isSigned = type.starts_with("s");
    bool less = isSigned ? signedOf(old, bits) < signedOf(number, bits) : old < number;
    return StringSwitch<std::optional<uint64_t>>(operation)
        .Case("add", maskTo(old + number, bits))
        .Case("and", old & number)
        .Case("or", old | number)
        .Case("xor", old ^ number)
        .Case("max", less ? number : old)
        .Case("min", less ? old : number)
        .Default(std::nullopt);
  }

  /// `atom.relaxed.gpu.global.add.v2.f32 {$0, $1}, [$2+8], {$3, $4};` and the like.
  template <typename Value>
  bool visitAtomic(Thread &thread, const CallInst &call, StringRef opcode, StringRef rest,
                   bool active, Value value) {
    auto numbers = [](StringRef text) {
      SmallVector<unsigned> found;
      while (text.contains('$')) {
        unsigned n = 0;
        text = text.drop_until([](char c) { return c == '$'; }).drop_front();
        text.consumeInteger(10, n);
        found.push_back(n);
      }
      return found;
    };
    SmallVector<StringRef> words;
    opcode.split(words, '.');
    StringRef operation = words[4], type = words.back();
    auto [results, tail] = rest.split('[');
    auto [place, operands] = tail.split(']');
    SmallVector<unsigned> given = numbers(operands);
    bool exchanges = operation == "cas";
    unsigned registers = exchanges ? given.size() / 2 : given.size();
    bool isPair = type.consume_back("x2"); // two halves in a register
    unsigned bits = 0;
    type.drop_while([](char c) { return !isDigit(c); }).getAsInteger(10, bits);
    int64_t offset = 0;
    if (auto plus = place.find('+'); plus != StringRef::npos)
      place.drop_front(plus + 1).getAsInteger(10, offset);
    uint64_t at = value(numbers(place)[0]) + offset;
    Words before(registers, 0);
    for (unsigned i = 0; active && i < registers; ++i)
      for (unsigned half = 0; half < (isPair ? 2 : 1); ++half) {
        auto *memory = reinterpret_cast<uint8_t *>(at + (isPair ? 2 * i + half : i) * bits / 8);
        uint64_t old = 0, number = maskTo(value(given[i]) >> half * bits, bits);
        std::memcpy(&old, memory, bits / 8);
        before[i] |= old << half * bits;
        std::optional<uint64_t> left = old;
        if (!exchanges)
          left = combine(operation, type, old, number);
        else if (old == number)
          left = maskTo(value(given[registers + i]), bits);
        if (!left)
          return unknown(call);
        std::memcpy(memory, &*left, bits / 8);
      }
    if (!call.getType()->isVoidTy())
      thread.values[&call] = before;
    return true;
  }

  //===--- several threads -----------------------------------------------------------------===//

  static bool ofBlock(const CallInst *call) {
    switch (call->getIntrinsicID()) {
    case Intrinsic::nvvm_barrier_cta_sync_aligned_all:
    case Intrinsic::nvvm_barrier_cta_sync_aligned_count:
      return true;
    default:
      return false;
    }
  }

  /// Of four warps.
  static bool ofGroup(const CallInst *call) {
    auto *code = dyn_cast<InlineAsm>(call->getCalledOperand());
    return code && StringRef(code->getAsmString()).contains("wgmma.mma_async");
  }

  /// Matrix instructions of 32 or 128 threads, one after the other.
  bool runProducts(MutableArrayRef<Thread> threads) {
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
    group.shared = [&](uint64_t at, unsigned bytes, uint64_t &word) {
      Words loaded;
      if (!load(threads[0], kSharedBase + at, IntegerType::get(call.getContext(), 8 * bytes),
                loaded))
        return false;
      word = loaded[0];
      return true;
    };
    StringMap<bool> predicates;
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
      } else if (line.starts_with(isWarp ? "mma.sync" : "wgmma.mma_async")) {
        if (isWarp)
          line = StringRef(text); // with its last brace
        if (std::string wrong = multiply(line, group); !wrong.empty())
          return fail(wrong);
      }
    }
    for (auto [thread, words] : zip(threads, registers)) {
      thread.values[&call] = words;
      thread.waiting = nullptr;
    }
    return true;
  }

  bool runWarp(MutableArrayRef<Thread> warp) {
    if (auto *code = dyn_cast<InlineAsm>(warp[0].waiting->getCalledOperand());
        code && StringRef(code->getAsmString()).starts_with("mma.sync"))
      return runProducts(warp);
    const CallInst &call = *warp[0].waiting;
    auto argument = [&](Thread &thread, unsigned i) {
      return get(thread, call.getArgOperand(i))[0];
    };
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
        ++sim.epoch;
      }
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

  bool storeMatrices(MutableArrayRef<Thread> warp, const CallInst &call) {
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

  bool runBlock(std::vector<Thread> &threads) {
    while (true) {
      for (Thread &thread : threads)
        if (!runThread(thread))
          return false;
      unsigned ended = count_if(threads, [](const Thread &thread) { return thread.done; });
      if (ended == threads.size())
        return true;
      bool warpsMoved = false;
      for (unsigned warp = 0; warp < threads.size(); warp += 32) {
        MutableArrayRef<Thread> lanes(threads.data() + warp, 32);
        for (Thread &thread : lanes)
          if (thread.waiting != lanes[0].waiting)
            return fail("the threads of warp " + Twine(warp / 32) + " have diverged");
        if (!lanes[0].waiting || ofBlock(lanes[0].waiting))
          continue;
        if (ofGroup(lanes[0].waiting)) {
          MutableArrayRef<Thread> group(threads.data() + warp / 128 * 128, 128);
          if (all_of(group, [&](Thread &thread) { return thread.waiting == lanes[0].waiting; })) {
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
      if (warpsMoved)
        continue;
      for (Thread &thread : threads)
        if (thread.waiting != threads[0].waiting)
          return fail("warps wait at different barriers");
      for (Thread &thread : threads)
        thread.waiting = nullptr;
      ++sim.barriers;
      ++sim.epoch;
    }
  }
};

std::string WarpSimulator::run(StringRef entry, const Words &arguments,
                               std::array<uint32_t, 3> programId,
                               std::array<uint32_t, 3> programs) {
  error.clear();
  ++epoch;
  const Function *function = module.getFunction(entry);
  if (!function)
    return "no such function";
  Interpreter interpreter(*this, programId, programs);
  std::vector<Thread> threads(threadCount);
  for (unsigned id = 0; id < threadCount; ++id) {
    threads[id].id = id;
    for (const Argument &argument : function->args())
      threads[id].values[&argument] = {
          argument.getArgNo() < arguments.size() ? arguments[argument.getArgNo()] : 0};
    interpreter.enter(threads[id], &function->getEntryBlock());
  }
  interpreter.runBlock(threads);
  return error;
}

} // namespace nereid::test

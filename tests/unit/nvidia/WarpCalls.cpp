// Calls and inline assembly of one thread.
#include "WarpInterpreter.h"

#include "DeviceMath.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <cmath>
#include <cstring>

using namespace llvm;

namespace nereid::test {

using Words = WarpSimulator::Words;

/// What `prmt` gives: bytes of both words, by the digits of `selector`.
static uint64_t permutedBytes(uint64_t low, uint64_t high, uint64_t selector) {
  uint64_t bytes = low | high << 32, word = 0;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned digit = selector >> 4 * i & 15;
    uint64_t byte = bytes >> 8 * (digit & 7) & 0xff;
    word |= (digit & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * i;
  }
  return word;
}

/// The largest fp32 number that is at most `exact`.
static APFloat singleBelow(double exact) {
  APFloat number(exact);
  bool lost;
  number.convert(APFloat::IEEEsingle(), APFloat::rmTowardNegative, &lost);
  return number;
}

/// What `.sat` makes of a number: limited to [0, 1], 0 of NaN.
static double saturated(double number) {
  return std::isnan(number) ? 0 : std::clamp(number, 0.0, 1.0);
}

std::optional<uint32_t> WarpSimulator::Interpreter::specialRegister(const Thread &thread,
                                                                    unsigned intrinsic) const {
  switch (intrinsic) {
  case Intrinsic::nvvm_read_ptx_sreg_tid_x:
    return thread.id;
  case Intrinsic::nvvm_read_ptx_sreg_ctaid_x:
    return programId[0] * uint32_t(sim.memories.size()) + rank;
  case Intrinsic::nvvm_read_ptx_sreg_ctaid_y:
    return programId[1];
  case Intrinsic::nvvm_read_ptx_sreg_ctaid_z:
    return programId[2];
  case Intrinsic::nvvm_read_ptx_sreg_nctaid_x:
    return programs[0] * uint32_t(sim.memories.size());
  case Intrinsic::nvvm_read_ptx_sreg_nctaid_y:
    return programs[1];
  case Intrinsic::nvvm_read_ptx_sreg_nctaid_z:
    return programs[2];
  case Intrinsic::nvvm_read_ptx_sreg_clusterid_x:
    return programId[0];
  case Intrinsic::nvvm_read_ptx_sreg_nclusterid_x:
    return programs[0];
  case Intrinsic::nvvm_read_ptx_sreg_cluster_nctaid_x:
    return uint32_t(sim.memories.size());
  case Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank:
    return rank;
  default:
    return std::nullopt;
  }
}

bool WarpSimulator::Interpreter::callFunction(Thread &thread, const CallInst &call) {
  const Function *callee = call.getCalledFunction();
  if (!callee)
    return unknown(call);
  if (!callee->isDeclaration())
    return invoke(thread, call, *callee), true;
  Words arguments;
  for (const Value *value : call.args())
    arguments.push_back(get(thread, value)[0]);
  if (auto known = deviceFunction(callee->getName(), call.getType(), arguments)) {
    thread.values[&call] = {*known};
    return true;
  }
  if (!sim.external)
    return unknown(call);
  thread.values[&call] = {
      sim.external(rank * sim.threadCount + thread.id, callee->getName(), arguments)};
  return true;
}

bool WarpSimulator::Interpreter::visitCall(Thread &thread, const CallInst &call) {
  auto argument = [&](unsigned i) { return get(thread, call.getArgOperand(i))[0]; };
  if (isa<InlineAsm>(call.getCalledOperand()))
    return visitAsm(thread, call);
  Intrinsic::ID id = call.getIntrinsicID();
  if (std::optional<uint32_t> word = specialRegister(thread, id)) {
    thread.values[&call] = {*word};
    return true;
  }
  auto give = [&](uint64_t word) { return thread.values[&call] = {word}, true; };
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
  case Intrinsic::nvvm_mapa_shared_cluster:
    return argument(1) < sim.memories.size()
               ? give(kClusterBase + argument(1) * kClusterStride + argument(0) - kSharedBase)
               : fail("the cluster has no block " + Twine(argument(1)));
  case Intrinsic::cttz:
    return give(llvm::countr_zero(argument(0))); // of zero it is not asked
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
  case Intrinsic::nvvm_mul_rm_f:
    return give(bitsOf(singleBelow(number(0) * number(1))));
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
    return single(saturated(number(0) * number(1) + number(2)));
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
  case Intrinsic::nvvm_prmt:
    return give(permutedBytes(argument(0), argument(1), argument(2)));
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
  case Intrinsic::not_intrinsic:
    return callFunction(thread, call);
  default:
    thread.waiting = &call;
    return true;
  }
}

std::optional<uint64_t> WarpSimulator::Interpreter::combine(StringRef operation, StringRef type,
                                                            uint64_t old, uint64_t number) {
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

template <typename Value>
bool WarpSimulator::Interpreter::visitAtomic(Thread &thread, const CallInst &call, StringRef opcode,
                                             StringRef rest, bool active, Value value) {
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
      if (sim.order)
        sim.order->writeGlobal(inCluster(thread), reinterpret_cast<uint64_t>(memory), bits / 8);
    }
  if (!call.getType()->isVoidTy())
    thread.values[&call] = before;
  return true;
}

template <typename Value>
bool WarpSimulator::Interpreter::visitCopy(Thread &thread, const CallInst &call, StringRef opcode,
                                           StringRef rest, bool active, Value value) {
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
    int64_t offset = 0;
    if (StringRef further = places.rsplit("[$1").second; further.consume_front("+"))
      further.getAsInteger(10, offset);
    from += uint64_t(offset);
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

bool WarpSimulator::Interpreter::visitAsm(Thread &thread, const CallInst &call) {
  auto *code = cast<InlineAsm>(call.getCalledOperand());
  StringRef text = StringRef(code->getAsmString()).trim();
  if (text.starts_with("wgmma.wait_group")) { // accumulators pass through
    Words words;
    for (const Value *value : call.args())
      words.push_back(get(thread, value)[0]);
    thread.values[&call] = words;
    unsigned pending = 0;
    text.take_until([](char c) { return c == ';'; }).rsplit(' ').second.getAsInteger(10, pending);
    if (thread.products.size() > pending)
      thread.products.erase(thread.products.begin(), thread.products.end() - pending);
    endProducts(thread, pending);
    return true;
  }
  if (text.starts_with("stmatrix") || text.starts_with("mma.sync") || ofGroup(&call)) {
    thread.waiting = &call;
    return true;
  }
  if (CopyEngine::isWait(text) || CopyEngine::isStoreWait(text)) {
    thread.waiting = &call;
    return true;
  }
  if (CopyEngine::knows(text)) {
    return runEngine(thread, call, text);
  }
  if (sim.order && text.starts_with("fence.proxy.async"))
    sim.order->fence(inCluster(thread), !text.contains(".shared::cta"));
  if (text.starts_with("fence.mbarrier_init"))
    engine.fenceInits(inCluster(thread));
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
  if (isStore && opcode.contains("cache_hint")) // the policy comes last
    numbers.pop_back();
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

} // namespace nereid::test

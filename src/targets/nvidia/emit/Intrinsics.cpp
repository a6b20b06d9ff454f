// What gpu/emit/Intrinsics.h asks of a target, as instructions of NVIDIA GPUs.
#include "targets/nvidia/emit/Emitter.h"

#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;

namespace nereid::nvidia {

//===--- places and barriers ------------------------------------------------------------------===//

Value *Emitter::threadIndex(unsigned threads) {
  auto *id = cast<CallInst>(intrinsic(Intrinsic::nvvm_read_ptx_sreg_tid_x, {}));
  id->addRangeRetAttr(ConstantRange(APInt(32, 0), APInt(32, threads)));
  return id;
}

/// Of a number that counts blocks along the first axis, one that counts programs, where the
/// launcher chooses how many blocks, a power of two, run a program.
static Value *perCluster(Emitter &e, Value *blocks) {
  if (e.splits == 1)
    return blocks;
  Value *bits = e.intrinsic(Intrinsic::cttz, {e.clusterSize(), e.b.getTrue()}, {e.b.getInt32Ty()});
  return e.b.CreateLShr(blocks, bits);
}

Value *Emitter::programId(unsigned axis) {
  constexpr Intrinsic::ID ids[] = {Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                   Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                   Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
  // Blocks of a cluster follow one another along the first axis.
  if (axis == 0 && blockCount() > 1)
    return intrinsic(Intrinsic::nvvm_read_ptx_sreg_clusterid_x, {});
  Value *index = intrinsic(ids[axis], {});
  return axis == 0 ? perCluster(*this, index) : index;
}

Value *Emitter::programCount(unsigned axis) {
  constexpr Intrinsic::ID ids[] = {Intrinsic::nvvm_read_ptx_sreg_nctaid_x,
                                   Intrinsic::nvvm_read_ptx_sreg_nctaid_y,
                                   Intrinsic::nvvm_read_ptx_sreg_nctaid_z};
  if (axis == 0 && blockCount() > 1)
    return intrinsic(Intrinsic::nvvm_read_ptx_sreg_nclusterid_x, {});
  Value *count = intrinsic(ids[axis], {});
  return axis == 0 ? perCluster(*this, count) : count;
}

Value *Emitter::clusterSize() {
  auto *size = cast<CallInst>(intrinsic(Intrinsic::nvvm_read_ptx_sreg_cluster_nctaid_x, {}));
  size->addRangeRetAttr(ConstantRange(APInt(32, 1), APInt(32, (pairs ? 2 : splits) + 1)));
  return size;
}

void Emitter::blockBarrier(unsigned number, unsigned warps) {
  if (!warps)
    intrinsic(Intrinsic::nvvm_barrier_cta_sync_aligned_all, {i32(number)});
  else
    intrinsic(Intrinsic::nvvm_barrier_cta_sync_aligned_count,
              {i32(number), i32(options.machine.lanes * warps)});
}

Value *Emitter::blockRank() {
  auto *rank = cast<CallInst>(intrinsic(Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {}));
  rank->addRangeRetAttr(
      ConstantRange(APInt(32, 0), APInt(32, std::max({blockCount(), splits, pairs ? 2u : 1u}))));
  return rank;
}

Value *Emitter::sharedOf(Value *address, Value *rank) {
  return intrinsic(Intrinsic::nvvm_mapa_shared_cluster, {address, rank});
}

void Emitter::barrierOfBlocks() { // it releases and acquires
  intrinsic(Intrinsic::nvvm_barrier_cluster_arrive_aligned, {});
  waitForBlocks();
}

void Emitter::barrierOfPair() {
  if (pairs)
    when(b.CreateICmpNE(clusterSize(), i32(1)), [&] { barrierOfBlocks(); });
}

void Emitter::arriveAtBlocks() {
  intrinsic(Intrinsic::nvvm_barrier_cluster_arrive_relaxed_aligned, {});
}

void Emitter::waitForBlocks() {
  intrinsic(Intrinsic::nvvm_barrier_cluster_wait_aligned, {});
}

void Emitter::sendWords(llvm::ArrayRef<Value *> words, Value *address, Value *barrier,
                        Value *rank) {
  auto there = [&](Value *here) { return b.CreatePtrToInt(sharedOf(here, rank), b.getInt32Ty()); };
  SmallVector<Value *> args{there(address), there(barrier)};
  args.append(words.begin(), words.end());
  std::string text = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes";
  std::string constraints = "r,r";
  if (words.size() > 1)
    text += ".v" + std::to_string(words.size());
  text += ".b32 [$0], ";
  for (unsigned i = 0; i < words.size(); ++i) {
    text += (i ? ", $" : words.size() > 1 ? "{$" : "$") + std::to_string(i + 2);
    constraints += ",r";
  }
  text += words.size() > 1 ? "}, [$1];" : ", [$1];";
  ptx(b.getVoidTy(), text, constraints + ",~{memory}", args, true);
}

void Emitter::expectWords(Value *barrier, unsigned bytes) {
  ptx(b.getVoidTy(),
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " + std::to_string(bytes) + ";",
      "r,~{memory}", {b.CreatePtrToInt(barrier, b.getInt32Ty())}, true);
}

void Emitter::receiveWords(Value *barrier, Value *parity) {
  ptx(b.getVoidTy(),
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
      "@!done bra again;\n}",
      "r,r,~{memory}", {b.CreatePtrToInt(barrier, b.getInt32Ty()), parity}, true);
}

void Emitter::syncWarp() {
  intrinsic(Intrinsic::nvvm_bar_warp_sync, {i32(-1)});
}

//===--- warps --------------------------------------------------------------------------------===//

Value *Emitter::shuffleWord(gpu::Shuffle how, Value *word, Value *amount) {
  // The last operand: the highest lane that may be read, or for `up` the lowest.
  auto shuffle = [&](Intrinsic::ID id, int clamp) {
    return intrinsic(id, {i32(-1), word, amount, i32(clamp)});
  };
  switch (how) {
  case gpu::Shuffle::Xor:
    return shuffle(Intrinsic::nvvm_shfl_sync_bfly_i32, 31);
  case gpu::Shuffle::Index:
    return shuffle(Intrinsic::nvvm_shfl_sync_idx_i32, 31);
  case gpu::Shuffle::Up:
    return shuffle(Intrinsic::nvvm_shfl_sync_up_i32, 0);
  }
  llvm_unreachable("an unknown shuffle");
}

static Intrinsic::ID reductionOf(tile::CombinerKind kind) {
  switch (kind) {
  case tile::CombinerKind::AddI:
    return Intrinsic::nvvm_redux_sync_add;
  case tile::CombinerKind::MaxS:
    return Intrinsic::nvvm_redux_sync_max;
  case tile::CombinerKind::MinS:
    return Intrinsic::nvvm_redux_sync_min;
  case tile::CombinerKind::MaxU:
    return Intrinsic::nvvm_redux_sync_umax;
  case tile::CombinerKind::MinU:
    return Intrinsic::nvvm_redux_sync_umin;
  case tile::CombinerKind::And:
    return Intrinsic::nvvm_redux_sync_and;
  case tile::CombinerKind::Or:
    return Intrinsic::nvvm_redux_sync_or;
  case tile::CombinerKind::Xor:
    return Intrinsic::nvvm_redux_sync_xor;
  default:
    return Intrinsic::not_intrinsic;
  }
}

bool Emitter::reducesWarp(tile::CombinerKind kind) const {
  return reductionOf(kind) != Intrinsic::not_intrinsic;
}

Value *Emitter::reduceWarp(tile::CombinerKind kind, Value *word) {
  return b.CreateIntrinsic(b.getInt32Ty(), reductionOf(kind), {word, b.getInt32(0xffffffff)});
}

//===--- matrices in shared memory ------------------------------------------------------------===//

void Emitter::storeMatrices(Value *address, ArrayRef<Value *> words, bool transposed) {
  std::string text = ("stmatrix.sync.aligned.m8n8.x" + Twine(words.size()) +
                      (transposed ? ".trans" : "") + ".shared.b16 [$0], {")
                         .str();
  std::string constraints = "r";
  Values args{address};
  for (auto [i, word] : enumerate(words)) {
    text += (i ? ", $" : "$") + std::to_string(i + 1);
    constraints += ",r";
    args.push_back(word);
  }
  ptx(b.getVoidTy(), text + "};", constraints, args, /*sideEffects=*/true, /*convergent=*/true);
}

Value *Emitter::loadMatrices(Value *address, unsigned count, bool transposed) {
  constexpr Intrinsic::ID ids[2][3] = {{Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_b16,
                                        Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_b16,
                                        Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16},
                                       {Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_trans_b16,
                                        Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16,
                                        Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16}};
  return b.CreateIntrinsic(ids[transposed][Log2_32(count)], {address->getType()}, {address});
}

//===--- fp32 arithmetic ----------------------------------------------------------------------===//

Value *Emitter::divide(Value *lhs, Value *rhs) {
  return intrinsic(Intrinsic::nvvm_div_full, {lhs, rhs});
}

Value *Emitter::reciprocal(Value *value) {
  return intrinsic(Intrinsic::nvvm_rcp_approx_ftz_f, {value});
}

Value *Emitter::exp2(Value *value, bool flush) {
  // Without `ftz` it is four instructions in place of one.
  return intrinsic(flush ? Intrinsic::nvvm_ex2_approx_ftz : Intrinsic::nvvm_ex2_approx, {value},
                   {value->getType()});
}

Value *Emitter::squareRoot(Value *value) {
  return intrinsic(Intrinsic::nvvm_sqrt_approx_f, {value});
}

Value *Emitter::reciprocalSquareRoot(Value *value) {
  return intrinsic(Intrinsic::nvvm_rsqrt_approx_f, {value});
}

Value *Emitter::roundedProduct(Value *lhs, Value *rhs) {
  return intrinsic(Intrinsic::nvvm_mul_rn_f, {lhs, rhs});
}

Value *Emitter::productDown(Value *lhs, Value *rhs) {
  return intrinsic(Intrinsic::nvvm_mul_rm_f, {lhs, rhs});
}

Value *Emitter::saturatedFma(Value *lhs, Value *rhs, Value *add) {
  return intrinsic(Intrinsic::nvvm_fma_rn_sat_f, {lhs, rhs, add});
}

std::string Emitter::librarySymbol(StringRef name, bool fp32) const {
  return ("__nv_" + name + (fp32 ? "f" : "")).str();
}

//===--- types of floats ----------------------------------------------------------------------===//

bool Emitter::packs(mlir::Type element) const {
  return element.isF16() || (element.isBF16() && options.sm >= 90);
}

Value *Emitter::truncateDouble(Value *value) {
  return intrinsic(Intrinsic::nvvm_d2f_rz, {value});
}

Value *Emitter::narrow(Value *value, Type *to, bool towardsZero) {
  if (to->isBFloatTy())
    return intrinsic(towardsZero ? Intrinsic::nvvm_f2bf16_rz : Intrinsic::nvvm_f2bf16_rn, {value});
  return towardsZero ? intrinsic(Intrinsic::nvvm_f2f16_rz, {value}) : b.CreateFPTrunc(value, to);
}

Value *Emitter::narrowPair(Value *low, Value *high, Type *to) {
  return intrinsic(to->isBFloatTy() ? Intrinsic::nvvm_ff2bf16x2_rn : Intrinsic::nvvm_ff2f16x2_rn,
                   {high, low});
}

bool Emitter::convertsFloat8() const {
  return options.sm >= 90 || (options.sm == 89 && options.ptxVersion >= 81);
}

Value *Emitter::packFloat8(Value *low, Value *high, mlir::Type to) {
  bool e5m2 = isa<mlir::Float8E5M2Type>(to);
  return intrinsic(e5m2 ? Intrinsic::nvvm_ff_to_e5m2x2_rn : Intrinsic::nvvm_ff_to_e4m3x2_rn,
                   {high, low});
}

namespace {

/// A byte of a register of 32 bits.
struct ByteOf {
  Value *word = nullptr; ///< null: not found
  uint64_t index = 0;
};

/// Which byte of which register is the lowest one of `value`?
ByteOf byteOf(Value *value) {
  using namespace llvm::PatternMatch;
  uint64_t bits = 0, number = 0;
  for (Value *from = nullptr;; value = from) {
    if (match(value, m_LShr(m_Value(from), m_ConstantInt(number))))
      bits += number;
    else if (value->getType()->isIntegerTy(32))
      break;
    else if (match(value, m_ExtractElt(m_BitCast(m_Value(from)), m_ConstantInt(number))) &&
             from->getType()->isIntegerTy(32))
      bits += number * value->getType()->getScalarSizeInBits();
    else if (!match(value, m_Trunc(m_Value(from))))
      return {};
  }
  return bits % 8 == 0 && bits < 32 ? ByteOf{value, bits / 8} : ByteOf();
}

} // namespace

/// Bytes of one register take one permutation: of every second byte, the same one for both pairs.
Value *Emitter::unpackE4M3(Value *codes) {
  using namespace llvm::PatternMatch;
  Value *low = nullptr, *high = nullptr;
  if (match(codes, m_Or(m_ZExt(m_Value(low)), m_Shl(m_ZExt(m_Value(high)), m_SpecificInt(8))))) {
    ByteOf first = byteOf(low), second = byteOf(high);
    if (first.word && first.word == second.word && second.index == first.index + 2) {
      Value *sorted = intrinsic(Intrinsic::nvvm_prmt, {first.word, i32(0), i32(0x3120)});
      codes = b.CreateTrunc(first.index ? b.CreateLShr(sorted, 16) : sorted, b.getInt16Ty());
    }
  }
  return intrinsic(Intrinsic::nvvm_e4m3x2_to_f16x2_rn, {codes});
}

Value *Emitter::bitcast(Value *value, Type *to) {
  // LLVM 22's back end cannot select a comparison of bf16 that are the bits of fp16, and the other
  // way round: a move hides where they come from.
  Type *type = value->getType();
  if (!type->is16bitFPTy() || !to->is16bitFPTy() || type == to)
    return b.CreateBitCast(value, to);
  Value *bits = b.CreateBitCast(value, b.getInt16Ty());
  bits = ptx(b.getInt16Ty(), "mov.b16 $0, $1;", "=h,h", {bits}, false);
  return b.CreateBitCast(bits, to);
}

} // namespace nereid::nvidia

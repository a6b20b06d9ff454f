// ngpu.mma: mma.sync m16n8k(32 bytes), and m8n8k4 of doubles.
//
// A lane's words of one instruction: A has rows g and g + 8 (g = lane / 4), each at K = 0 and 16
// bytes on; B the same of column g; the accumulator rows g and g + 8 with two columns. Which
// registers these are is looked up in the layouts. Where a dimension has fewer rows or columns than
// the instruction, the layouts hold copies, the instruction computes copies, and those are dropped.
//
// From sm_90 to sm_119 there is no mma.sync of 8-bit floats: the assembler makes two products of
// f16 of it. Where it knows a word to be constant (the filled-up part of K), it has taken the upper
// half of that word from a constant of other use (0x90, from a product by 144 elsewhere in the
// kernel; ptxas 13.0.88), and the result was wrong. So the two products are made here.
#include "targets/nvidia/emit/Dot.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace mlir;

namespace nereid::nvidia {
namespace {

/// One mma instruction as inline PTX: operands as words, the accumulator as `acc` registers.
class Instruction {
public:
  Instruction(Emitter &e, ngpu::MmaOp op) : e(e) {
    Type a = cast<RankedTensorType>(op.getA().getType()).getElementType();
    Type b = cast<RankedTensorType>(op.getB().getType()).getElementType();
    inHalves = a.getIntOrFloatBitWidth() == 8 && isa<FloatType>(a) && e.options.sm >= 90 &&
               e.options.sm < 120;
    if (inHalves)
      a = b = Float16Type::get(op.getContext());
    Type c = cast<RankedTensorType>(op.getType()).getElementType();
    isDouble = a.isF64();
    packed = c.isF16();
    unsigned k = isDouble ? 4 : 256 / a.getIntOrFloatBitWidth();
    llvm::StringRef accumulator = c.isF16() ? "f16" : c.isF32() ? "f32" : c.isF64() ? "f64" : "s32";
    llvm::StringRef constraint = isDouble ? "d" : c.isF32() ? "f" : "r";
    unsigned aWords = isDouble ? 1 : 4, bWords = isDouble ? 1 : 2;
    words = isDouble || packed ? 2 : 4;

    llvm::raw_string_ostream name(text);
    name << "mma.sync.aligned." << (isDouble ? "m8n8k4" : "m16n8k" + std::to_string(k))
         << ".row.col." << accumulator << "." << matrixType(a, op.getAUnsigned()) << "."
         << matrixType(b, op.getBUnsigned()) << "." << accumulator;
    unsigned operand = 0;
    auto list = [&](unsigned count, llvm::StringRef of, bool out) {
      name << (operand ? ", {" : " {");
      for (unsigned i = 0; i < count; ++i) {
        name << (i ? ", $" : "$") << operand++;
        constraints += (constraints.empty() ? "" : ",") + std::string(out ? "=" : "") + of.str();
      }
      name << "}";
    };
    list(words, constraint, true);
    list(aWords, isDouble ? "d" : "r", false);
    list(bWords, isDouble ? "d" : "r", false);
    list(words, constraint, false);
    name << ";";
    llvm::Type *word = isDouble    ? e.b.getDoubleTy()
                       : c.isF32() ? e.b.getFloatTy()
                                   : static_cast<llvm::Type *>(e.b.getInt32Ty());
    result = llvm::StructType::get(e.b.getContext(), llvm::SmallVector<llvm::Type *>(words, word));
  }

  /// `acc` is what it becomes.
  void operator()(llvm::ArrayRef<llvm::Value *> a, llvm::ArrayRef<llvm::Value *> b,
                  llvm::MutableArrayRef<llvm::Value *> acc) {
    llvm::SmallVector<llvm::Value *> args(a);
    args.append(b.begin(), b.end());
    args.append(acc.begin(), acc.end());
    llvm::Value *all = e.ptx(result, text, constraints, args, /*sideEffects=*/false,
                             /*convergent=*/true);
    cast<llvm::CallInst>(all)->setDoesNotAccessMemory();
    for (unsigned i = 0; i < words; ++i)
      acc[i] = e.b.CreateExtractValue(all, i);
  }

  bool isDouble, packed; ///< packed: two f16 a register
  bool inHalves;         ///< of words of four 8-bit floats, two and two of them as f16
  unsigned words;

private:
  Emitter &e;
  std::string text, constraints;
  llvm::StructType *result;
};

/// Words of one operand by position.
class OperandWords {
public:
  OperandWords(Emitter &e, Value operand, unsigned kDim)
      : e(e), type(cast<RankedTensorType>(operand.getType())), map(type), values(e.get(operand)),
        kDim(kDim), perWord(std::max(32 / type.getElementType().getIntOrFloatBitWidth(), 1u)) {}

  /// The word at row (A) or column (B) `outer` and at `k`, a multiple of the elements in a word.
  llvm::Value *at(int64_t batch, int64_t outer, int64_t k) {
    auto reg = [&](int64_t i) {
      return kDim == 1 ? map.at(batch, outer, k + i) : map.at(batch, k + i, outer);
    };
    unsigned first = reg(0);
    llvm::Value *&word = words[first];
    if (word)
      return word;
    if (type.getElementType().isF64())
      return word = values[first];
    Values elements;
    for (unsigned i = 0; i < perWord; ++i)
      elements.push_back(values[reg(i)]);
    return word = packWord(e, elements);
  }

  /// The lower or upper two 8-bit floats of words as words of two f16.
  Values halves(llvm::ArrayRef<llvm::Value *> of, bool upper) {
    llvm::IRBuilder<> &b = e.b;
    Values result;
    for (llvm::Value *word : of) {
      llvm::Value *&half = widened[{word, unsigned(upper)}];
      if (!half && isa<Float8E5M2Type>(type.getElementType())) { // the upper bytes of f16
        half = e.intrinsic(llvm::Intrinsic::nvvm_prmt,
                           {word, e.i32(0), e.i32(upper ? 0x3424 : 0x1404)});
      } else if (!half) {
        llvm::Value *two = b.CreateTrunc(upper ? b.CreateLShr(word, 16) : word, b.getInt16Ty());
        half = b.CreateBitCast(e.intrinsic(llvm::Intrinsic::nvvm_e4m3x2_to_f16x2_rn, {two}),
                               b.getInt32Ty());
      }
      result.push_back(half);
    }
    return result;
  }

  /// The rows (A) or columns (B) of registers.
  llvm::ArrayRef<int64_t> positions() const { return kDim == 1 ? map.rows() : map.columns(); }
  RankedTensorType getType() const { return type; }

private:
  Emitter &e;
  RankedTensorType type;
  RegisterMap map;
  llvm::ArrayRef<llvm::Value *> values;
  unsigned kDim, perWord;
  llvm::DenseMap<unsigned, llvm::Value *> words;
  llvm::DenseMap<std::pair<llvm::Value *, unsigned>, llvm::Value *> widened;
};

} // namespace

void emitMma(Emitter &e, ngpu::MmaOp op) {
  Instruction mma(e, op);
  OperandWords a(e, op.getA(), 1), b(e, op.getB(), 0);
  auto type = cast<RankedTensorType>(op.getType());
  RegisterMap map(type);
  Values acc(e.get(op.getC()));

  unsigned rank = type.getRank();
  int64_t k = a.getType().getDimSize(rank - 1);
  int64_t m = layout::coreSize(type.getDimSize(rank - 2));
  int64_t bits = a.getType().getElementType().getIntOrFloatBitWidth();
  int64_t kStep = mma.isDouble ? 4 : 256 / bits, kHalf = kStep / 2;
  bool twoRows = !mma.isDouble && m >= 16; // else rows g + 8 are copies of rows g
  // Two columns lie in a lane, unless there is only one.
  int64_t next = layout::coreSize(type.getDimSize(rank - 1)) > 1 ? 1 : 0;

  for (int64_t batch = 0; batch < map.batches(); ++batch)
    for (int64_t k0 = 0; k0 < k; k0 += kStep)
      for (int64_t row : a.positions()) {
        if (twoRows && row % 16)
          continue;
        int64_t below = twoRows ? row + 8 : row;
        Values aWords = {a.at(batch, row, k0)};
        if (!mma.isDouble)
          aWords = {a.at(batch, row, k0), a.at(batch, below, k0), a.at(batch, row, k0 + kHalf),
                    a.at(batch, below, k0 + kHalf)};
        for (int64_t column : b.positions()) {
          Values bWords = {b.at(batch, column, k0)};
          if (!mma.isDouble)
            bWords.push_back(b.at(batch, column, k0 + kHalf));
          llvm::SmallVector<unsigned, 4> regs = {map.at(batch, row, column),
                                                 map.at(batch, row, column + next)};
          if (!mma.isDouble)
            regs.append({map.at(batch, below, column), map.at(batch, below, column + next)});
          Values c;
          if (mma.packed)
            c = {packWord(e, {acc[regs[0]], acc[regs[1]]}),
                 packWord(e, {acc[regs[2]], acc[regs[3]]})};
          else
            for (unsigned reg : regs)
              c.push_back(acc[reg]);
          if (mma.inHalves)
            for (bool upper : {false, true})
              mma(a.halves(aWords, upper), b.halves(bWords, upper), c);
          else
            mma(aWords, bWords, c);
          // Backwards, so that of copies the first stays.
          for (unsigned i = regs.size(); i-- > 0;)
            acc[regs[i]] =
                mma.packed ? e.b.CreateExtractElement(
                                 e.b.CreateBitCast(c[i / 2],
                                                   llvm::FixedVectorType::get(e.b.getHalfTy(), 2)),
                                 uint64_t(i % 2))
                           : c[i];
        }
      }
  e.set(op.getResult(), acc);
}

} // namespace nereid::nvidia

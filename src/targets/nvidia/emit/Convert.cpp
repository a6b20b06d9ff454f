// ngpu.convert_layout: renamed registers, or shuffles. What needs shared memory has been made
// explicit before (gpu::expandConversions).
#include "layout/Conversion.h"
#include "targets/nvidia/emit/Emitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::nvidia {
namespace {

/// Register choices by lane: `reg = linear(bits, lane)` XORed to an index. Within a span of k
/// independent directions, k rounds of selects give every register its partner.
class LanePermutation {
public:
  LanePermutation(Emitter &e, ArrayRef<uint32_t> bits) : e(e) {
    // Directions in reduced form, each with the lane bits whose parity says whether it applies.
    for (auto [lane, vector] : llvm::enumerate(bits)) {
      uint32_t rest = vector;
      for (auto &[direction, lanes] : directions)
        if (rest >> llvm::Log2_32(direction) & 1)
          rest ^= direction;
      if (!rest)
        continue;
      // Other directions lose this one's highest bit.
      for (auto &[direction, lanes] : directions)
        if (direction >> llvm::Log2_32(rest) & 1)
          direction ^= rest;
      directions.push_back({rest, 0});
    }
    for (auto &[direction, lanes] : directions)
      for (auto [lane, vector] : llvm::enumerate(bits))
        if (vector >> llvm::Log2_32(direction) & 1)
          lanes |= 1u << lane;
  }

  /// result[r] = values[r ^ linear(bits, lane)]; entries may be null where nothing was there.
  Values apply(Values values) {
    for (auto [direction, lanes] : directions) {
      SmallVector<uint32_t> laneBits;
      for (unsigned bit = 0; bit < 5; ++bit)
        laneBits.push_back(lanes >> bit & 1);
      llvm::Value *flip = e.b.CreateICmpNE(e.linear(laneBits, {}), e.b.getInt32(0));
      Values next(values.size(), nullptr);
      for (unsigned reg = 0; reg < values.size(); ++reg) {
        llvm::Value *mine = values[reg], *other = values[reg ^ direction];
        next[reg] = mine && other ? e.b.CreateSelect(flip, other, mine) : mine ? mine : other;
      }
      values = std::move(next);
    }
    return values;
  }

private:
  Emitter &e;
  SmallVector<std::pair<uint32_t, uint32_t>, 5> directions;
};

/// Several registers of 8 or 16 bits travel in one 32-bit word.
Values shuffleTogether(Emitter &e, ArrayRef<llvm::Value *> values, llvm::Value *source) {
  llvm::Type *type = values.front()->getType();
  unsigned bits = type->isPointerTy() ? 64 : type->getPrimitiveSizeInBits();
  Values result;
  if (bits != 8 && bits != 16) {
    for (llvm::Value *value : values)
      result.push_back(e.shuffleIndex(value, source));
    return result;
  }
  unsigned perWord = 32 / bits;
  auto *word = llvm::FixedVectorType::get(type, perWord);
  for (size_t first = 0; first < values.size(); first += perWord) {
    ArrayRef<llvm::Value *> part =
        values.slice(first, std::min<size_t>(perWord, values.size() - first));
    llvm::Value *packed = llvm::PoisonValue::get(word);
    for (auto [i, value] : llvm::enumerate(part))
      packed = e.b.CreateInsertElement(packed, value, uint64_t(i));
    llvm::Value *moved = e.shuffleIndex(e.b.CreateBitCast(packed, e.b.getInt32Ty()), source);
    moved = e.b.CreateBitCast(moved, word);
    for (size_t i = 0; i < part.size(); ++i)
      result.push_back(e.b.CreateExtractElement(moved, uint64_t(i)));
  }
  return result;
}

/// One core of registers by the plan's rounds.
Values shuffle(Emitter &e, const ConversionPlan &plan, ArrayRef<llvm::Value *> values,
               unsigned resultCount) {
  Values result(resultCount, nullptr);
  // Rounds that choose registers by lanes in one way and read from the same lane go together.
  SmallVector<bool> done(plan.rounds.size(), false);
  for (size_t first = 0; first < plan.rounds.size(); ++first) {
    if (done[first])
      continue;
    const ShuffleRound &round = plan.rounds[first];
    SmallVector<const ShuffleRound *> group;
    for (size_t i = first; i < plan.rounds.size(); ++i) {
      const ShuffleRound &other = plan.rounds[i];
      if (done[i] || other.sendBits != round.sendBits || other.receiveBits != round.receiveBits ||
          other.sourceBits != round.sourceBits || other.sourceBase != round.sourceBase)
        continue;
      done[i] = true;
      group.push_back(&other);
    }
    Values sent = LanePermutation(e, round.sendBits).apply(Values(values));
    Values words;
    for (const ShuffleRound *one : group)
      words.push_back(sent[one->sendBase]);
    llvm::Value *source = e.linear(round.sourceBits, {});
    if (round.sourceBase)
      source = e.b.CreateXor(source, round.sourceBase);
    Values moved = shuffleTogether(e, words, source);
    Values received(resultCount, nullptr);
    for (auto [one, value] : llvm::zip_equal(group, moved))
      received[one->receiveBase] = value;
    received = LanePermutation(e, round.receiveBits).apply(std::move(received));
    for (auto [to, from] : llvm::zip_equal(result, received))
      if (from)
        to = from;
  }
  return result;
}

} // namespace

bool emitConvert(Emitter &e, Operation *op) {
  auto convert = dyn_cast<ngpu::ConvertLayoutOp>(op);
  if (!convert)
    return false;
  auto from = cast<RankedTensorType>(convert.getSrc().getType());
  auto to = cast<RankedTensorType>(convert.getType());
  const LinearLayout &source = ngpu::layoutOf(from).getLayout();
  const LinearLayout &target = ngpu::layoutOf(to).getLayout();
  ConversionPlan plan =
      planConversion(source, target, 8 * tile::sizeInBytes(from.getElementType()));
  ArrayRef<llvm::Value *> values = e.get(convert.getSrc());
  unsigned fromCore = source.size(Axis::Register), toCore = target.size(Axis::Register);
  Values result;
  for (unsigned repeat = 0; repeat < values.size() / fromCore; ++repeat) {
    ArrayRef<llvm::Value *> core = values.slice(repeat * fromCore, fromCore);
    switch (plan.move) {
    case Move::Nothing:
    case Move::Registers:
      for (unsigned reg = 0; reg < toCore; ++reg)
        result.push_back(core[plan.registers[reg]]);
      break;
    case Move::Shuffles:
      result.append(shuffle(e, plan, core, toCore));
      break;
    case Move::Shared:
      e.fail(op, "internal error: a conversion through shared memory was not made explicit");
      return true;
    }
  }
  e.set(convert.getResult(), std::move(result));
  return true;
}

} // namespace nereid::nvidia

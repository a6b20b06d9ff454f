// ngpu.convert_layout: renamed registers, or shuffles. What needs shared memory has been made
// explicit before (expandConversions).
#include "gpu/emit/SharedAccess.h"
#include "gpu/layouts/Blocks.h"
#include "gpu/layouts/SplitConversion.h"
#include "layout/Conversion.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// Register choices by lane and warp: `reg = linear(byLane, byWarp)` XORed to an index. Within a
/// span of k independent directions, k rounds of selects give every register its partner.
class RegisterPermutation {
public:
  RegisterPermutation(Emitter &e, ArrayRef<uint32_t> byLane, ArrayRef<uint32_t> byWarp) : e(e) {
    // Directions in reduced form, each with the bits whose parity says whether it applies.
    for (ArrayRef<uint32_t> bits : {byLane, byWarp})
      for (uint32_t rest : bits) {
        for (Direction &direction : directions)
          if (rest >> llvm::Log2_32(direction.flips) & 1)
            rest ^= direction.flips;
        if (!rest)
          continue;
        // Other directions lose this one's highest bit.
        for (Direction &direction : directions)
          if (direction.flips >> llvm::Log2_32(rest) & 1)
            direction.flips ^= rest;
        directions.push_back({rest, {}, {}});
      }
    for (Direction &direction : directions) {
      unsigned pivot = llvm::Log2_32(direction.flips);
      for (uint32_t vector : byLane)
        direction.lane.push_back(vector >> pivot & 1);
      for (uint32_t vector : byWarp)
        direction.warp.push_back(vector >> pivot & 1);
    }
  }

  /// result[r] = values[r ^ linear(byLane, byWarp)]; entries may be null where nothing was there.
  Values apply(Values values) {
    for (const Direction &direction : directions) {
      llvm::Value *flip =
          e.b.CreateICmpNE(e.linear(direction.lane, direction.warp), e.b.getInt32(0));
      Values next(values.size(), nullptr);
      for (unsigned reg = 0; reg < values.size(); ++reg) {
        llvm::Value *mine = values[reg], *other = values[reg ^ direction.flips];
        next[reg] = mine && other ? e.b.CreateSelect(flip, other, mine) : mine ? mine : other;
      }
      values = std::move(next);
    }
    return values;
  }

private:
  struct Direction {
    uint32_t flips;
    SmallVector<uint32_t, 5> lane, warp; ///< 1 for the bits that count in the parity
  };
  Emitter &e;
  SmallVector<Direction, 5> directions;
};

/// One core of registers by the plan's steps.
Values shuffle(Emitter &e, const ConversionPlan &plan, ArrayRef<llvm::Value *> values,
               unsigned resultCount) {
  const ShufflePlan &shuffles = plan.shuffles;
  Values sent = RegisterPermutation(e, shuffles.sendLane, shuffles.sendWarp).apply(Values(values));
  Values received(resultCount, nullptr);
  llvm::Value *lane = nullptr;
  SmallVector<bool> done(shuffles.rounds.size(), false);
  for (auto [first, round] : llvm::enumerate(shuffles.rounds)) {
    if (done[first])
      continue;
    if (!round.needsShuffle) {
      received[round.receive] = sent[round.send];
      continue;
    }
    // Rounds that read from the same lane go together.
    SmallVector<const ShufflePlan::Round *> group;
    Values words;
    for (size_t i = first; i < shuffles.rounds.size(); ++i)
      if (shuffles.rounds[i].needsShuffle && shuffles.rounds[i].source == round.source) {
        done[i] = true;
        group.push_back(&shuffles.rounds[i]);
        words.push_back(sent[shuffles.rounds[i].send]);
      }
    if (!lane)
      lane = e.linear(shuffles.sourceLane, shuffles.sourceWarp);
    llvm::Value *source = round.source ? e.b.CreateXor(lane, round.source) : lane;
    Values moved = shuffleTogether(
        e, words, [&](llvm::Value *value) { return e.shuffleIndex(value, source); });
    for (auto [one, value] : llvm::zip_equal(group, moved))
      received[one->receive] = value;
  }
  received = RegisterPermutation(e, shuffles.receiveLane, {}).apply(std::move(received));
  Values result;
  for (unsigned reg = 0; reg < resultCount; ++reg)
    result.push_back(received[plan.registers[reg]]);
  return result;
}

/// One core of registers of 16 bits in words of two, where both layouts keep neighbours together.
std::optional<Values> shufflePairs(Emitter &e, const LinearLayout &source,
                                   const LinearLayout &target, ArrayRef<llvm::Value *> values) {
  std::optional<LinearLayout> from = pairsOf(source), to = pairsOf(target);
  unsigned bits = values.front()->getType()->getPrimitiveSizeInBits();
  if (!from || !to || bits != 16)
    return std::nullopt;
  ConversionPlan plan = planConversion(*from, *to, 2 * bits, Ways::WithinWarps);
  if (plan.move != Move::Shuffles)
    return std::nullopt;
  auto *pair = llvm::FixedVectorType::get(values.front()->getType(), 2);
  Values words, result;
  for (size_t i = 0; i < values.size(); i += 2) {
    llvm::Value *both = llvm::PoisonValue::get(pair);
    for (unsigned half : {0, 1})
      both = e.b.CreateInsertElement(both, values[i + half], uint64_t(half));
    words.push_back(e.b.CreateBitCast(both, e.b.getInt32Ty()));
  }
  for (llvm::Value *word : shuffle(e, plan, words, unsigned(to->size(Axis::Register))))
    for (unsigned half : {0, 1})
      result.push_back(e.b.CreateExtractElement(e.b.CreateBitCast(word, pair), uint64_t(half)));
  return result;
}

/// Through scratch memory, one piece (and one repeat) after the other.
void convertInPieces(Emitter &e, ngpu::ConvertLayoutOp op) {
  auto type = cast<RankedTensorType>(op.getSrc().getType());
  const LinearLayout &from = ngpu::layoutOf(type).getLayout();
  const LinearLayout &to = ngpu::layoutOf(op.getType()).getLayout();
  SplitConversion split = splitConversion(op);
  llvm::Value *base = e.scratch(op);
  bool crosses = crossesBlocks(op);
  ArrayRef<llvm::Value *> values = e.get(op.getSrc());
  unsigned fromCore = from.size(Axis::Register), toCore = to.size(Axis::Register);
  unsigned repeats = values.size() / fromCore;
  Values result(repeats * toCore, nullptr);
  for (unsigned repeat = 0; repeat < repeats; ++repeat)
    for (unsigned piece = 0; piece < split.pieces(); ++piece) {
      if (repeat || piece)
        e.barrier(crosses);
      Values part;
      for (unsigned reg = 0; reg < split.from.size(Axis::Register); ++reg)
        part.push_back(
            values[repeat * fromCore + SplitConversion::whole(reg, piece, split.fromBits)]);
      storeShared(e, base, {split.from, split.buffer, e.type(type)}, part, crosses);
      e.barrier(crosses);
      Values loaded = loadShared(e, base, {split.to, split.buffer, e.type(type)});
      for (auto [reg, value] : llvm::enumerate(loaded))
        result[repeat * toCore + SplitConversion::whole(reg, piece, split.toBits)] = value;
    }
  e.set(op.getResult(), result);
}

} // namespace

Values shuffleTogether(Emitter &e, ArrayRef<llvm::Value *> values,
                       llvm::function_ref<llvm::Value *(llvm::Value *)> shuffle) {
  Values result;
  if (values.empty())
    return result;
  llvm::Type *type = values.front()->getType();
  unsigned bits = type->isPointerTy() ? 64 : type->getPrimitiveSizeInBits();
  if (bits != 8 && bits != 16) {
    for (llvm::Value *value : values)
      result.push_back(shuffle(value));
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
    llvm::Value *moved = shuffle(e.b.CreateBitCast(packed, e.b.getInt32Ty()));
    moved = e.b.CreateBitCast(moved, word);
    for (size_t i = 0; i < part.size(); ++i)
      result.push_back(e.b.CreateExtractElement(moved, uint64_t(i)));
  }
  return result;
}

bool emitConvert(Emitter &e, Operation *op) {
  auto convert = dyn_cast<ngpu::ConvertLayoutOp>(op);
  if (!convert)
    return false;
  if (convert.getPieces()) {
    convertInPieces(e, convert);
    return true;
  }
  auto from = cast<RankedTensorType>(convert.getSrc().getType());
  auto to = cast<RankedTensorType>(convert.getType());
  const LinearLayout &source = ngpu::layoutOf(from).getLayout();
  const LinearLayout &target = ngpu::layoutOf(to).getLayout();
  ConversionPlan plan = planConversion(source, target, 8 * tile::sizeInBytes(from.getElementType()),
                                       convert.getWithinWarps() ? Ways::WithinWarps : Ways::All);
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
      if (auto moved =
              convert.getWithinWarps() ? shufflePairs(e, source, target, core) : std::nullopt)
        result.append(*moved);
      else
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

} // namespace nereid::gpu

// Chooses how data moves between two distributed layouts, and plans exchanges within a warp.
//
// With `from` = A and `to` = B, the element of register r and lane l of the result comes from the
// place y = M(r, l, w), M = A⁻¹ B, in the same warp w if M keeps warps: from lane s = Lr·r + Ll·l +
// Lw·w and register q = Rr·r + Rl·l + Rw·w.
//
// In one shuffle a lane receives one value and offers one. Let each lane l receive in round c its
// register P·l + c, from lane T·l + Lr·c + Lw·w with T = Lr·P + Ll. If T is invertible the source
// lane can compute its reader (l = T⁻¹(s + ...)) and so which register to offer: linear in s again,
// with the same matrix in every round. So one reordering of registers before all rounds and one
// after them serve. P can be chosen such that T is invertible whenever every lane has something
// that others want: Lr and Ll together span all lanes. T = 1 is best, if it can be had: rounds with
// Lr·c = 0 then need no shuffle (exchanging a register bit with a lane bit moves half of the data
// only). Where A holds copies in several lanes, any of them may be read: A's kernel widens the
// choice like further registers. ("Linear Layouts", arXiv 2505.23819, plans the same exchanges from
// the intersections of the layouts' spaces.)
#include "layout/Conversion.h"

#include "layout/BufferPlan.h"
#include "layout/Echelon.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace nereid::layout {
namespace {

/// Instruction slots of a warp that a barrier (two for a buffer) and the addresses take.
constexpr unsigned kSharedOverhead = 48;

/// For every register of the core, the register that holds the same element and is no copy.
llvm::SmallVector<uint32_t> owners(const LinearLayout &layout) {
  llvm::ArrayRef<uint64_t> columns = layout.flatBases(Axis::Register);
  Echelon echelon;
  llvm::SmallVector<uint32_t, 8> owner;
  for (auto [bit, column] : llvm::enumerate(columns))
    owner.push_back(echelon.insert(column, bit) ? 1u << bit
                                                : echelon.lastDependency() & ~(1u << bit));
  llvm::SmallVector<uint32_t> result;
  for (uint32_t reg = 0; reg < uint32_t(layout.size(Axis::Register)); ++reg)
    result.push_back(reg == 0 ? 0 : result[reg & (reg - 1)] ^ owner[llvm::countr_zero(reg)]);
  return result;
}

/// The XOR of columns[i] for the bits i of `index`.
uint32_t combine(llvm::ArrayRef<uint32_t> columns, uint64_t index) {
  uint32_t result = 0;
  for (; index; index &= index - 1)
    result ^= columns[llvm::countr_zero(index)];
  return result;
}

/// The matrices of the comment above, restricted to registers that are no copies.
struct Moves {
  using Columns = llvm::SmallVector<uint32_t, 10>;
  Columns registerBits; ///< of `to`: 1 << bit
  Columns laneOfRegister, laneOfLane, laneOfWarp;
  Columns registerOfRegister, registerOfLane, registerOfWarp;
  Columns laneOfCopy, registerOfCopy; ///< A's kernel
};

std::optional<Moves> findMoves(const LinearLayout &from, const LinearLayout &to) {
  if (from.bits(Axis::Lane) != to.bits(Axis::Lane) || from.bits(Axis::Warp) != to.bits(Axis::Warp))
    return std::nullopt;
  std::optional<PlaceMap> map = locateKeeping(from, to, {Axis::Warp, Axis::Block});
  if (!map)
    return std::nullopt;
  Moves moves;
  uint32_t copies = to.freeBits(Axis::Register);
  for (unsigned bit = 0; bit < to.bits(Axis::Register); ++bit) {
    if (copies >> bit & 1)
      continue;
    moves.registerBits.push_back(1u << bit);
    moves.laneOfRegister.push_back(map->column(Axis::Register, bit, Axis::Lane));
    moves.registerOfRegister.push_back(map->column(Axis::Register, bit, Axis::Register));
  }
  auto take = [&](Axis source, Moves::Columns &lanes, Moves::Columns &registers) {
    for (unsigned bit = 0; bit < to.bits(source); ++bit) {
      lanes.push_back(map->column(source, bit, Axis::Lane));
      registers.push_back(map->column(source, bit, Axis::Register));
    }
  };
  take(Axis::Lane, moves.laneOfLane, moves.registerOfLane);
  take(Axis::Warp, moves.laneOfWarp, moves.registerOfWarp);

  llvm::SmallVector<uint64_t, 16> inWarp(from.flatBases(Axis::Register));
  inWarp.append(from.flatBases(Axis::Lane).begin(), from.flatBases(Axis::Lane).end());
  unsigned registers = from.bits(Axis::Register);
  for (uint64_t copy : BitMatrix(llvm::Log2_64(from.elements()), inWarp).kernel())
    if (copy >> registers) {
      moves.laneOfCopy.push_back(copy >> registers);
      moves.registerOfCopy.push_back(copy & ((uint64_t(1) << registers) - 1));
    }
  return moves;
}

/// How often the stages of selects that XOR a register's number by each of `columns` select, when
/// the registers `wanted` are asked for in the end.
unsigned countSelects(llvm::ArrayRef<uint32_t> columns, llvm::BitVector wanted) {
  unsigned selects = 0;
  for (uint32_t column : columns) {
    if (column == 0)
      continue;
    selects += wanted.count();
    llvm::BitVector before = wanted;
    for (unsigned reg : wanted.set_bits())
      before.set(reg ^ column);
    wanted = std::move(before);
  }
  return selects;
}

/// The plan in which every lane reads from itself as far as possible (`stay`), or receives into the
/// same registers as its neighbours do as far as possible. Nothing if lanes offer more than one
/// value in a round whatever is chosen.
std::optional<ShufflePlan> planRounds(const Moves &moves, bool stay) {
  // What P may add to T: copies first, which cost no selects.
  Moves::Columns addLane(moves.laneOfCopy), addRegister(moves.registerOfCopy), addReceive;
  addReceive.assign(moves.laneOfCopy.size(), 0);
  addLane.append(moves.laneOfRegister);
  addRegister.append(moves.registerOfRegister);
  addReceive.append(moves.registerBits);
  Echelon reach;
  for (auto [i, column] : llvm::enumerate(addLane))
    reach.insert(column, i);

  unsigned lanes = moves.laneOfLane.size();
  ShufflePlan plan;
  ShufflePlan::Bits register_(lanes); // R with P: the register wanted by each lane
  plan.sourceLane.resize(lanes);
  plan.receiveLane.resize(lanes);
  Echelon chosen;
  uint32_t done = 0;
  auto choose = [&](unsigned lane, uint64_t added) {
    uint32_t source = moves.laneOfLane[lane] ^ combine(addLane, added);
    if (!chosen.insert(source, lane))
      return false;
    done |= 1u << lane;
    plan.sourceLane[lane] = source;
    plan.receiveLane[lane] = combine(addReceive, added);
    register_[lane] = moves.registerOfLane[lane] ^ combine(addRegister, added);
    return true;
  };
  for (unsigned lane = 0; lane < lanes && stay; ++lane) {
    auto [rest, added] = reach.reduce(moves.laneOfLane[lane] ^ 1u << lane);
    if (rest == 0)
      choose(lane, added);
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (done >> lane & 1)
      continue;
    bool found = choose(lane, 0);
    for (unsigned i = 0; i < addLane.size() && !found; ++i)
      found = choose(lane, uint64_t(1) << i);
    if (!found)
      return std::nullopt;
  }

  // The reader of a lane s is T⁻¹·s: all lanes are read, so this reduces to nothing.
  for (unsigned lane = 0; lane < lanes; ++lane)
    plan.sendLane.push_back(combine(register_, chosen.reduce(uint64_t(1) << lane).second));
  bool warpStays = true;
  for (auto [lane, reg] : llvm::zip_equal(moves.laneOfWarp, moves.registerOfWarp)) {
    plan.sourceWarp.push_back(lane);
    plan.sendWarp.push_back(combine(plan.sendLane, lane) ^ reg);
    warpStays &= lane == 0;
  }
  bool lanesStay = warpStays;
  for (unsigned lane = 0; lane < lanes; ++lane)
    lanesStay &= plan.sourceLane[lane] == 1u << lane;

  // A round may read another copy to save its shuffle.
  Echelon copies;
  for (auto [i, column] : llvm::enumerate(moves.laneOfCopy))
    copies.insert(column, i);
  for (uint64_t c = 0; c < uint64_t(1) << moves.registerBits.size(); ++c) {
    uint32_t source = combine(moves.laneOfRegister, c), reg = combine(moves.registerOfRegister, c);
    if (auto [rest, used] = copies.reduce(source); rest == 0) {
      source = 0;
      reg ^= combine(moves.registerOfCopy, used);
    }
    plan.rounds.push_back({reg ^ combine(plan.sendLane, source), source,
                           combine(moves.registerBits, c), !lanesStay || source != 0});
  }
  return plan;
}

MoveCost costOf(const ShufflePlan &plan, const LinearLayout &from, const LinearLayout &to,
                unsigned elementBits) {
  unsigned words = std::max(elementBits / 32, 1u), perWord = std::max(32 / elementBits, 1u);
  llvm::BitVector sent(from.size(Axis::Register)), received(to.size(Axis::Register));
  llvm::SmallVector<unsigned, 32> fromLane(from.size(Axis::Lane), 0);
  for (const ShufflePlan::Round &round : plan.rounds) {
    fromLane[round.source] += round.needsShuffle;
    sent.set(round.send);
    received.set(round.receive);
  }
  unsigned shuffles = 0;
  for (unsigned count : fromLane)
    shuffles += (count + perWord - 1) / perWord;
  ShufflePlan::Bits sending(plan.sendLane);
  sending.append(plan.sendWarp);
  unsigned selects =
      countSelects(sending, std::move(sent)) + countSelects(plan.receiveLane, std::move(received));
  return {words * (shuffles + selects), words * shuffles};
}

} // namespace

std::optional<LinearLayout> pairsOf(const LinearLayout &layout) {
  std::array<LinearLayout::Columns, kAxes> columns;
  for (unsigned axis = 0; axis < kAxes; ++axis)
    for (auto [bit, column] : llvm::enumerate(layout.flatBases(Axis(axis)))) {
      bool first = Axis(axis) == Axis::Register && bit == 0;
      if ((column & 1) != first || (first && column != 1))
        return std::nullopt;
      if (!first)
        columns[axis].push_back(column >> 1);
    }
  if (layout.bits(Axis::Register) == 0 || layout.shape().back() < 2)
    return std::nullopt;
  llvm::SmallVector<int64_t, 4> shape(layout.shape());
  shape.back() /= 2;
  return LinearLayout::fromFlat(shape, std::move(columns));
}

ConversionPlan planConversion(const LinearLayout &from, const LinearLayout &to,
                              unsigned elementBits, Ways ways) {
  assert(from.shape() == to.shape() && "layouts of one shape");
  elementBits = std::max(elementBits, 8u);
  ConversionPlan plan;
  uint32_t registers = to.size(Axis::Register);
  if (from == to) {
    for (uint32_t reg = 0; reg < registers; ++reg)
      plan.registers.push_back(reg);
    return plan;
  }
  constexpr std::array kPlace = {Axis::Lane, Axis::Warp, Axis::Block};
  if (std::optional<PlaceMap> map = locateKeeping(from, to, kPlace);
      map &&
      llvm::none_of(kPlace, [&](Axis axis) { return map->dependsOn(Axis::Register, axis); })) {
    plan.move = Move::Registers;
    for (uint32_t reg = 0; reg < registers; ++reg)
      plan.registers.push_back(map->apply(Axis::Register, reg, Axis::Register));
    return plan;
  }

  plan.move = Move::Shared;
  plan.buffer = conflictFreeBuffer(from, to, elementBits, {}, plan.cost);
  unsigned best = ways == Ways::WithinWarps ? ~0u : plan.cost.slots() + kSharedOverhead;
  std::optional<Moves> moves = findMoves(from, to);
  for (bool stay : {true, false}) {
    std::optional<ShufflePlan> shuffles = moves ? planRounds(*moves, stay) : std::nullopt;
    if (!shuffles)
      continue;
    MoveCost cost = costOf(*shuffles, from, to, elementBits);
    if (cost.slots() >= best)
      continue;
    best = cost.slots();
    plan.cost = cost;
    plan.move = Move::Shuffles;
    plan.shuffles = std::move(*shuffles);
  }
  if (plan.move == Move::Shuffles) {
    plan.buffer = LinearLayout();
    plan.registers = owners(to);
  }
  return plan;
}

} // namespace nereid::layout

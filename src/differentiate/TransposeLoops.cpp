// Loops in reverse. With T rounds, round n = T-1 ... 0 of the transpose
//
//   - finds what the loop carried into round n: a closed form for counters and pointers; nothing
//   for
//     what the transpose does not read, as accumulators; else states, see below;
//   - computes anew what the transpose needs of the round, and transposes it;
//   - passes on the adjoints of what the loop carries, and sums those of values from outside.
//
// States are computed again, without memory: the rounds are cut into segments of about sqrt(T). For
// each segment, last first, the loop runs from its beginning to the segment's, which gives the
// state there; for each round of the segment it runs from there. That costs about T * sqrt(T)
// rounds of the part of the loop that the states depend on. Both runs have one copy of the code
// where the attribute `tile.compact` asks for it. A short loop whose number of rounds is known is
// written out instead, and its states are values.
#include "differentiate/Access.h"
#include "differentiate/Blocks.h"
#include "differentiate/Marks.h"
#include "differentiate/Recurrences.h"
#include "differentiate/Transposer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <cmath>

using namespace mlir;

namespace nereid::differentiate {

SmallVector<Value> loopOver(OpBuilder &builder, Location loc, Value from, Value to,
                            ValueRange carried,
                            llvm::function_ref<SmallVector<Value>(Value, ValueRange)> round) {
  Value one = arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(from.getType(), 1));
  auto loop = scf::ForOp::create(builder, loc, from, to, one, carried);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = loop.getBody();
  if (!body->empty())
    body->back().erase();
  builder.setInsertionPointToEnd(body);
  SmallVector<Value> next = round(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(builder, loc, next);
  return loop.getResults();
}

namespace {

/// A loop with states is written out up to this many rounds,
constexpr int64_t mostWrittenOut = 16;
/// and while its states take no more bytes than this together.
constexpr int64_t mostStateBytes = 64 * 1024;

/// A body with fewer operations is written twice rather than shared: what sharing takes, selections
/// in every round, is then more than a few hundredths of the loop.
constexpr unsigned fewOperations = 48;

/// Integers of one type.
struct Integers {
  OpBuilder &builder;
  Location loc;
  Type type;

  Value number(int64_t value) const {
    return arith::ConstantOp::create(builder, loc, IntegerAttr::get(type, value));
  }
  Value add(Value a, Value b) const { return builder.createOrFold<arith::AddIOp>(loc, a, b); }
  Value subtract(Value a, Value b) const { return builder.createOrFold<arith::SubIOp>(loc, a, b); }
  Value multiply(Value a, Value b) const { return builder.createOrFold<arith::MulIOp>(loc, a, b); }
  Value divideUp(Value a, Value b) const { // a and b are not negative
    Value sum = add(a, subtract(b, number(1)));
    return builder.createOrFold<arith::DivUIOp>(loc, sum, b);
  }
  Value smaller(Value a, Value b) const { return builder.createOrFold<arith::MinUIOp>(loc, a, b); }
};

/// A count as an integer of another type; it is not negative.
Value toInteger(OpBuilder &builder, Location loc, Value count, Type type) {
  Type from = count.getType();
  if (from == type)
    return count;
  if (from.isIndex() || type.isIndex())
    return builder.createOrFold<arith::IndexCastUIOp>(loc, type, count);
  if (from.getIntOrFloatBitWidth() < type.getIntOrFloatBitWidth())
    return builder.createOrFold<arith::ExtUIOp>(loc, type, count);
  return builder.createOrFold<arith::TruncIOp>(loc, type, count);
}

/// The same number in every element, where `like` is a block.
Value spread(OpBuilder &builder, Location loc, Value number, Type like) {
  if (!isa<RankedTensorType>(like))
    return number;
  return tile::SplatOp::create(builder, loc, tile::withShapeOf(number.getType(), like), number);
}

std::optional<int64_t> constantOf(Value value) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return number.getSExtValue();
  return std::nullopt;
}

int64_t bytesOf(Type type) {
  auto block = dyn_cast<RankedTensorType>(type);
  Type element = tile::elementOf(type);
  int64_t bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  return (bits + 7) / 8 * (block ? block.getNumElements() : 1);
}

/// The states that rounds need to compute those of `needed`, added to it.
void close(scf::ForOp loop, ArrayRef<unsigned> states, llvm::BitVector &needed) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work;
  auto need = [&](Value value) {
    if (loop.getRegion().isAncestor(value.getParentRegion()) && seen.insert(value).second)
      work.push_back(value);
  };
  for (unsigned i : needed.set_bits())
    need(loop.getYieldedValues()[states[i]]);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    for (auto [k, state] : llvm::enumerate(states))
      if (value == loop.getRegionIterArg(state) && !needed.test(k)) {
        needed.set(k);
        need(loop.getYieldedValues()[state]);
      }
    if (!op) // of a region inside: all that its operation reads
      op = value.getParentBlock()->getParentOp();
    if (op != loop)
      op->walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), need); });
  }
}

} // namespace

Transposer::Rounds Transposer::roundsOf(scf::ForOp loop) {
  Location loc = loop.getLoc();
  Rounds rounds;
  rounds.loop = loop;
  rounds.lower = here(loop.getLowerBound());
  rounds.step = here(loop.getStep());
  Value upper = here(loop.getUpperBound());
  Integers integers{builder, loc, rounds.lower.getType()};
  auto less = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
  Value runs = builder.createOrFold<arith::CmpIOp>(loc, less, rounds.lower, upper);
  Value length = builder.createOrFold<arith::SelectOp>(
      loc, runs, integers.subtract(upper, rounds.lower), integers.number(0));
  rounds.count = integers.divideUp(length, rounds.step);

  // A copy before the loop of what is the same in all rounds.
  std::function<Value(Value)> before = [&](Value value) -> Value {
    if (!loop.getRegion().isAncestor(value.getParentRegion()))
      return here(value);
    Operation *op = value.getDefiningOp();
    SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), before);
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    return copy->getResult(cast<OpResult>(value).getResultNumber());
  };
  for (auto [i, carried] : llvm::enumerate(loop.getRegionIterArgs())) {
    rounds.steps.emplace_back();
    rounds.inits.push_back(linear.contains(carried) ? Value() : here(loop.getInitArgs()[i]));
    if (linear.contains(carried)) {
      rounds.tangents.push_back(i);
      continue;
    }
    auto steps = differentiate::stepsOf(loop, i);
    if (!steps) {
      rounds.states.push_back(i);
      continue;
    }
    SmallVector<Value> &added = rounds.steps.back().emplace();
    for (const RoundStep &step : *steps) {
      Value value = before(step.value);
      // An address is a sum in 64 bits, and so are the products that replace its sums.
      Type wide = tile::withShapeOf(builder.getI64Type(), value.getType());
      if (isa<tile::PtrType>(tile::elementOf(carried.getType())) && value.getType() != wide)
        value = arith::ExtSIOp::create(builder, loc, wide, value);
      if (step.isSubtracted) {
        Type type = value.getType();
        Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
        value = arith::SubIOp::create(builder, loc, zero, value);
      }
      added.push_back(value);
    }
  }
  return rounds;
}

void Transposer::enterRound(const Rounds &rounds, Value number) {
  scf::ForOp loop = rounds.loop;
  Location loc = loop.getLoc();
  Integers integers{builder, loc, number.getType()};
  residuals.map(loop.getInductionVar(),
                integers.add(rounds.lower, integers.multiply(number, rounds.step)));
  for (auto [i, carried] : llvm::enumerate(loop.getRegionIterArgs())) {
    if (!rounds.steps[i])
      continue;
    Value value = rounds.inits[i];
    for (Value step : *rounds.steps[i]) {
      Type element = tile::elementOf(step.getType());
      Value round = rounds.mayBeNegative && element.isInteger(64) && number.getType().isInteger(32)
                        ? arith::ExtSIOp::create(builder, loc, element, number).getResult()
                        : toInteger(builder, loc, number, element);
      Value times = spread(builder, loc, round, step.getType());
      Value distance = arith::MulIOp::create(builder, loc, times, step);
      if (isa<tile::PtrType>(tile::elementOf(value.getType())))
        value = tile::AddPtrOp::create(builder, loc, value.getType(), value, distance);
      else
        value = arith::AddIOp::create(builder, loc, value, distance);
    }
    residuals.map(carried, value);
  }
}

/// The states in round `to`, from those in round `from`; null for those that are not needed.
SmallVector<Value> Transposer::replay(const Rounds &rounds, ValueRange states, Value from, Value to,
                                      const llvm::BitVector &needed) {
  SmallVector<Value> begin;
  for (unsigned i : needed.set_bits())
    begin.push_back(states[i]);
  Location loc = scf::ForOp(rounds.loop).getLoc();
  SmallVector<Value> end =
      loopOver(builder, loc, from, to, begin, [&](Value number, ValueRange carried) {
        SmallVector<Value> before(states.size());
        for (auto [value, i] : llvm::zip(carried, needed.set_bits()))
          before[i] = value;
        SmallVector<Value> after = nextStates(rounds, before, number, needed);
        llvm::erase(after, Value());
        return after;
      });
  SmallVector<Value> all(states.size());
  for (auto [value, i] : llvm::zip(end, needed.set_bits()))
    all[i] = value;
  return all;
}

SmallVector<Value> Transposer::nextStates(const Rounds &rounds, ValueRange states, Value number,
                                          const llvm::BitVector &needed) {
  IRMapping outer = residuals;
  scf::ForOp loop = rounds.loop;
  enterRound(rounds, number);
  for (auto [k, i] : llvm::enumerate(rounds.states))
    residuals.map(loop.getRegionIterArg(i),
                  states[k] ? states[k] : rounds.inits[i]); // what is not needed may be anything
  recompute(*loop.getBody());
  SmallVector<Value> next(states.size());
  for (unsigned k : needed.set_bits())
    next[k] = here(loop.getYieldedValues()[rounds.states[k]]);
  residuals = std::move(outer);
  return next;
}

/// Removes what computes nothing that is used.
void Transposer::eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isOpTriviallyDead(&op)) {
      forget(&op);
      op.erase();
      continue;
    }
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        eraseDead(inner);
  }
}

/// Writes a round once: a block whose arguments are the round's number, the states, the adjoints of
/// what the loop carries after the round, and sums of adjoints of `outside`, values from outside
/// the loop. Its terminator gives the adjoints before the round and the sums.
void Transposer::writeRound(const Rounds &rounds, Block &round, SmallVectorImpl<Value> &outside) {
  scf::ForOp loop = rounds.loop;
  Location loc = loop.getLoc();
  enterRound(rounds, round.getArgument(0));
  for (unsigned i : rounds.states) {
    Value carried = loop.getRegionIterArg(i);
    residuals.map(carried, round.addArgument(carried.getType(), loc));
  }
  recompute(*loop.getBody());
  adjoints.clear();
  for (unsigned i : rounds.tangents) {
    Value after = round.addArgument(loop.getRegionIterArg(i).getType(), loc);
    accumulate(loop.getYieldedValues()[i], rounds.isMasked ? liveWhereNotZero(after) : after);
  }
  transposeBlock(*loop.getBody());
  if (refusal)
    return;
  SmallVector<Value> given;
  for (unsigned i : rounds.tangents) {
    Value carried = loop.getRegionIterArg(i);
    given.push_back(orZero(zeroed(adjoints.lookup(carried)), carried));
  }
  llvm::SetVector<Value> used;
  for (auto &[value, adjoint] : adjoints)
    if (!loop.getRegion().isAncestor(value.getParentRegion()))
      used.insert(value);
  outside.assign(ordered(used));
  for (Value value : outside) {
    Type element = tile::elementOf(value.getType());
    Type wide = element.getIntOrFloatBitWidth() < 32 ? builder.getF32Type() : element;
    Value sum = round.addArgument(tile::withShapeOf(wide, value.getType()), loc);
    Value adjoint = convertTo(builder, zeroed(adjoints.lookup(value)), wide);
    given.push_back(arith::AddFOp::create(builder, loc, sum, adjoint));
  }
  scf::YieldOp::create(builder, loc, given);
  eraseDead(round);
}

/// Runs all rounds, last first, from the adjoints after the loop and sums that are zero.
SmallVector<Value> Transposer::runRounds(const Rounds &rounds, Block &round,
                                         SmallVector<Value> carried) {
  scf::ForOp loop = rounds.loop;
  Location loc = loop.getLoc();
  Integers integers{builder, loc, rounds.count.getType()};
  size_t count = rounds.states.size();
  auto write = [&](Value number, ValueRange states, ValueRange after) {
    IRMapping map;
    map.map(round.getArgument(0), number);
    for (auto [k, state] : llvm::enumerate(states))
      if (state)
        map.map(round.getArgument(1 + k), state);
    for (auto [k, value] : llvm::enumerate(after))
      map.map(round.getArgument(1 + count + k), value);
    for (Operation &op : round.without_terminator())
      builder.clone(op, map);
    return llvm::map_to_vector(round.getTerminator()->getOperands(),
                               [&](Value value) { return map.lookupOrDefault(value); });
  };
  llvm::BitVector needed(count);
  for (size_t k = 0; k < count; ++k)
    if (!round.getArgument(1 + k).use_empty())
      needed.set(k);
  close(loop, rounds.states, needed);
  Value zero = integers.number(0), one = integers.number(1);
  auto mirrored = [&](Value end, Value number) { // end - 1 - number
    return integers.subtract(integers.subtract(end, one), number);
  };
  if (needed.none())
    return loopOver(builder, loc, zero, rounds.count, carried, [&](Value number, ValueRange after) {
      return write(mirrored(rounds.count, number), SmallVector<Value>(count), after);
    });

  SmallVector<Value> first(count);
  int64_t bytes = 0;
  for (unsigned k : needed.set_bits()) {
    first[k] = rounds.inits[rounds.states[k]];
    bytes += bytesOf(first[k].getType());
  }
  std::optional<int64_t> known = constantOf(rounds.count);
  if (known && *known <= mostWrittenOut && *known * bytes <= mostStateBytes &&
      !isRecomputed(loop)) {
    SmallVector<SmallVector<Value>> all{first};
    for (int64_t n = 0; n + 1 < *known; ++n)
      all.push_back(nextStates(rounds, all.back(), integers.number(n), needed));
    for (int64_t n = *known - 1; n >= 0; --n)
      carried = write(integers.number(n), all[n], carried);
    return carried;
  }

  Value size;
  if (known) {
    size = integers.number(std::max<int64_t>(1, std::ceil(std::sqrt(double(*known)))));
  } else {
    Value wide = toInteger(builder, loc, rounds.count, builder.getI32Type());
    Value root = arith::UIToFPOp::create(builder, loc, builder.getF32Type(), wide);
    root = math::CeilOp::create(builder, loc, math::SqrtOp::create(builder, loc, root));
    root = arith::FPToUIOp::create(builder, loc, builder.getI32Type(), root);
    root = arith::MaxUIOp::create(
        builder, loc, root, arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(1)));
    size = toInteger(builder, loc, root, integers.type);
  }
  unsigned operations = 0;
  loop.getBody()->walk([&](Operation *op) {
    operations +=
        !llvm::any_of(op->getResults(), [&](Value each) { return linear.contains(each); });
  });
  const bool isShared = kernel->hasAttr(compactAttribute) && operations >= fewOperations;
  Value segments = integers.divideUp(rounds.count, size);
  return loopOver(builder, loc, zero, segments, carried, [&](Value turn, ValueRange after) {
    Value begin = integers.multiply(mirrored(segments, turn), size);
    Value length = integers.smaller(size, integers.subtract(rounds.count, begin));
    auto placeOf = [&](Value number) { return integers.add(begin, mirrored(length, number)); };
    if (!isShared) {
      SmallVector<Value> there = replay(rounds, first, zero, begin, needed);
      return loopOver(builder, loc, zero, length, after, [&](Value number, ValueRange after) {
        Value at = placeOf(number);
        return write(at, replay(rounds, there, begin, at, needed), after);
      });
    }
    SmallVector<Value> known(first); // the states at the beginning of the segment
    llvm::erase(known, Value());
    size_t states = known.size();
    known.append(after.begin(), after.end());
    return llvm::to_vector(llvm::drop_begin(
        loopOver(builder, loc, zero, length, known,
                 [&](Value number, ValueRange carried) {
                   Value at = placeOf(number);
                   auto [there, here] = replayBoth(rounds, first, carried.take_front(states),
                                                   number, begin, at, needed);
                   llvm::append_range(there, write(at, here, carried.drop_front(states)));
                   return there;
                 }),
        states));
  });
}

/// The states at the beginning of a segment and those in its round `at`, of whose code there is one
/// copy: a loop of two turns. In the segment's first round the first turn runs from the loop's
/// beginning; in others `there` is known.
std::pair<SmallVector<Value>, SmallVector<Value>>
Transposer::replayBoth(const Rounds &rounds, ArrayRef<Value> first, ValueRange there, Value number,
                       Value begin, Value at, const llvm::BitVector &needed) {
  Location loc = scf::ForOp(rounds.loop).getLoc();
  Integers integers{builder, loc, number.getType()};
  Value zero = integers.number(0), one = integers.number(1);
  auto isZero = [&](Value value) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, value, zero);
  };
  auto select = [&](Value condition, Value yes, Value no) -> Value {
    return arith::SelectOp::create(builder, loc, spread(builder, loc, condition, yes.getType()),
                                   yes, no);
  };
  Value isNew = isZero(number);
  SmallVector<Value> carried;
  for (auto [i, known] : llvm::zip(needed.set_bits(), there))
    carried.push_back(select(isNew, first[i], known));
  carried.append(there.begin(), there.end());
  SmallVector<Value> found =
      loopOver(builder, loc, select(isNew, zero, one), integers.number(2), carried,
               [&](Value turn, ValueRange carried) {
                 Value isFirst = isZero(turn);
                 SmallVector<Value> states(first.size());
                 for (auto [i, state] : llvm::zip(needed.set_bits(), carried))
                   states[i] = state;
                 SmallVector<Value> next = replay(rounds, states, select(isFirst, zero, begin),
                                                  select(isFirst, begin, at), needed);
                 llvm::erase(next, Value());
                 size_t count = next.size();
                 for (size_t k = 0; k < count; ++k)
                   next.push_back(select(isFirst, next[k], carried[count + k]));
                 return next;
               });
  SmallVector<Value> here(first.size());
  for (auto [i, state] : llvm::zip(needed.set_bits(), found))
    here[i] = state;
  return {llvm::to_vector(llvm::drop_begin(found, there.size())), here};
}

/// Which of the tangents that a loop carries get adjoints: those that reach a result with one, or
/// what is written in the loop, in this round or in a later one. Adjoints of the others are zero,
/// and zero times an infinite factor would be NaN. `none`: nothing in the loop gets an adjoint.
llvm::BitVector Transposer::wantedTangents(scf::ForOp loop, bool &none) const {
  llvm::BitVector wanted(loop.getNumRegionIterArgs());
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work;
  auto want = [&](Value value) {
    if (linear.contains(value) && seen.insert(value).second)
      work.push_back(value);
  };
  for (auto [i, result] : llvm::enumerate(loop.getResults()))
    if (adjoints.lookup(result)) {
      wanted.set(i);
      want(loop.getYieldedValues()[i]);
    }
  loop.getBody()->walk([&](Operation *op) {
    if (isWrite(op))
      llvm::for_each(op->getOperands(), want);
  });
  none = work.empty() && wanted.none();
  auto wantRound = [&](scf::ForOp of, unsigned i) {
    want(of.getInitArgs()[i]);
    want(of.getYieldedValues()[i]);
  };
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!loop.getRegion().isAncestor(value.getParentRegion()))
      continue;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto of = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
      if (!of)
        continue; // of a combiner, whose operation is seen from its result
      unsigned i = argument.getArgNumber() - of.getNumInductionVars();
      if (of == loop)
        wanted.set(i);
      wantRound(of, i);
      continue;
    }
    Operation *op = value.getDefiningOp();
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (auto of = dyn_cast<scf::ForOp>(op))
      wantRound(of, number);
    else if (isa<scf::IfOp>(op))
      for (Region &region : op->getRegions())
        want(region.front().getTerminator()->getOperand(number));
    else
      llvm::for_each(op->getOperands(), want);
  }
  return wanted;
}

void Transposer::transposeFor(scf::ForOp loop) {
  if (schedule && llvm::is_contained(schedule->loops, loop))
    return transposeRound(loop);
  if (isSaving) {
    for (Value result : loop.getResults())
      save(result, adjoints.lookup(result));
    if (!hasOthers)
      return;
  }
  Location loc = loop.getLoc();
  bool none = false;
  llvm::BitVector wanted = wantedTangents(loop, none);
  if (none)
    return;
  Rounds rounds = roundsOf(loop);
  rounds.isMasked = hasMasks(loop);
  llvm::erase_if(rounds.tangents, [&](unsigned i) { return !wanted.test(i); });
  llvm::DenseMap<Value, Value> outer = adjoints;
  llvm::DenseMap<Value, Live> outerLanes = lanes;
  IRMapping outerResiduals = residuals;

  // Holds the block of one round until all are written; never part of the result.
  Integers integers{builder, loc, rounds.count.getType()};
  auto holder =
      scf::ForOp::create(builder, loc, integers.number(0), rounds.count, integers.number(1));
  SmallVector<Value> outside;
  {
    OpBuilder::InsertionGuard guard(builder);
    Block &round = *holder.getBody();
    if (!round.empty())
      round.back().erase();
    builder.setInsertionPointToEnd(&round);
    writeRound(rounds, round, outside);
    if (refusal)
      return;
  }
  residuals = outerResiduals;
  SmallVector<Value> carried;
  for (unsigned i : rounds.tangents)
    carried.push_back(orZero(zeroed(outer.lookup(loop.getResult(i))), loop.getResult(i)));
  Block &round = *holder.getBody();
  for (size_t k = round.getNumArguments() - outside.size(); k < round.getNumArguments(); ++k)
    carried.push_back(zeroOf(builder, loc, round.getArgument(k).getType()));
  SmallVector<Value> given = runRounds(rounds, round, carried);
  forget(holder);
  holder.erase();

  adjoints = std::move(outer);
  lanes = std::move(outerLanes);
  residuals = std::move(outerResiduals);
  ArrayRef<Value> ofCarried(given), ofOutside = ofCarried.drop_front(rounds.tangents.size());
  for (auto [i, adjoint] : llvm::zip(rounds.tangents, ofCarried))
    accumulate(loop.getInitArgs()[i], rounds.isMasked ? liveWhereNotZero(adjoint) : adjoint);
  for (auto [value, adjoint] : llvm::zip(outside, ofOutside)) {
    Value narrow = convertTo(builder, adjoint, tile::elementOf(value.getType()));
    accumulate(value, rounds.isMasked ? liveWhereNotZero(narrow) : narrow);
  }
}

} // namespace nereid::differentiate

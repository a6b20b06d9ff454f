// tile.reduce: within registers, by shuffles, and across warps through scratch memory.
// See gpu/layouts/AxisPlan.h for the method.
#include "gpu/emit/SharedAccess.h"
#include "gpu/layouts/AxisPlan.h"
#include "gpu/layouts/Blocks.h"
#include "ir/tile/Combiner.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// The instruction that reduces i32 over a warp, for a combiner that is one operation (and asserts
/// nothing); nullopt if there is none.
std::optional<tile::CombinerKind> warpReduction(Emitter &e, Region &combiner) {
  if (!combiner.front().getArgument(0).getType().isInteger(32))
    return std::nullopt;
  tile::CombinerKind kind = tile::combinerKind(combiner);
  return e.reducesWarp(kind) ? std::optional(kind) : std::nullopt;
}

/// Is the combiner, whatever else it asserts, the maximum or the minimum, whose result is one of
/// the elements in any order?
bool isSelection(Region &combiner) {
  return combiner.getNumArguments() == 2 && tile::isSelection(tile::resultKind(combiner, 0));
}

class Reduction {
public:
  Reduction(Emitter &e, tile::ReduceOp op)
      : e(e), op(op), body(op.getCombine().front()),
        type(cast<RankedTensorType>(op.getSrcs()[0].getType())),
        layout(ngpu::layoutOf(type).getLayout()), commutes(tile::commutes(op.getCombine())),
        plan(layout, op.getAxis(), !commutes), operands(op.getSrcs().size()) {}

  void run();

private:
  /// A value of every operand.
  using Element = Values;

  Element combine(const Element &left, const Element &right) {
    Values args(left);
    args.append(right.begin(), right.end());
    return e.inlineCombiner(body, args, nullptr);
  }
  /// In order, pairwise.
  Element combineAll(SmallVector<Element> parts) {
    while (parts.size() > 1) {
      SmallVector<Element> next;
      for (size_t i = 0; i + 1 < parts.size(); i += 2)
        next.push_back(combine(parts[i], parts[i + 1]));
      if (parts.size() % 2)
        next.push_back(parts.back());
      parts = std::move(next);
    }
    return parts.front();
  }

  /// Whether lane and warp flip a bit of the axis index; null: never.
  llvm::Value *flipped(unsigned bit) {
    SmallVector<uint32_t> laneBits, warpBits;
    for (uint32_t column : plan.axisOfLane)
      laneBits.push_back(column >> bit & 1);
    for (uint32_t column : plan.axisOfWarp)
      warpBits.push_back(column >> bit & 1);
    if (!llvm::is_contained(laneBits, 1u) && !llvm::is_contained(warpBits, 1u))
      return nullptr;
    return e.b.CreateICmpNE(e.linear(laneBits, warpBits), e.b.getInt32(0));
  }

  /// The row (of the core) reduced as far as registers and shuffles go: an element per core
  /// register, equal ones shared.
  SmallVector<Element> reduceWarp(SmallVector<Element> elements);
  void deliver(ArrayRef<SmallVector<Element>> results);

  Emitter &e;
  tile::ReduceOp op;
  Block &body;
  RankedTensorType type;
  const LinearLayout layout;
  bool commutes;
  AxisPlan plan;
  unsigned operands;
};

/// Elements of a thread beside which a few more registers may be spills. Of more than the most, a
/// large part is spilled in any case, and the order of a tree was measured to be quicker.
constexpr unsigned kManyElements = 32, kMostElements = 64;

SmallVector<Reduction::Element> Reduction::reduceWarp(SmallVector<Element> elements) {
  unsigned count = elements.size();
  // Registers that hold the same are computed once: the lowest of them stands for all.
  SmallVector<unsigned> leader(count);
  llvm::SmallDenseMap<std::pair<uint32_t, uint64_t>, unsigned> first;
  for (unsigned reg = 0; reg < count; ++reg)
    leader[reg] = first.try_emplace({plan.axisIndex(reg), plan.otherIndex(reg)}, reg).first->second;

  std::optional<tile::CombinerKind> inWarp = warpReduction(e, op.getCombine());
  // As many independent exchanges by lane bits alone as there are: the whole warp holds one row.
  bool wholeWarp = inWarp && llvm::count_if(plan.steps, [](const AxisStep &step) {
                               return step.lane && !step.reg;
                             }) == int64_t(e.laneBits());

  // The exchanges in registers that come first are done depth first: partial results of a whole
  // level at once would take as many registers as the data.
  unsigned inThread = 0;
  while (inThread < plan.steps.size() && !plan.steps[inThread].lane &&
         (commutes || !flipped(plan.steps[inThread].bit)))
    ++inThread;
  for (const AxisStep &step : ArrayRef(plan.steps).take_front(inThread)) {
    SmallVector<unsigned> merged;
    for (unsigned reg = 0; reg < count; ++reg)
      merged.push_back(std::min(leader[reg], leader[reg ^ step.reg]));
    leader = std::move(merged);
  }
  std::function<Element(unsigned, unsigned)> reduceThread = [&](unsigned reg, unsigned steps) {
    if (!steps)
      return elements[reg];
    const AxisStep &step = plan.steps[steps - 1];
    // In order, the half with the lower axis indices is the left one.
    bool right = !commutes && plan.axisIndex(reg) >> step.bit & 1;
    Element low = reduceThread(right ? reg ^ step.reg : reg, steps - 1);
    return combine(low, reduceThread(right ? reg : reg ^ step.reg, steps - 1));
  };
  // Where the result is the same in any order, one after the other: the partial results of a tree
  // would take registers beside many elements. Of several rows, the turns that the chain waits go
  // to other rows, and to what depends on those that are done.
  auto reduceChain = [&](unsigned reg) {
    SmallVector<unsigned> members{reg};
    for (const AxisStep &step : ArrayRef(plan.steps).take_front(inThread))
      for (unsigned i = 0, known = members.size(); i < known; ++i)
        members.push_back(members[i] ^ step.reg);
    llvm::sort(members);
    Element all = elements[members[0]];
    for (unsigned member : ArrayRef(members).drop_front())
      all = combine(all, elements[member]);
    return all;
  };
  unsigned rows = 0;
  for (unsigned reg = 0; reg < count; ++reg)
    rows += leader[reg] == reg;
  bool many = count >= kManyElements && count <= kMostElements;
  bool chain = (rows > 1 || many) && isSelection(op.getCombine());
  SmallVector<Element> reduced(count);
  for (unsigned reg = 0; reg < count; ++reg)
    if (leader[reg] == reg)
      reduced[reg] = chain ? reduceChain(reg) : reduceThread(reg, inThread);
  elements = std::move(reduced);

  for (const AxisStep &step : ArrayRef(plan.steps).drop_front(inThread)) {
    if (step.lane && wholeWarp)
      continue;
    llvm::Value *laneIsRight = commutes ? nullptr : flipped(step.bit);
    SmallVector<Element> next(count);
    SmallVector<unsigned> nextLeader(count);
    for (unsigned reg = 0; reg < count; ++reg)
      nextLeader[reg] = step.lane ? leader[reg] : std::min(leader[reg], leader[reg ^ step.reg]);
    for (unsigned reg = 0; reg < count; ++reg) {
      if (nextLeader[reg] != reg)
        continue;
      const Element &mine = elements[leader[reg]];
      Element other = elements[leader[reg ^ step.reg]];
      if (step.lane)
        for (llvm::Value *&value : other)
          value = e.shuffleXor(value, step.lane);
      if (commutes) {
        next[reg] = combine(mine, other);
        continue;
      }
      bool right = plan.axisIndex(reg) >> step.bit & 1;
      Element low = right ? other : mine, high = right ? mine : other;
      if (laneIsRight)
        for (auto [l, h] : llvm::zip_equal(low, high)) {
          llvm::Value *swapped = e.b.CreateSelect(laneIsRight, h, l);
          h = e.b.CreateSelect(laneIsRight, l, h);
          l = swapped;
        }
      next[reg] = combine(low, high);
    }
    elements = std::move(next);
    leader = std::move(nextLeader);
  }
  if (wholeWarp)
    for (unsigned reg = 0; reg < count; ++reg)
      if (leader[reg] == reg)
        elements[reg][0] = e.reduceWarp(*inWarp, elements[reg][0]);
  for (unsigned reg = 0; reg < count; ++reg)
    elements[reg] = elements[leader[reg]];
  return elements;
}

void Reduction::run() {
  unsigned core = layout.size(Axis::Register), axis = op.getAxis();
  SmallVector<int64_t> repeats;
  for (int64_t size : type.getShape())
    repeats.push_back(repeatCount(size));
  unsigned along = repeats[axis], inner = 1, outer = 1;
  for (unsigned dim = 0; dim < repeats.size(); ++dim)
    (dim < axis ? outer : dim > axis ? inner : along) *= dim == axis ? 1 : repeats[dim];

  SmallVector<ArrayRef<llvm::Value *>> sources;
  for (Value source : op.getSrcs())
    sources.push_back(e.get(source));
  auto element = [&](unsigned repeat, unsigned reg) {
    Element values;
    for (ArrayRef<llvm::Value *> source : sources)
      values.push_back(source[repeat * core + reg]);
    return values;
  };

  // For every repeat of the other dimensions: the parts along the axis (one if they could be folded
  // at once), each with an element per core register.
  SmallVector<SmallVector<SmallVector<Element>>> parts;
  for (unsigned o = 0; o < outer; ++o)
    for (unsigned i = 0; i < inner; ++i) {
      auto &mine = parts.emplace_back();
      for (unsigned a = 0; a < along; ++a) {
        SmallVector<Element> elements;
        for (unsigned reg = 0; reg < core; ++reg)
          elements.push_back(element((o * along + a) * inner + i, reg));
        mine.push_back(std::move(elements));
      }
      if (commutes && along > 1) {
        SmallVector<Element> folded;
        for (unsigned reg = 0; reg < core; ++reg) {
          SmallVector<Element> column;
          for (auto &part : mine)
            column.push_back(part[reg]);
          folded.push_back(combineAll(std::move(column)));
        }
        mine.assign(1, std::move(folded));
      }
      for (auto &part : mine)
        part = reduceWarp(std::move(part));
    }

  if (plan.partialBits) {
    AxisScratch scratch =
        axisScratch(plan, op.getSrcs().getTypes(), axisCopies(type, axis, commutes));
    bool sends = op->hasAttr(ngpu::sendsName);
    Emitter::Sending sending = sends ? e.nextSending() : Emitter::Sending();
    llvm::Value *base = sends ? sending.slot : e.scratch(op);
    bool crosses = crossesBlocks(op);
    unsigned received = 0;
    // No lane sends while another one of its warp still reads what was sent before.
    if (sends && llvm::none_of(plan.steps, [](const auto &step) { return step.lane != 0; }))
      e.syncWarp();
    auto address = [&](unsigned operand, unsigned copy) {
      return e.b.CreateConstInBoundsGEP1_32(
          e.b.getInt8Ty(), base, scratch.offsets[operand] + copy * scratch.copyBytes[operand]);
    };
    for (unsigned k = 0; k < operands; ++k) {
      unsigned copy = 0;
      for (auto &repeat : parts)
        for (auto &part : repeat) {
          Values values;
          for (const Element &element : part)
            values.push_back(element[k]);
          SharedMove move{plan.stored, plan.memory, values[0]->getType(), 1, 0, false};
          if (sends)
            received += sendShared(e, address(k, copy++), sending.barrier, move, values);
          else
            storeShared(e, address(k, copy++), move, values, crosses);
        }
    }
    if (sends) {
      e.when(e.b.CreateICmpEQ(e.threadIndex(1024), e.i32(0)),
             [&] { e.expectWords(sending.barrier, received); });
      e.receiveWords(sending.barrier, sending.parity);
    } else {
      e.barrier(crosses);
    }
    unsigned copy = 0, partials = 1u << plan.heldBits;
    for (auto &repeat : parts)
      for (auto &part : repeat) {
        SmallVector<Values> loaded;
        for (unsigned k = 0; k < operands; ++k)
          loaded.push_back(loadShared(
              e, address(k, copy), {plan.loaded, plan.memory, part[0][k]->getType(), 1, 0, false}));
        ++copy;
        SmallVector<Element> rows;
        for (unsigned row = 0; row < plan.rows; ++row) {
          SmallVector<Element> column(partials);
          for (unsigned p = 0; p < partials; ++p)
            for (unsigned k = 0; k < operands; ++k)
              column[p].push_back(loaded[k][row * partials + p]);
          Element all = combineAll(std::move(column));
          for (uint32_t lanes : plan.spread) {
            Element others = all;
            for (llvm::Value *&value : others)
              value = e.shuffleXor(value, lanes);
            all = combine(all, others);
          }
          rows.push_back(std::move(all));
        }
        for (unsigned reg = 0; reg < core; ++reg)
          part[reg] = rows[plan.rowOf(reg)];
      }
  }

  SmallVector<SmallVector<Element>> results;
  for (auto &repeat : parts) {
    auto &result = results.emplace_back();
    llvm::SmallDenseMap<uint64_t, Element> known;
    for (unsigned reg = 0; reg < core; ++reg) {
      Element &value = known[plan.otherIndex(reg)];
      if (value.empty()) {
        SmallVector<Element> column;
        for (auto &part : repeat)
          column.push_back(part[reg]);
        value = combineAll(std::move(column));
      }
      result.push_back(value);
    }
  }
  deliver(results);
}

void Reduction::deliver(ArrayRef<SmallVector<Element>> results) {
  auto tensor = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!tensor) {
    for (unsigned k = 0; k < operands; ++k)
      e.set(op->getResult(k), {results[0][0][k]});
    return;
  }
  const LinearLayout &to = ngpu::layoutOf(tensor).getLayout();
  LinearLayout sliced = layout.sliced(op.getAxis());
  if (to.flatBases(Axis::Lane) != sliced.flatBases(Axis::Lane) ||
      to.flatBases(Axis::Warp) != sliced.flatBases(Axis::Warp))
    return e.fail(op, "internal error: the result of a reduction is in another layout");
  llvm::SmallDenseMap<uint64_t, unsigned> holder;
  for (unsigned reg = 0; reg < layout.size(Axis::Register); ++reg)
    holder.try_emplace(plan.otherIndex(reg), reg);
  for (unsigned k = 0; k < operands; ++k) {
    Values values;
    for (const SmallVector<Element> &repeat : results)
      for (unsigned reg = 0; reg < to.size(Axis::Register); ++reg)
        values.push_back(repeat[holder.lookup(to.applyFlat(Axis::Register, reg))][k]);
    e.set(op->getResult(k), std::move(values));
  }
}

} // namespace

bool emitReduce(Emitter &e, Operation *op) {
  auto reduce = dyn_cast<tile::ReduceOp>(op);
  if (!reduce)
    return false;
  Reduction(e, reduce).run();
  return true;
}

} // namespace nereid::gpu

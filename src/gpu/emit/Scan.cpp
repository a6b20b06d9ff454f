// tile.scan: prefixes within registers, by shuffles, and across warps through scratch memory.
//
// The axis is cut into blocks that double with every exchange (gpu/layouts/AxisPlan.h, in order). A
// thread keeps, for each of its blocks, the total, and the combination of everything in front of it
// that it has learned of (the carry); in the end every element is combined with its block's carry.
// The first blocks are runs of neighbouring registers, scanned one by one. A reversed scan is one
// on the complemented axis index.
#include "gpu/emit/SharedAccess.h"
#include "gpu/layouts/AxisPlan.h"
#include "gpu/layouts/Blocks.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

class Scan {
public:
  Scan(Emitter &e, tile::ScanOp op)
      : e(e), op(op), body(op.getCombine().front()),
        type(cast<RankedTensorType>(op.getSrcs()[0].getType())),
        layout(ngpu::layoutOf(type).getLayout()), plan(layout, op.getAxis(), true),
        operands(op.getSrcs().size()), core(layout.size(Axis::Register)) {}

  void run();

private:
  using Element = Values;

  /// A combination that may be of nothing: everywhere (no values), or in threads where `present` is
  /// false.
  struct Carry {
    Element values;
    llvm::Value *present = nullptr; ///< null: in every thread, if there are values
    bool none() const { return values.empty(); }
  };
  /// One core of the axis as far as this thread holds it.
  struct Row {
    SmallVector<Element> elements;  ///< by core register: prefixes of its run
    SmallVector<unsigned> leader;   ///< the register that stands for a block
    SmallVector<Element> totals;    ///< by leader
    SmallVector<Carry> carries;     ///< by run leader
    SmallVector<unsigned> run;      ///< the register that stands for a run
    SmallVector<Element> rowTotals; ///< by core register, of the whole core of the axis
  };

  /// `counts`: where the result is used; null: everywhere.
  Element combine(const Element &left, const Element &right, llvm::Value *counts = nullptr) {
    Values args(left);
    args.append(right.begin(), right.end());
    return e.inlineCombiner(body, args, counts);
  }
  Element select(llvm::Value *condition, const Element &yes, const Element &no) {
    Element result;
    for (auto [y, n] : llvm::zip_equal(yes, no))
      result.push_back(e.b.CreateSelect(condition, y, n));
    return result;
  }
  /// carry ∘ element
  Element after(const Carry &carry, const Element &element) {
    if (carry.none())
      return element;
    Element joined = combine(carry.values, element, carry.present);
    return carry.present ? select(carry.present, joined, element) : joined;
  }
  /// front ∘ carry, used where `counts` holds
  Element before(const Element &front, const Carry &carry, llvm::Value *counts = nullptr) {
    if (carry.none())
      return front;
    if (counts && carry.present)
      counts = e.b.CreateAnd(counts, carry.present);
    Element joined = combine(front, carry.values, counts ? counts : carry.present);
    return carry.present ? select(carry.present, joined, front) : joined;
  }

  bool isRight(unsigned reg, unsigned bit) {
    return bool(plan.axisIndex(reg) >> bit & 1) != op.getReverse();
  }
  /// Whether lane and warp flip the bit of the axis index; null: never.
  llvm::Value *flipped(unsigned bit);

  Row scanRuns(ArrayRef<ArrayRef<llvm::Value *>> sources, unsigned firstRegister);
  void exchange(Row &row, const AxisStep &step, bool wantTotals);
  void joinPartials(Row &row, ArrayRef<Values> loaded, bool wantTotals);

  Emitter &e;
  tile::ScanOp op;
  Block &body;
  RankedTensorType type;
  const LinearLayout layout;
  AxisPlan plan;
  unsigned operands, core;
  unsigned runSteps = 0;
};

llvm::Value *Scan::flipped(unsigned bit) {
  SmallVector<uint32_t> laneBits, warpBits;
  for (uint32_t column : plan.axisOfLane)
    laneBits.push_back(column >> bit & 1);
  for (uint32_t column : plan.axisOfWarp)
    warpBits.push_back(column >> bit & 1);
  if (!llvm::is_contained(laneBits, 1u) && !llvm::is_contained(warpBits, 1u))
    return nullptr;
  return e.b.CreateICmpNE(e.linear(laneBits, warpBits), e.b.getInt32(0));
}

Scan::Row Scan::scanRuns(ArrayRef<ArrayRef<llvm::Value *>> sources, unsigned firstRegister) {
  Row row;
  row.elements.resize(core);
  row.totals.resize(core);
  row.carries.resize(core);
  // Registers of one run, by their place in it. The register that holds an element first stands for
  // its copies.
  llvm::SmallDenseMap<std::pair<uint32_t, uint64_t>, unsigned> first, runs;
  SmallVector<SmallVector<unsigned>> members(core);
  unsigned length = 1u << runSteps;
  for (unsigned reg = 0; reg < core; ++reg) {
    uint32_t index = plan.axisIndex(reg);
    uint64_t other = plan.otherIndex(reg);
    unsigned stands = first.try_emplace({index, other}, reg).first->second;
    unsigned run = runs.try_emplace({index >> runSteps, other}, reg).first->second;
    row.run.push_back(run);
    if (members[run].empty())
      members[run].assign(length, 0);
    members[run][op.getReverse() ? length - 1 - index % length : index % length] = stands;
  }
  row.leader = row.run;
  for (unsigned run = 0; run < core; ++run) {
    Element prefix;
    for (unsigned reg : members[run]) {
      Element element;
      for (ArrayRef<llvm::Value *> source : sources)
        element.push_back(source[firstRegister + reg]);
      prefix = prefix.empty() ? element : combine(prefix, element);
      row.elements[reg] = prefix;
    }
    row.totals[run] = prefix;
  }
  for (unsigned reg = 0; reg < core; ++reg)
    row.elements[reg] = row.elements[first.lookup({plan.axisIndex(reg), plan.otherIndex(reg)})];
  return row;
}

void Scan::exchange(Row &row, const AxisStep &step, bool wantTotals) {
  llvm::Value *flip = flipped(step.bit);
  SmallVector<Element> totals(core), others(core);
  SmallVector<unsigned> leader(core);
  for (unsigned reg = 0; reg < core; ++reg)
    leader[reg] =
        step.lane ? row.leader[reg] : std::min(row.leader[reg], row.leader[reg ^ step.reg]);

  // The total of every block's partner, computed once for each block of the step before.
  for (unsigned reg = 0; reg < core; ++reg) {
    if (row.leader[reg] != reg)
      continue;
    others[reg] = row.totals[row.leader[reg ^ step.reg]];
    if (step.lane)
      for (llvm::Value *&value : others[reg])
        value = e.shuffleXor(value, step.lane);
  }
  // Blocks on the right have the partner in front of them.
  for (unsigned reg = 0; reg < core; ++reg) {
    if (row.run[reg] != reg)
      continue;
    const Element &other = others[row.leader[reg]];
    bool right = isRight(reg, step.bit);
    Carry &carry = row.carries[reg];
    if (!flip) {
      if (right)
        carry = {before(other, carry), nullptr};
      continue;
    }
    llvm::Value *onRight = right ? e.b.CreateNot(flip) : flip;
    Element extended = before(other, carry, onRight);
    if (carry.none()) {
      carry = {extended, onRight};
    } else {
      carry.values = select(onRight, extended, carry.values);
      if (carry.present)
        carry.present = e.b.CreateOr(carry.present, onRight);
    }
  }
  if (wantTotals)
    for (unsigned reg = 0; reg < core; ++reg) {
      if (leader[reg] != reg)
        continue;
      const Element &mine = row.totals[row.leader[reg]];
      const Element &other = others[row.leader[reg]];
      bool right = isRight(reg, step.bit);
      Element low = right ? other : mine, high = right ? mine : other;
      if (flip) {
        Element swapped = select(flip, high, low);
        high = select(flip, low, high);
        low = swapped;
      }
      totals[reg] = combine(low, high);
    }
  row.totals = std::move(totals);
  row.leader = std::move(leader);
}

void Scan::joinPartials(Row &row, ArrayRef<Values> loaded, bool wantTotals) {
  unsigned partials = 1u << plan.partialBits;
  auto place = [&](unsigned p) { return op.getReverse() ? partials - 1 - p : p; };
  // prefixes[r][p]: everything in front of partial result p of row r, in the order of the scan.
  SmallVector<SmallVector<Element>> prefixes(plan.rows);
  SmallVector<Element> rowTotals(plan.rows);
  for (unsigned r = 0; r < plan.rows; ++r) {
    Element sum;
    prefixes[r].resize(partials);
    for (unsigned p = 0; p < partials; ++p) {
      prefixes[r][place(p)] = sum;
      Element part;
      for (unsigned k = 0; k < operands; ++k)
        part.push_back(loaded[k][r * partials + place(p)]);
      if (p + 1 < partials || wantTotals)
        sum = sum.empty() ? part : combine(sum, part);
    }
    rowTotals[r] = sum;
  }
  // This thread's own partial result: constant in the bits that only registers set.
  uint32_t reach = 0;
  for (uint32_t column : plan.partialOfLane)
    reach |= column;
  for (uint32_t column : plan.partialOfWarp)
    reach |= column;
  llvm::Value *place0 = reach ? e.linear(plan.partialOfLane, plan.partialOfWarp) : e.b.getInt32(0);
  llvm::SmallDenseMap<std::pair<unsigned, uint32_t>, Carry> fronts;
  for (unsigned reg = 0; reg < core; ++reg) {
    if (row.run[reg] != reg)
      continue;
    unsigned r = plan.rowOf(reg);
    uint32_t mine = plan.partialIndex(reg);
    auto [entry, inserted] = fronts.try_emplace({r, mine});
    Carry &front = entry->second;
    if (inserted)
      for (unsigned p = 0; p < partials; ++p) {
        if ((p ^ mine) & ~reach || prefixes[r][p].empty())
          continue;
        if (front.none()) {
          front.values = prefixes[r][p];
          continue;
        }
        llvm::Value *here = e.b.CreateICmpEQ(place0, e.b.getInt32(p ^ mine));
        front.values = select(here, prefixes[r][p], front.values);
      }
    if (front.none())
      continue;
    // The first partial result has nothing in front of it.
    uint32_t start = place(0);
    llvm::Value *present = nullptr;
    if (!((start ^ mine) & ~reach))
      present = e.b.CreateICmpNE(place0, e.b.getInt32(start ^ mine));
    Carry &carry = row.carries[reg];
    if (carry.none()) {
      carry = {front.values, present};
      continue;
    }
    Element joined = before(front.values, carry);
    if (!present) {
      carry = {joined, nullptr};
      continue;
    }
    carry.values = select(present, joined, carry.values);
    if (carry.present)
      carry.present = e.b.CreateOr(carry.present, present);
  }
  if (wantTotals)
    for (unsigned reg = 0; reg < core; ++reg)
      row.rowTotals.push_back(rowTotals[plan.rowOf(reg)]);
}

void Scan::run() {
  unsigned axis = op.getAxis();
  SmallVector<int64_t> repeats;
  for (int64_t size : type.getShape())
    repeats.push_back(repeatCount(size));
  unsigned along = repeats[axis], inner = 1, outer = 1;
  for (unsigned dim = 0; dim < repeats.size(); ++dim) {
    if (dim < axis)
      outer *= repeats[dim];
    if (dim > axis)
      inner *= repeats[dim];
  }
  SmallVector<ArrayRef<llvm::Value *>> sources;
  for (Value source : op.getSrcs())
    sources.push_back(e.get(source));
  while (runSteps < plan.steps.size() && !plan.steps[runSteps].lane &&
         !flipped(plan.steps[runSteps].bit))
    ++runSteps;

  bool wantTotals = along > 1;
  std::vector<Row> rows;
  for (unsigned repeat = 0; repeat < outer * along * inner; ++repeat) {
    Row &row = rows.emplace_back(scanRuns(sources, repeat * core));
    for (unsigned i = runSteps; i < plan.steps.size(); ++i)
      exchange(row, plan.steps[i], wantTotals || plan.partialBits || i + 1 < plan.steps.size());
    if (!plan.partialBits && wantTotals)
      for (unsigned reg = 0; reg < core; ++reg)
        row.rowTotals.push_back(row.totals[row.leader[reg]]);
  }

  if (plan.partialBits) {
    AxisScratch scratch = axisScratch(plan, op.getSrcs().getTypes(), rows.size());
    llvm::Value *base = e.scratch(op);
    bool crosses = crossesBlocks(op);
    auto address = [&](unsigned operand, unsigned copy) {
      return e.b.CreateConstInBoundsGEP1_32(
          e.b.getInt8Ty(), base, scratch.offsets[operand] + copy * scratch.copyBytes[operand]);
    };
    for (auto [copy, row] : llvm::enumerate(rows))
      for (unsigned k = 0; k < operands; ++k) {
        Values values;
        for (unsigned reg = 0; reg < core; ++reg)
          values.push_back(row.totals[row.leader[reg]][k]);
        storeShared(e, address(k, copy),
                    {plan.stored, plan.memory, values[0]->getType(), 1, 0, false}, values, crosses);
      }
    e.barrier(crosses);
    for (auto [copy, row] : llvm::enumerate(rows)) {
      SmallVector<Values> loaded;
      for (unsigned k = 0; k < operands; ++k)
        loaded.push_back(
            loadShared(e, address(k, copy),
                       {plan.loaded, plan.memory, row.elements[0][k]->getType(), 1, 0, false}));
      joinPartials(row, loaded, wantTotals);
    }
  }

  // Repeats of the axis, one after the other.
  SmallVector<Values> results(operands);
  for (Values &result : results)
    result.resize(rows.size() * core);
  for (unsigned o = 0; o < outer; ++o)
    for (unsigned i = 0; i < inner; ++i) {
      SmallVector<Element> ahead(core);
      for (unsigned step = 0; step < along; ++step) {
        unsigned a = op.getReverse() ? along - 1 - step : step;
        unsigned repeat = (o * along + a) * inner + i;
        Row &row = rows[repeat];
        llvm::SmallDenseMap<std::pair<uint32_t, uint64_t>, Element> known;
        llvm::SmallDenseMap<uint64_t, Element> totals;
        for (unsigned reg = 0; reg < core; ++reg) {
          uint64_t other = plan.otherIndex(reg);
          Element &value = known[{plan.axisIndex(reg), other}];
          if (value.empty()) {
            value = after(row.carries[row.run[reg]], row.elements[reg]);
            if (step)
              value = combine(ahead[reg], value);
          }
          for (unsigned k = 0; k < operands; ++k)
            results[k][repeat * core + reg] = value[k];
        }
        if (step + 1 < along)
          for (unsigned reg = 0; reg < core; ++reg) {
            Element &total = totals[plan.otherIndex(reg)];
            if (total.empty())
              total = step ? combine(ahead[reg], row.rowTotals[reg]) : row.rowTotals[reg];
            ahead[reg] = total;
          }
      }
    }
  for (unsigned k = 0; k < operands; ++k)
    e.set(op->getResult(k), std::move(results[k]));
}

} // namespace

bool emitScan(Emitter &e, Operation *op) {
  auto scan = dyn_cast<tile::ScanOp>(op);
  if (!scan)
    return false;
  Scan(e, scan).run();
  return true;
}

} // namespace nereid::gpu

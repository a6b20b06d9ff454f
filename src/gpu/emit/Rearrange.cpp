// Exchanges, slices, gathers and histograms. gpu/layouts/Rearrange.h says which way their elements
// go.
#include "gpu/layouts/Rearrange.h"
#include "gpu/emit/SharedAccess.h"
#include "gpu/layouts/Blocks.h"
#include "layout/Constructors.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// Sends each value once, though it may be asked for several times.
Values shuffleOnce(Emitter &e, ArrayRef<llvm::Value *> values,
                   llvm::function_ref<llvm::Value *(llvm::Value *)> shuffle) {
  llvm::SmallDenseMap<llvm::Value *, unsigned, 16> number;
  Values distinct;
  for (llvm::Value *value : values)
    if (number.try_emplace(value, distinct.size()).second)
      distinct.push_back(value);
  Values moved = shuffleTogether(e, distinct, shuffle);
  Values result;
  for (llvm::Value *value : values)
    result.push_back(moved[number.lookup(value)]);
  return result;
}

void emitExchange(Emitter &e, tile::ExchangeOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  const LinearLayout &layout = ngpu::layoutOf(type).getLayout();
  PlaceStep step = exchangeStep(layout, op.getAxis(), op.getMask());
  ArrayRef<llvm::Value *> source = e.get(op.getSrc());
  unsigned freeBits = layout.freeBits(Axis::Register);
  auto partner = [&](unsigned reg) { return (reg & ~freeBits) ^ step.reg; };
  // Copies in registers are read from the register that owns the element, if it is that simple.
  for (unsigned bit = 0; bit < layout.bits(Axis::Register); ++bit)
    if (freeBits >> bit & 1 && layout.flatBases(Axis::Register)[bit])
      freeBits = 0;
  if (!step.warp) {
    Values values;
    for (unsigned reg = 0; reg < source.size(); ++reg)
      values.push_back(source[partner(reg)]);
    if (step.lane)
      values = shuffleOnce(e, values,
                           [&](llvm::Value *value) { return e.shuffleXor(value, step.lane); });
    return e.set(op.getResult(), values);
  }
  // Every thread has a column of its own: no conflicts, whatever the layout. Partners go in one
  // piece.
  llvm::Type *element = e.type(type), *stored = storedType(e, element);
  unsigned threads = e.threadCount(), atOnce = exchangeRegisters(op);
  auto at = [&](unsigned row, llvm::Value *thread, llvm::Value *base) {
    llvm::Value *index = e.b.CreateAdd(thread, e.i32(int64_t(row) * threads));
    return e.b.CreateGEP(stored, base, index);
  };
  // What the partner reads is in the partner's block.
  llvm::Value *base = e.scratch(op), *partners = base;
  bool crosses = crossesBlocks(op);
  if (crosses)
    partners = e.sharedOf(
        base, e.b.CreateXor(e.blockRank(), step.warp / (e.warpCount() / e.blockCount())));
  SmallVector<unsigned> order;
  SmallVector<unsigned> row(source.size(), 0);
  SmallVector<bool> listed(source.size(), false);
  for (unsigned reg = 0; reg < source.size(); ++reg)
    for (unsigned each : {reg & ~freeBits, partner(reg)})
      if (!listed[each]) {
        listed[each] = true;
        order.push_back(each);
      }
  llvm::Value *other = e.b.CreateXor(e.threadId(), step.lane | step.warp << e.laneBits());
  Values values(source.size(), nullptr);
  for (unsigned first = 0; first < order.size(); first += atOnce) {
    ArrayRef<unsigned> piece =
        ArrayRef(order).slice(first, std::min<size_t>(atOnce, order.size() - first));
    if (first)
      e.barrier(crosses);
    for (auto [i, reg] : llvm::enumerate(piece)) {
      row[reg] = i;
      e.b.CreateStore(toStored(e, source[reg]), at(i, e.threadId(), partners));
    }
    e.barrier(crosses);
    for (unsigned reg : piece)
      values[reg] =
          fromStored(e, e.b.CreateLoad(stored, at(row[partner(reg)], other, base)), element);
  }
  for (unsigned reg = 0; reg < source.size(); ++reg)
    values[reg] = values[reg & ~freeBits];
  e.set(op.getResult(), values);
}

/// A tensor in the scratch memory of an op, row-major.
class Rows {
public:
  Rows(Emitter &e, Operation *op, Value tensor)
      : e(e), type(cast<RankedTensorType>(tensor.getType())), base(e.scratch(op)),
        element(e.type(type)), stored(storedType(e, element)) {
    bool odd = llvm::any_of(type.getShape(), [](int64_t size) { return repeatCount(size) > 1; });
    if (odd) {
      e.when(e.owner(type), [&] {
        for (auto [reg, value] : llvm::enumerate(e.get(tensor)))
          if (!e.isRedundantRegister(type, reg))
            e.inBlocks(base, /*allBlocks=*/true, [&](llvm::Value *memory) {
              e.b.CreateStore(toStored(e, value), at(memory, e.coordinates(type, reg)));
            });
      });
    } else {
      SmallVector<unsigned> order;
      for (unsigned dim = type.getRank(); dim-- > 0;)
        order.push_back(dim);
      storeShared(e, base,
                  {ngpu::layoutOf(type).getLayout(), sharedLinear(type.getShape(), order), element,
                   1, 0, false},
                  e.get(tensor), /*allBlocks=*/true);
    }
    e.barrier();
  }

  llvm::Value *load(ArrayRef<llvm::Value *> index) {
    return fromStored(e, e.b.CreateLoad(stored, at(base, index)), element);
  }

private:
  llvm::Value *at(llvm::Value *memory, ArrayRef<llvm::Value *> index) {
    llvm::Value *flat = index[0];
    for (unsigned dim = 1; dim < index.size(); ++dim)
      flat = e.b.CreateAdd(e.b.CreateMul(flat, e.i32(type.getDimSize(dim))), index[dim]);
    return e.b.CreateGEP(stored, memory, flat);
  }

  Emitter &e;
  RankedTensorType type;
  llvm::Value *base;
  llvm::Type *element, *stored;
};

/// The lanes of a move that the thread alone decides.
llvm::Value *laneOf(Emitter &e, const WarpMove &move) {
  SmallVector<uint32_t> ofLane, ofWarp;
  for (const PlaceStep &step : move.ofLane)
    ofLane.push_back(step.lane);
  for (const PlaceStep &step : move.ofWarp)
    ofWarp.push_back(step.lane);
  return e.linear(ofLane, ofWarp);
}

void emitSlice(Emitter &e, tile::SliceOp op) {
  auto from = cast<RankedTensorType>(op.getSrc().getType());
  auto to = cast<RankedTensorType>(op.getType());
  ArrayRef<llvm::Value *> source = e.get(op.getSrc());
  auto move = sliceMove(op, ngpu::layoutOf(from).getLayout(), ngpu::layoutOf(to).getLayout());
  Values values;
  if (!move) {
    Rows rows(e, op, op.getSrc());
    for (unsigned reg = 0, count = ngpu::registerCount(to); reg < count; ++reg) {
      Values index = e.coordinates(to, reg);
      for (auto [dim, at] : llvm::enumerate(index))
        at = e.b.CreateAdd(e.b.CreateMul(at, e.i32(op.getSteps()[dim])),
                           e.i32(op.getOffsets()[dim]));
      values.push_back(rows.load(index));
    }
    return e.set(op.getResult(), values);
  }
  // Registers that read from one lane go together.
  unsigned count = ngpu::registerCount(to);
  values.assign(count, nullptr);
  llvm::Value *lane = move->shuffles ? laneOf(e, *move) : nullptr;
  for (unsigned first = 0; first < count; ++first) {
    if (values[first])
      continue;
    uint32_t constant = move->at(first).lane;
    SmallVector<unsigned> group;
    Values sent;
    for (unsigned reg = first; reg < count; ++reg)
      if (!values[reg] && move->at(reg).lane == constant) {
        group.push_back(reg);
        sent.push_back(source[move->at(reg).reg]);
      }
    if (move->shuffles) {
      llvm::Value *holder = constant ? e.b.CreateXor(lane, constant) : lane;
      sent =
          shuffleOnce(e, sent, [&](llvm::Value *value) { return e.shuffleIndex(value, holder); });
    }
    for (auto [reg, value] : llvm::zip_equal(group, sent))
      values[reg] = value;
  }
  e.set(op.getResult(), values);
}

/// XOR of `columns[i]` for the bits i of `value` that are 1.
llvm::Value *linearOf(Emitter &e, llvm::Value *value, ArrayRef<uint32_t> columns) {
  llvm::SmallMapVector<int, uint32_t, 8> masks; // distance (left positive) to bits of the value
  for (auto [bit, column] : llvm::enumerate(columns))
    for (uint32_t rest = column; rest; rest &= rest - 1)
      masks[llvm::countr_zero(rest) - int(bit)] |= 1u << bit;
  llvm::Value *result = e.i32(0);
  for (auto [distance, mask] : masks) {
    llvm::Value *part = e.b.CreateAnd(value, mask);
    part = distance > 0   ? e.b.CreateShl(part, distance)
           : distance < 0 ? e.b.CreateLShr(part, -distance)
                          : part;
    result = e.b.CreateXor(result, part);
  }
  return result;
}

void emitGather(Emitter &e, tile::GatherOp op) {
  auto from = cast<RankedTensorType>(op.getSrc().getType());
  auto to = cast<RankedTensorType>(op.getType());
  unsigned axis = op.getAxis(), count = ngpu::registerCount(to);
  int64_t size = from.getDimSize(axis);
  // Whatever an index is, only the source is read.
  auto within = [&](llvm::Value *index) {
    llvm::Value *last = llvm::ConstantInt::get(index->getType(), uint64_t(size - 1));
    unsigned bits = index->getType()->getIntegerBitWidth();
    if (bits < 64 && uint64_t(size - 1) >> bits)
      return e.b.CreateZExtOrTrunc(index, e.b.getInt32Ty());
    index = llvm::isPowerOf2_64(size)
                ? e.b.CreateAnd(index, last)
                : e.b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, index, last);
    return e.b.CreateZExtOrTrunc(index, e.b.getInt32Ty());
  };
  ArrayRef<llvm::Value *> source = e.get(op.getSrc()), indices = e.get(op.getIndices());
  auto move = gatherMove(op, ngpu::layoutOf(from).getLayout(), ngpu::layoutOf(to).getLayout());
  Values values;
  if (!move) {
    Rows rows(e, op, op.getSrc());
    for (unsigned reg = 0; reg < count; ++reg) {
      Values index = e.coordinates(to, reg);
      index[axis] = within(indices[reg]);
      values.push_back(rows.load(index));
    }
    return e.set(op.getResult(), values);
  }
  llvm::Value *threadLane = move->shuffles ? laneOf(e, *move) : nullptr;
  SmallVector<uint32_t> laneColumns;
  SmallVector<unsigned> registerBits; // of the index, that choose a register
  for (auto [bit, step] : llvm::enumerate(move->ofIndex)) {
    laneColumns.push_back(step.lane);
    if (step.reg)
      registerBits.push_back(bit);
  }
  for (unsigned reg = 0; reg < count; ++reg) {
    PlaceStep place = move->at(reg);
    llvm::Value *index = within(indices[reg]);
    llvm::Value *lane = nullptr;
    if (move->shuffles)
      lane = e.b.CreateXor(e.b.CreateXor(threadLane, place.lane), linearOf(e, index, laneColumns));
    Values candidates;
    for (unsigned choice = 0; choice < move->candidates(); ++choice) {
      uint32_t candidate = place.reg;
      for (auto [i, bit] : llvm::enumerate(registerBits))
        if (choice >> i & 1)
          candidate ^= move->ofIndex[bit].reg;
      candidates.push_back(source[candidate]);
    }
    if (lane)
      candidates = shuffleOnce(e, candidates,
                               [&](llvm::Value *value) { return e.shuffleIndex(value, lane); });
    for (unsigned bit : registerBits) { // the lowest bit of the choice first
      llvm::Value *one = e.b.CreateICmpNE(e.b.CreateAnd(index, 1u << bit), e.i32(0));
      Values chosen;
      for (unsigned i = 0; i < candidates.size(); i += 2)
        chosen.push_back(e.b.CreateSelect(one, candidates[i + 1], candidates[i]));
      candidates = std::move(chosen);
    }
    values.push_back(candidates.front());
  }
  e.set(op.getResult(), values);
}

void emitHistogram(Emitter &e, tile::HistogramOp op) {
  auto from = cast<RankedTensorType>(op.getSrc().getType());
  auto to = cast<RankedTensorType>(op.getType());
  unsigned bins = to.getNumElements(), threads = e.threadCount();
  unsigned copies = histogramCopies(op, e.warpCount());
  llvm::Value *base = e.scratch(op);
  llvm::Type *i32 = e.b.getInt32Ty();
  auto at = [&](llvm::Value *bin) { return e.b.CreateGEP(i32, base, bin); };
  for (unsigned first = 0; first < bins * copies; first += threads) {
    llvm::Value *bin = e.b.CreateAdd(e.threadId(), e.i32(first));
    bool all = first + threads <= bins * copies;
    e.when(all ? nullptr : e.b.CreateICmpULT(bin, e.i32(bins * copies)),
           [&] { e.b.CreateStore(e.i32(0), at(bin)); });
  }
  e.barrier();
  llvm::Value *own = nullptr; // the bins of this warp
  if (copies > 1)
    own = e.b.CreateMul(e.b.CreateAnd(e.warpId(), copies - 1), e.i32(bins));
  ArrayRef<llvm::Value *> source = e.get(op.getSrc());
  e.when(e.owner(from), [&] {
    for (auto [reg, number] : llvm::enumerate(source)) {
      if (e.isRedundantRegister(from, reg))
        continue;
      unsigned bits = number->getType()->getIntegerBitWidth();
      llvm::Value *counts = nullptr;
      if (bits >= 32 || bins >> bits == 0)
        counts = e.b.CreateICmpULT(number, llvm::ConstantInt::get(number->getType(), bins));
      if (op.getMask()) {
        ArrayRef<llvm::Value *> masks = e.get(op.getMask());
        llvm::Value *mask = masks[masks.size() > 1 ? reg : 0];
        counts = counts ? e.b.CreateAnd(counts, mask) : mask;
      }
      e.when(counts, [&] {
        llvm::Value *bin = e.b.CreateZExtOrTrunc(number, i32);
        e.b.CreateAtomicRMW(llvm::AtomicRMWInst::Add, at(own ? e.b.CreateAdd(bin, own) : bin),
                            e.i32(1), llvm::MaybeAlign(4), llvm::AtomicOrdering::Monotonic,
                            e.b.getContext().getOrInsertSyncScopeID(e.blockScope()));
      });
    }
  });
  e.barrier();
  Values values;
  for (unsigned reg = 0, count = ngpu::registerCount(to); reg < count; ++reg) {
    llvm::Value *bin = e.coordinates(to, reg)[0], *sum = nullptr;
    for (unsigned copy = 0; copy < copies; ++copy) {
      llvm::Value *part = e.b.CreateLoad(i32, at(e.b.CreateAdd(bin, e.i32(copy * bins))));
      sum = sum ? e.b.CreateAdd(sum, part) : part;
    }
    values.push_back(sum);
  }
  e.set(op.getResult(), values);
}

} // namespace

bool emitRearrange(Emitter &e, Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](tile::ExchangeOp exchange) { return emitExchange(e, exchange), true; })
      .Case([&](tile::SliceOp slice) { return emitSlice(e, slice), true; })
      .Case([&](tile::GatherOp gather) { return emitGather(e, gather), true; })
      .Case([&](tile::HistogramOp histogram) { return emitHistogram(e, histogram), true; })
      .Default(false);
}

} // namespace nereid::gpu

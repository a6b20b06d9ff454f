// Creation and shape: range, splat, broadcast, reshape, trans, join, split, cat.
//
// Layout assignment derives the layout of a result from the operand's, so that every thread already
// holds what it needs and only registers are renamed.
#include "gpu/emit/Emitter.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

using Index = SmallVector<int64_t, 4>;

/// The whole coordinates of a register in lane 0 of warp 0.
Index place(RankedTensorType type, unsigned reg) {
  ngpu::RegisterPlace place = ngpu::registerPlace(type, reg);
  Index index;
  for (auto [core, repeat] : llvm::zip_equal(place.core, place.repeatOffset))
    index.push_back(core + repeat);
  return index;
}

int64_t flatten(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t flat = 0;
  for (auto [i, size] : llvm::zip_equal(index, shape))
    flat = flat * size + i;
  return flat;
}

Index unflatten(int64_t flat, ArrayRef<int64_t> shape) {
  Index index(shape.size());
  for (unsigned dim = shape.size(); dim-- > 0; flat /= shape[dim])
    index[dim] = flat % shape[dim];
  return index;
}

/// Finds registers of a tensor by what they hold.
class Holder {
public:
  explicit Holder(RankedTensorType type) : type(type) {
    for (unsigned reg = 0, count = ngpu::registerCount(type); reg < count; ++reg)
      registers.try_emplace(flatten(place(type, reg), type.getShape()), reg);
  }
  std::optional<unsigned> find(ArrayRef<int64_t> index) const {
    auto found = registers.find(flatten(index, type.getShape()));
    if (found == registers.end())
      return std::nullopt;
    return found->second;
  }

private:
  RankedTensorType type;
  llvm::DenseMap<int64_t, unsigned> registers;
};

/// Where an element of the result comes from: which operand, and its coordinates there.
struct Origin {
  unsigned operand;
  Index index;
};
using OriginOf = llvm::function_ref<Origin(ArrayRef<int64_t>)>;

class Renaming {
public:
  Renaming(Emitter &e, Operation *op, OriginOf originOf)
      : e(e), op(op), originOf(originOf),
        result(cast<RankedTensorType>(op->getResult(0).getType())) {
    for (Value operand : op->getOperands())
      if (auto type = dyn_cast<RankedTensorType>(operand.getType())) {
        types.push_back(type);
        holders.emplace_back(type);
      }
  }

  /// Gives every register of the result its source. The map from the result's coordinates to the
  /// operands' must be linear on cores (`linear`), else every thread is checked by itself.
  void run(bool linear) {
    unsigned count = ngpu::registerCount(result);
    Values values;
    for (unsigned reg = 0; reg < count; ++reg) {
      Origin origin = originOf(place(result, reg));
      auto source = holders[origin.operand].find(origin.index);
      if (!source || !(linear || holdsEverywhere(reg, origin.operand, *source)))
        return crossing();
      values.push_back(e.get(op->getOperand(origin.operand))[*source]);
    }
    if (linear && !sameThreads())
      return crossing();
    e.set(op->getResult(0), std::move(values));
  }

private:
  void crossing() {
    e.fail(op, "internal error: the data of `" + op->getName().getStringRef() +
                   "` would have to cross threads");
  }
  /// Do the coordinates of every lane and warp bit agree?
  bool sameThreads() {
    const LinearLayout &to = ngpu::layoutOf(result).getLayout();
    for (RankedTensorType type : types) {
      const LinearLayout &from = ngpu::layoutOf(type).getLayout();
      for (Axis axis : {Axis::Lane, Axis::Warp})
        for (unsigned bit = 0; bit < std::max(to.bits(axis), from.bits(axis)); ++bit) {
          Index index(result.getRank(), 0), expected(type.getRank(), 0);
          if (bit < to.bits(axis))
            llvm::copy(to.basis(axis, bit), index.begin());
          if (bit < from.bits(axis))
            llvm::copy(from.basis(axis, bit), expected.begin());
          Origin origin = originOf(index);
          if (types.size() > 1 && origin.operand != 0)
            return false;
          if (origin.index != expected)
            return false;
        }
    }
    return true;
  }
  /// Is the element of one register of the result in that register of the operand in all threads?
  bool holdsEverywhere(unsigned reg, unsigned operand, unsigned source) {
    const LinearLayout &to = ngpu::layoutOf(result).getLayout();
    const LinearLayout &from = ngpu::layoutOf(types[operand]).getLayout();
    auto at = [](RankedTensorType type, const LinearLayout &layout, unsigned reg, unsigned lane,
                 unsigned warp) {
      ngpu::RegisterPlace place = ngpu::registerPlace(type, reg);
      Coords thread = layout.apply(0, lane % layout.size(Axis::Lane), warp);
      Index index;
      for (unsigned dim = 0; dim < thread.size(); ++dim)
        index.push_back((place.core[dim] ^ thread[dim]) + place.repeatOffset[dim]);
      return index;
    };
    if (to.bits(Axis::Warp) != from.bits(Axis::Warp) ||
        to.bits(Axis::Lane) != from.bits(Axis::Lane))
      return false;
    for (unsigned warp = 0; warp < to.size(Axis::Warp); ++warp)
      for (unsigned lane = 0; lane < to.size(Axis::Lane); ++lane) {
        Origin origin = originOf(at(result, to, reg, lane, warp));
        if (origin.operand != operand ||
            origin.index != at(types[operand], from, source, lane, warp))
          return false;
      }
    return true;
  }

  Emitter &e;
  Operation *op;
  OriginOf originOf;
  RankedTensorType result;
  SmallVector<RankedTensorType, 2> types;
  SmallVector<Holder, 2> holders;
};

bool repeats(RankedTensorType type) {
  return llvm::any_of(type.getShape(), [](int64_t size) { return repeatCount(size) > 1; });
}

void emitReshape(Emitter &e, tile::ReshapeOp op) {
  auto from = cast<RankedTensorType>(op.getSrc().getType());
  auto to = cast<RankedTensorType>(op.getType());
  if (op.getAnyOrder() && ngpu::registerCount(from) == ngpu::registerCount(to) && !repeats(from) &&
      !repeats(to)) {
    // Any order of elements does, so long as equal places in both hold one element each.
    const LinearLayout &a = ngpu::layoutOf(from).getLayout();
    const LinearLayout &b = ngpu::layoutOf(to).getLayout();
    bool alike = true;
    for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp}) {
      alike &= a.bits(axis) == b.bits(axis) && a.freeBits(axis) == b.freeBits(axis);
      for (unsigned bit = 0; alike && bit < a.bits(axis); ++bit)
        if (a.freeBits(axis) >> bit & 1)
          alike = !a.flatBases(axis)[bit] && !b.flatBases(axis)[bit];
    }
    if (alike)
      return e.set(op.getResult(), Values(e.get(op.getSrc())));
  }
  Renaming(e, op, [&](ArrayRef<int64_t> index) {
    return Origin{0, unflatten(flatten(index, to.getShape()), from.getShape())};
  }).run(!repeats(from) && !repeats(to));
}

void emitJoin(Emitter &e, tile::JoinOp op) {
  auto result = cast<RankedTensorType>(op.getType());
  auto from = dyn_cast<RankedTensorType>(op.getLhs().getType());
  const LinearLayout &to = ngpu::layoutOf(result).getLayout();
  unsigned last = result.getRank() - 1;
  // Which side a thread takes may depend on its lane or warp.
  SmallVector<uint32_t> laneBits, warpBits;
  for (const Coords &basis : to.bases(Axis::Lane))
    laneBits.push_back(basis[last]);
  for (const Coords &basis : to.bases(Axis::Warp))
    warpBits.push_back(basis[last]);
  llvm::Value *flip = nullptr;
  if (llvm::is_contained(laneBits, 1u) || llvm::is_contained(warpBits, 1u))
    flip = e.b.CreateICmpNE(e.linear(laneBits, warpBits), e.b.getInt32(0));

  std::optional<Holder> holder;
  if (from) {
    holder.emplace(from);
    const LinearLayout &source = ngpu::layoutOf(from).getLayout();
    LinearLayout sliced = to.sliced(last);
    if (sliced.flatBases(Axis::Lane) != source.flatBases(Axis::Lane) ||
        sliced.flatBases(Axis::Warp) != source.flatBases(Axis::Warp))
      return e.fail(op, "internal error: the data of `tile.join` would have to cross threads");
  }
  Values values;
  for (unsigned reg = 0, count = ngpu::registerCount(result); reg < count; ++reg) {
    Index index = place(result, reg);
    bool right = index.pop_back_val();
    unsigned source = 0;
    if (from) {
      auto found = holder->find(index);
      if (!found)
        return e.fail(op, "internal error: the data of `tile.join` would have to cross threads");
      source = *found;
    }
    llvm::Value *mine = e.get(right ? op.getRhs() : op.getLhs())[source];
    if (flip)
      mine = e.b.CreateSelect(flip, e.get(right ? op.getLhs() : op.getRhs())[source], mine);
    values.push_back(mine);
  }
  e.set(op.getResult(), std::move(values));
}

void emitSplit(Emitter &e, tile::SplitOp op) {
  auto from = cast<RankedTensorType>(op.getSrc().getType());
  auto to = dyn_cast<RankedTensorType>(op.getLhs().getType());
  const LinearLayout &source = ngpu::layoutOf(from).getLayout();
  auto crossing = [&]() {
    e.fail(op, "internal error: the data of `tile.split` would have to cross threads");
  };
  for (Axis axis : {Axis::Lane, Axis::Warp})
    for (unsigned bit = 0; bit < source.bits(axis); ++bit) {
      Coords basis = source.basis(axis, bit);
      if (basis.pop_back_val())
        return crossing();
      if (to && basis != ngpu::layoutOf(to).getLayout().basis(axis, bit))
        return crossing();
    }
  Holder holder(from);
  for (unsigned side = 0; side < 2; ++side) {
    Values values;
    unsigned count = to ? ngpu::registerCount(to) : 1;
    for (unsigned reg = 0; reg < count; ++reg) {
      Index index = to ? place(to, reg) : Index();
      index.push_back(side);
      auto found = holder.find(index);
      if (!found)
        return crossing();
      values.push_back(e.get(op.getSrc())[*found]);
    }
    e.set(op->getResult(side), std::move(values));
  }
}

} // namespace

bool emitShape(Emitter &e, Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](tile::RangeOp range) {
        auto type = cast<RankedTensorType>(range.getType());
        Values values;
        for (unsigned reg = 0, count = ngpu::registerCount(type); reg < count; ++reg) {
          llvm::Value *index = e.coordinates(type, reg)[0];
          values.push_back(range.getStart() ? e.b.CreateAdd(index, e.b.getInt32(range.getStart()))
                                            : index);
        }
        e.set(range.getResult(), std::move(values));
        return true;
      })
      .Case([&](tile::SplatOp splat) {
        auto type = cast<RankedTensorType>(splat.getType());
        e.set(splat.getResult(), Values(ngpu::registerCount(type), e.scalar(splat.getSrc())));
        return true;
      })
      .Case([&](tile::UnsplatOp unsplat) {
        e.set(unsplat.getResult(), {e.get(unsplat.getSrc())[0]});
        return true;
      })
      .Case([&](tile::BroadcastOp broadcast) {
        auto from = cast<RankedTensorType>(broadcast.getSrc().getType());
        Renaming(e, op, [&](ArrayRef<int64_t> index) {
          Index source(index);
          for (auto [coordinate, size] : llvm::zip_equal(source, from.getShape()))
            coordinate = size == 1 ? 0 : coordinate;
          return Origin{0, source};
        }).run(true);
        return true;
      })
      .Case([&](tile::ExpandDimsOp expand) {
        Renaming(e, op, [&](ArrayRef<int64_t> index) {
          Index source(index);
          source.erase(source.begin() + expand.getAxis());
          return Origin{0, source};
        }).run(true);
        return true;
      })
      .Case([&](tile::TransOp trans) {
        Renaming(e, op, [&](ArrayRef<int64_t> index) {
          Index source(index.size());
          for (auto [i, dim] : llvm::enumerate(trans.getOrder()))
            source[dim] = index[i];
          return Origin{0, source};
        }).run(true);
        return true;
      })
      .Case([&](tile::ReshapeOp reshape) {
        emitReshape(e, reshape);
        return true;
      })
      .Case([&](tile::JoinOp join) {
        emitJoin(e, join);
        return true;
      })
      .Case([&](tile::SplitOp split) {
        emitSplit(e, split);
        return true;
      })
      .Case([&](tile::CatOp cat) {
        auto left = cast<RankedTensorType>(cat.getLhs().getType());
        auto right = cast<RankedTensorType>(cat.getRhs().getType());
        unsigned dim = cat.getDim();
        int64_t border = left.getDimSize(dim);
        Renaming(e, op, [&](ArrayRef<int64_t> index) {
          Index source(index);
          unsigned side = source[dim] >= border;
          source[dim] -= side ? border : 0;
          return Origin{side, source};
        }).run(left == right && !repeats(left));
        return true;
      })
      .Default(false);
}

} // namespace nereid::gpu

// Tensors whose neighbours in memory are not neighbours among the lanes: the transpose of a matrix
// is read, or written. Read lane by lane, each element is a load of its own. Instead the loop runs
// along the dimension in which its stores are contiguous, and what lies the other way is read in
// the order of memory and brought into the loop's order by transposition in registers, square by
// square (Packing.h).
#include "targets/cpu/emit/Loops.h"
#include "targets/cpu/emit/Packing.h"

using namespace mlir;

namespace nereid::cpu {

/// Smaller matrices are not worth a transposition.
constexpr int64_t leastExtent = 8;

/// The two dimensions that are larger than 1, when there are just two and none is small.
static std::optional<std::pair<int, int>> matrixDims(ArrayRef<int64_t> shape) {
  SmallVector<int, 4> large;
  for (auto [d, size] : llvm::enumerate(shape))
    if (size != 1)
      large.push_back(int(d));
  if (large.size() != 2 || shape[large[0]] < leastExtent || shape[large[1]] < leastExtent)
    return std::nullopt;
  return std::pair(large[0], large[1]);
}

/// Whether a sum has a range along dimension `dim` as a term: nearly all tensors of pointers have
/// one along the last dimension, which then is that in which they are contiguous. Emits nothing.
static bool hasRangeAlong(Value sum, unsigned dim) {
  SmallVector<std::pair<Value, unsigned>> terms{{sum, dim}};
  while (!terms.empty()) {
    auto [value, along] = terms.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || !isa<RankedTensorType>(value.getType()))
      continue;
    if (isa<tile::RangeOp>(op))
      return true;
    if (isa<tile::AddPtrOp, arith::AddIOp>(op)) {
      terms.push_back({op->getOperand(0), along});
      terms.push_back({op->getOperand(1), along});
    } else if (isa<arith::ExtSIOp, arith::ExtUIOp, tile::HintOp>(op) ||
               (isa<tile::BroadcastOp>(op) &&
                tile::shapeOf(op->getOperand(0).getType())[along] != 1)) {
      terms.push_back({op->getOperand(0), along});
    } else if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
      if (unsigned axis = expand.getAxis(); axis != along)
        terms.push_back({op->getOperand(0), along - (axis < along)});
    }
  }
  return false;
}

int contiguousDimension(Kernel &k, Value pointer) {
  ArrayRef<int64_t> shape = tile::shapeOf(pointer.getType());
  if (std::optional<std::pair<int, int>> dims = matrixDims(shape);
      dims && hasRangeAlong(pointer, dims->second))
    return dims->second;
  Elements before(k);
  Forms forms(k, shape, true, [&](Value v, ArrayRef<Index> p) { return before.at(v, p); });
  Point point;
  for (auto [d, size] : llvm::enumerate(shape))
    point.push_back(size == 1 ? Index{} : Index{Value(), int(d)});
  std::optional<Form> form = forms.of(pointer, point);
  if (!form)
    return -1;
  int64_t bytes =
      tile::sizeInBytes(cast<tile::PtrType>(tile::elementOf(pointer.getType())).getPointee());
  for (auto [d, stride] : llvm::enumerate(form->strides))
    if (stride && shape[d] != 1 && Emit::constant(stride) == bytes)
      return int(d);
  return -1;
}

int LoopStep::laneOfStores() {
  if (k.forcedScalar || stores.empty() || !reduces.empty() || !materials.empty() ||
      !matrixDims(step.shape))
    return -1;
  int common = -1;
  for (const Root &root : stores) {
    int dim = contiguousDimension(k, cast<tile::StoreOp>(root.op).getPtr());
    if (dim < 0 || (common >= 0 && dim != common))
      return -1;
    common = dim;
  }
  return common;
}

// The buffer `to`, contiguous along the lanes, from `from`, contiguous along the other dimension.
static void transpose(Kernel &k, const Buffer &from, const Buffer &to, int lanes, int other) {
  ArrayRef<int64_t> shape = from.type.getShape();
  unsigned bits = unsigned(tile::sizeInBytes(from.type.getElementType()) * 8);
  emitTranspose(k, from.base, to.base, shape[lanes], shape[other], k.b.getIntegerType(bits));
}

// The tensor is read with the lanes along its dimension `lanes`, and lies in memory along `other`.
void LoopStep::makeTransposed(Value value, int lanes, int other, SmallVectorImpl<Value> &loaded) {
  auto type = cast<RankedTensorType>(value.getType());
  // What is in memory stays there as it is: the step may read it both ways, and later ones read it.
  if (Buffer known = k.buffers.lookup(value)) {
    if (k.transposed.contains(value))
      return;
    Buffer target = k.allocate(type);
    target.swapped = !known.swapped;
    transpose(k, known, target, lanes, other);
    k.transposed[value] = target;
    return;
  }
  // Loaded for later steps, too: into the buffer that these expect.
  auto *material = llvm::find_if(materials, [&](const Root &root) { return root.value == value; });
  bool stays = material != materials.end();
  if (stays && lanes < other)
    return;
  Buffer target = stays ? targets[value] : k.allocate(type);
  target.swapped = lanes < other;
  Kernel::Space mark = k.scratchMark();
  Buffer inOrder = k.allocate(type);
  inOrder.swapped = other < lanes;
  Step reading;
  reading.shape.assign(type.getShape().begin(), type.getShape().end());
  reading.roots.push_back({Root::Materialize, nullptr, value});
  reading.lane = other;
  Buffer saved = k.destinations.lookup(value);
  k.destinations[value] = inOrder;
  LoopStep(k, reading).emit();
  if (saved)
    k.destinations[value] = saved;
  else
    k.destinations.erase(value);
  transpose(k, inOrder, target, lanes, other);
  k.scratchRelease(mark);
  k.buffers[value] = target;
  if (stays)
    materials.erase(material);
  else
    loaded.push_back(value);
}

void LoopStep::readTransposed(SmallVectorImpl<Value> &loaded) {
  if (lane < 0 || columns || k.forcedScalar || !matrixDims(step.shape))
    return;
  Point all;
  for (auto [d, size] : llvm::enumerate(step.shape))
    all.push_back(size == 1 ? Index{} : Index{Value(), int(d)});
  SmallVector<std::pair<Value, Point>> stack;
  for (const Root &root : step.roots) {
    if (auto store = dyn_cast_if_present<tile::StoreOp>(root.op))
      stack.push_back({store.getValue(), all});
    else if (root.op)
      for (Value operand : root.op->getOperands())
        stack.push_back({operand, all});
    else
      stack.push_back({root.value, all});
  }
  llvm::DenseSet<TensorPoint> seen;
  while (!stack.empty()) {
    auto [value, at] = stack.pop_back_val();
    Operation *op = value.getDefiningOp();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !seen.insert(TensorPoint{value, at}).second)
      continue;
    Buffer buffer = k.buffers.lookup(value);
    if (auto load = dyn_cast_if_present<tile::LoadOp>(op); buffer || (load && isVirtual(load))) {
      std::optional<std::pair<int, int>> dims = matrixDims(type.getShape());
      if (!dims || at[dims->first].dim < 0 || at[dims->second].dim < 0 || at[dims->first].base ||
          at[dims->second].base)
        continue;
      int lanes = at[dims->first].dim == lane ? dims->first : dims->second;
      int other = lanes == dims->first ? dims->second : dims->first;
      int lies = !buffer          ? contiguousDimension(k, load.getPtr())
                 : buffer.swapped ? dims->first
                                  : dims->second;
      if (at[lanes].dim == lane && lies == other)
        makeTransposed(value, lanes, other, loaded);
      continue;
    }
    if (!op || !isVirtual(op))
      continue;
    if (movesElements(op)) {
      if (std::optional<Point> source = sourcePoint(op, at, k.e))
        stack.push_back({op->getOperand(0), *source});
    } else if (Emit::isElementwise(op)) {
      for (Value operand : op->getOperands())
        stack.push_back({operand, at});
    }
  }
}

} // namespace nereid::cpu

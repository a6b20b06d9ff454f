// Inclusive scans.
//
// Along the rows a chunk of lanes is scanned by itself, in log2(lanes) steps that combine each lane
// with the one 1, 2, 4, ... before it; then the total of all chunks before goes in front of all its
// lanes. So only one combination a chunk waits for the chunk before. Along another dimension the
// lanes are rows of their own. Combiners with control flow or effects go element by element. Scans
// from the first element of a row on are roots of loop steps (Loops.cpp); here are all others.
#include "targets/cpu/emit/Control.h"
#include "targets/cpu/emit/Loops.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace nereid::cpu {

SmallVector<Value> scanLanes(Kernel &k, Region &combiner, ArrayRef<Value> lanes) {
  SmallVector<Value> values(lanes);
  int64_t width = Emit::widthOf(values.front());
  for (int64_t distance = 1; distance < width; distance *= 2) {
    SmallVector<int64_t> before, chosen;
    for (int64_t i = 0; i < width; ++i) {
      before.push_back(std::max<int64_t>(0, i - distance));
      chosen.push_back(i < distance ? i : width + i);
    }
    SmallVector<Value> earlier;
    for (Value value : values)
      earlier.push_back(k.e.shuffle(value, before));
    SmallVector<Value> combined = k.e.combine(combiner, earlier, values, width);
    for (auto [value, both] : llvm::zip(values, combined))
      value = vector::ShuffleOp::create(k.b, k.e.loc, value, both, chosen);
  }
  return values;
}

namespace {

class VectorScan {
public:
  VectorScan(Kernel &k, tile::ScanOp op) : k(k), e(k.e), op(op), combine(op.getCombine()) {
    shape.assign(tile::shapeOf(op.getSrcs()[0].getType()));
    axis = op.getAxis();
    for (lane = int(shape.size()) - 1; lane > 0 && shape[lane] == 1;)
      --lane;
    int64_t widest = 2;
    for (Value source : op.getSrcs())
      widest = std::max<int64_t>(widest, tile::sizeInBytes(tile::elementOf(source.getType())));
    width = int64_t(k.e.features.vectorBytes) / widest;
    width = std::min<int64_t>(width, int64_t(llvm::bit_floor(uint64_t(shape[lane]))));
  }

  /// Worth the lanes, and possible.
  bool applies() {
    return width >= 4 && isSimpleCombiner(combine) && llvm::none_of(op.getSrcs(), [](Value source) {
             return isa<tile::PtrType>(tile::elementOf(source.getType()));
           });
  }
  void emit();

private:
  using Lanes = SmallVector<Value, 2>;

  /// Where the elements of operand `i` at these indices are.
  Value place(const Buffer &buffer, ArrayRef<Value> indices) {
    Value flat = e.i64(0);
    for (auto [size, index] : llvm::zip(shape, indices))
      flat = e.add(e.mul(flat, e.i64(size)), index);
    return e.advance(buffer.base,
                     e.mul(flat, e.i64(tile::sizeInBytes(buffer.type.getElementType()))));
  }
  /// Lanes (in the order of the scan) that begin at `indices` in memory.
  Lanes load(ArrayRef<Value> indices, int64_t lanes) {
    Lanes values;
    for (const Buffer &source : sources) {
      Value value = e.load(source.type.getElementType(), place(source, indices), lanes);
      values.push_back(turned(value, lanes));
    }
    return values;
  }
  void store(ArrayRef<Value> indices, ArrayRef<Value> values, int64_t lanes) {
    for (auto [target, value] : llvm::zip(targets, values))
      e.store(target.type.getElementType(), place(target, indices), turned(value, lanes));
  }
  /// The scan's order and memory's, into one another.
  Value turned(Value value, int64_t lanes) {
    if (!op.getReverse() || lanes == 1 || lane != axis)
      return value;
    return e.shuffle(value, llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, lanes))));
  }
  /// The place in memory of element (or chunk) `at` of the scan's order.
  Value along(Value at, int64_t lanes) {
    return op.getReverse() ? e.sub(e.i64(shape[axis] - lanes), at) : at;
  }
  void rows(ArrayRef<Value> others);
  void columns(ArrayRef<Value> others, int64_t begin, int64_t end, int64_t lanes);
  void loop(int64_t begin, int64_t end, int64_t by, Lanes &carried,
            llvm::function_ref<void(Value, Lanes &)> body);

  Kernel &k;
  Emit &e;
  tile::ScanOp op;
  Region &combine;
  SmallVector<int64_t> shape;
  int axis, lane;
  int64_t width;
  SmallVector<Buffer> sources, targets;
};

void VectorScan::loop(int64_t begin, int64_t end, int64_t by, Lanes &carried,
                      llvm::function_ref<void(Value, Lanes &)> body) {
  if (begin >= end)
    return;
  auto loop = scf::ForOp::create(k.b, e.loc, e.i64(begin), e.i64(end), e.i64(by), carried);
  OpBuilder::InsertionGuard guard(k.b);
  if (carried.empty())
    k.b.setInsertionPoint(loop.getBody()->getTerminator());
  else
    k.b.setInsertionPointToStart(loop.getBody());
  Lanes inside(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  body(loop.getInductionVar(), inside);
  if (!carried.empty())
    scf::YieldOp::create(k.b, e.loc, inside);
  carried.assign(loop.getResults().begin(), loop.getResults().end());
}

void VectorScan::rows(ArrayRef<Value> others) {
  SmallVector<Value> place(others);
  Lanes total;
  auto chunk = [&](Value at, Lanes &carried) {
    place[axis] = along(at, width);
    Lanes values = Lanes(scanLanes(k, combine, load(place, width)));
    if (!carried.empty()) {
      Lanes front;
      for (Value value : carried)
        front.push_back(e.splat(value, width));
      values = Lanes(e.combine(combine, front, values, width));
    }
    store(place, values, width);
    carried.clear();
    for (Value value : values)
      carried.push_back(e.extract(value, width - 1));
  };
  int64_t whole = shape[axis] / width * width;
  chunk(e.i64(0), total);
  loop(width, whole, width, total, chunk);
  loop(whole, shape[axis], 1, total, [&](Value at, Lanes &carried) {
    place[axis] = along(at, 1);
    carried = Lanes(e.combine(combine, carried, load(place, 1), 1));
    store(place, carried, 1);
  });
}

void VectorScan::columns(ArrayRef<Value> others, int64_t begin, int64_t end, int64_t lanes) {
  Lanes none;
  loop(begin, end, lanes, none, [&](Value column, Lanes &) {
    SmallVector<Value> place(others);
    place[lane] = column;
    place[axis] = along(e.i64(0), 1);
    Lanes carried = load(place, lanes);
    store(place, carried, lanes);
    loop(1, shape[axis], 1, carried, [&](Value at, Lanes &inside) {
      place[axis] = along(at, 1);
      inside = Lanes(e.combine(combine, inside, load(place, lanes), lanes));
      store(place, inside, lanes);
    });
  });
}

void VectorScan::emit() {
  for (Value source : op.getSrcs())
    sources.push_back(materialize(k, source));
  for (Value result : op.getResults())
    targets.push_back(k.allocate(result));
  SmallVector<int64_t> others(shape);
  others[axis] = others[lane] = 1;
  forEachPoint(k, others, [&](ArrayRef<Value> indices) {
    if (axis == lane)
      return rows(indices);
    int64_t whole = shape[lane] / width * width;
    columns(indices, 0, whole, width);
    columns(indices, whole, shape[lane], 1);
  });
  for (auto [result, target] : llvm::zip(op.getResults(), targets))
    k.buffers[result] = target;
}

} // namespace

void emitScan(Kernel &k, tile::ScanOp op) {
  if (VectorScan scan(k, op); scan.applies() && !k.forcedScalar)
    return scan.emit();
  SmallVector<Buffer> targets;
  for (Value result : op.getResults())
    targets.push_back(k.allocate(result));
  emitSequential(k, op.getSrcs(), op.getAxis(), op.getCombine(), op.getReverse(),
                 [&](ArrayRef<Value> indices, ArrayRef<Value> values) {
                   for (auto [target, value] : llvm::zip(targets, values))
                     writeElement(k, target, indices, value);
                 });
  for (auto [result, target] : llvm::zip(op.getResults(), targets))
    k.buffers[result] = target;
}

} // namespace nereid::cpu

#include "gpu/shapes/PadShapes.h"

#include "gpu/dots/DotPlan.h"
#include "gpu/layouts/LayoutRelations.h"
#include "ir/tile/Combiner.h"
#include "ir/tile/Dialect.h"
#include "layout/LinearLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;

namespace nereid::gpu {

bool isLayoutSize(int64_t size) {
  // A core below 16 is less than a matrix unit's tile or a row of adjacent bytes; more than 15
  // repeats are more code than the padding is work.
  return llvm::isPowerOf2_64(size) ||
         (layout::coreSize(size) >= 16 && layout::repeatCount(size) <= 15);
}

namespace {

using Shape = SmallVector<int64_t, 4>;

int64_t product(ArrayRef<int64_t> shape) {
  int64_t result = 1;
  for (int64_t size : shape)
    result *= size;
  return result;
}

/// Which sizes are padded, in the whole kernel: ops relate dimensions of equal size, so that one
/// answer for each size keeps their types in agreement.
class Decision {
public:
  Decision(func::FuncOp kernel, const GpuOptions &options)
      : threads(int64_t(options.machine.lanes) * options.numWarps) {
    collect(kernel);
    if (shapes.empty())
      return;
    for (const auto &[shape, count] : shapes)
      for (int64_t size : shape)
        if (!isLayoutSize(size))
          sizes.insert(size);
    kernel.walk([&](tile::DotOp dot) {
      // A matrix unit takes so much of K at once.
      auto a = cast<RankedTensorType>(dot.getA().getType());
      int64_t depth = a.getShape().back();
      if (!llvm::isPowerOf2_64(depth) && layout::coreSize(depth) < instructionK(a.getElementType()))
        sizes.insert(depth);
    });
    byCost();
    // Dimensions that a reshape splits or merges are all padded, or none of them.
    bool changed = true;
    while (changed) {
      changed = false;
      kernel.walk([&](tile::ReshapeOp op) {
        Shape from(tile::shapeOf(op.getSrc().getType())), to(tile::shapeOf(op.getType()));
        if (isPlainReshape(from, to))
          return;
        for (int64_t size : llvm::concat<int64_t>(from, to))
          if (!llvm::isPowerOf2_64(size))
            changed |= sizes.insert(size).second;
      });
    }
  }

  bool any() const { return !sizes.empty(); }
  bool pads(int64_t size) const { return sizes.contains(size); }
  bool pads(ArrayRef<int64_t> shape) const {
    return llvm::any_of(shape, [&](int64_t size) { return pads(size); });
  }
  int64_t padded(int64_t size) const {
    return pads(size) ? int64_t(llvm::PowerOf2Ceil(size)) : size;
  }
  Shape padded(ArrayRef<int64_t> shape) const {
    return llvm::map_to_vector<4>(shape, [&](int64_t size) { return padded(size); });
  }

  /// Does reshaping the padded tensor put every element where it belongs? In groups of dimensions
  /// with equal products, an element's index stays the same if only the slowest dimension has
  /// padding, and both sides as much.
  bool isPlainReshape(ArrayRef<int64_t> from, ArrayRef<int64_t> to) const {
    size_t i = 0, j = 0;
    while (i < from.size() || j < to.size()) {
      size_t i0 = i, j0 = j;
      int64_t a = i < from.size() ? from[i++] : 1, b = j < to.size() ? to[j++] : 1;
      while (a != b) {
        if (a < b)
          a *= from[i++];
        else
          b *= to[j++];
      }
      ArrayRef<int64_t> left = from.slice(i0, i - i0), right = to.slice(j0, j - j0);
      if (!pads(left) && !pads(right)) {
        if (!reshapesCore(left, right))
          return false;
      } else if (!onlySlowestIsOdd(left) || !onlySlowestIsOdd(right) ||
                 product(padded(left)) != product(padded(right))) {
        return false;
      }
    }
    return true;
  }

private:
  static bool onlySlowestIsOdd(ArrayRef<int64_t> shape) {
    shape = shape.drop_while([](int64_t size) { return size == 1; });
    return shape.empty() ||
           llvm::all_of(shape.drop_front(), [](int64_t size) { return llvm::isPowerOf2_64(size); });
  }

  void collect(func::FuncOp kernel) {
    auto add = [&](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (tensor &&
          llvm::any_of(tensor.getShape(), [](int64_t size) { return !llvm::isPowerOf2_64(size); }))
        ++shapes[Shape(tensor.getShape())];
    };
    kernel.walk([&](Operation *op) {
      for (Type type : op->getResultTypes())
        add(type);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Type type : block.getArgumentTypes())
            add(type);
    });
  }

  /// Registers of all threads for a tensor of this shape; `size` is padded too.
  double cost(ArrayRef<int64_t> shape, int64_t size) const {
    double core = 1, repeats = 1;
    for (int64_t s : shape) {
      int64_t now = s == size ? int64_t(llvm::PowerOf2Ceil(s)) : padded(s);
      core *= double(layout::coreSize(now));
      repeats *= double(layout::repeatCount(now));
    }
    return std::max(core, double(threads)) * repeats;
  }
  void byCost() {
    llvm::SmallDenseSet<int64_t> open;
    for (const auto &[shape, count] : shapes)
      for (int64_t size : shape)
        if (!llvm::isPowerOf2_64(size) && !pads(size))
          open.insert(size);
    Shape ordered(open.begin(), open.end());
    llvm::sort(ordered);
    for (int64_t size : ordered) {
      double kept = 0, padding = 0;
      for (const auto &[shape, count] : shapes)
        if (llvm::is_contained(shape, size)) {
          kept += count * cost(shape, 0);
          padding += count * cost(shape, size);
        }
      if (padding < kept)
        sizes.insert(size);
    }
  }

  int64_t threads;
  std::map<Shape, unsigned> shapes; ///< with sizes that are no powers of two: how many values
  llvm::SmallDenseSet<int64_t> sizes;
};

/// May a combiner run on elements that do not exist?
bool isHarmless(Region &region) {
  return !region
              .walk([](Operation *op) {
                bool ok = op->hasTrait<OpTrait::IsTerminator>() ||
                          (isMemoryEffectFree(op) && isSpeculatable(op));
                return ok ? WalkResult::advance() : WalkResult::interrupt();
              })
              .wasInterrupted();
}

class Padder {
public:
  Padder(func::FuncOp kernel, const Decision &decision)
      : kernel(kernel), decision(decision), b(kernel.getContext()) {}

  void run() {
    SmallVector<Operation *> ops;
    // Inner ops first: what a combiner contains is done when it is moved.
    kernel.walk([&](Operation *op) {
      for (Value result : op->getResults())
        grow(result);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (BlockArgument argument : block.getArguments())
            grow(argument);
      if (op != kernel)
        ops.push_back(op);
    });
    for (Operation *op : ops)
      rewrite(op);
  }

private:
  /// The value's type becomes the padded one; its true shape is remembered.
  void grow(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !decision.pads(type.getShape()))
      return;
    shapes[value] = Shape(type.getShape());
    value.setType(type.clone(decision.padded(type.getShape())));
  }

  Shape shapeOf(Value value) const {
    auto found = shapes.find(value);
    return found != shapes.end() ? found->second : Shape(tile::shapeOf(value.getType()));
  }
  bool isPadded(Value value) const { return shapes.contains(value); }

  void replace(Operation *op, ValueRange values) {
    for (auto [before, after] : llvm::zip(op->getResults(), values)) {
      if (isPadded(before))
        shapes[after] = shapeOf(before);
      before.replaceAllUsesWith(after);
      shapes.erase(before);
    }
    op->erase();
  }

  void rewrite(Operation *op);
  void rewrite(tile::RangeOp op);
  void rewrite(arith::ConstantOp op);
  void rewrite(tile::DotOp op);
  void rewrite(tile::ReshapeOp op);
  void rewrite(tile::CatOp op);
  void rewrite(tile::SliceOp op);
  void rewrite(tile::MapElementwiseOp op);
  template <typename Op> void rewriteFold(Op op, bool isScan);
  void divideByOne(Operation *op);
  template <typename Op> void mask(Op op, Value like);

  //===--- pieces
  //--------------------------------------------------------------------------------===//
  Location loc() const { return here; }
  RankedTensorType tensor(ArrayRef<int64_t> shape, Type element) {
    return RankedTensorType::get(shape, element);
  }
  Value number(Type type, int64_t value) {
    TypedAttr attribute = b.getIntegerAttr(tile::elementOf(type), value);
    if (auto shaped = dyn_cast<RankedTensorType>(type))
      attribute = DenseElementsAttr::get(shaped, Attribute(attribute));
    return arith::ConstantOp::create(b, loc(), attribute);
  }
  /// 0 .. size - 1.
  Value range(int64_t size) {
    return tile::RangeOp::create(b, loc(), tensor({size}, b.getI32Type()), 0, int32_t(size));
  }
  /// A vector along dimension `dim` of `shape`.
  Value along(Value vector, unsigned dim, ArrayRef<int64_t> shape) {
    for (unsigned d = 0; d < shape.size(); ++d)
      if (d != dim) {
        auto type = cast<RankedTensorType>(vector.getType());
        Shape wider(type.getShape());
        wider.insert(wider.begin() + d, 1);
        vector = tile::ExpandDimsOp::create(b, loc(), type.clone(wider), vector, int32_t(d));
      }
    auto type = cast<RankedTensorType>(vector.getType());
    if (type.getShape() == shape)
      return vector;
    return tile::BroadcastOp::create(b, loc(), type.clone(shape), vector);
  }

  Value validAlong(ArrayRef<int64_t> shape, unsigned dim);
  Value valid(ArrayRef<int64_t> shape);
  Value chosen(Value condition, Value value, TypedAttr otherwise);
  Value gatherAlong(Value value, unsigned dim, Value indices);
  Value moved(Value value, ArrayRef<int64_t> from, ArrayRef<int64_t> to);
  bool isZeroInPadding(Value value, unsigned dim, unsigned depth = 0);
  Value zeroed(Value value, unsigned dim);

  func::FuncOp kernel;
  const Decision &decision;
  OpBuilder b;
  Location here = UnknownLoc::get(b.getContext());
  llvm::DenseMap<Value, Shape> shapes; ///< true ones, of padded values
  std::map<Shape, Value> masks;        ///< at the kernel's beginning
};

/// Whether elements of a tensor whose true shape is `shape` exist as far as dimension `dim` tells.
Value Padder::validAlong(ArrayRef<int64_t> shape, unsigned dim) {
  Shape wide = decision.padded(shape);
  Value index = range(wide[dim]);
  Value inside = arith::CmpIOp::create(b, loc(), arith::CmpIPredicate::slt, index,
                                       number(index.getType(), shape[dim]));
  return along(inside, dim, wide);
}

/// Which elements of a tensor whose true shape is `shape` exist.
Value Padder::valid(ArrayRef<int64_t> shape) {
  Value &known = masks[Shape(shape)];
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&kernel.getBody().front());
  for (unsigned dim = 0; dim < shape.size(); ++dim)
    if (decision.pads(shape[dim])) {
      Value inside = validAlong(shape, dim);
      known = known ? arith::AndIOp::create(b, loc(), known, inside).getResult() : inside;
    }
  return known;
}

Value Padder::chosen(Value condition, Value value, TypedAttr otherwise) {
  auto type = cast<RankedTensorType>(value.getType());
  Value other =
      arith::ConstantOp::create(b, loc(), DenseElementsAttr::get(type, Attribute(otherwise)));
  return arith::SelectOp::create(b, loc(), condition, value, other);
}

/// result[.., i, ..] = value[.., indices[i], ..].
Value Padder::gatherAlong(Value value, unsigned dim, Value indices) {
  auto type = cast<RankedTensorType>(value.getType());
  Shape shape(type.getShape());
  shape[dim] = cast<RankedTensorType>(indices.getType()).getDimSize(0);
  return tile::GatherOp::create(b, loc(), type.clone(shape), value, along(indices, dim, shape),
                                int32_t(dim));
}

/// Reshapes `value`, padded, of true shape `from`, to the padded shape of `to`.
Value Padder::moved(Value value, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  auto type = cast<RankedTensorType>(value.getType());
  auto reshaped = [&](Value source, ArrayRef<int64_t> shape) -> Value {
    if (tile::shapeOf(source.getType()) == shape)
      return source;
    return tile::ReshapeOp::create(b, loc(), type.clone(shape), source, /*any_order=*/false);
  };
  Shape wideTo = decision.padded(to), wideFrom = decision.padded(from);
  if (decision.isPlainReshape(from, to))
    return reshaped(value, wideTo);
  // Where each element of the padded result is: by its coordinates, its index among the true
  // elements, its coordinates there, its index among the padded ones. All by constants.
  int64_t total = product(wideTo);
  Value place = range(total);
  auto times = [&](Value x, int64_t y) -> Value {
    return y == 1 ? x : arith::MulIOp::create(b, loc(), x, number(x.getType(), y)).getResult();
  };
  auto by = [&](Value x, int64_t y) -> Value {
    return y == 1 ? x : arith::DivUIOp::create(b, loc(), x, number(x.getType(), y)).getResult();
  };
  auto modulo = [&](Value x, int64_t y) -> Value {
    return arith::RemUIOp::create(b, loc(), x, number(x.getType(), y));
  };
  auto relabel = [&](Value index, ArrayRef<int64_t> sizes, ArrayRef<int64_t> asSizes) {
    Value result;
    int64_t stride = 1, asStride = 1;
    for (unsigned dim = sizes.size(); dim-- > 0;) {
      Value part = by(index, stride);
      part = times(dim ? modulo(part, sizes[dim]) : part, asStride);
      result = result ? arith::AddIOp::create(b, loc(), result, part).getResult() : part;
      stride *= sizes[dim];
      asStride *= asSizes[dim];
    }
    return result;
  };
  Value index = relabel(relabel(place, wideTo, to), from, wideFrom);
  Value flat = reshaped(value, {product(wideFrom)});
  return reshaped(gatherAlong(flat, 0, index), wideTo);
}

/// Are the elements in the padding of dimension `dim` zeros? Cheap to know, and worth it: what a
/// load brings goes straight to where the matrix unit reads it.
bool Padder::isZeroInPadding(Value value, unsigned dim, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8)
    return false;
  auto isZero = [](Value x) {
    if (auto splat = x.getDefiningOp<tile::SplatOp>())
      x = splat.getSrc();
    return matchPattern(x, m_Zero()) || matchPattern(x, m_AnyZeroFloat());
  };
  if (auto load = dyn_cast<tile::LoadOp>(op))
    return !load.getOther() || isZero(load.getOther());
  if (auto trans = dyn_cast<tile::TransOp>(op))
    return isZeroInPadding(trans.getSrc(), unsigned(trans.getOrder()[dim]), depth + 1);
  if (isa<arith::ExtFOp, arith::TruncFOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp,
          arith::SIToFPOp, arith::UIToFPOp, arith::BitcastOp, tile::FpCastOp, tile::HintOp>(op))
    return isZeroInPadding(op->getOperand(0), dim, depth + 1);
  return isZero(value);
}

Value Padder::zeroed(Value value, unsigned dim) {
  Shape shape = shapeOf(value);
  if (!decision.pads(shape[dim]) || isZeroInPadding(value, dim))
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  return chosen(validAlong(shape, dim), value,
                cast<TypedAttr>(b.getZeroAttr(type.getElementType())));
}

//===--- one op after the other
//----------------------------------------------------------------===//

void Padder::rewrite(tile::RangeOp op) {
  int64_t start = int32_t(op.getStart()), size = op.getType().getNumElements();
  // Wraps like all integers where the padding would be beyond the largest.
  Value index = range(size);
  Value result =
      start ? arith::AddIOp::create(b, loc(), index, number(index.getType(), start)) : index;
  if (start + size - 1 <= INT32_MAX)
    result = tile::RangeOp::create(b, loc(), op.getType(), int32_t(start), int32_t(start + size));
  replace(op, result);
}

void Padder::rewrite(arith::ConstantOp op) {
  auto dense = cast<DenseElementsAttr>(op.getValue());
  auto type = cast<RankedTensorType>(op.getType());
  if (dense.isSplat()) {
    op.setValueAttr(dense.resizeSplat(type));
    return;
  }
  Shape from = shapeOf(op.getResult());
  SmallVector<Attribute> old(dense.getValues<Attribute>()), elements;
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    int64_t rest = i, index = 0, stride = 1;
    for (unsigned dim = from.size(); dim-- > 0; rest /= type.getDimSize(dim)) {
      index += std::min(rest % type.getDimSize(dim), from[dim] - 1) * stride;
      stride *= from[dim];
    }
    elements.push_back(old[index]);
  }
  op.setValueAttr(DenseElementsAttr::get(type, elements));
}

template <typename Op> void Padder::mask(Op op, Value like) {
  if (!isPadded(like))
    return;
  Value inside = valid(shapeOf(like));
  if (Value mask = op.getMask()) {
    if (!isa<RankedTensorType>(mask.getType()))
      mask = tile::SplatOp::create(b, loc(), inside.getType(), mask);
    inside = arith::AndIOp::create(b, loc(), mask, inside);
  }
  op.getMaskMutable().assign(inside);
}

/// Replaces the padding of a divisor, which may be zero, by one.
void Padder::divideByOne(Operation *op) {
  Value divisor = op->getOperand(1);
  Attribute constant;
  if (!isPadded(divisor) || divisor.getDefiningOp<tile::SplatOp>() ||
      matchPattern(divisor, m_Constant(&constant)))
    return;
  op->setOperand(1, chosen(valid(shapeOf(divisor)), divisor,
                           b.getIntegerAttr(tile::elementOf(divisor.getType()), 1)));
}

void Padder::rewrite(tile::DotOp op) {
  unsigned rank = cast<RankedTensorType>(op.getType()).getRank();
  op.getAMutable().assign(zeroed(op.getA(), rank - 1));
  op.getBMutable().assign(zeroed(op.getB(), rank - 2));
}

void Padder::rewrite(tile::ReshapeOp op) {
  Value result = moved(op.getSrc(), shapeOf(op.getSrc()), shapeOf(op.getResult()));
  replace(op, result);
}

void Padder::rewrite(tile::CatOp op) {
  unsigned dim = op.getDim();
  int64_t left = shapeOf(op.getLhs())[dim], right = shapeOf(op.getRhs())[dim];
  int64_t size = decision.padded(left + right);
  if (decision.padded(left) == left && decision.padded(right) == right && size == left + right)
    return;
  Value index = range(size);
  Value fromLeft = arith::CmpIOp::create(b, loc(), arith::CmpIPredicate::slt, index,
                                         number(index.getType(), left));
  Value further = arith::SubIOp::create(b, loc(), index, number(index.getType(), left));
  Value there = arith::MaxSIOp::create(b, loc(), further, number(index.getType(), 0));
  Value x = gatherAlong(op.getLhs(), dim, index), y = gatherAlong(op.getRhs(), dim, there);
  Shape wide(tile::shapeOf(x.getType()));
  Value result = arith::SelectOp::create(b, loc(), along(fromLeft, dim, wide), x, y);
  replace(op, result);
}

void Padder::rewrite(tile::SliceOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  SmallVector<int64_t> offsets(op.getOffsets()), steps(op.getSteps());
  Value source = op.getSrc();
  for (unsigned dim = 0; dim < offsets.size(); ++dim) {
    int64_t size = type.getDimSize(dim), last = offsets[dim] + (size - 1) * steps[dim];
    if (last >= 0 && last < tile::shapeOf(source.getType())[dim])
      continue;
    Value index = range(size);
    index = arith::MulIOp::create(b, loc(), index, number(index.getType(), steps[dim]));
    index = arith::AddIOp::create(b, loc(), index, number(index.getType(), offsets[dim]));
    index = arith::MaxSIOp::create(b, loc(), index, number(index.getType(), 0));
    source = gatherAlong(source, dim, index);
    offsets[dim] = 0;
    steps[dim] = 1;
  }
  op.getSrcMutable().assign(source);
  op.setOffsets(offsets);
  op.setSteps(steps);
}

/// Elements that do not exist are told apart by one more operand of the combiner, or replaced by
/// what makes no difference.
template <typename Op> void Padder::rewriteFold(Op op, bool isScan) {
  Value first = op.getSrcs().front();
  if (!isPadded(first))
    return;
  Shape shape = shapeOf(first);
  unsigned axis = op.getAxis();
  Region &region = op.getCombine();
  bool harmless = isHarmless(region);
  bool reversed = false;
  if constexpr (std::is_same_v<Op, tile::ScanOp>)
    reversed = op.getReverse();
  // Other rows, and what comes behind all real elements, may hold anything.
  if (harmless && (!decision.pads(shape[axis]) || (isScan && !reversed)))
    return;
  if (harmless && op.getSrcs().size() == 1)
    if (TypedAttr neutral =
            tile::neutralElement(tile::combinerKind(region), tile::elementOf(first.getType()))) {
      op.getSrcsMutable().assign(chosen(validAlong(shape, axis), first, neutral));
      return;
    }

  unsigned count = op.getSrcs().size();
  SmallVector<Value> sources(op.getSrcs());
  sources.push_back(valid(shape));
  SmallVector<Type> types(op.getResultTypes());
  types.push_back(tile::withShapeOf(b.getI1Type(), types.front()));
  Op wider;
  if constexpr (std::is_same_v<Op, tile::ScanOp>)
    wider = Op::create(b, loc(), types, sources, int32_t(axis), reversed);
  else
    wider = Op::create(b, loc(), types, sources, int32_t(axis));

  Block &old = region.front();
  Block *block = b.createBlock(&wider.getCombine());
  SmallVector<Value> parts[2];
  Value exists[2];
  for (unsigned side = 0; side < 2; ++side) {
    for (unsigned i = 0; i < count; ++i)
      parts[side].push_back(block->addArgument(old.getArgument(side * count + i).getType(), loc()));
    exists[side] = block->addArgument(b.getI1Type(), loc());
  }
  auto either = [&] {
    SmallVector<Value> values;
    for (auto [x, y] : llvm::zip_equal(parts[0], parts[1]))
      values.push_back(arith::SelectOp::create(b, loc(), exists[0], x, y));
    return values;
  };
  b.setInsertionPointToEnd(block);
  Value both = arith::AndIOp::create(b, loc(), exists[0], exists[1]);
  Value any = arith::OrIOp::create(b, loc(), exists[0], exists[1]);
  SmallVector<Value> arguments(parts[0]);
  llvm::append_range(arguments, parts[1]);
  Operation *yield = old.getTerminator();
  SmallVector<Value> results;
  if (harmless) {
    SmallVector<Value> single = either();
    block->getOperations().splice(block->end(), old.getOperations());
    for (auto [from, to] : llvm::zip_equal(old.getArguments(), arguments))
      from.replaceAllUsesWith(to);
    for (auto [combined, alone] : llvm::zip_equal(yield->getOperands(), single))
      results.push_back(arith::SelectOp::create(b, loc(), both, combined, alone));
    yield->erase();
  } else {
    SmallVector<Type> elements = llvm::map_to_vector(parts[0], [](Value x) { return x.getType(); });
    auto branch = scf::IfOp::create(b, loc(), elements, both, /*withElse=*/true);
    Block *then = branch.thenBlock();
    then->getOperations().splice(then->end(), old.getOperations());
    for (auto [from, to] : llvm::zip_equal(old.getArguments(), arguments))
      from.replaceAllUsesWith(to);
    b.setInsertionPointToEnd(then);
    scf::YieldOp::create(b, loc(), yield->getOperands());
    yield->erase();
    b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b, loc(), either());
    b.setInsertionPointToEnd(block);
    results.assign(branch.result_begin(), branch.result_end());
  }
  results.push_back(any);
  tile::YieldOp::create(b, loc(), results);
  replace(op, wider.getResult().take_front(count));
}

/// A run of the region takes neighbours of a row; where rows do not consist of whole runs, they are
/// put one behind the other first.
void Padder::rewrite(tile::MapElementwiseOp op) {
  if (!isPadded(op.getSrcs().front()))
    return;
  Shape shape = shapeOf(op.getSrcs().front());
  SmallVector<Value> sources(op.getSrcs());
  Shape flat = {product(shape)};
  bool flatten = shape.back() % op.getPack() != 0;
  if (flatten) {
    for (Value &source : sources)
      source = moved(source, shape, flat);
    op.getSrcsMutable().assign(sources);
    b.setInsertionPointAfter(op);
    for (Value result : op.getResult()) {
      auto type = cast<RankedTensorType>(result.getType());
      result.setType(type.clone(tile::shapeOf(sources.front().getType())));
      SmallPtrSet<Operation *, 8> before;
      for (Operation *user : result.getUsers())
        before.insert(user);
      Value back = moved(result, flat, shape);
      shapes.erase(result);
      shapes[back] = shape;
      result.replaceUsesWithIf(back,
                               [&](OpOperand &use) { return before.contains(use.getOwner()); });
    }
    b.setInsertionPoint(op);
    shape = flat;
  }
  if (isHarmless(op.getBody()) || !decision.pads(shape))
    return;
  // Whether a run's first element exists, so do the others.
  unsigned pack = op.getPack();
  sources.push_back(valid(shape));
  op.getSrcsMutable().assign(sources);
  Block &body = op.getBody().front();
  for (unsigned i = 0; i < pack; ++i)
    body.addArgument(b.getI1Type(), loc());
  Operation *yield = body.getTerminator();
  b.setInsertionPointToStart(&body);
  SmallVector<Type> types(yield->getOperandTypes());
  auto branch = scf::IfOp::create(b, loc(), types, body.getArguments().take_back(pack).front(),
                                  /*withElse=*/true);
  Block *then = branch.thenBlock();
  then->getOperations().splice(then->end(), body.getOperations(),
                               std::next(Block::iterator(branch)), Block::iterator(yield));
  b.setInsertionPointToEnd(then);
  scf::YieldOp::create(b, loc(), yield->getOperands());
  b.setInsertionPointToEnd(branch.elseBlock());
  SmallVector<Value> nothing;
  for (Type type : types)
    nothing.push_back(ub::PoisonOp::create(b, loc(), type));
  scf::YieldOp::create(b, loc(), nothing);
  yield->setOperands(branch.getResults());
}

void Padder::rewrite(Operation *op) {
  b.setInsertionPoint(op);
  here = op->getLoc();
  auto touches = [&](Value value) { return isPadded(value); };
  if (llvm::none_of(op->getOperands(), touches) && llvm::none_of(op->getResults(), touches))
    return;
  llvm::TypeSwitch<Operation *>(op)
      .Case<tile::RangeOp, arith::ConstantOp, tile::DotOp, tile::ReshapeOp, tile::CatOp,
            tile::SliceOp, tile::MapElementwiseOp>([&](auto special) { rewrite(special); })
      .Case([&](tile::LoadOp load) { mask(load, load.getPtr()); })
      .Case([&](tile::StoreOp store) { mask(store, store.getPtr()); })
      .Case([&](tile::Atomic atomic) { mask(atomic, atomic.getPtr()); })
      .Case([&](tile::HistogramOp histogram) { mask(histogram, histogram.getSrc()); })
      .Case([&](tile::AssertOp assertion) { mask(assertion, assertion.getCondition()); })
      .Case([&](tile::CheckOp check) { mask(check, check.getCondition()); })
      .Case([&](tile::ReduceOp reduce) { rewriteFold(reduce, false); })
      .Case([&](tile::ScanOp scan) { rewriteFold(scan, true); })
      .Case([&](tile::PrintOp print) {
        SmallVector<Attribute> trueShapes;
        for (Value value : print.getArgs())
          trueShapes.push_back(b.getDenseI64ArrayAttr(shapeOf(value)));
        print.setShapesAttr(b.getArrayAttr(trueShapes));
      })
      .Case<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::CeilDivSIOp,
            arith::CeilDivUIOp, arith::FloorDivSIOp>([&](auto) { divideByOne(op); })
      .Default([](Operation *) {});
}

/// A reduction of everything is written as one of a vector. Where the vector would have to be put
/// together, the dimensions are reduced one by one instead, the fastest first: that keeps the
/// order.
void reduceByDimension(tile::ReduceOp op) {
  SmallVector<Value> values;
  for (Value source : op.getSrcs()) {
    auto reshape = source.getDefiningOp<tile::ReshapeOp>();
    if (!reshape || tile::shapeOf(reshape.getType()).size() != 1)
      return;
    values.push_back(reshape.getSrc());
    if (tile::shapeOf(values.back().getType()) != tile::shapeOf(values.front().getType()))
      return;
  }
  auto shape = Shape(tile::shapeOf(values.front().getType()));
  if (llvm::all_of(shape, [](int64_t size) { return llvm::isPowerOf2_64(size); }))
    return;
  OpBuilder b(op);
  while (!shape.empty()) {
    shape.pop_back();
    SmallVector<Type> types;
    for (Value value : values) {
      auto type = cast<RankedTensorType>(value.getType());
      types.push_back(shape.empty() ? type.getElementType() : Type(type.clone(shape)));
    }
    auto step = tile::ReduceOp::create(b, op.getLoc(), types, values, int32_t(shape.size()));
    IRMapping map;
    op.getCombine().cloneInto(&step.getCombine(), map);
    values.assign(step.result_begin(), step.result_end());
  }
  llvm::SmallSetVector<Operation *, 4> reshapes;
  for (Value source : op.getSrcs())
    reshapes.insert(source.getDefiningOp());
  op.replaceAllUsesWith(values);
  op.erase();
  for (Operation *reshape : reshapes)
    if (reshape->use_empty())
      reshape->erase();
}

} // namespace

llvm::Error padShapes(func::FuncOp kernel, const GpuOptions &options) {
  SmallVector<tile::ReduceOp> reductions;
  kernel.walk([&](tile::ReduceOp op) { reductions.push_back(op); });
  for (tile::ReduceOp op : reductions)
    reduceByDimension(op);
  Decision decision(kernel, options);
  if (!decision.any())
    return llvm::Error::success();
  Padder(kernel, decision).run();
  kernel.setFunctionType(FunctionType::get(kernel.getContext(), kernel.getBody().getArgumentTypes(),
                                           kernel.getFunctionType().getResults()));
  // Masks of one shape are the same.
  IRRewriter rewriter(kernel.getContext());
  DominanceInfo dominance(kernel);
  eliminateCommonSubExpressions(rewriter, dominance, kernel);
  return llvm::Error::success();
}

} // namespace nereid::gpu

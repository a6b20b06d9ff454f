#include "differentiate/Combiners.h"

#include "differentiate/Blocks.h"
#include "differentiate/Rules.h"
#include "ir/tile/Combiner.h"
#include "ir/tile/WithTangent.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace nereid::differentiate {
namespace {

/// The number of operands with tangents of a linear scan.
constexpr llvm::StringLiteral linearAttribute = "tile.linear";
/// Which elements of its matrix are operands, row by row; all others are zero.
constexpr llvm::StringLiteral elementsAttribute = "tile.matrix_elements";

/// A square matrix of blocks, row by row; null for zeros.
using Matrix = SmallVector<Value>;

/// The elements of a product of any number of such matrices that need not be zero.
llvm::BitVector elementsOfProducts(const Matrix &matrix, size_t count) {
  llvm::BitVector elements(matrix.size());
  for (auto [i, each] : llvm::enumerate(matrix))
    elements[i] = bool(each);
  for (size_t i = 0; i < count; ++i) // in between
    for (size_t row = 0; row < count; ++row)
      for (size_t column = 0; column < count; ++column)
        if (elements[row * count + i] && elements[i * count + column])
          elements.set(row * count + column);
  return elements;
}

/// Blocks of one shape, combined along one axis.
class Combination {
public:
  Combination(OpBuilder &builder, Location loc, RankedTensorType type, unsigned axis,
              bool isReversed)
      : builder(builder), loc(loc), type(type), axis(axis), isReversed(isReversed) {
    positions = positionsAlong(builder, loc, axis, type.getShape());
  }

  Value positionIs(int64_t place) const {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, positions, number(place));
  }
  Value isFirst() const { return positionIs(isReversed ? last() : 0); }
  Value isLast() const { return positionIs(isReversed ? 0 : last()); }

  /// The element before each one in the order of the scan, or behind it; at the border the element
  /// itself.
  Value neighbour(Value block, bool isBefore) const {
    bool isLower = isBefore != isReversed;
    Value moved = arith::AddIOp::create(builder, loc, positions, number(isLower ? -1 : 1));
    Value places = isLower ? Value(arith::MaxSIOp::create(builder, loc, moved, number(0)))
                           : Value(arith::MinSIOp::create(builder, loc, moved, number(last())));
    return tile::GatherOp::create(builder, loc, block.getType(), block, places, axis);
  }

  Value orZero(Value block, Type element) const {
    return block ? block : zeroOf(builder, loc, blockOf(element));
  }

  /// t_i = A_i t_{i-1} + u_i. Floats of 16 bits are combined in fp32.
  SmallVector<Value> linearScan(const Matrix &matrix, ArrayRef<Value> summands) const {
    size_t count = summands.size();
    Type element = tile::elementOf(summands[0].getType());
    Type wide = element.getIntOrFloatBitWidth() < 32 ? builder.getF32Type() : element;
    const llvm::BitVector elements = elementsOfProducts(matrix, count);
    SmallVector<Value> operands;
    SmallVector<int32_t> numbers;
    llvm::DenseMap<size_t, size_t> operandOf;
    for (unsigned i : elements.set_bits()) {
      operandOf[i] = operands.size();
      numbers.push_back(int32_t(i));
      operands.push_back(convertTo(builder, orZero(matrix[i], element), wide));
    }
    const size_t first = operands.size();
    for (Value each : summands)
      operands.push_back(convertTo(builder, each, wide));
    SmallVector<Type> types(operands.size(), blockOf(wide));
    auto scan = tile::ScanOp::create(builder, loc, types, operands, axis, isReversed);
    scan->setAttr(linearAttribute, builder.getI32IntegerAttr(int32_t(count)));
    scan->setAttr(elementsAttribute, builder.getDenseI32ArrayAttr(numbers));
    {
      OpBuilder::InsertionGuard guard(builder);
      Block *body =
          builder.createBlock(&scan.getCombine(), {}, SmallVector<Type>(2 * operands.size(), wide),
                              SmallVector<Location>(2 * operands.size(), loc));
      auto left = [&](size_t i) { return body->getArgument(i); };
      auto right = [&](size_t i) { return body->getArgument(operands.size() + i); };
      /// The sum and a product with element (row, column) of the right matrix.
      auto addProduct = [&](Value sum, size_t place, Value factor) -> Value {
        Value product = arith::MulFOp::create(builder, loc, right(operandOf.lookup(place)), factor);
        return sum ? arith::AddFOp::create(builder, loc, sum, product).getResult() : product;
      };
      SmallVector<Value> given;
      for (unsigned place : elements.set_bits()) {
        size_t row = place / count, column = place % count;
        Value sum;
        for (size_t i = 0; i < count; ++i)
          if (elements[row * count + i] && elements[i * count + column])
            sum = addProduct(sum, row * count + i, left(operandOf.lookup(i * count + column)));
        // An element that only one factor has.
        given.push_back(sum ? sum : zeroOf(builder, loc, wide));
      }
      for (size_t row = 0; row < count; ++row) {
        Value sum = right(first + row);
        for (size_t i = 0; i < count; ++i)
          if (elements[row * count + i])
            sum = addProduct(sum, row * count + i, left(first + i));
        given.push_back(sum);
      }
      tile::YieldOp::create(builder, loc, given);
    }
    return llvm::map_to_vector(scan.getResult().take_back(count),
                               [&](Value result) { return convertTo(builder, result, element); });
  }

private:
  RankedTensorType blockOf(Type element) const {
    return RankedTensorType::get(type.getShape(), element);
  }
  int64_t last() const { return type.getDimSize(axis) - 1; }
  Value number(int64_t value) const {
    auto whole = blockOf(builder.getI32Type());
    return arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(whole, builder.getI32IntegerAttr(int32_t(value))));
  }

  OpBuilder &builder;
  Location loc;
  RankedTensorType type;
  unsigned axis;
  bool isReversed;
  Value positions;
};

/// A combiner's operations on blocks, and their tangents.
class Elementwise {
public:
  Elementwise(OpBuilder &builder, RankedTensorType type) : builder(builder), type(type) {}

  /// Writes them; false where the combiner has operations with regions.
  bool write(Block &combiner, ArrayRef<Value> sides) {
    for (auto [argument, side] : llvm::zip(combiner.getArguments(), sides))
      map.map(argument, side);
    for (Operation &op : combiner.without_terminator()) {
      if (op.getNumRegions())
        return false;
      if (op.getNumResults() == 0) // an assertion, which the combination itself makes
        continue;
      if (op.hasTrait<OpTrait::ConstantLike>()) {
        Operation *copy = builder.clone(op);
        map.map(op.getResult(0), splat(copy->getResult(0)));
        continue;
      }
      for (Value operand : op.getOperands())
        if (!map.contains(operand))
          map.map(operand, splat(operand));
      Operation *copy = builder.clone(op, map);
      for (Value result : copy->getResults())
        result.setType(type.clone(result.getType()));
      written.push_back(copy);
    }
    return true;
  }

  Value of(Value value) { return map.contains(value) ? map.lookup(value) : splat(value); }

  /// The tangents of values from those in `seeds`; nothing where there is no rule.
  std::optional<SmallVector<Value>> tangents(ValueRange values,
                                             llvm::SmallDenseMap<Value, Value> seeds) {
    for (Operation *op : written) {
      bool isWanted = false;
      for (Value operand : op->getOperands())
        isWanted |= bool(seeds.lookup(operand));
      if (!isWanted)
        continue;
      if (tile::isWithTangent(op)) {
        seeds[op->getResult(0)] = seeds.lookup(op->getOperand(1));
        continue;
      }
      const Row *row = rowOf(op);
      if (!row)
        return std::nullopt;
      if (row->kind == Row::Kind::Rule) {
        seeds[op->getResult(0)] =
            row->rule(Dual(builder, op, [&](Value value) { return seeds.lookup(value); }));
      } else if (row->kind == Row::Kind::Moves) {
        SmallVector<Value> operands;
        for (Value operand : op->getOperands()) {
          Value tangent = seeds.lookup(operand);
          bool isFloat = isa<FloatType>(tile::elementOf(operand.getType()));
          operands.push_back(tangent   ? tangent
                             : isFloat ? zeroOf(builder, op->getLoc(), operand.getType())
                                       : operand);
        }
        Operation *copy = builder.clone(*op);
        copy->setOperands(operands);
        seeds[op->getResult(0)] = copy->getResult(0);
      } else if (row->kind != Row::Kind::Compares && row->kind != Row::Kind::Inactive) {
        return std::nullopt;
      }
    }
    return llvm::map_to_vector(values, [&](Value value) { return seeds.lookup(of(value)); });
  }

private:
  static const Row *rowOf(Operation *op) {
    if (auto device = dyn_cast<tile::ExternOp>(op))
      return device.getLibrary() == "libdevice" ? findDeviceRow(device.getSymbol()) : nullptr;
    if (auto assembly = dyn_cast<tile::InlineAsmOp>(op))
      return findAssemblyRow(assembly.getAssembly());
    return findRow(op->getName().getStringRef());
  }
  Value splat(Value scalar) {
    return tile::SplatOp::create(builder, scalar.getLoc(), type.clone(scalar.getType()), scalar);
  }

  OpBuilder &builder;
  RankedTensorType type;
  IRMapping map;
  SmallVector<Operation *> written;
};

/// The scan whose last element a reduction is.
tile::ScanOp scanOf(OpBuilder &builder, tile::ReduceOp reduce) {
  auto scan = tile::ScanOp::create(builder, reduce.getLoc(), reduce.getSrcs().getTypes(),
                                   reduce.getSrcs(), reduce.getAxis());
  IRMapping map;
  reduce.getCombine().cloneInto(&scan.getCombine(), map);
  return scan;
}

} // namespace

std::optional<SmallVector<Value>> tangentsOfCombination(OpBuilder &builder, Operation *op,
                                                        ArrayRef<unsigned> wanted,
                                                        ArrayRef<Value> tangents) {
  Location loc = op->getLoc();
  auto reduce = dyn_cast<tile::ReduceOp>(op);
  auto type = cast<RankedTensorType>(op->getOperand(0).getType());
  tile::ScanOp scan = reduce ? scanOf(builder, reduce) : cast<tile::ScanOp>(op);
  Combination combination(builder, loc, type, scan.getAxis(), scan.getReverse());
  Block &body = scan.getCombine().front();
  unsigned count = op->getNumOperands(), active = wanted.size();

  Elementwise elementwise(builder, type);
  SmallVector<Value> sides;
  for (unsigned i = 0; i < count; ++i) {
    bool isUsed = !body.getArgument(i).use_empty();
    sides.push_back(isUsed ? combination.neighbour(scan.getResult()[i], /*isBefore=*/true)
                           : Value(scan.getSrcs()[i]));
  }
  llvm::append_range(sides, scan.getSrcs());
  if (!elementwise.write(body, sides))
    return std::nullopt;
  SmallVector<Value> yielded =
      llvm::map_to_vector(wanted, [&](unsigned i) { return body.getTerminator()->getOperand(i); });

  Matrix matrix(active * active);
  for (auto [column, i] : llvm::enumerate(wanted)) {
    llvm::SmallDenseMap<Value, Value> seeds;
    seeds[sides[i]] = constantOf(builder, loc, sides[i].getType(), 1.0);
    auto derivatives = elementwise.tangents(yielded, std::move(seeds));
    if (!derivatives)
      return std::nullopt;
    for (auto [row, derivative] : llvm::enumerate(*derivatives))
      matrix[row * active + column] = derivative;
  }
  llvm::SmallDenseMap<Value, Value> seeds;
  for (unsigned i : wanted)
    if (tangents[i])
      seeds[sides[count + i]] = tangents[i];
  auto summands = elementwise.tangents(yielded, std::move(seeds));
  if (!summands)
    return std::nullopt;
  // The first element is combined with none.
  Value isFirst = combination.isFirst();
  for (auto [i, summand] : llvm::zip(wanted, *summands)) {
    Type element = tile::elementOf(op->getOperand(i).getType());
    summand =
        arith::SelectOp::create(builder, loc, isFirst, combination.orZero(tangents[i], element),
                                combination.orZero(summand, element));
  }
  bool isRecurrence = llvm::any_of(matrix, [](Value each) { return bool(each); });
  SmallVector<Value> found = isRecurrence ? combination.linearScan(matrix, *summands) : *summands;
  if (reduce) {
    Value isLast = combination.isLast();
    for (Value &each : found)
      each = sumAlong(
          builder, loc,
          arith::SelectOp::create(builder, loc, isLast, each, zeroOf(builder, loc, each.getType())),
          reduce.getAxis());
  }
  return found;
}

bool isLinearScan(Operation *op) {
  return isa<tile::ScanOp>(op) && op->hasAttr(linearAttribute);
}

static size_t activeOf(tile::ScanOp scan) {
  return size_t(scan->getAttrOfType<IntegerAttr>(linearAttribute).getInt());
}

ValueRange linearOperands(tile::ScanOp scan) {
  return scan.getSrcs().take_back(activeOf(scan));
}

ValueRange linearResults(tile::ScanOp scan) {
  return scan.getResult().take_back(activeOf(scan));
}

SmallVector<Value> transposedLinearScan(OpBuilder &builder, tile::ScanOp scan,
                                        ArrayRef<Value> adjoints,
                                        llvm::function_ref<Value(Value)> here) {
  Location loc = scan.getLoc();
  auto type = cast<RankedTensorType>(scan.getSrcs()[0].getType());
  size_t count = adjoints.size();
  Combination backwards(builder, loc, type, scan.getAxis(), !scan.getReverse());
  Value isFirst = backwards.isFirst(), zero = zeroOf(builder, loc, type);
  Matrix matrix(count * count);
  auto elements = scan->getAttrOfType<DenseI32ArrayAttr>(elementsAttribute);
  for (auto [operand, place] : llvm::zip(scan.getSrcs(), elements.asArrayRef())) {
    Value next = backwards.neighbour(here(operand), true);
    matrix[place % count * count + place / count] =
        arith::SelectOp::create(builder, loc, isFirst, zero, next);
  }
  return backwards.linearScan(matrix, adjoints);
}

} // namespace nereid::differentiate

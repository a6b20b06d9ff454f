// Random functions on integers and pointers, and an interpreter for them: what the analysis claims
// and what the passes make of a function is compared with what the function computes.
#pragma once
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

#include <numeric>
#include <random>

namespace nereid::random_expressions {
using namespace mlir;
using llvm::APInt;

using Elements = std::vector<APInt>; // row-major

inline int64_t count(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getNumElements() : 1;
}

inline unsigned bits(Value value) {
  Type element = tile::elementOf(value.getType());
  return isa<tile::PtrType>(element) ? 64 : element.getIntOrFloatBitWidth();
}

/// Evaluates a function, and reports each value as soon as it is known. A pointer is its address.
class Interpreter {
public:
  explicit Interpreter(std::function<void(Value, const Elements &)> defined = {})
      : defined(std::move(defined)) {}

  /// False when the expression has no defined value (a division by zero, a shift too far).
  bool run(Block &block) {
    for (Operation &op : block.without_terminator())
      if (!evaluate(&op))
        return false;
    return true;
  }

  void define(Value value, Elements elements) {
    values[value] = std::move(elements);
    if (defined)
      defined(value, values[value]);
  }

  const Elements &valueOf(Value value) { return values[value]; }

private:
  bool evaluate(Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      llvm::SmallVector<Elements> carried;
      for (Value init : loop.getInitArgs())
        carried.push_back(values[init]);
      APInt i = values[loop.getLowerBound()][0], end = values[loop.getUpperBound()][0];
      for (; i.slt(end); i += values[loop.getStep()][0]) {
        define(loop.getInductionVar(), {i});
        for (auto [argument, elements] : llvm::zip(loop.getRegionIterArgs(), carried))
          define(argument, elements);
        if (!run(*loop.getBody()))
          return false;
        for (auto [slot, value] : llvm::zip(carried, loop.getYieldedValues()))
          slot = values[value];
      }
      for (auto [result, elements] : llvm::zip(loop.getResults(), carried))
        define(result, elements);
      return true;
    }
    if (auto split = dyn_cast<tile::SplitOp>(op)) {
      Elements even, odd;
      for (auto [i, value] : llvm::enumerate(values[split.getSrc()]))
        (i % 2 ? odd : even).push_back(value);
      define(split.getLhs(), even);
      define(split.getRhs(), odd);
      return true;
    }
    Elements result;
    for (int64_t i = 0; i < count(op->getResult(0).getType()); ++i) {
      auto element = elementAt(op, i);
      if (!element)
        return false;
      result.push_back(*element);
    }
    define(op->getResult(0), result);
    return true;
  }

  /// Coordinates of row-major index `i`, mapped through `f`, as an index of the source.
  static int64_t remap(Type to, Type from, int64_t i,
                       llvm::function_ref<int64_t(ArrayRef<int64_t>, unsigned)> f) {
    auto shape = tile::shapeOf(to), source = tile::shapeOf(from);
    llvm::SmallVector<int64_t> at(shape.size());
    for (int d = int(shape.size()) - 1; d >= 0; --d) {
      at[d] = i % shape[d];
      i /= shape[d];
    }
    int64_t index = 0;
    for (unsigned d = 0; d < source.size(); ++d)
      index = index * source[d] + f(at, d);
    return index;
  }

  std::optional<APInt> elementAt(Operation *op, int64_t i) {
    Type type = op->getResult(0).getType();
    auto at = [&](unsigned operand) {
      auto &elements = values[op->getOperand(operand)];
      return elements.size() == 1 ? elements[0] : elements[i];
    };
    using Result = std::optional<APInt>;
    return llvm::TypeSwitch<Operation *, Result>(op)
        .Case<arith::ConstantOp>([&](auto constant) -> Result {
          if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()))
            return *(dense.template value_begin<APInt>() + i);
          return cast<IntegerAttr>(constant.getValue()).getValue();
        })
        .Case<tile::RangeOp>(
            [&](auto range) -> Result { return APInt(32, int32_t(range.getStart()) + i, true); })
        .Case<tile::SplatOp, tile::UnsplatOp, tile::IntToPtrOp, tile::PtrToIntOp, tile::PtrCastOp>(
            [&](auto) -> Result { return at(0); })
        .Case<tile::AddPtrOp>([&](auto) -> Result {
          auto ptr = cast<tile::PtrType>(tile::elementOf(type));
          return at(0) + at(1).sext(64) * APInt(64, tile::sizeInBytes(ptr.getPointee()));
        })
        .Case<tile::ReshapeOp>([&](auto) -> Result { return at(0); })
        .Case<tile::ExpandDimsOp>([&](auto) -> Result { return at(0); })
        .Case<tile::BroadcastOp>([&](auto broadcast) -> Result {
          Type from = broadcast.getSrc().getType();
          return values[op->getOperand(0)][remap(type, from, i, [&](auto at, unsigned d) {
            return tile::shapeOf(from)[d] == 1 ? 0 : at[d];
          })];
        })
        .Case<tile::TransOp>([&](auto trans) -> Result {
          Type from = trans.getSrc().getType();
          return values[op->getOperand(0)][remap(type, from, i, [&](auto at, unsigned d) {
            return at[llvm::find(trans.getOrder(), int32_t(d)) - trans.getOrder().begin()];
          })];
        })
        .Case<tile::JoinOp>([&](auto) -> Result { return values[op->getOperand(i % 2)][i / 2]; })
        .Case<tile::CatOp>([&](tile::CatOp cat) -> Result { // along dimension 0
          int64_t seam = count(cat.getLhs().getType());
          return i < seam ? values[cat.getLhs()][i] : values[cat.getRhs()][i - seam];
        })
        .Case<arith::AddIOp>([&](auto) -> Result { return at(0) + at(1); })
        .Case<arith::SubIOp>([&](auto) -> Result { return at(0) - at(1); })
        .Case<arith::MulIOp>([&](auto) -> Result { return at(0) * at(1); })
        .Case<arith::AndIOp>([&](auto) -> Result { return at(0) & at(1); })
        .Case<arith::OrIOp>([&](auto) -> Result { return at(0) | at(1); })
        .Case<arith::XOrIOp>([&](auto) -> Result { return at(0) ^ at(1); })
        .Case<arith::DivSIOp, arith::RemSIOp>([&](Operation *div) -> Result {
          if (at(1).isZero() || (at(0).isMinSignedValue() && at(1).isAllOnes()))
            return std::nullopt;
          return isa<arith::DivSIOp>(div) ? at(0).sdiv(at(1)) : at(0).srem(at(1));
        })
        .Case<arith::DivUIOp, arith::RemUIOp>([&](Operation *div) -> Result {
          if (at(1).isZero())
            return std::nullopt;
          return isa<arith::DivUIOp>(div) ? at(0).udiv(at(1)) : at(0).urem(at(1));
        })
        .Case<arith::ShLIOp, arith::ShRUIOp, arith::ShRSIOp>([&](Operation *shift) -> Result {
          if (at(1).uge(at(1).getBitWidth()))
            return std::nullopt;
          return isa<arith::ShLIOp>(shift)    ? at(0).shl(at(1))
                 : isa<arith::ShRUIOp>(shift) ? at(0).lshr(at(1))
                                              : at(0).ashr(at(1));
        })
        .Case<arith::MinSIOp>([&](auto) -> Result { return llvm::APIntOps::smin(at(0), at(1)); })
        .Case<arith::MaxSIOp>([&](auto) -> Result { return llvm::APIntOps::smax(at(0), at(1)); })
        .Case<arith::MinUIOp>([&](auto) -> Result { return llvm::APIntOps::umin(at(0), at(1)); })
        .Case<arith::MaxUIOp>([&](auto) -> Result { return llvm::APIntOps::umax(at(0), at(1)); })
        .Case<arith::CmpIOp>([&](auto compare) -> Result {
          return APInt(1, arith::applyCmpPredicate(compare.getPredicate(), at(0), at(1)));
        })
        .Case<arith::SelectOp>([&](auto) -> Result { return at(0).isZero() ? at(2) : at(1); })
        .Case<arith::ExtSIOp>([&](auto) -> Result { return at(0).sext(bits(op->getResult(0))); })
        .Case<arith::ExtUIOp>([&](auto) -> Result { return at(0).zext(bits(op->getResult(0))); })
        .Case<arith::TruncIOp>([&](auto) -> Result { return at(0).trunc(bits(op->getResult(0))); });
  }

  std::function<void(Value, const Elements &)> defined;
  llvm::DenseMap<Value, Elements> values;
};

/// Builds random functions of scalar arguments.
class Generator {
public:
  Generator(MLIRContext &context, unsigned seed) : random(seed), builder(&context) {}

  func::FuncOp function(ModuleOp module) {
    builder.setInsertionPointToEnd(module.getBody());
    Type i32 = builder.getI32Type();
    auto function = func::FuncOp::create(builder, builder.getUnknownLoc(), "f",
                                         builder.getFunctionType({i32, i32, i32}, {}));
    function.setArgAttr(0, "tile.divisibility", builder.getI64IntegerAttr(1 << below(8)));
    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    pool.assign(block->args_begin(), block->args_end());
    for (int i = 0; i < 3; ++i)
      pool.push_back(constant(i32));
    for (int i = 0; i < 3; ++i) {
      int start = pick({0, 0, 0, 1, 8, -16, -5, 2147483640});
      int size = pick({1, 4, 8, 12, 16, 24, 48});
      if (int64_t(start) + size > 2147483647)
        size = 4;
      pool.push_back(tile::RangeOp::create(builder, loc(), RankedTensorType::get({size}, i32),
                                           start, start + size));
    }
    for (int i = 0; i < 14; ++i)
      step();
    if (below(2) == 0)
      loop();
    for (int i = 0; i < 4; ++i)
      step();
    for (Value value : pool)
      results.push_back(value);
    func::ReturnOp::create(builder, loc(), results);
    function.setFunctionType(
        builder.getFunctionType({i32, i32, i32}, ValueRange(results).getTypes()));
    return function;
  }

private:
  Location loc() { return builder.getUnknownLoc(); }
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); }
  int pick(std::initializer_list<int> from) { return from.begin()[below(from.size())]; }
  Value any() { return pool[below(pool.size())]; }

  Value constant(Type type) {
    unsigned width = tile::elementOf(type).getIntOrFloatBitWidth();
    int64_t number =
        pick({0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 64, 100, -1, -4, -16, 127, 1 << 20});
    APInt value(width, uint64_t(number), true, true);
    TypedAttr attribute = builder.getIntegerAttr(tile::elementOf(type), value);
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      attribute = DenseElementsAttr::get(tensor, value);
    return arith::ConstantOp::create(builder, loc(), attribute);
  }

  /// Some value of this type: one from the pool, a splat, or a constant.
  Value like(Type type) {
    llvm::SmallVector<Value> fits;
    for (Value value : pool)
      if (value.getType() == type)
        fits.push_back(value);
    if (isa<RankedTensorType>(type))
      for (Value value : pool)
        if (value.getType() == tile::elementOf(type))
          fits.push_back(value);
    if (fits.empty() || below(3) == 0)
      return constant(type);
    Value value = fits[below(fits.size())];
    if (value.getType() != type)
      value = tile::SplatOp::create(builder, loc(), type, value);
    return value;
  }

  template <typename Op> Value make(Value a, Value b) { return Op::create(builder, loc(), a, b); }

  /// Through pointers and back: an address moved by offsets of several widths.
  void pointers(Value a) {
    Type type = a.getType();
    unsigned width = bits(a);
    if (width == 1)
      return;
    Type i64 = tile::withShapeOf(builder.getI64Type(), type);
    Type pointee = below(2) ? Type(builder.getF32Type()) : Type(builder.getI8Type());
    Value base = like(i64);
    Value ptr = tile::IntToPtrOp::create(
        builder, loc(), tile::withShapeOf(tile::PtrType::get(pointee), type), base);
    for (Value offset : {a, like(type), like(i64)})
      if (below(3))
        ptr = tile::AddPtrOp::create(builder, loc(), ptr.getType(), ptr, offset);
    pool.push_back(tile::PtrToIntOp::create(builder, loc(), i64, ptr));
  }

  void step() {
    Value a = any();
    Type type = a.getType();
    auto tensor = dyn_cast<RankedTensorType>(type);
    unsigned width = bits(a);
    int what = int(below(31));
    if (what == 30)
      return pointers(a);
    if (what < 16 && width > 1) {
      Value b = like(type);
      if (below(4) == 0)
        std::swap(a, b);
      Value (Generator::*const ops[])(Value, Value) = {
          &Generator::make<arith::AddIOp>,  &Generator::make<arith::SubIOp>,
          &Generator::make<arith::MulIOp>,  &Generator::make<arith::DivSIOp>,
          &Generator::make<arith::DivUIOp>, &Generator::make<arith::RemSIOp>,
          &Generator::make<arith::RemUIOp>, &Generator::make<arith::ShLIOp>,
          &Generator::make<arith::ShRUIOp>, &Generator::make<arith::ShRSIOp>,
          &Generator::make<arith::AndIOp>,  &Generator::make<arith::OrIOp>,
          &Generator::make<arith::XOrIOp>,  &Generator::make<arith::MinSIOp>,
          &Generator::make<arith::MaxUIOp>, &Generator::make<arith::MaxSIOp>};
      pool.push_back((this->*ops[what])(a, b));
    } else if (what < 19) {
      auto predicate = arith::CmpIPredicate(below(10));
      Value mask = arith::CmpIOp::create(builder, loc(), predicate, a, like(type));
      pool.push_back(mask);
      pool.push_back(arith::SelectOp::create(builder, loc(), mask, like(type), like(type)));
    } else if (what < 22) {
      unsigned to = pick({8, 16, 32, 64});
      Type wanted = tile::withShapeOf(builder.getIntegerType(to), type);
      if (to < width)
        pool.push_back(arith::TruncIOp::create(builder, loc(), wanted, a));
      else if (to > width && below(2))
        pool.push_back(arith::ExtSIOp::create(builder, loc(), wanted, a));
      else if (to > width)
        pool.push_back(arith::ExtUIOp::create(builder, loc(), wanted, a));
    } else if (!tensor || tensor.getRank() > 3 || tensor.getNumElements() > 400) {
      return;
    } else if (what < 24) {
      int axis = below(tensor.getRank() + 1), size = pick({2, 3, 4, 8});
      llvm::SmallVector<int64_t> shape(tensor.getShape());
      shape.insert(shape.begin() + axis, 1);
      Value expanded = tile::ExpandDimsOp::create(builder, loc(), tensor.clone(shape), a, axis);
      shape[axis] = size;
      pool.push_back(expanded);
      pool.push_back(tile::BroadcastOp::create(builder, loc(), tensor.clone(shape), expanded));
    } else if (what < 26) {
      llvm::SmallVector<int64_t> shape;
      int64_t left = tensor.getNumElements();
      for (int64_t factor : {below(2) ? 2 : 3, below(2) ? 4 : 1}) {
        if (left % factor)
          continue;
        shape.insert(shape.begin() + below(shape.size() + 1), factor);
        left /= factor;
      }
      shape.insert(shape.begin() + below(shape.size() + 1), left);
      pool.push_back(tile::ReshapeOp::create(builder, loc(), tensor.clone(shape), a, false));
    } else if (what < 28) {
      llvm::SmallVector<int32_t> order(tensor.getRank());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      llvm::SmallVector<int64_t> shape;
      for (int32_t dim : order)
        shape.push_back(tensor.getDimSize(dim));
      pool.push_back(tile::TransOp::create(builder, loc(), tensor.clone(shape), a, order));
    } else if (what < 29) {
      llvm::SmallVector<int64_t> shape(tensor.getShape());
      shape.push_back(2);
      Value joined = tile::JoinOp::create(builder, loc(), tensor.clone(shape), a, like(type));
      pool.push_back(joined);
      auto split = tile::SplitOp::create(builder, loc(), type, type, joined);
      pool.push_back(split.getRhs());
    } else {
      llvm::SmallVector<int64_t> shape(tensor.getShape());
      shape[0] *= 2;
      pool.push_back(tile::CatOp::create(builder, loc(), tensor.clone(shape), a, like(type), 0));
    }
  }

  void loop() {
    Type i32 = builder.getI32Type();
    auto number = [&](int64_t n) -> Value {
      return arith::ConstantOp::create(builder, loc(), builder.getIntegerAttr(i32, n));
    };
    Value from = number(pick({0, 0, 1, 4, -8})), by = number(pick({1, 2, 4, 8, 3}));
    Value to = number(pick({0, 5, 16, 30}));
    llvm::SmallVector<Value> inits = {any(), any(), any()};
    auto loop = scf::ForOp::create(builder, loc(), from, to, by, inits);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(loop.getBody());
      auto outer = pool;
      pool.push_back(loop.getInductionVar());
      for (Value argument : loop.getRegionIterArgs()) {
        pool.push_back(argument);
        pool.push_back(argument);
      }
      for (int i = 0; i < 6; ++i)
        step();
      llvm::SmallVector<Value> yielded;
      for (Value argument : loop.getRegionIterArgs())
        yielded.push_back(bits(argument) > 1 && below(2)
                              ? make<arith::AddIOp>(argument, like(argument.getType()))
                              : like(argument.getType()));
      scf::YieldOp::create(builder, loc(), yielded);
      pool = outer;
    }
    pool.append(loop->result_begin(), loop->result_end());
  }

  std::mt19937 random;
  OpBuilder builder;
  llvm::SmallVector<Value> pool, results;
};

/// One argument of interest: small, large, negative, or at an end of the range.
inline APInt someArgument(std::mt19937 &random) {
  const int64_t numbers[] = {0,  1,   2,    3,    5,     8,          16,         17,
                             48, 128, 1000, 4096, 65536, 2147483647, 2147483640, -2147483648,
                             -1, -2,  -7,   -16,  -100,  1 << 30};
  return APInt(32, uint64_t(numbers[random() % std::size(numbers)]), true, true);
}

/// Defines the arguments of `function` in `interpreter` by random numbers that keep its promises.
inline void defineArguments(Interpreter &interpreter, func::FuncOp function, std::mt19937 &random) {
  for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
    APInt value = someArgument(random);
    if (auto divisor = function.getArgAttrOfType<IntegerAttr>(i, "tile.divisibility"))
      value &= APInt(32, uint64_t(-divisor.getInt()), true, true);
    interpreter.define(argument, {value});
  }
}

/// How many functions a test tries; NEREID_RANDOM_FUNCTIONS asks for more.
inline int functionsToTry(int usual) {
  const char *wanted = std::getenv("NEREID_RANDOM_FUNCTIONS");
  return wanted ? std::atoi(wanted) : usual;
}

} // namespace nereid::random_expressions

#include "transforms/Explain.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace nereid::transforms {

using explain::Expression;
using explain::SourcePlace;

SourcePlace placeOf(Location location) {
  if (auto file = dyn_cast<FileLineColLoc>(location))
    return {file.getFilename().str(), file.getLine(), file.getColumn()};
  if (auto name = dyn_cast<NameLoc>(location))
    return placeOf(name.getChildLoc());
  if (auto call = dyn_cast<CallSiteLoc>(location)) {
    SourcePlace callee = placeOf(call.getCallee());
    bool library = llvm::StringRef(callee.file).starts_with("<prelude>");
    return callee.line == 0 || library ? placeOf(call.getCaller()) : callee;
  }
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (SourcePlace place = placeOf(part); place.line)
        return place;
  return {};
}

explain::Shape shapeOf(Type type) {
  explain::Shape shape;
  Type element = tile::elementOf(type);
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    shape.sizes.assign(tensor.getShape().begin(), tensor.getShape().end());
  if (auto pointer = dyn_cast<tile::PtrType>(element))
    element = pointer.getPointee();
  if (isa<tile::PtrType>(element)) {
    shape.element = "pointer";
    shape.bits = 64;
    return shape;
  }
  llvm::raw_string_ostream out(shape.element);
  if (isa<Float8E4M3FNType>(element))
    out << "fp8e4nv";
  else if (isa<Float8E5M2Type>(element))
    out << "fp8e5";
  else if (element.isBF16())
    out << "bf16";
  else if (isa<FloatType>(element))
    out << "fp" << element.getIntOrFloatBitWidth();
  else
    out << element;
  shape.bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 64;
  return shape;
}

std::string printWithPlaces(Operation *op, std::vector<SourcePlace> &places) {
  AsmState::LocationMap lines;
  AsmState state(op, OpPrintingFlags(), &lines);
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream, state);
  places.assign(llvm::count(text, '\n') + 1, {});
  for (auto [each, where] : lines)
    if (where.first >= 1 && where.first <= places.size() && !isa<ModuleOp>(each))
      if (SourcePlace place = placeOf(each->getLoc()); place.line)
        places[where.first - 1] = place;
  return text;
}

std::vector<std::string> unalignedArguments(Value value, int64_t multiple) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  std::vector<std::string> names;
  for (size_t i = 0; i < seen.size() && i < 2000; ++i) {
    if (auto argument = dyn_cast<BlockArgument>(seen[i])) {
      Operation *owner = argument.getOwner()->getParentOp();
      if (auto function = dyn_cast<func::FuncOp>(owner)) {
        auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "tile.name");
        auto known =
            function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), "tile.divisibility");
        bool integer = isa<IntegerType, tile::PtrType>(argument.getType());
        if (name && integer && (!known || known.getInt() % multiple != 0))
          names.push_back(name.str());
      } else if (auto loop = dyn_cast<scf::ForOp>(owner)) {
        if (argument.getArgNumber() == 0) {
          seen.insert(loop.getLowerBound());
          seen.insert(loop.getStep());
        } else {
          seen.insert(loop.getInitArgs()[argument.getArgNumber() - 1]);
          seen.insert(loop.getBody()->getTerminator()->getOperand(argument.getArgNumber() - 1));
        }
      }
      continue;
    }
    Operation *op = seen[i].getDefiningOp();
    // The alignment of a loaded value does not depend on that of an argument.
    if (op->getNumRegions() || isa<tile::LoadOp>(op))
      continue;
    // A factor that is a multiple makes the product one.
    if (isa<arith::MulIOp>(op)) {
      APInt factor;
      Value right = op->getOperand(1);
      if (auto splat = right.getDefiningOp<tile::SplatOp>())
        right = splat.getSrc();
      if (matchPattern(right, m_ConstantInt(&factor)) && factor.srem(multiple) == 0)
        continue;
    }
    seen.insert(op->operand_begin(), op->operand_end());
  }
  return names;
}

namespace {

class Counter {
public:
  Counter(func::FuncOp kernel, explain::Report &report)
      : kernel(kernel), report(report), provenance(kernel) {}
  void run() { block(kernel.getBody().front(), -1); }

private:
  void block(Block &block, int loop);
  void visit(Operation *op, int loop);
  void loopOf(scf::ForOp loop, int parent);
  void access(StringRef what, Operation *op, Value pointer, int64_t elements, Type element,
              int loop);
  void arithmetic(StringRef what, Operation *op, int64_t amount, int loop);
  void product(tile::DotOp dot, int loop);
  const Expression &expression(Value value, unsigned depth = 0);
  Expression compute(Value value, unsigned depth);

  func::FuncOp kernel;
  explain::Report &report;
  Provenance provenance;
  llvm::DenseMap<Value, std::unique_ptr<Expression>> memo;
  llvm::DenseMap<Value, int> variables; ///< of loops
};

unsigned sizeOf(const Expression &expression) {
  unsigned size = 1;
  for (const Expression &part : expression.parts)
    size += sizeOf(part);
  return size;
}

const Expression &Counter::expression(Value value, unsigned depth) {
  auto &slot = memo[value];
  if (!slot) {
    Expression found = depth < 64 ? compute(value, depth) : Expression();
    // Shared parts are written out: what becomes too long is not worth it.
    memo[value] = std::make_unique<Expression>(sizeOf(found) <= 300 ? found : Expression());
  }
  return *memo[value];
}

Expression Counter::compute(Value value, unsigned depth) {
  using Op = Expression::Op;
  if (auto variable = variables.find(value); variable != variables.end())
    return {Op::Loop, variable->second, {}, {}};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() != &kernel.getBody().front() || !isa<IntegerType>(argument.getType()))
      return {};
    auto name = kernel.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "tile.name");
    return name ? Expression::argument(name.str()) : Expression();
  }
  Operation *op = value.getDefiningOp();
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)))
    return number.getSignificantBits() <= 64 ? Expression::constant(number.getSExtValue())
                                             : Expression();
  auto part = [&](unsigned i) { return expression(op->getOperand(i), depth + 1); };
  auto binary = [&](Op kind) { return Expression::make(kind, {part(0), part(1)}); };
  return TypeSwitch<Operation *, Expression>(op)
      .Case([&](tile::ProgramIdOp id) {
        return Expression{Op::Program, int64_t(id.getAxis()), {}, {}};
      })
      .Case([&](tile::NumProgramsOp count) {
        return Expression{Op::Programs, int64_t(count.getAxis()), {}, {}};
      })
      .Case<arith::AddIOp>([&](auto) { return binary(Op::Add); })
      .Case<arith::SubIOp>([&](auto) { return binary(Op::Sub); })
      .Case<arith::MulIOp>([&](auto) { return binary(Op::Mul); })
      .Case<arith::DivSIOp, arith::DivUIOp>([&](auto) { return binary(Op::Div); })
      .Case<arith::RemSIOp, arith::RemUIOp>([&](auto) { return binary(Op::Rem); })
      .Case<arith::MinSIOp, arith::MinUIOp>([&](auto) { return binary(Op::Min); })
      .Case<arith::MaxSIOp, arith::MaxUIOp>([&](auto) { return binary(Op::Max); })
      .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp, arith::IndexCastOp, tile::HintOp>(
          [&](auto) { return part(0); })
      .Case([&](arith::SelectOp) {
        return Expression::make(Op::Select, {part(0), part(1), part(2)});
      })
      .Case([&](arith::ShLIOp) {
        APInt by;
        return matchPattern(op->getOperand(1), m_ConstantInt(&by)) && by.ult(62)
                   ? Expression::make(
                         Op::Mul, {part(0), Expression::constant(int64_t(1) << by.getZExtValue())})
                   : Expression();
      })
      .Case([&](arith::CmpIOp compare) {
        using Predicate = arith::CmpIPredicate;
        switch (compare.getPredicate()) {
        case Predicate::slt:
        case Predicate::ult:
          return binary(Op::Less);
        case Predicate::sle:
        case Predicate::ule:
          return binary(Op::LessEqual);
        case Predicate::sgt:
        case Predicate::ugt:
          return Expression::make(Op::Less, {part(1), part(0)});
        case Predicate::sge:
        case Predicate::uge:
          return Expression::make(Op::LessEqual, {part(1), part(0)});
        case Predicate::eq:
          return binary(Op::Equal);
        case Predicate::ne:
          return Expression::make(Op::Equal, {binary(Op::Equal), Expression::constant(0)});
        }
        return Expression();
      })
      .Default([](Operation *) { return Expression(); });
}

void Counter::loopOf(scf::ForOp loop, int parent) {
  explain::LoopFact fact;
  fact.place = placeOf(loop.getLoc());
  fact.parent = parent;
  fact.lower = expression(loop.getLowerBound());
  fact.step = expression(loop.getStep());
  Expression span =
      Expression::make(Expression::Op::Sub, {expression(loop.getUpperBound()), fact.lower});
  Expression rest = Expression::make(Expression::Op::Sub, {fact.step, Expression::constant(1)});
  fact.trips = Expression::make(Expression::Op::Div,
                                {Expression::make(Expression::Op::Add, {span, rest}), fact.step});
  int number = int(report.loops.size());
  variables[loop.getInductionVar()] = number;
  report.loops.push_back(std::move(fact));
  block(*loop.getBody(), number);
}

void Counter::access(StringRef what, Operation *op, Value pointer, int64_t elements, Type element,
                     int loop) {
  int argument = provenance.of(pointer).only();
  std::string name;
  if (argument >= 0)
    if (auto attr = kernel.getArgAttrOfType<StringAttr>(argument, "tile.name"))
      name = attr.str();
  report.work.push_back({what.str(), name, placeOf(op->getLoc()),
                         elements * int64_t(tile::sizeInBytes(element)), loop});
}

void Counter::arithmetic(StringRef what, Operation *op, int64_t amount, int loop) {
  SourcePlace place = placeOf(op->getLoc());
  // Lines, not ops, are what people look at.
  if (!report.work.empty())
    if (auto &last = report.work.back();
        last.what == what && last.place.line == place.line && last.loop == loop) {
      last.amount += amount;
      return;
    }
  report.work.push_back({what.str(), "", place, amount, loop});
}

void Counter::product(tile::DotOp dot, int loop) {
  auto a = cast<RankedTensorType>(dot.getA().getType());
  int64_t amount =
      2 * cast<RankedTensorType>(dot.getType()).getNumElements() * a.getDimSize(a.getRank() - 1);
  Type element = a.getElementType();
  StringRef what = "fp32";
  if (element.isF16() || element.isBF16())
    what = "fp16 product";
  else if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8)
    what = "fp8 product";
  else if (element.isF64())
    what = "fp64 product";
  else if (element.isInteger(8))
    what = "int8 product";
  else if (element.isF32() && dot.getPrecision() == tile::InputPrecision::TF32)
    what = "tf32 product";
  arithmetic(what, dot, amount, loop);
}

int64_t countOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getNumElements() : 1;
}

/// "fp32", "fp64" or "special" for arithmetic on floats; empty for anything else.
StringRef arithmeticOf(Operation *op) {
  if (op->getNumResults() != 1)
    return "";
  Type element = tile::elementOf(op->getResult(0).getType());
  if (!isa<FloatType>(element))
    return "";
  StringRef plain = element.isF64() ? "fp64" : "fp32";
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::MaximumFOp, arith::MinimumFOp,
          arith::MaxNumFOp, arith::MinNumFOp, arith::NegFOp, math::FmaOp>(op))
    return plain;
  if (isa<math::AbsFOp, math::FloorOp, math::CeilOp>(op))
    return "";
  if (isa<arith::DivFOp, arith::RemFOp, tile::DivRNOp, tile::SqrtRNOp>(op) ||
      isa_and_nonnull<math::MathDialect>(op->getDialect()))
    return "special";
  return "";
}

void Counter::visit(Operation *op, int loop) {
  TypeSwitch<Operation *>(op)
      .Case([&](scf::ForOp inner) {
        if (!inner->hasAttr(tile::withoutCopiesName)) // its other version is counted
          loopOf(inner, loop);
      })
      .Case([&](scf::WhileOp inner) {
        explain::LoopFact fact;
        fact.place = placeOf(inner.getLoc());
        fact.parent = loop;
        int number = int(report.loops.size());
        report.loops.push_back(std::move(fact));
        block(inner.getBefore().front(), number);
        block(inner.getAfter().front(), number);
      })
      .Case([&](tile::LoadOp load) {
        access("read", op, load.getPtr(), countOf(load.getType()), tile::elementOf(load.getType()),
               loop);
      })
      .Case([&](tile::StoreOp store) {
        access("write", op, store.getPtr(), countOf(store.getPtr().getType()),
               tile::elementOf(store.getValue().getType()), loop);
      })
      .Case([&](tile::Atomic atomic) {
        Type element = tile::elementOf(atomic.getPtr().getType());
        access("atomic", op, atomic.getPtr(), countOf(atomic.getPtr().getType()),
               cast<tile::PtrType>(element).getPointee(), loop);
      })
      .Case<tile::DescLoadOp, tile::DescGatherOp>([&](auto load) {
        access("read", op, op->getOperand(0), countOf(load.getType()),
               tile::elementOf(load.getType()), loop);
      })
      .Case<tile::DescStoreOp, tile::DescReduceOp, tile::DescScatterOp>([&](auto store) {
        Type type = store.getValue().getType();
        access("write", op, op->getOperand(0), countOf(type), tile::elementOf(type), loop);
      })
      .Case([&](tile::DotOp dot) { product(dot, loop); })
      .Case<tile::ReduceOp, tile::ScanOp>([&](auto reduce) {
        int64_t elements = countOf(reduce.getSrcs()[0].getType());
        for (Operation &inner : reduce.getCombine().front().without_terminator())
          if (StringRef what = arithmeticOf(&inner); !what.empty())
            arithmetic(what, op, elements, loop);
      })
      .Default([&](Operation *other) {
        if (StringRef what = arithmeticOf(other); !what.empty())
          arithmetic(what, other,
                     countOf(other->getResult(0).getType()) * (isa<math::FmaOp>(other) ? 2 : 1),
                     loop);
        for (Region &region : other->getRegions())
          for (Block &inner : region)
            block(inner, loop);
      });
}

void Counter::block(Block &all, int loop) {
  for (Operation &op : all)
    visit(&op, loop);
}

} // namespace

void countWork(func::FuncOp kernel, explain::Report &report) {
  if (llvm::hasSingleElement(kernel.getBody()))
    Counter(kernel, report).run();
}

} // namespace nereid::transforms

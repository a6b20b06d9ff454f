#include "differentiate/OnlineSums.h"

#include "differentiate/Access.h"
#include "differentiate/Blocks.h"
#include "ir/tile/Combiner.h"
#include "ir/tile/FloatBounds.h"
#include "ir/tile/WithTangent.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SaveAndRestore.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace mlir;

namespace nereid::differentiate {
namespace {

bool isSpread(Operation *op) {
  return isa<tile::SplatOp, tile::BroadcastOp, tile::ExpandDimsOp>(op);
}

/// The value behind repetitions along dimensions.
Value unspread(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isSpread(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

std::optional<double> floatConstant(Value value) {
  value = unspread(value);
  if (Operation *op = value.getDefiningOp(); isa_and_nonnull<arith::ExtFOp, arith::TruncFOp>(op))
    return floatConstant(op->getOperand(0));
  Attribute attribute;
  if (!matchPattern(value, m_Constant(&attribute)))
    return std::nullopt;
  if (auto dense = dyn_cast<DenseElementsAttr>(attribute)) {
    if (!dense.isSplat() || !isa<FloatType>(dense.getElementType()))
      return std::nullopt;
    return dense.getSplatValue<APFloat>().convertToDouble();
  }
  auto number = dyn_cast<FloatAttr>(attribute);
  return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
}

/// The logarithm of the base of a power, or of a logarithm; 0 for every other operation.
double logOfBase(Operation *op, bool ofPower) {
  if (ofPower ? isa<math::ExpOp>(op) : isa<math::LogOp>(op))
    return 1.0;
  if (ofPower ? isa<math::Exp2Op>(op) : isa<math::Log2Op>(op))
    return std::log(2.0);
  auto device = dyn_cast<tile::ExternOp>(op);
  if (!device || device.getLibrary() != "libdevice")
    return 0.0;
  StringRef name = device.getSymbol();
  if (name == (ofPower ? "exp" : "log"))
    return 1.0;
  return name == (ofPower ? "exp2" : "log2") ? std::log(2.0) : 0.0;
}

/// `x`, but another number where x equals a constant: of `where(x == c, d, x)` the value x.
Value guardedBy(Operation *op, double constant) {
  auto select = dyn_cast<arith::SelectOp>(op);
  auto compare = select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
  if (!compare || !floatConstant(compare.getRhs()) || *floatConstant(compare.getRhs()) != constant)
    return {};
  using Predicate = arith::CmpFPredicate;
  bool isEqual = compare.getPredicate() == Predicate::OEQ;
  if (!isEqual && compare.getPredicate() != Predicate::UNE)
    return {};
  Value kept = isEqual ? select.getFalseValue() : select.getTrueValue();
  Value other = isEqual ? select.getTrueValue() : select.getFalseValue();
  return kept == compare.getLhs() && floatConstant(other) ? kept : Value();
}

/// What a loop carries that is rescaled in every round.
struct Rescaled {
  unsigned index;
  arith::MulFOp product; ///< of what was carried and the factor
  unsigned place;        ///< of the factor among the product's operands
  Value factor;          ///< exp(m - m'), before it is repeated along dimensions
};

struct OnlineLoop {
  scf::ForOp loop;
  unsigned maximum = 0;
  Operation *next = nullptr; ///< gives the new maximum
  SmallVector<Rescaled> sums;
  double logOfBase = 0.0;
  OnlineLoop *before = nullptr; ///< the loop that gives what this one begins with

  Value carried(unsigned i) const { return scf::ForOp(loop).getRegionIterArg(i); }
};

/// Whether a value of a loop's body depends on another.
bool dependsOn(Value value, Value on, scf::ForOp loop) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work{value};
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (next == on)
      return true;
    if (!loop.getRegion().isAncestor(next.getParentRegion()) || !seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op)
      op = next.getParentBlock()->getParentOp();
    if (op != loop)
      op->walk(
          [&](Operation *inner) { work.append(inner->operand_begin(), inner->operand_end()); });
  }
  return false;
}

/// Whether a value is exp(m - m').
bool isFactor(Value value, OnlineLoop &online) {
  Operation *op = value.getDefiningOp();
  double base = op ? logOfBase(op, /*ofPower=*/true) : 0.0;
  auto difference = base ? op->getOperand(0).getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  if (!difference || difference.getLhs() != online.carried(online.maximum))
    return false;
  Value after = difference.getRhs();
  if (Operation *guard = after.getDefiningOp(); guard && guard != online.next)
    after = guardedBy(guard, -std::numeric_limits<double>::infinity());
  if (!after || after != online.next->getResult(0) ||
      (online.logOfBase && online.logOfBase != base))
    return false;
  online.logOfBase = base;
  return true;
}

/// How a sum is passed on: by additions and one product with the factor. False for what is neither
/// that nor independent of the maximum.
/// A sum that the loop uses otherwise is none: its value in a round, relative to the final maximum,
/// may underflow where it does not relative to the round's own.
bool findSum(OnlineLoop &online, unsigned index) {
  scf::ForOp loop = online.loop;
  Value carried = online.carried(index), next = loop.getYieldedValues()[index];
  if (!isa<FloatType>(tile::elementOf(carried.getType())) ||
      !dependsOn(next, online.carried(online.maximum), loop))
    return true;
  Rescaled sum{index, nullptr, 0, Value()};
  while (next != carried) {
    Operation *op = next.getDefiningOp();
    if (!op || op->getBlock() != loop.getBody() || !next.hasOneUse() ||
        !isa<arith::AddFOp, arith::MulFOp, tile::DotOp>(op))
      return false;
    int from = -1;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (dependsOn(operand, carried, loop)) {
        if (from >= 0)
          return false;
        from = int(i);
      }
    if (from < 0 || (isa<tile::DotOp>(op) &&
                     next.getDefiningOp<tile::DotOp>().getC() != op->getOperand(unsigned(from))))
      return false;
    if (auto product = dyn_cast<arith::MulFOp>(op)) {
      unsigned place = 1 - unsigned(from);
      Value factor = unspread(product->getOperand(place));
      if (sum.product || !isFactor(factor, online))
        return false;
      sum = {index, product, place, factor};
    }
    next = op->getOperand(unsigned(from));
  }
  if (!sum.product || !carried.hasOneUse())
    return false;
  online.sums.push_back(sum);
  return true;
}

std::optional<OnlineLoop> onlineLoop(scf::ForOp loop, const Activity &activity) {
  bool writes = loop->walk([&](Operation *op) {
                      std::optional<Access> access = accessOf(op);
                      return (access && access->stored) || isa<tile::PrintOp>(op)
                                 ? WalkResult::interrupt()
                                 : WalkResult::advance();
                    })
                    .wasInterrupted();
  for (unsigned i = 0; !writes && i < loop.getNumRegionIterArgs(); ++i) {
    OnlineLoop online;
    online.loop = loop;
    online.maximum = i;
    online.next = loop.getYieldedValues()[i].getDefiningOp();
    if (!online.next || online.next->getBlock() != loop.getBody() ||
        !isa<arith::MaxNumFOp, arith::MaximumFOp>(online.next) ||
        !llvm::is_contained(online.next->getOperands(), online.carried(i)))
      continue;
    bool areSums = true;
    for (unsigned k = 0; areSums && k < loop.getNumRegionIterArgs(); ++k)
      areSums = k == i || findSum(online, k);
    if (areSums && llvm::any_of(online.sums, [&](const Rescaled &sum) {
          return activity.hasTangent(loop.getResult(sum.index));
        }))
      return online;
  }
  return std::nullopt;
}

//===--- degrees ---===//

/// How a value changes with the maxima, each a variable: by a multiple of them that is added, or by
/// a power of e that it is multiplied by, with this multiple as its exponent.
struct Degree {
  /// Of each dimension of the value, along which of the maximum's it runs; -1 where the elements
  /// along it have the same maximum.
  using Dims = SmallVector<int, 4>;
  struct Multiple {
    double times;
    Dims dims;
  };

  enum Kind : uint8_t { Same, Added, Factor, Unknown } kind = Same;
  std::map<const void *, Multiple> by;

  /// a + times * b. Unknown where elements of the two at one place have different maxima.
  static Degree sum(Kind kind, Degree a, const Degree &b, double times) {
    for (const auto &[variable, multiple] : b.by) {
      Multiple &known = a.by.try_emplace(variable, Multiple{0.0, multiple.dims}).first->second;
      if (known.dims != multiple.dims) {
        a.addUnknown(b);
        return a;
      }
      double before = known.times, change = times * multiple.times;
      known.times = before + change;
      // Constants of kernels are rounded to fp32.
      if (std::abs(before + change) <= 1e-6 * std::max(std::abs(before), std::abs(change)))
        a.by.erase(variable);
    }
    a.kind = a.by.empty() ? Same : kind;
    return a;
  }
  /// Of what is computed also from a value with this degree, in a way that is not known.
  void addUnknown(const Degree &other) {
    kind = Unknown;
    for (const auto &[variable, multiple] : other.by)
      by.try_emplace(variable, multiple);
  }
  bool isSameAs(const Degree &other) const {
    return kind == other.kind && sum(kind, *this, other, -1.0).by.empty();
  }
  /// With other dimensions; nothing where `move` knows none.
  std::optional<Degree> moved(llvm::function_ref<std::optional<Dims>(const Dims &)> move) const {
    Degree result = *this;
    for (auto &[variable, multiple] : result.by) {
      std::optional<Dims> dims = kind == Unknown ? Dims() : move(multiple.dims);
      if (!dims)
        return std::nullopt;
      multiple.dims = *dims;
    }
    return result;
  }
};

/// Of a maximum itself.
Degree::Dims ownDims(Type type) {
  Degree::Dims dims;
  for (auto [dim, size] : llvm::enumerate(tile::shapeOf(type)))
    dims.push_back(size == 1 ? -1 : int(dim));
  return dims;
}

/// Of the result of an operation that only moves elements, or repeats them.
std::optional<Degree::Dims> movedDims(Operation *op, const Degree::Dims &dims) {
  ArrayRef<int64_t> to = tile::shapeOf(op->getResult(0).getType());
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    Degree::Dims result(dims);
    result.insert(result.begin() + expand.getAxis(), -1);
    return result;
  }
  if (auto trans = dyn_cast<tile::TransOp>(op)) {
    Degree::Dims result;
    for (int32_t from : trans.getOrder())
      result.push_back(dims[from]);
    return result;
  }
  if (isa<tile::BroadcastOp>(op)) // along a dimension of size 1 there is one maximum
    return dims;
  // A splat, or a block in another order.
  if (llvm::any_of(dims, [](int dim) { return dim >= 0; }))
    return std::nullopt;
  return Degree::Dims(to.size(), -1);
}

class Degrees {
public:
  using Loops = std::map<Operation *, OnlineLoop>;
  using Maxima = llvm::SetVector<Operation *>;
  Degrees(Loops &loops, const Maxima &maxima, const Activity &activity)
      : loops(loops), maxima(maxima), activity(activity) {}

  /// Loops whose maximum the kernel's results depend on, and other maxima, as far as is known.
  llvm::DenseSet<Operation *> run(func::FuncOp kernel) {
    for (auto &[op, loop] : loops)
      loop.before = nullptr;
    visit(kernel.getBody().front());
    return std::move(rejected);
  }

private:
  /// The maximum in a round, before it; that after it is the loop itself.
  static const void *variableBefore(const OnlineLoop &online) {
    return scf::ForOp(online.loop).getBody();
  }

  Degree of(Value value) const {
    auto found = degrees.find(value);
    return found == degrees.end() ? Degree() : found->second;
  }

  void set(Value value, const Degree &degree) {
    if (degree.kind == Degree::Same)
      degrees.erase(value);
    else
      degrees[value] = degree;
  }

  void reject(const Degree &degree) {
    for (const auto &[variable, multiple] : degree.by) {
      for (auto &[op, online] : loops)
        if (variable == op || variable == variableBefore(online))
          rejected.insert(op);
      for (Operation *op : maxima)
        if (variable == op)
          rejected.insert(op);
    }
  }

  void rejectAll(Operation *op) {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        reject(of(operand));
    });
  }

  void visit(Block &block) {
    for (Operation &op : block.without_terminator())
      visit(&op);
  }

  void visit(Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitFor(loop);
    if (auto branch = dyn_cast<scf::IfOp>(op))
      return visitIf(branch);
    if (op->getNumRegions() && !isa<tile::ReduceOp>(op))
      return rejectAll(op);
    if (auto found = newMaximum.find(op); found != newMaximum.end())
      return visitMaximum(op, found->second);
    if (maxima.contains(op)) {
      for (Value operand : op->getOperands())
        reject(of(operand));
      return set(op->getResult(0), variable(op, op->getResult(0).getType()));
    }
    if (llvm::all_of(op->getOperands(), [&](Value v) { return of(v).kind == Degree::Same; }))
      return;
    if (op->getNumResults() == 0)
      return visitWrite(op);
    std::optional<Degree> degree = op->getNumResults() == 1 ? resultOf(op) : std::nullopt;
    if (degree)
      return set(op->getResult(0), *degree);
    // Nothing is known of what it gives; that matters where it is used.
    Degree unknown;
    for (Value operand : op->getOperands())
      unknown.addUnknown(of(operand));
    std::optional<Access> access = accessOf(op);
    if (access && access->stored)
      reject(unknown);
    for (Value result : op->getResults())
      degrees[result] = unknown;
  }

  /// A variable of its own, whatever it is computed from.
  void visitMaximum(Operation *op, Operation *loop) {
    Value carried = loops.at(loop).carried(loops.at(loop).maximum);
    for (Value operand : op->getOperands())
      if (operand != carried)
        reject(of(operand));
    set(op->getResult(0), variable(loop, op->getResult(0).getType()));
  }

  /// What is stored where no gradient is given for it does not matter.
  void visitWrite(Operation *op) {
    std::optional<Access> access = accessOf(op);
    if (!access || activity.hasShadow(access->address) || of(access->address).kind != Degree::Same)
      return rejectAll(op);
    for (Value operand : op->getOperands())
      if (operand != access->stored)
        reject(of(operand));
  }

  /// Of two values of which one is selected, or that are added.
  std::optional<Degree> either(Value a, Value b) const {
    Degree left = of(a), right = of(b);
    if (left.isSameAs(right) && left.kind != Degree::Unknown)
      return left;
    for (auto [constant, other] : {std::pair(a, right), std::pair(b, left)}) {
      std::optional<double> number = floatConstant(constant);
      if (number && ((other.kind == Degree::Factor && *number == 0.0) ||
                     (other.kind == Degree::Added && *number == -infinity)))
        return other;
    }
    return std::nullopt;
  }

  std::optional<Degree> resultOf(Operation *op) const {
    auto operand = [&](unsigned i) { return of(op->getOperand(i)); };
    auto isOnly = [&](unsigned i, Degree::Kind kind) { return operand(i).kind == kind; };
    if (isSpread(op) || isa<tile::TransOp, tile::ReshapeOp>(op))
      return operand(0).moved([&](const Degree::Dims &dims) { return movedDims(op, dims); });
    if (isa<arith::ExtFOp, arith::TruncFOp>(op))
      return operand(0);
    if (isa<arith::NegFOp>(op))
      return isOnly(0, Degree::Added) ? Degree::sum(Degree::Added, {}, operand(0), -1.0)
                                      : operand(0);
    if (isa<arith::AddFOp, arith::SubFOp>(op))
      return sumOf(op, isa<arith::AddFOp>(op) ? 1.0 : -1.0);
    if (isa<arith::MulFOp, arith::DivFOp>(op))
      return productOf(op, isa<arith::MulFOp>(op) ? 1.0 : -1.0);
    if (double base = logOfBase(op, /*ofPower=*/true); base && isOnly(0, Degree::Added))
      return Degree::sum(Degree::Factor, {}, operand(0), base);
    if (double base = logOfBase(op, /*ofPower=*/false);
        base && isOnly(0, Degree::Factor) && !isInRound)
      return Degree::sum(Degree::Added, {}, operand(0), 1.0 / base);
    return llvm::TypeSwitch<Operation *, std::optional<Degree>>(op)
        .Case([&](arith::SelectOp select) { return selected(select); })
        .Case([&](tile::DotOp dot) -> std::optional<Degree> {
          Degree a = of(dot.getA()), b = of(dot.getB()), c = of(dot.getC());
          if (a.kind == Degree::Added || a.kind == Degree::Unknown || b.kind == Degree::Added ||
              b.kind == Degree::Unknown)
            return std::nullopt;
          // Along the dimension that is summed there must be one maximum.
          auto without = [](const Degree &of, size_t fromEnd) {
            return of.moved([=](const Degree::Dims &dims) {
              return dims[dims.size() - fromEnd] < 0 ? std::optional(dims) : std::nullopt;
            });
          };
          std::optional<Degree> rows = without(a, 1), columns = without(b, 2);
          if (!rows || !columns)
            return std::nullopt;
          Degree product = Degree::sum(Degree::Factor, *rows, *columns, 1.0);
          std::optional<double> number = floatConstant(dot.getC());
          return product.isSameAs(c) || (number && *number == 0.0) ? std::optional(product)
                                                                   : std::nullopt;
        })
        .Case([&](tile::ReduceOp reduce) -> std::optional<Degree> {
          bool isSum = tile::resultKind(reduce->getRegion(0), 0) == tile::CombinerKind::AddF;
          if (!isSum || !isOnly(0, Degree::Factor))
            return std::nullopt;
          return operand(0).moved([&](const Degree::Dims &dims) -> std::optional<Degree::Dims> {
            if (dims[reduce.getAxis()] >= 0)
              return std::nullopt; // a sum of elements with factors of their own has none
            Degree::Dims rest(dims);
            rest.erase(rest.begin() + reduce.getAxis());
            return rest;
          });
        })
        .Default(std::nullopt);
  }

  std::optional<Degree> sumOf(Operation *op, double sign) const {
    Degree a = of(op->getOperand(0)), b = of(op->getOperand(1));
    if (a.kind == Degree::Unknown || b.kind == Degree::Unknown)
      return std::nullopt;
    if (a.kind == Degree::Factor || b.kind == Degree::Factor)
      return either(op->getOperand(0), op->getOperand(1));
    return Degree::sum(Degree::Added, a, b, sign);
  }

  std::optional<Degree> productOf(Operation *op, double power) const {
    Degree a = of(op->getOperand(0)), b = of(op->getOperand(1));
    if (a.kind == Degree::Unknown || b.kind == Degree::Unknown)
      return std::nullopt;
    // What is divided by may underflow relative to the final maximum.
    if (power < 0 && isInRound && b.kind == Degree::Factor)
      return std::nullopt;
    if (a.kind != Degree::Added && b.kind != Degree::Added)
      return Degree::sum(Degree::Factor, a, b, power);
    bool isFirst = a.kind == Degree::Added;
    std::optional<double> number = floatConstant(op->getOperand(isFirst ? 1 : 0));
    if (!number || *number == 0.0 || (power < 0 && !isFirst))
      return std::nullopt;
    return Degree::sum(Degree::Added, {}, isFirst ? a : b, power > 0 ? *number : 1.0 / *number);
  }

  std::optional<Degree> selected(arith::SelectOp select) const {
    // Of what no key was seen for: its sums are zero, whatever takes the maximum's place.
    if (Value kept = guardedBy(select, -infinity); kept && of(kept).kind == Degree::Added)
      return of(kept);
    if (Value kept = guardedBy(select, 0.0); kept && of(kept).kind == Degree::Factor)
      return of(kept);
    if (of(select.getCondition()).kind != Degree::Same)
      return std::nullopt;
    return either(select.getTrueValue(), select.getFalseValue());
  }

  void visitIf(scf::IfOp branch) {
    reject(of(branch.getCondition()));
    SmallVector<std::optional<Degree>> results(branch.getNumResults());
    for (Region &region : branch->getRegions()) {
      if (region.empty())
        continue;
      visit(region.front());
      for (auto [i, yielded] : llvm::enumerate(region.front().getTerminator()->getOperands())) {
        if (results[i] && !results[i]->isSameAs(of(yielded))) {
          reject(*results[i]);
          reject(of(yielded));
        }
        results[i] = of(yielded);
      }
    }
    for (auto [result, degree] : llvm::zip(branch.getResults(), results))
      set(result, degree ? *degree : Degree());
  }

  void visitFor(scf::ForOp loop) {
    for (Value bound : {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
      reject(of(bound));
    for (auto [carried, init] : llvm::zip(loop.getRegionIterArgs(), loop.getInitArgs()))
      set(carried, of(init));
    auto found = loops.find(loop);
    if (found != loops.end())
      beginOnline(found->second);
    {
      llvm::SaveAndRestore inRound(isInRound, isInRound || found != loops.end());
      visit(*loop.getBody());
    }
    if (found != loops.end())
      return endOnline(found->second);
    for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i)
      passOn(loop, i);
  }

  /// What every round gives must change as what it began with.
  void passOn(scf::ForOp loop, unsigned i) {
    Degree begin = of(loop.getInitArgs()[i]), end = of(loop.getYieldedValues()[i]);
    if (!begin.isSameAs(end) || begin.kind == Degree::Unknown) {
      reject(begin);
      reject(end);
    }
    set(loop.getResult(i), begin);
  }

  void beginOnline(OnlineLoop &online) {
    scf::ForOp loop = online.loop;
    Value maximum = loop.getInitArgs()[online.maximum];
    Degree begin = of(maximum);
    const OnlineLoop *before = nullptr;
    if (begin.kind == Degree::Added && begin.by.size() == 1 &&
        begin.by.begin()->second.times == 1.0)
      for (auto &[op, other] : loops)
        if (op == begin.by.begin()->first && op->getBlock() == loop->getBlock() &&
            maximum == op->getResult(other.maximum)) {
          before = &other;
          online.before = &other;
        }
    bool isKnown = before ? before->logOfBase == online.logOfBase
                          : begin.kind == Degree::Same && !activity.hasTangent(maximum);
    for (const Rescaled &sum : online.sums) {
      Value init = loop.getInitArgs()[sum.index];
      std::optional<double> number = floatConstant(init);
      if (before)
        isKnown &=
            (number && *number == 0.0) ||
            of(init).isSameAs(factor(scf::ForOp(before->loop), -before->logOfBase, dimsOf(sum)));
      else
        isKnown &= of(init).kind == Degree::Same && !activity.hasTangent(init);
      set(online.carried(sum.index),
          factor(variableBefore(online), -online.logOfBase, dimsOf(sum)));
    }
    if (!isKnown) {
      rejected.insert(loop);
      reject(begin);
    }
    set(online.carried(online.maximum), variable(variableBefore(online), maximum.getType()));
    if (isKnown)
      newMaximum[online.next] = loop;
  }

  void endOnline(const OnlineLoop &online) {
    scf::ForOp loop = online.loop;
    for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i) {
      auto sum = llvm::find_if(online.sums, [&](const Rescaled &each) { return each.index == i; });
      if (i == online.maximum) {
        set(loop.getResult(i), variable(loop.getOperation(), loop.getResult(i).getType()));
      } else if (sum != online.sums.end()) {
        Degree expected = factor(loop, -online.logOfBase, dimsOf(*sum));
        if (!of(loop.getYieldedValues()[i]).isSameAs(expected))
          rejected.insert(loop);
        set(loop.getResult(i), expected);
      } else {
        passOn(loop, i);
      }
    }
  }

  static Degree variable(const void *variable, Type type) {
    return {Degree::Added, {{variable, {1.0, ownDims(type)}}}};
  }
  static Degree factor(const void *variable, double exponent, const Degree::Dims &dims) {
    return {Degree::Factor, {{variable, {exponent, dims}}}};
  }
  static Degree factor(scf::ForOp loop, double exponent, const Degree::Dims &dims) {
    return factor(static_cast<const void *>(loop.getOperation()), exponent, dims);
  }

  /// Of a sum that is multiplied by the factor, as the factor is repeated for that.
  static Degree::Dims dimsOf(const Rescaled &sum) {
    return dimsOf(arith::MulFOp(sum.product)->getOperand(sum.place), sum.factor);
  }
  static Degree::Dims dimsOf(Value value, Value factor) {
    if (value == factor)
      return ownDims(factor.getType());
    Operation *op = value.getDefiningOp();
    return *movedDims(op, dimsOf(op->getOperand(0), factor)); // only numbers are splat
  }

  static constexpr double infinity = std::numeric_limits<double>::infinity();
  Loops &loops;
  const Maxima &maxima;
  const Activity &activity;
  llvm::DenseMap<Value, Degree> degrees;
  llvm::DenseMap<Operation *, Operation *> newMaximum;
  llvm::DenseSet<Operation *> rejected;
  bool isInRound = false; ///< of a loop with a maximum
};

//===--- plain sums ---===//

/// A sum over the exponentials themselves: positive, and of the maximum's shape.
const Rescaled *normaliserOf(const OnlineLoop &online) {
  scf::ForOp loop = online.loop;
  for (const Rescaled &sum : online.sums) {
    auto add = loop.getYieldedValues()[sum.index].getDefiningOp<arith::AddFOp>();
    if (!add || loop.getResult(sum.index).getType() != loop.getResult(online.maximum).getType())
      continue;
    for (Value summand : add->getOperands()) {
      auto reduce = summand.getDefiningOp<tile::ReduceOp>();
      Operation *of = (reduce ? reduce->getOperand(0) : summand).getDefiningOp();
      while (of && isa<arith::ExtFOp, arith::TruncFOp, arith::SelectOp>(of))
        of = of->getOperand(isa<arith::SelectOp>(of) ? 1 : 0).getDefiningOp();
      if (of && logOfBase(of, /*ofPower=*/true))
        return &sum;
    }
  }
  return nullptr;
}

/// Writes the plain sums of loops that follow each other.
class Separator {
public:
  Separator(ArrayRef<OnlineLoop *> chain, const Activity &activity)
      : chain(chain), activity(activity), last(*chain.back()), builder(last.loop->getContext()),
        loc(last.loop.getLoc()) {}

  void run() {
    SmallVector<SmallVector<OpOperand *>> uses;
    for (Value result : last.loop.getResults()) {
      uses.emplace_back();
      for (OpOperand &use : result.getUses())
        uses.back().push_back(&use);
    }
    builder.setInsertionPointAfter(last.loop);
    findBase();
    for (OnlineLoop *online : chain)
      writeSum(*online);
    for (auto [i, result] : llvm::enumerate(last.loop.getResults())) {
      Value derived = derivedFrom(i, result);
      for (OpOperand *use : uses[i])
        if (derived)
          use->set(derived);
    }
    for (OnlineLoop *online : chain)
      online->loop->setAttr(constantAttribute, builder.getUnitAttr());
  }

private:
  /// The constant in the maximum's place, and by what its sums must be multiplied to be those that
  /// the loop gives.
  void findBase() {
    base = last.loop.getResult(last.maximum);
    const Rescaled *normaliser = normaliserOf(last);
    if (!normaliser)
      return;
    if (findSaved(*normaliser))
      return;
    Value sum = last.loop.getResult(normaliser->index);
    Type type = sum.getType();
    Value isSum = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, sum,
                                        zeroOf(builder, loc, type));
    Value logarithm = last.logOfBase == 1.0 ? math::LogOp::create(builder, loc, sum).getResult()
                                            : math::Log2Op::create(builder, loc, sum).getResult();
    Value moved = arith::AddFOp::create(builder, loc, base, logarithm);
    Value maximum = base;
    base = arith::SelectOp::create(builder, loc, isSum, moved, base);
    // Not the sum itself: beside a large maximum, as one of scores that a mask has made -1e9, its
    // logarithm is rounded.
    Value difference = arith::SubFOp::create(builder, loc, base, maximum);
    Value factor = last.logOfBase == 1.0
                       ? math::ExpOp::create(builder, loc, difference).getResult()
                       : math::Exp2Op::create(builder, loc, difference).getResult();
    Value lowest = constantOf(builder, loc, type, -std::numeric_limits<double>::infinity());
    Value isNothing =
        arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OEQ, maximum, lowest);
    scale = arith::SelectOp::create(builder, loc, isNothing, constantOf(builder, loc, type, 1.0),
                                    factor);
  }

  /// Takes the constant from memory where the author has saved m + log(l), or a multiple of it.
  /// The normaliser is 1 relative to it, so no round of the loop is needed for the two.
  bool findSaved(const Rescaled &normaliser) {
    Value maximum = last.loop.getResult(last.maximum);
    for (Operation *logarithm : last.loop.getResult(normaliser.index).getUsers()) {
      if (logOfBase(logarithm, /*ofPower=*/false) != last.logOfBase)
        continue;
      for (Operation *sum : logarithm->getResult(0).getUsers()) {
        if (!isa<arith::AddFOp>(sum) || !llvm::is_contained(sum->getOperands(), maximum))
          continue;
        if (takeSaved(sum->getResult(0), 1.0))
          return true;
        for (Operation *product : sum->getResult(0).getUsers())
          if (isa<arith::MulFOp>(product))
            for (Value operand : product->getOperands())
              if (auto factor = floatConstant(operand);
                  factor && *factor != 0.0 && takeSaved(product->getResult(0), *factor))
                return true;
      }
    }
    return false;
  }

  /// The constant from what is loaded in place of a value, which is `factor` times it.
  bool takeSaved(Value value, double factor) {
    for (Operation *mark : value.getUsers()) {
      if (!tile::isWithTangent(mark) || mark->getOperand(1) != value)
        continue;
      Value loaded = mark->getOperand(0);
      llvm::SetVector<Operation *> ops;
      if (!collectLoaded(loaded, ops))
        continue;
      Operation *behind = last.loop;
      for (Operation *op : ops) {
        op->moveAfter(behind);
        behind = op;
      }
      builder.setInsertionPointAfter(behind);
      base = loaded;
      if (factor != 1.0)
        base = arith::MulFOp::create(builder, loc, base,
                                     constantOf(builder, loc, base.getType(), 1.0 / factor));
      savedNormaliser = true;
      return true;
    }
    return false;
  }

  /// Adds to `ops`, in the order of the program, what computes a value behind the loop; false where
  /// it follows from the loop, or is loaded with fewer than 32 bits.
  bool collectLoaded(Value value, llvm::SetVector<Operation *> &ops) const {
    Operation *op = value.getDefiningOp();
    scf::ForOp loop = last.loop;
    if (!op || op->getBlock() != loop->getBlock() || op->isBeforeInBlock(loop))
      return !loop->isAncestor(value.getParentBlock()->getParentOp());
    bool isExact =
        !isa<tile::LoadOp>(op) || tile::elementOf(value.getType()).getIntOrFloatBitWidth() >= 32;
    if (op == loop || op->getNumRegions() || !isExact ||
        !(isa<tile::LoadOp>(op) || isMemoryEffectFree(op)) ||
        !llvm::all_of(op->getOperands(), [&](Value each) { return collectLoaded(each, ops); }))
      return false;
    ops.insert(op);
    return true;
  }

  void writeSum(const OnlineLoop &online) {
    scf::ForOp loop = online.loop;
    auto copy = cast<scf::ForOp>(builder.clone(*loop, map));
    keepBounds(loop);
    BlockArgument maximum = copy.getRegionIterArg(online.maximum);
    Value next = map.lookup(online.next->getResult(0));
    copy.getInitArgsMutable()[online.maximum].set(base);
    maximum.replaceAllUsesWith(base);
    next.replaceAllUsesWith(base);
    next.getDefiningOp()->erase();
    copy.getBody()->getTerminator()->setOperand(online.maximum, maximum);
    map.map(loop.getResult(online.maximum), base);
    for (const Rescaled &sum : online.sums) {
      Operation *product = map.lookup(sum.product->getResult(0)).getDefiningOp();
      product->getResult(0).replaceAllUsesWith(product->getOperand(1 - sum.place));
      product->erase();
    }
  }

  /// What is at most the maximum of its round is at most the constant, which is the last maximum
  /// and the logarithm of a sum that is at least 1. The operations will not show it.
  void keepBounds(scf::ForOp loop) {
    loop->walk([&](math::ExpOp power) {
      if (tile::isNotPositive(power.getOperand(), [](Value value) { return value; }))
        map.lookup(power.getResult())
            .getDefiningOp()
            ->setAttr(tile::notPositiveAttribute, builder.getUnitAttr());
    });
  }

  /// What takes the place of a result of the last loop; null for the result itself.
  Value derivedFrom(unsigned i, Value result) {
    if (i == last.maximum)
      return savedNormaliser ? base : Value();
    if (activity.of(result) == Nothing)
      return {};
    Value plain = map.lookup(result);
    for (const Rescaled &sum : last.sums)
      if (sum.index == i) {
        if (savedNormaliser) {
          bool isOne = &sum == normaliserOf(last);
          if (!isOne)
            return plain;
          result = constantOf(builder, loc, result.getType(), 1.0);
        }
        if (scale)
          plain = arith::MulFOp::create(builder, loc, plain, spreadLike(sum));
        return tile::ExternOp::create(builder, loc, result.getType(), ValueRange{result, plain},
                                      tile::tangentSymbol, tile::tangentLibrary, /*pure=*/true,
                                      /*path=*/nullptr)
            .getResult();
      }
    return plain;
  }

  /// The scale, repeated as the factor of a sum is.
  Value spreadLike(const Rescaled &sum) {
    SmallVector<Operation *> spread;
    for (Value value = arith::MulFOp(sum.product)->getOperand(sum.place); value != sum.factor;
         value = spread.back()->getOperand(0))
      spread.push_back(value.getDefiningOp());
    IRMapping of;
    of.map(sum.factor, scale);
    for (Operation *op : llvm::reverse(spread))
      builder.clone(*op, of);
    return of.lookup(arith::MulFOp(sum.product)->getOperand(sum.place));
  }

  ArrayRef<OnlineLoop *> chain;
  const Activity &activity;
  OnlineLoop &last;
  OpBuilder builder;
  Location loc;
  Value base, scale;
  bool savedNormaliser = false; ///< the constant is what the author has saved
  IRMapping map;
};

/// Whether what a loop gives, but for the maximum and the sums of the last of a chain, is used
/// only where it has a meaning: in the next loop of the chain.
bool isUsedByNext(const OnlineLoop &online, const OnlineLoop &next, const Activity &activity) {
  scf::ForOp loop = online.loop;
  return llvm::all_of(llvm::enumerate(loop.getResults()), [&](auto each) {
    Value result = each.value();
    bool isOfSums =
        each.index() == online.maximum ||
        llvm::any_of(online.sums, [&](const Rescaled &sum) { return sum.index == each.index(); });
    return (!isOfSums && activity.of(result) == Nothing) ||
           llvm::all_of(result.getUsers(), [&](Operation *user) {
             return user == scf::ForOp(next.loop).getOperation();
           });
  });
}

} // namespace

/// Maxima with tangents, in loops and branches whose degrees are found.
static Degrees::Maxima plainMaxima(func::FuncOp kernel, const Activity &activity) {
  Degrees::Maxima maxima;
  kernel.walk([&](Operation *op) {
    auto reduce = dyn_cast<tile::ReduceOp>(op);
    tile::CombinerKind kind = reduce && reduce->getNumResults() == 1
                                  ? tile::resultKind(reduce->getRegion(0), 0)
                                  : tile::CombinerKind::Other;
    bool isMaximum = kind == tile::CombinerKind::MaxNum || kind == tile::CombinerKind::Maximum ||
                     isa<arith::MaxNumFOp, arith::MaximumFOp>(op);
    if (!isMaximum || !activity.hasTangent(op->getResult(0)))
      return;
    Operation *around = op->getParentOp();
    while (isa<scf::ForOp, scf::IfOp>(around))
      around = around->getParentOp();
    if (isa<func::FuncOp>(around))
      maxima.insert(op);
  });
  return maxima;
}

void separateOnlineSums(func::FuncOp kernel, ArrayRef<Argument> arguments) {
  Activity activity(kernel, arguments);
  Degrees::Maxima maxima = plainMaxima(kernel, activity);
  Degrees::Loops loops;
  kernel.walk([&](scf::ForOp loop) {
    if (std::optional<OnlineLoop> online = onlineLoop(loop, activity))
      loops.emplace(loop, *online);
  });
  while (!loops.empty() || !maxima.empty()) {
    llvm::DenseSet<Operation *> rejected = Degrees(loops, maxima, activity).run(kernel);
    llvm::SmallDenseSet<OnlineLoop *> continued;
    for (auto &[op, online] : loops)
      if (online.before && (!continued.insert(online.before).second ||
                            !isUsedByNext(*online.before, online, activity)))
        rejected.insert(online.before->loop);
    if (rejected.empty()) {
      for (Operation *op : maxima)
        op->setAttr(constantAttribute, UnitAttr::get(kernel.getContext()));
      for (auto &[op, online] : loops) {
        if (continued.contains(&online))
          continue;
        SmallVector<OnlineLoop *> chain;
        for (OnlineLoop *each = &online; each; each = each->before)
          chain.insert(chain.begin(), each);
        Separator(chain, activity).run();
      }
      return;
    }
    for (Operation *op : rejected) {
      loops.erase(op);
      maxima.remove(op);
    }
  }
}

} // namespace nereid::differentiate

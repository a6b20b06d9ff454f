#include "differentiate/Ownership.h"

#include "differentiate/Activity.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::differentiate {

namespace {

/// A summand that differs between lanes, rounds or programs.
struct Digit {
  Atom atom;
  Size stride;               ///< one product
  std::vector<Atom> factors; ///< of the summand in the address
  int64_t coefficient; ///< negative where the position counts down, which the stride does not say

  /// Numbers before products of numbers known at run time: what authors write inside is smaller.
  /// Of equal ones, lanes along the last dimension.
  std::tuple<size_t, int64_t, int64_t> order() const {
    return {factors.size(), constantStride(),
            atom.kind == Atom::Lane ? -int64_t(atom.number) : atom.kind * 4 + atom.number};
  }
  int64_t constantStride() const { return stride.begin()->second; }
};

std::optional<int64_t> constantOf(const Size &size) {
  if (size.empty())
    return 0;
  if (size.size() > 1 || !size.begin()->first.empty())
    return std::nullopt;
  return size.begin()->second;
}

Size constant(int64_t value) {
  return value ? Size{{{}, value}} : Size();
}

/// a += factor * b * further; false when it overflows.
bool add(Size &a, const Size &b, int64_t factor = 1, const std::vector<Atom> &further = {}) {
  for (const auto &[factors, coefficient] : b) {
    std::vector<Atom> all(factors);
    all.insert(all.end(), further.begin(), further.end());
    std::sort(all.begin(), all.end());
    int64_t product, total;
    if (llvm::MulOverflow(coefficient, factor, product) ||
        llvm::AddOverflow(a[all], product, total))
      return false;
    if (total)
      a[all] = total;
    else
      a.erase(all);
  }
  return true;
}

/// What one product is at least; a grid has at least one program.
int64_t leastOf(const Size &product) {
  const auto &[factors, coefficient] = *product.begin();
  bool isPositive =
      llvm::all_of(factors, [](const Atom &atom) { return atom.kind == Atom::Programs; });
  return isPositive ? coefficient : std::numeric_limits<int64_t>::min();
}

/// Whether a scalar has one value in all programs.
bool isUniform(Value value, unsigned depth = 8) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
  Operation *op = value.getDefiningOp();
  return depth && isa<FunctionOpInterface>(op->getParentOp()) &&
         (isa<arith::ArithDialect>(op->getDialect()) ||
          isa<tile::NumProgramsOp, tile::HintOp>(op)) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isUniform(operand, depth - 1); });
}

class Reasoner {
public:
  /// `allPrograms`: else of the rounds of one.
  Reasoner(Operation *access, bool allPrograms) : allPrograms(allPrograms) {
    for (Operation *parent = access->getParentOp(); parent; parent = parent->getParentOp()) {
      if (isa<scf::WhileOp>(parent))
        result.why = "it is in a `while` loop";
      if (isa<scf::ForOp>(parent)) {
        loops.push_back(parent);
        outermost = parent;
      }
    }
  }

  Ownership run(Value value, Value mask) {
    if (!result.why.empty() || (!allPrograms && loops.empty()))
      return result;
    std::optional<Address> address = addressOf(value);
    if (!address)
      return no("its addresses are no sums of positions, program ids and strides");
    if (!findDigits(*address))
      return result;
    for (Operation *loop : loops)
      if (llvm::none_of(digits, [&](const Digit &digit) {
            return digit.atom.kind == Atom::Round && digit.atom.loop() == loop;
          }))
        return no("the rounds of a loop share addresses");
    // A dimension of the block that does not move the address: its lanes meet.
    if (auto type = dyn_cast<RankedTensorType>(value.getType()); type && allPrograms)
      for (int64_t i = 0; i < type.getRank(); ++i)
        if (type.getDimSize(i) > 1 && llvm::none_of(digits, [&](const Digit &digit) {
              return digit.atom.kind == Atom::Lane && digit.atom.number == i;
            }))
          return no("lanes of one program share addresses");
    llvm::stable_sort(digits, [](const Digit &a, const Digit &b) { return a.order() < b.order(); });
    findLimits(mask);
    for (size_t i = 0; i < digits.size(); ++i)
      if (!place(i))
        return result;
    if (allPrograms)
      for (unsigned axis = 0; axis < 3; ++axis)
        if (llvm::none_of(digits, [&](const Digit &digit) {
              return digit.atom.kind == Atom::ProgramId && digit.atom.number == axis;
            }))
          result.singleAxes.push_back(axis);
    return result;
  }

private:
  Ownership no(const std::string &why) {
    result.why = why;
    return result;
  }

  bool isMoving(const Atom &atom) const {
    return atom.isMoving() && (allPrograms || atom.kind != Atom::ProgramId) &&
           (atom.kind != Atom::Round || llvm::is_contained(loops, atom.loop()));
  }

  /// Whether a factor is the same where it has to be.
  bool isFixed(const Atom &atom) const {
    if (atom.kind == Atom::Programs)
      return true;
    if (allPrograms)
      return atom.kind == Atom::Symbol && isUniform(atom.symbol());
    if (atom.kind == Atom::Symbol)
      return !outermost || !outermost->isAncestor(atom.symbol().getParentBlock()->getParentOp());
    return atom.kind == Atom::ProgramId;
  }

  bool findDigits(const Address &address) {
    for (const auto &[factors, coefficient] : address.terms) {
      const Atom *moving = nullptr;
      std::vector<Atom> rest;
      for (const Atom &factor : factors) {
        if (isMoving(factor)) {
          if (moving)
            result.why = "its addresses are products of positions";
          moving = &factor;
        } else if (!isFixed(factor)) {
          result.why = "its addresses come from values that are computed or loaded";
        } else {
          rest.push_back(factor);
        }
      }
      if (!result.why.empty())
        return false;
      if (!moving || (moving->kind == Atom::Lane && moving->extent == 1))
        continue;
      if (coefficient == std::numeric_limits<int64_t>::min())
        result.why = "its addresses are too far apart";
      for (const Digit &other : digits)
        if (other.atom == *moving)
          result.why = "its addresses depend on one position in two ways";
      if (!result.why.empty())
        return false;
      // Counted from the other end, a position with a negative stride has a positive one.
      digits.push_back({*moving, Size{{rest, std::abs(coefficient)}}, factors, coefficient});
    }
    return true;
  }

  /// What a mask says: the sum of some digits is below a number.
  struct Limit {
    std::map<std::vector<Atom>, int64_t> digits;
    Size bound;
  };

  void findLimits(Value mask, unsigned depth = 0) {
    Operation *op = mask ? mask.getDefiningOp() : nullptr;
    if (!op || depth > 16)
      return;
    if (isa<tile::BroadcastOp, tile::SplatOp>(op))
      return findLimits(op->getOperand(0), depth + 1);
    if (isa<arith::AndIOp>(op)) {
      findLimits(op->getOperand(0), depth + 1);
      return findLimits(op->getOperand(1), depth + 1);
    }
    auto compare = dyn_cast<arith::CmpIOp>(op);
    if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt)
      return;
    std::optional<Address> left = addressOf(compare.getLhs()), right = addressOf(compare.getRhs());
    if (!left || !right || left->base || right->base)
      return;
    Limit limit;
    for (auto [side, sign] : {std::pair(&*left, 1), std::pair(&*right, -1)})
      for (const auto &[factors, coefficient] : side->terms) {
        bool moves = llvm::any_of(factors, [&](const Atom &atom) { return isMoving(atom); });
        if (!moves && !llvm::all_of(factors, [&](const Atom &atom) { return isFixed(atom); }))
          return;
        if (!add(moves ? limit.digits : limit.bound, Size{{factors, coefficient}},
                 moves ? sign : -sign))
          return;
      }
    limits.push_back(limit);
  }

  /// What the digits so far reach together, as a mask limits them.
  const Size *boundBefore(size_t index) const {
    std::map<std::vector<Atom>, int64_t> sum;
    for (size_t i = 0; i < index; ++i) {
      if (digits[i].coefficient < 0)
        return nullptr; // the bound is then no distance from the least address
      sum[digits[i].factors] = digits[i].coefficient;
    }
    for (const Limit &limit : limits)
      if (index && limit.digits == sum)
        return &limit.bound;
    return nullptr;
  }

  static std::optional<int64_t> difference(Size a, const Size &b) {
    return add(a, b, -1) ? constantOf(a) : std::nullopt;
  }

  void require(const Size &stride, const Size *bound) {
    Requirement requirement{stride, std::nullopt, std::nullopt};
    if (!isUnknown)
      requirement.reach = reach;
    if (bound)
      requirement.bound = *bound;
    result.requirements.push_back(requirement);
  }

  /// Requires that the stride of a digit is at least what the smaller ones reach.
  bool place(size_t index) {
    const Digit &digit = digits[index];
    const Size *bound = boundBefore(index);
    if (isUnknown && !bound)
      return fail("how far an address moves in a loop is not limited");
    std::optional<int64_t> spare = isUnknown ? std::nullopt : difference(digit.stride, reach);
    bool isProven = spare && *spare >= 0;
    if (std::optional<int64_t> least = constantOf(reach); least && !isUnknown && !isProven)
      isProven = leastOf(digit.stride) >= *least;
    if (!isProven && bound) { // without positions below the bound nothing is accessed
      std::optional<int64_t> behind = difference(digit.stride, *bound);
      isProven = behind && *behind >= 0;
    }
    if (!isProven && spare && !bound)
      return fail("a stride is smaller than what the positions inside it reach");
    if (!isProven)
      require(digit.stride, bound);
    // What is inside fits into one stride now.
    if (!spare || *spare < 0) {
      reach = digit.stride;
      isUnknown = false;
    }
    return extend(digit);
  }

  /// Adds to the reach what a digit reaches.
  bool extend(const Digit &digit) {
    bool fits = true;
    if (digit.atom.kind == Atom::Lane)
      fits = add(reach, digit.stride, digit.atom.extent - 1);
    else if (digit.atom.kind == Atom::ProgramId)
      fits = add(reach, digit.stride, 1, {Atom{Atom::Programs, digit.atom.number}}) &&
             add(reach, digit.stride, -1);
    else
      fits = extendByRounds(digit, cast<scf::ForOp>(digit.atom.loop()));
    return fits || fail("its addresses are too far apart");
  }

  /// All rounds but the first move by less than the length of the loop.
  bool extendByRounds(const Digit &digit, scf::ForOp loop) {
    APInt step;
    std::optional<Address> length = addressOf(loop.getUpperBound()),
                           from = addressOf(loop.getLowerBound());
    const auto &[factors, coefficient] = *digit.stride.begin();
    isUnknown = !length || !from || !add(length->terms, from->terms, -1) ||
                !llvm::all_of(length->terms,
                              [&](const auto &term) {
                                return llvm::all_of(
                                    term.first, [&](const Atom &atom) { return isFixed(atom); });
                              }) ||
                !matchPattern(loop.getStep(), m_ConstantInt(&step)) || !step.isStrictlyPositive() ||
                coefficient % step.getSExtValue() != 0;
    if (isUnknown)
      return true;
    int64_t each = coefficient / step.getSExtValue();
    if (std::optional<int64_t> known = constantOf(length->terms)) {
      int64_t rounds =
          llvm::divideCeil(uint64_t(std::max<int64_t>(*known, 0)), step.getSExtValue());
      return rounds <= 1 || add(reach, digit.stride, rounds - 1);
    }
    for (const auto &[of, count] : length->terms)
      if (!add(reach, Size{{of, count}}, each, factors))
        return false;
    return add(reach, Size{{factors, each}}, -1);
  }

  bool fail(const std::string &why) {
    result.why = why;
    return false;
  }

  const bool allPrograms;
  Ownership result;
  SmallVector<Operation *> loops; ///< around the access, innermost first
  Operation *outermost = nullptr;
  SmallVector<Digit> digits;
  SmallVector<Limit> limits;
  Size reach = constant(1); ///< one more than what the digits so far reach together
  bool isUnknown = false;   ///< whether that is not known, the rounds of a loop being among them
};

/// A size as an i64.
Value valueOf(const Size &size, OpBuilder &builder, Location loc,
              llvm::function_ref<Value(Value)> here) {
  Type wide = builder.getI64Type();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc, IntegerAttr::get(wide, value));
  };
  auto widened = [&](Value value) -> Value {
    if (value.getType().isIndex())
      return arith::IndexCastOp::create(builder, loc, wide, value);
    return value.getType() == wide ? value
                                   : arith::ExtSIOp::create(builder, loc, wide, value).getResult();
  };
  Value sum;
  for (const auto &[factors, coefficient] : size) {
    Value product = coefficient == 1 && !factors.empty() ? Value() : number(coefficient);
    for (const Atom &atom : factors) {
      Value factor;
      if (atom.kind == Atom::Programs)
        factor = tile::NumProgramsOp::create(builder, loc, builder.getI32Type(), atom.number);
      else if (atom.kind == Atom::ProgramId)
        factor = tile::ProgramIdOp::create(builder, loc, builder.getI32Type(), atom.number);
      else
        factor = here(atom.symbol());
      factor = widened(factor);
      product = product ? arith::MulIOp::create(builder, loc, product, factor).getResult() : factor;
    }
    sum = sum ? arith::AddIOp::create(builder, loc, sum, product).getResult() : product;
  }
  return sum ? sum : number(0);
}

std::string wordsOf(const Size &size, func::FuncOp kernel) {
  std::string text;
  for (const auto &[factors, coefficient] : llvm::reverse(size)) { // the number last
    if (!text.empty())
      text += coefficient < 0 ? " - " : " + ";
    else if (coefficient < 0)
      text += "-";
    uint64_t number = coefficient < 0 ? -uint64_t(coefficient) : uint64_t(coefficient);
    std::string product = number == 1 && !factors.empty() ? "" : std::to_string(number);
    for (const Atom &atom : factors) {
      if (!product.empty())
        product += " * ";
      if (atom.kind == Atom::Programs) {
        product += "num_programs(" + std::to_string(atom.number) + ")";
      } else if (atom.kind == Atom::ProgramId) {
        product += "program_id(" + std::to_string(atom.number) + ")";
      } else {
        auto argument = dyn_cast<BlockArgument>(atom.symbol());
        product += argument && isa<FunctionOpInterface>(argument.getOwner()->getParentOp())
                       ? "`" + argumentName(kernel, argument.getArgNumber()) + "`"
                       : "a number that is computed";
      }
    }
    text += product;
  }
  return text.empty() ? "0" : text;
}

} // namespace

Value Ownership::condition(OpBuilder &builder, Location loc,
                           llvm::function_ref<Value(Value)> here) const {
  using Predicate = arith::CmpIPredicate;
  auto number = [&](unsigned bits, int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     IntegerAttr::get(builder.getIntegerType(bits), value));
  };
  auto compare = [&](Predicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, x, y);
  };
  Value all = number(1, 1);
  auto require = [&](Value also) { all = arith::AndIOp::create(builder, loc, all, also); };
  for (unsigned axis : singleAxes)
    require(compare(Predicate::eq,
                    tile::NumProgramsOp::create(builder, loc, builder.getI32Type(), axis),
                    number(32, 1)));
  for (const Requirement &requirement : requirements) {
    Value stride = valueOf(requirement.stride, builder, loc, here), suffices;
    if (requirement.reach)
      suffices = compare(Predicate::sge, stride, valueOf(*requirement.reach, builder, loc, here));
    if (requirement.bound) {
      Value bound = valueOf(*requirement.bound, builder, loc, here);
      // Without positions nothing is accessed; a stride of 0 gives none a place of its own.
      Value bounded = arith::AndIOp::create(builder, loc, compare(Predicate::sge, stride, bound),
                                            compare(Predicate::sgt, stride, number(64, 0)));
      suffices =
          suffices ? arith::OrIOp::create(builder, loc, suffices, bounded).getResult() : bounded;
    }
    require(suffices);
  }
  return all;
}

std::string Ownership::words(func::FuncOp kernel) const {
  std::string text;
  auto add = [&](const std::string &condition) {
    text += (text.empty() ? "" : " and ") + condition;
  };
  for (unsigned axis : singleAxes)
    add("the grid has one program along axis " + std::to_string(axis));
  for (const Requirement &requirement : requirements) {
    std::string least = requirement.bound ? wordsOf(*requirement.bound, kernel) : "";
    if (requirement.reach)
      least += (least.empty() ? "" : " or ") + wordsOf(*requirement.reach, kernel);
    add(wordsOf(requirement.stride, kernel) + " is at least " + least);
  }
  return text;
}

Ownership ownershipOf(Operation *access, Value address, Value mask) {
  return Reasoner(access, /*allPrograms=*/true).run(address, mask);
}

Ownership ownershipOfRounds(Operation *access, Value address, Value mask) {
  return Reasoner(access, /*allPrograms=*/false).run(address, mask);
}

} // namespace nereid::differentiate

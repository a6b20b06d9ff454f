#include "differentiate/Ownership.h"

#include "differentiate/Access.h"
#include "differentiate/Activity.h"
#include "differentiate/Coordinates.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

#include <set>

using namespace mlir;

namespace nereid::differentiate {

bool isUniform(Value value, unsigned depth) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
  Operation *op = value.getDefiningOp();
  return depth && isa<FunctionOpInterface>(op->getParentOp()) &&
         (isa<arith::ArithDialect>(op->getDialect()) ||
          isa<tile::NumProgramsOp, tile::HintOp>(op)) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isUniform(operand, depth - 1); });
}

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

namespace {

/// What values follow from.
class Sources {
public:
  explicit Sources(llvm::BitVector &deciding) : deciding(deciding) {}

  /// Whether it follows from arguments and the grid alone.
  bool visit(Value value) {
    if (!value || !seen.insert(value).second)
      return true;
    Operation *op = value.getDefiningOp();
    if (!op) {
      auto argument = cast<BlockArgument>(value);
      op = argument.getOwner()->getParentOp();
      if (auto loop = dyn_cast<scf::ForOp>(op))
        return visitCarried(loop, int(argument.getArgNumber()) - int(loop.getNumInductionVars()));
      if (!isa<FunctionOpInterface>(op))
        return visitOperation(op);
      if (argument.getType().isIntOrIndexOrFloat())
        deciding.set(argument.getArgNumber());
      return true;
    }
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitCarried(loop, cast<OpResult>(value).getResultNumber());
    return op->getNumRegions()
               ? visitOperation(op)
               : isMemoryEffectFree(op) && !isa<func::CallOp>(op) &&
                     llvm::all_of(op->getOperands(), [&](Value v) { return visit(v); });
  }

  /// Which rounds a loop has.
  bool visitRounds(scf::ForOp loop) {
    return visit(loop.getLowerBound()) && visit(loop.getUpperBound()) && visit(loop.getStep());
  }

  /// What a loop carries in place `i`; its variable for a negative number.
  bool visitCarried(scf::ForOp loop, int i) {
    return visitRounds(loop) &&
           (i < 0 || (visit(loop.getInitArgs()[i]) && visit(loop.getYieldedValues()[i])));
  }

  /// Whether a block inside it is executed, and how often.
  bool visitAround(Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return visitRounds(loop);
    auto branch = dyn_cast<scf::IfOp>(op);
    return branch ? visit(branch.getCondition()) : visitOperation(op);
  }

  /// Operands, and what its regions give.
  bool visitOperation(Operation *op) {
    if (!visitedOps.insert(op).second)
      return true;
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (!block.empty() && block.back().hasTrait<OpTrait::IsTerminator>())
          for (Value value : block.back().getOperands())
            if (!visit(value))
              return false;
    return llvm::all_of(op->getOperands(), [&](Value value) { return visit(value); });
  }

private:
  llvm::BitVector &deciding;
  llvm::DenseSet<Value> seen;
  llvm::DenseSet<Operation *> visitedOps;
};

} // namespace

bool isPlacedByScalars(tile::LoadOp load, llvm::BitVector &deciding) {
  Sources sources(deciding);
  if (!sources.visit(load.getPtr()) || !sources.visit(load.getMask()))
    return false;
  for (Operation *op = load->getParentOp(); !isa<FunctionOpInterface>(op); op = op->getParentOp())
    if (!sources.visitAround(op))
      return false;
  return true;
}

namespace {

/// A summand that differs between lanes, rounds or programs.
struct Digit {
  Atom atom;
  Size stride;               ///< one product
  std::vector<Atom> factors; ///< of the summand in the address
  bool countsDown = false;   ///< the position, so that the address has the negative of the stride
  std::optional<Size> span;  ///< of a distance between accesses: the largest
  bool isInAll = true;       ///< whether the addresses of all accesses have it

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

/// What has to differ, and between what.
enum class Scope {
  Rounds,          ///< the rounds of loops and the lanes of one program
  Lanes,           ///< the lanes of one execution
  Programs,        ///< everything
  BetweenPrograms, ///< programs; of one program, lanes, rounds and loads may meet
  Tiles ///< as programs, in coordinates: tiles that differ in those that the address depends on
};

/// One access among those that are looked at together.
struct Site {
  Operation *access;
  Value address, mask;
  SmallVector<Operation *> loops = {};              ///< around the access, innermost first
  std::vector<std::pair<Atom, size_t>> digits = {}; ///< its positions, and their digits
  Size fixed = {};                                  ///< of its address, what has no position
  bool sharesRounds = false; ///< whether the rounds of a loop around it share addresses

  Site(Operation *access, Value address, Value mask)
      : access(access), address(address), mask(mask) {}
};

/// Whether two loops have the same rounds.
bool haveSameRounds(scf::ForOp a, scf::ForOp b) {
  auto same = [](Value x, Value y) {
    APInt left, right;
    return x == y || (x.getType() == y.getType() && matchPattern(x, m_ConstantInt(&left)) &&
                      matchPattern(y, m_ConstantInt(&right)) && left == right);
  };
  return a == b || (same(a.getLowerBound(), b.getLowerBound()) &&
                    same(a.getUpperBound(), b.getUpperBound()) && same(a.getStep(), b.getStep()) &&
                    a.getUnsignedCmp() == b.getUnsignedCmp());
}

class Reasoner {
public:
  /// `coordinates`: of one site with Scope::Tiles. `axes`: with Scope::BetweenPrograms, the axes of
  /// the grid by their strides, which are taken to be larger than what is inside a program; empty
  /// for the order in which authors write strides.
  Reasoner(SmallVector<Site> given, Scope scope, const Coordinates *coordinates = nullptr,
           ArrayRef<unsigned> axes = {})
      : scope(scope), allPrograms(scope != Scope::Rounds && scope != Scope::Lanes),
        coordinates(coordinates), axes(axes), sites(std::move(given)) {
    for (Site &site : sites)
      for (Operation *parent = site.access->getParentOp(); parent; parent = parent->getParentOp()) {
        if (isa<scf::WhileOp>(parent))
          result.why = "it is in a `while` loop";
        if (isa<scf::ForOp>(parent)) {
          site.loops.push_back(parent);
          outermost = parent;
        }
      }
  }

  Ownership run() {
    if (!result.why.empty() || (scope == Scope::Rounds && sites[0].loops.empty()))
      return result;
    for (size_t i = 0; i < sites.size(); ++i)
      if (!findDigits(i))
        return result;
    if (!findDistances())
      return result;
    for (Digit &digit : digits) // positions may have changed their extents
      if (!digit.span) {
        digit.factors = digit.stride.begin()->first;
        digit.factors.push_back(digit.atom);
        std::sort(digit.factors.begin(), digit.factors.end());
      }
    findLimits();
    for (auto [i, digit] : llvm::enumerate(digits)) // before they are sorted: sites count them
      digit.isInAll = llvm::all_of(sites, [i = i](const Site &site) { return hasDigit(site, i); });
    llvm::stable_sort(digits, [](const Digit &a, const Digit &b) { return a.order() < b.order(); });
    if (!axes.empty())
      llvm::stable_sort(digits, [&](const Digit &a, const Digit &b) { return rank(a) < rank(b); });
    if (!placeAll())
      return result;
    auto hasDigit = [&](Atom::Kind kind, unsigned number) {
      return llvm::any_of(digits, [&](const Digit &digit) {
        return digit.atom.kind == kind && digit.atom.number == number;
      });
    };
    for (unsigned place = 0; coordinates && place < coordinates->all.size(); ++place)
      if (!hasDigit(Atom::Place, place))
        result.shared.push_back(place);
    for (unsigned axis = 0; allPrograms && !coordinates && axis < 3; ++axis)
      if (!hasDigit(Atom::ProgramId, axis))
        result.singleAxes.push_back(axis);
    return result;
  }

  ArrayRef<Site> seen() const { return sites; }

  /// The strides of program ids; nothing where a position counts down.
  std::optional<std::map<unsigned, Size>> programStrides() const {
    std::map<unsigned, Size> strides;
    for (const Digit &digit : digits) {
      if (digit.countsDown)
        return std::nullopt;
      if (digit.atom.kind == Atom::ProgramId)
        strides[digit.atom.number] = digit.stride;
    }
    return strides;
  }

private:
  /// What stands inside a program, then program ids in the order of `axes`.
  size_t rank(const Digit &digit) const {
    return digit.atom.kind == Atom::ProgramId
               ? 1 + (llvm::find(axes, digit.atom.number) - axes.begin())
               : 0;
  }

  bool isMoving(const Atom &atom, const Site &site) const {
    if (atom.kind == Atom::Lane)
      return true;
    if (atom.kind == Atom::ProgramId || atom.kind == Atom::Place)
      return allPrograms;
    return atom.kind == Atom::Round && scope != Scope::Lanes &&
           llvm::is_contained(site.loops, atom.loop());
  }

  /// Whether a factor is the same where it has to be.
  bool isFixed(const Atom &atom) const {
    if (atom.kind == Atom::Programs)
      return true;
    if (scope != Scope::Rounds)
      return atom.kind == Atom::Symbol && isUniform(atom.symbol());
    if (atom.kind == Atom::Symbol)
      return !outermost || !outermost->isAncestor(atom.symbol().getParentBlock()->getParentOp());
    return atom.kind == Atom::ProgramId;
  }

  /// The positions and strides of one access: digits that other accesses have as well, or new ones.
  bool findDigits(size_t index) {
    Site &site = sites[index];
    std::optional<Address> address =
        coordinates ? addressIn(*coordinates, site.address, result.wraps) : addressOf(site.address);
    if (!address)
      return fail("its addresses are no sums of positions, program ids and strides");
    for (const auto &[factors, coefficient] : address->terms) {
      const Atom *moving = nullptr;
      std::vector<Atom> rest;
      bool isKnown = true;
      for (const Atom &factor : factors) {
        if (isMoving(factor, site)) {
          if (moving)
            return fail("its addresses are products of positions");
          moving = &factor;
        } else {
          isKnown &= isFixed(factor);
          rest.push_back(factor);
        }
      }
      if (!isKnown && (moving || scope != Scope::Lanes))
        return fail("its addresses come from values that are computed or loaded");
      if (!moving) {
        site.fixed[factors] = coefficient;
        continue;
      }
      if (moving->kind == Atom::Lane && moving->extent == 1)
        continue;
      if (coefficient == std::numeric_limits<int64_t>::min())
        return fail("its addresses are too far apart");
      if (coefficient < 0 && sites.size() > 1)
        return fail("a stride is negative");
      if (llvm::any_of(site.digits, [&](const auto &known) { return known.first == *moving; }))
        return fail("its addresses depend on one position in two ways");
      // Counted from the other end, a position with a negative stride has a positive one.
      size_t digit = digitFor(*moving, Size{{rest, std::abs(coefficient)}}, site);
      digits[digit].countsDown = coefficient < 0;
      site.digits.emplace_back(*moving, digit);
    }
    return checkPositions(site, index);
  }

  static bool hasDigit(const Site &site, size_t digit) {
    return llvm::any_of(site.digits, [&](const auto &known) { return known.second == digit; });
  }

  /// The digit of a position in this site's addresses.
  size_t digitFor(const Atom &atom, const Size &stride, const Site &site) {
    for (auto [i, digit] : llvm::enumerate(digits)) {
      if (hasDigit(site, i) || digit.atom.kind != atom.kind || digit.stride != stride)
        continue;
      if (atom.kind == Atom::Lane)
        digit.atom.extent = std::max(digit.atom.extent, atom.extent);
      else if (atom.kind == Atom::Round ? !haveSameRounds(cast<scf::ForOp>(digit.atom.loop()),
                                                          cast<scf::ForOp>(atom.loop()))
                                        : digit.atom.number != atom.number)
        continue;
      return i;
    }
    Atom own = atom;
    if (own.kind == Atom::Lane) // dimensions of other accesses have the same numbers
      own.number += 16 * (&site - sites.begin());
    digits.push_back({own, stride, {}, false, std::nullopt});
    return digits.size() - 1;
  }

  bool checkPositions(Site &site, size_t index) {
    auto has = [&](Atom::Kind kind, auto matches) {
      return llvm::any_of(site.digits, [&](const auto &known) {
        return known.first.kind == kind && matches(known.first);
      });
    };
    if (scope != Scope::Lanes)
      for (Operation *loop : site.loops) {
        auto block =
            coordinates ? coordinates->rounds.lookup(loop) : std::pair<unsigned, int64_t>();
        site.sharesRounds |=
            block.second
                ? !has(Atom::Place, [&](const Atom &atom) { return atom.number == block.first; })
                : !has(Atom::Round, [&](const Atom &atom) { return atom.loop() == loop; });
      }
    if ((scope == Scope::Rounds || scope == Scope::Tiles) && site.sharesRounds)
      return fail("the rounds of a loop share addresses");
    // A dimension of the block that does not move the address: its lanes meet.
    if (auto type = dyn_cast<RankedTensorType>(site.address.getType());
        type && scope != Scope::Rounds && scope != Scope::BetweenPrograms)
      for (unsigned i = 0; i < type.getRank(); ++i)
        if (type.getDimSize(i) > 1 &&
            !has(Atom::Lane, [&](const Atom &atom) { return atom.number == i; }))
          return fail("lanes of one program share addresses");
    // Programs differ in the same way in all accesses.
    for (unsigned axis = 0; allPrograms && axis < 3; ++axis) {
      auto digitOf = [&](const Site &of) -> std::optional<size_t> {
        for (const auto &[atom, digit] : of.digits)
          if (atom.kind == Atom::ProgramId && atom.number == axis)
            return digit;
        return std::nullopt;
      };
      if (digitOf(site) != digitOf(sites[0]))
        return fail("its loads depend on program ids in different ways");
    }
    return true;
  }

  /// Distances between accesses, of each product of numbers: they are digits, too. A distance is
  /// divided by the strides of the same product: what remains lies within a stride, the rest
  /// counts strides.
  bool findDistances() {
    std::set<std::vector<Atom>> products;
    for (Site &site : sites)
      for (const auto &[factors, coefficient] : site.fixed)
        products.insert(factors);
    for (const std::vector<Atom> &factors : products) {
      SmallVector<int64_t> places;
      for (Site &site : sites) {
        auto found = site.fixed.find(factors);
        places.push_back(found == site.fixed.end() ? 0 : found->second);
      }
      int64_t least = *llvm::min_element(places);
      for (int64_t &place : places)
        if (llvm::SubOverflow(place, least, place))
          return fail("its addresses are too far apart");
      SmallVector<int64_t> strides;
      for (const Digit &digit : digits)
        if (!digit.span && digit.stride.begin()->first == factors)
          strides.push_back(digit.constantStride());
      llvm::sort(strides);
      for (int64_t stride : strides) {
        SmallVector<int64_t> inside;
        for (int64_t &place : places) {
          inside.push_back(place % stride);
          place -= inside.back();
        }
        addDistance(factors, inside);
      }
      addDistance(factors, places);
    }
    return true;
  }

  void addDistance(const std::vector<Atom> &factors, SmallVector<int64_t> places) {
    llvm::sort(places);
    places.erase(llvm::unique(places), places.end());
    if (places.size() < 2)
      return;
    int64_t step = places[1] - places[0];
    for (size_t i = 1; i < places.size(); ++i)
      step = std::min(step, places[i] - places[i - 1]);
    std::vector<Atom> all(factors);
    all.push_back({Atom::Lane, unsigned(1000 + digits.size()), 0});
    digits.push_back({all.back(), Size{{factors, step}}, all, false,
                      Size{{factors, places.back() - places.front()}}});
  }

  /// Digits whose strides have the same factors stand together: of a matrix with two strides known
  /// at run time, first all of the dimension that lanes run along last.
  void groupDigits() {
    auto factorsOf = [](const Digit &digit) { return digit.stride.begin()->first; };
    std::map<std::vector<Atom>, int64_t> lastLane;
    for (const Digit &digit : digits) {
      int64_t &last = lastLane.try_emplace(factorsOf(digit), -1).first->second;
      if (digit.atom.kind == Atom::Lane)
        last = std::max<int64_t>(last, digit.atom.number);
    }
    llvm::stable_sort(digits, [&](const Digit &a, const Digit &b) {
      auto key = [&](const Digit &digit) {
        return std::tuple(factorsOf(digit).size(), -lastLane[factorsOf(digit)], factorsOf(digit));
      };
      return key(a) < key(b);
    });
  }

  /// Whether several products of numbers known at run time are strides: their order is not known.
  bool hasGroups() const {
    std::set<std::vector<Atom>> products;
    for (const Digit &digit : digits)
      if (!digit.stride.begin()->first.empty())
        products.insert(digit.stride.begin()->first);
    return (scope == Scope::Programs || scope == Scope::Tiles) && sites.size() == 1 &&
           products.size() > 1;
  }

  /// In groups, whose order is found at run time; where that does not do, in the order in which
  /// authors write strides.
  bool placeAll() {
    if (hasGroups()) {
      SmallVector<Digit> sorted = digits;
      Ownership before = result;
      bool hadProgram = hasProgram;
      groupDigits();
      if (placeGroups())
        return true;
      digits = sorted;
      result = before;
      hasProgram = hadProgram;
      groupBegin.reset();
      reach = constant(1);
      isUnknown = false;
    }
    if (coordinates)
      groupDigits();
    for (size_t i = 0; i < digits.size(); ++i)
      if (!place(i))
        return false;
    return true;
  }

  /// Each group is placed by itself, as if its product were 1.
  bool placeGroups() {
    for (size_t end = 0; end < digits.size();) {
      groupBegin = end;
      std::vector<Atom> factors = digits[end].stride.begin()->first;
      for (; end < digits.size() && digits[end].stride.begin()->first == factors; ++end)
        digits[end].stride = constant(digits[end].constantStride());
      reach = constant(1);
      isUnknown = false;
      for (size_t i = *groupBegin; i < end; ++i)
        if (!place(i))
          return false;
      std::optional<Size> bound = boundBefore(end);
      if (isUnknown && !bound)
        return fail("how far an address moves in a loop is not limited");
      result.groups.push_back({Size{{factors, 1}}, std::nullopt, bound});
      if (!isUnknown)
        result.groups.back().reach = reach;
    }
    return true;
  }

  /// What a mask says: the sum of some digits is below a number.
  struct Limit {
    std::map<std::vector<Atom>, int64_t> digits;
    Size bound;

    bool operator==(const Limit &) const = default;
  };

  /// Those that the masks of all accesses imply.
  void findLimits() {
    for (auto [i, site] : llvm::enumerate(sites)) {
      SmallVector<Limit> found;
      for (const Wrap &wrap : result.wraps)
        addLimit(site, wrap.sum, wrap.bound, found);
      if (site.mask)
        findLimits(site, site.mask, dimsOf(site.mask), found);
      if (i == 0)
        limits = found;
      else
        llvm::erase_if(limits,
                       [&](const Limit &limit) { return !llvm::is_contained(found, limit); });
    }
  }

  /// `dims`: of each dimension of the mask, which one of the site's it is.
  void findLimits(const Site &site, Value mask, ArrayRef<unsigned> dims, SmallVector<Limit> &found,
                  unsigned depth = 0) {
    Operation *op = mask.getDefiningOp();
    if (!op || depth > 16)
      return;
    if (isa<tile::BroadcastOp>(op))
      return findLimits(site, op->getOperand(0), dims, found, depth + 1);
    if (isa<tile::SplatOp>(op))
      return findLimits(site, op->getOperand(0), {}, found, depth + 1);
    if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
      SmallVector<unsigned> rest(dims);
      rest.erase(rest.begin() + expand.getAxis());
      return findLimits(site, expand.getSrc(), rest, found, depth + 1);
    }
    if (isa<arith::AndIOp>(op)) {
      findLimits(site, op->getOperand(0), dims, found, depth + 1);
      return findLimits(site, op->getOperand(1), dims, found, depth + 1);
    }
    auto compare = dyn_cast<arith::CmpIOp>(op);
    if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt)
      return;
    SmallVector<Wrap> wraps;
    auto read = [&](Value value) {
      return coordinates ? addressIn(*coordinates, value, dims, wraps) : addressOf(value, dims);
    };
    std::optional<Address> left = read(compare.getLhs()), right = read(compare.getRhs());
    if (left && right && wraps.empty() && !left->base && !right->base)
      addLimit(site, *left, *right, found);
  }

  /// left < right.
  void addLimit(const Site &site, const Address &left, const Address &right,
                SmallVector<Limit> &found) {
    Limit limit;
    for (auto [side, sign] : {std::pair(&left, 1), std::pair(&right, -1)})
      for (const auto &[factors, coefficient] : side->terms) {
        bool moves = llvm::any_of(factors, [&](const Atom &atom) { return isMoving(atom, site); });
        if (!moves && !llvm::all_of(factors, [&](const Atom &atom) { return isFixed(atom); }))
          return;
        std::vector<Atom> common(factors);
        for (Atom &atom : common)
          for (const auto &[own, digit] : site.digits)
            if (atom == own) {
              atom = digits[digit].atom;
              break;
            }
        if (!add(moves ? limit.digits : limit.bound, Size{{common, coefficient}},
                 moves ? sign : -sign))
          return;
      }
    found.push_back(limit);
  }

  /// What the digits so far reach together, as a mask limits them.
  std::optional<Size> boundBefore(size_t index) const {
    if (groupBegin)
      return index > *groupBegin ? boundOfGroup(index) : std::nullopt;
    std::map<std::vector<Atom>, int64_t> sum;
    for (size_t i = 0; i < index; ++i) {
      if (digits[i].countsDown)
        return std::nullopt; // the bound is then no distance from the least address
      sum[digits[i].factors] = digits[i].constantStride();
    }
    for (const Limit &limit : limits)
      if (index && limit.digits == sum)
        return limit.bound;
    return index && scope != Scope::BetweenPrograms ? boundOfGroup(index) : std::nullopt;
  }

  /// The same where a mask limits the positions that one stride multiplies: what is inside fits
  /// into the stride.
  std::optional<Size> boundOfGroup(size_t index) const {
    const std::vector<Atom> &factors = digits[index - 1].stride.begin()->first;
    for (size_t begin = index; begin > groupBegin.value_or(0);) {
      --begin;
      if (digits[begin].countsDown || digits[begin].stride.begin()->first != factors)
        return std::nullopt;
      // Positions, and numbers of the first of these strides.
      const int64_t stride = digits[begin].constantStride();
      std::map<std::vector<Atom>, int64_t> positions;
      bool isMultiple = true;
      for (size_t i = begin; i < index; ++i) {
        isMultiple &= digits[i].constantStride() % stride == 0;
        positions[{digits[i].atom}] = digits[i].constantStride() / stride;
      }
      Size bound;
      for (const Limit &limit : limits)
        if (isMultiple && limit.digits == positions && add(bound, limit.bound, stride, factors))
          return bound;
    }
    return std::nullopt;
  }

  static std::optional<int64_t> difference(Size a, const Size &b) {
    return add(a, b, -1) ? constantOf(a) : std::nullopt;
  }

  void require(const Size &stride, const std::optional<Size> &bound) {
    Requirement requirement{stride, std::nullopt, bound};
    if (!isUnknown)
      requirement.reach = reach;
    result.requirements.push_back(requirement);
  }

  /// Requires that the stride of a digit is at least what the smaller ones reach.
  bool place(size_t index) {
    const Digit &digit = digits[index];
    if (scope == Scope::BetweenPrograms && !hasProgram) {
      if (std::optional<Size> masked = boundBefore(index)) { // elsewhere nothing is accessed
        reach = *masked;
        isUnknown = false;
      }
      if (digit.atom.kind != Atom::ProgramId) {
        if (leastOf(digit.stride) < 0) // what is reached is counted upwards
          result.requirements.push_back({digit.stride, Size(), std::nullopt});
        return extend(digit); // what is inside may meet
      }
      hasProgram = true;
    }
    std::optional<Size> bound = boundBefore(index);
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
    if (digit.span)
      fits = add(reach, *digit.span);
    else if (digit.atom.kind == Atom::Lane)
      fits = add(reach, digit.stride, digit.atom.extent - 1);
    else if (digit.atom.kind == Atom::Place)
      fits = extendByPlaces(digit);
    else if (digit.atom.kind == Atom::ProgramId)
      fits = add(reach, digit.stride, 1, {Atom{Atom::Programs, digit.atom.number}}) &&
             add(reach, digit.stride, -1);
    else
      fits = extendByRounds(digit, cast<scf::ForOp>(digit.atom.loop()));
    return fits || fail("its addresses are too far apart");
  }

  /// By the extent of the coordinate, without one.
  bool extendByPlaces(const Digit &digit) {
    std::optional<Address> extent = addressOf(coordinates->all[digit.atom.number].extent);
    if (!extent)
      return false;
    const auto &[factors, coefficient] = *digit.stride.begin();
    return add(reach, extent->terms, coefficient, factors) && add(reach, digit.stride, -1);
  }

  /// All rounds but the first move by less than the length of the loop.
  bool extendByRounds(const Digit &digit, scf::ForOp loop) {
    APInt step;
    std::optional<Address> length = addressOf(loop.getUpperBound()),
                           from = addressOf(loop.getLowerBound());
    const auto &[factors, coefficient] = *digit.stride.begin();
    isUnknown = isUnknown || !length || !from || !add(length->terms, from->terms, -1) ||
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
    // Without rounds, accesses outside of the loop still reach what they reach.
    if (!digit.isInAll)
      result.requirements.push_back({length->terms, constant(1), std::nullopt});
    for (const auto &[of, count] : length->terms)
      if (!add(reach, Size{{of, count}}, each, factors))
        return false;
    return add(reach, Size{{factors, each}}, -1);
  }

  bool fail(const std::string &why) {
    result.why = why;
    return false;
  }

  const Scope scope;
  const bool allPrograms;
  const Coordinates *const coordinates;
  const ArrayRef<unsigned> axes;
  Ownership result;
  SmallVector<Site> sites;
  Operation *outermost = nullptr;
  bool hasProgram = false; ///< whether a digit that was placed is a program id
  SmallVector<Digit> digits;
  SmallVector<Limit> limits;
  Size reach = constant(1);         ///< one more than what the digits so far reach together
  std::optional<size_t> groupBegin; ///< the first digit of the group that is being placed
  bool isUnknown = false; ///< whether that is not known, the rounds of a loop being among them
};

/// Whether each stride is more than what the smaller ones reach together, an i1.
Value groupsStandApart(ArrayRef<Group> groups, OpBuilder &builder, Location loc,
                       llvm::function_ref<Value(Value)> here) {
  using Predicate = arith::CmpIPredicate;
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  };
  auto compare = [&](Predicate predicate, Value x, Value y) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, x, y);
  };
  SmallVector<Value> strides, spans, areFixed;
  Value zero = number(0), one = number(1), all;
  for (const Group &group : groups) {
    strides.push_back(valueOf(group.stride, builder, loc, here));
    Value count;
    for (const std::optional<Size> &size : {group.reach, group.bound})
      if (size) {
        Value value = valueOf(*size, builder, loc, here);
        count = count ? arith::MinSIOp::create(builder, loc, count, value).getResult() : value;
      }
    Value moves =
        arith::MaxSIOp::create(builder, loc, arith::SubIOp::create(builder, loc, count, one), zero);
    areFixed.push_back(compare(Predicate::eq, moves, zero));
    spans.push_back(arith::MulIOp::create(builder, loc, moves, strides.back()));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    Value reach = one;
    for (size_t k = 0; k < groups.size(); ++k) {
      if (k == i)
        continue;
      Value isInside = compare(k < i ? Predicate::sle : Predicate::slt, strides[k], strides[i]);
      reach = arith::AddIOp::create(
          builder, loc, reach, arith::SelectOp::create(builder, loc, isInside, spans[k], zero));
    }
    // Of one position the stride does not matter.
    Value apart =
        arith::OrIOp::create(builder, loc, areFixed[i], compare(Predicate::sge, strides[i], reach));
    all = all ? arith::AndIOp::create(builder, loc, all, apart).getResult() : apart;
  }
  return all;
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
  auto holdsFor = [&](const Requirement &requirement) {
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
    return suffices;
  };
  auto holdForAll = [&](ArrayRef<Requirement> list) {
    Value hold = number(1, 1);
    for (const Requirement &requirement : list)
      hold = arith::AndIOp::create(builder, loc, hold, holdsFor(requirement));
    return hold;
  };
  Value oneHolds = holdForAll(requirements);
  for (ArrayRef<Requirement> other : alternatives)
    oneHolds = arith::OrIOp::create(builder, loc, oneHolds, holdForAll(other));
  require(oneHolds);
  if (!groups.empty())
    require(groupsStandApart(groups, builder, loc, here));
  if (holds)
    require(holds);
  return all;
}

std::string Ownership::words(func::FuncOp kernel) const {
  std::string text = holdsInWords;
  auto add = [&](const std::string &condition) {
    text += (text.empty() ? "" : " and ") + condition;
  };
  for (unsigned axis : singleAxes)
    add("the grid has one program along axis " + std::to_string(axis));
  auto listed = [&](ArrayRef<Requirement> list) {
    std::string words;
    for (const Requirement &requirement : list) {
      std::string least = requirement.bound ? wordsOf(*requirement.bound, kernel) : "";
      if (requirement.reach)
        least += (least.empty() ? "" : " or ") + wordsOf(*requirement.reach, kernel);
      words += (words.empty() ? "" : " and ") + wordsOf(requirement.stride, kernel) +
               " is at least " + least;
    }
    return words;
  };
  if (!requirements.empty()) {
    std::string words = listed(requirements);
    for (ArrayRef<Requirement> other : alternatives)
      words += ", or " + listed(other);
    add((alternatives.empty() ? "" : "either ") + words);
  }
  std::string strides;
  for (const Group &group : groups)
    if (!group.stride.begin()->first.empty())
      strides += (strides.empty() ? "" : ", ") + wordsOf(group.stride, kernel);
  if (!groups.empty())
    add("each of the strides " + strides + " is more than what smaller ones reach");
  return text;
}

/// Whether a loop is around both.
static bool shareLoop(Operation *a, Operation *b) {
  for (Operation *parent = a->getParentOp(); parent; parent = parent->getParentOp())
    if (isa<scf::ForOp>(parent) && parent->isAncestor(b))
      return true;
  return false;
}

/// Of loads of one tensor that may meet in a program: that programs reach elements of their own.
/// The loads together are looked at first. Otherwise each one by itself: if all reach less than the
/// strides of the same program ids, counted from the same place, none meets another program's. The
/// order of these strides is found at run time.
static Ownership ownershipBetweenPrograms(ArrayRef<Site> sites) {
  Ownership together = Reasoner(llvm::to_vector(sites), Scope::BetweenPrograms).run();
  if (sites.size() == 1 || (together.why.empty() && together.isUnconditional()))
    return together;
  SmallVector<Ownership, 0> found;
  if (together.why.empty())
    found.push_back(together);
  std::array<unsigned, 3> axes{0, 1, 2};
  do {
    Ownership all;
    std::optional<std::map<unsigned, Size>> strides;
    for (const Site &site : sites) {
      Reasoner reasoner({site}, Scope::BetweenPrograms, nullptr, axes);
      Ownership one = reasoner.run();
      std::optional<std::map<unsigned, Size>> own = reasoner.programStrides();
      const bool isFirst = &site == sites.begin();
      if (isFirst)
        strides = own;
      if (!one.why.empty() || !own || own != strides || reasoner.seen()[0].fixed != Size())
        all.why = "its loads depend on program ids in different ways";
      all.singleAxes = one.singleAxes;
      for (const Requirement &requirement : one.requirements)
        if (!llvm::is_contained(all.requirements, requirement))
          all.requirements.push_back(requirement);
    }
    if (!all.why.empty())
      continue;
    if (all.requirements.empty())
      return all;
    if (llvm::none_of(
            found, [&](const Ownership &known) { return known.requirements == all.requirements; }))
      found.push_back(all);
  } while (std::next_permutation(axes.begin(), axes.end()));
  if (found.empty())
    return together;
  for (const Ownership &other : ArrayRef(found).drop_front())
    found.front().alternatives.push_back(other.requirements);
  return found.front();
}

SharedOwnership ownershipOf(ArrayRef<tile::LoadOp> loads) {
  SmallVector<Site> sites;
  for (tile::LoadOp load : loads)
    sites.emplace_back(load, load.getPtr(), load.getMask());
  SharedOwnership shared;
  Reasoner apart(sites, Scope::Programs);
  shared.owner = apart.run();
  bool mayMeet = !shared.owner.why.empty();
  SmallVector<bool> sharesRounds;
  for (const Site &site : apart.seen())
    sharesRounds.push_back(site.sharesRounds);
  if (mayMeet) {
    Ownership programs = ownershipBetweenPrograms(sites);
    Ownership lanes = ownershipOfLanes(loads);
    if (programs.why.empty())
      programs.why = lanes.why;
    programs.requirements.append(lanes.requirements);
    for (auto &other : programs.alternatives)
      other.append(lanes.requirements);
    if (!programs.why.empty()) {
      if (loads.size() == 1)
        return shared;
      shared.owner = programs;
      return shared;
    }
    shared.owner = programs;
    for (auto [site, shares] : llvm::zip(sites, sharesRounds)) {
      Ownership rounds = ownershipOfRounds(site.access, site.address, site.mask);
      shares = !rounds.why.empty() || !rounds.requirements.empty();
    }
  }
  // The program runs backwards: later loads add first.
  for (auto [i, load] : llvm::enumerate(loads)) {
    bool isFirst = !sharesRounds[i];
    for (auto [j, other] : llvm::enumerate(loads)) {
      bool meet = i != j && (mayMeet || apart.seen()[i].fixed == apart.seen()[j].fixed);
      if (meet && (shareLoop(load, other) || (j > i && !exclude(load, other))))
        isFirst = false;
    }
    shared.isFirst.push_back(isFirst);
  }
  return shared;
}

Ownership ownershipOfLanes(ArrayRef<tile::LoadOp> loads) {
  Ownership all;
  for (tile::LoadOp load : loads) {
    Ownership lanes = Reasoner({Site(load, load.getPtr(), load.getMask())}, Scope::Lanes).run();
    if (all.why.empty())
      all.why = lanes.why;
    for (const Requirement &requirement : lanes.requirements)
      if (!llvm::is_contained(all.requirements, requirement))
        all.requirements.push_back(requirement);
  }
  return all;
}

Ownership ownershipIn(const Coordinates &coordinates, tile::LoadOp load) {
  Ownership owner =
      Reasoner({Site(load, load.getPtr(), load.getMask())}, Scope::Tiles, &coordinates).run();
  owner.holds = coordinates.holds;
  owner.holdsInWords = coordinates.words;
  return owner;
}

Ownership ownershipOfRounds(Operation *access, Value address, Value mask) {
  return Reasoner({Site(access, address, mask)}, Scope::Rounds).run();
}

} // namespace nereid::differentiate

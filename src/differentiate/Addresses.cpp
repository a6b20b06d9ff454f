#include "differentiate/Addresses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::differentiate {
namespace {

/// No address of a program that anybody writes has more summands.
constexpr size_t mostTerms = 64;

Address constant(int64_t value) {
  Address result;
  if (value)
    result.terms[{}] = value;
  return result;
}

Address atom(Atom factor) {
  Address result;
  result.terms[{factor}] = 1;
  return result;
}

/// a + factor * b; nothing when it overflows or two bases meet.
std::optional<Address> sum(Address a, const Address &b, int64_t factor = 1) {
  if (a.base && b.base)
    return std::nullopt;
  if (b.base)
    a.base = b.base;
  for (const auto &[factors, coefficient] : b.terms) {
    int64_t product, total;
    if (llvm::MulOverflow(coefficient, factor, product) ||
        llvm::AddOverflow(a.terms[factors], product, total))
      return std::nullopt;
    if (total)
      a.terms[factors] = total;
    else
      a.terms.erase(factors);
  }
  return a.terms.size() > mostTerms ? std::nullopt : std::optional(std::move(a));
}

std::optional<Address> product(const Address &a, const Address &b) {
  if (a.base || b.base || a.terms.size() * b.terms.size() > mostTerms)
    return std::nullopt;
  Address result;
  for (const auto &[left, c] : a.terms)
    for (const auto &[right, d] : b.terms) {
      std::vector<Atom> factors(left);
      factors.insert(factors.end(), right.begin(), right.end());
      std::sort(factors.begin(), factors.end());
      Address term;
      if (llvm::MulOverflow(c, d, term.terms[factors]))
        return std::nullopt;
      auto total = sum(std::move(result), term);
      if (!total)
        return std::nullopt;
      result = std::move(*total);
    }
  return result;
}

class Reader {
public:
  /// `dims`: of each dimension of the value, which one of the block it is.
  std::optional<Address> read(Value value, ArrayRef<unsigned> dims) {
    if (++steps > 2000)
      return std::nullopt;
    bool isScalar = !isa<RankedTensorType>(value.getType());
    Operation *op = value.getDefiningOp();
    if (!op) // an argument of the kernel, or carried by a loop
      return isa<tile::PtrType>(value.getType()) ? base(value) : symbol(value);
    APInt number;
    if (matchPattern(value, m_ConstantInt(&number)))
      return number.getSignificantBits() <= 64 ? std::optional(constant(number.getSExtValue()))
                                               : std::nullopt;
    if (auto id = dyn_cast<tile::ProgramIdOp>(op))
      return atom({Atom::ProgramId, id.getAxis()});
    if (auto range = dyn_cast<tile::RangeOp>(op)) {
      int64_t begin = int32_t(range.getStart()), end = int32_t(range.getEnd());
      return sum(atom({Atom::Lane, dims[0], end - begin}), constant(begin));
    }
    if (isa<tile::AddPtrOp, arith::AddIOp>(op))
      return both(op, dims, [](Address a, const Address &b) { return sum(std::move(a), b); });
    if (isa<arith::SubIOp>(op))
      return both(op, dims, [](Address a, const Address &b) { return sum(std::move(a), b, -1); });
    if (isa<arith::MulIOp>(op))
      return both(op, dims, [](const Address &a, const Address &b) { return product(a, b); });
    if (isa<arith::ExtSIOp, arith::IndexCastOp, tile::HintOp>(op))
      return read(op->getOperand(0), dims);
    if (isa<tile::SplatOp>(op))
      return read(op->getOperand(0), {});
    if (isa<tile::BroadcastOp>(op))
      return read(op->getOperand(0), dims);
    if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
      SmallVector<unsigned> rest(dims);
      rest.erase(rest.begin() + expand.getAxis());
      return read(expand.getSrc(), rest);
    }
    if (auto trans = dyn_cast<tile::TransOp>(op)) {
      SmallVector<unsigned> order(dims.size());
      for (auto [i, dim] : llvm::enumerate(trans.getOrder()))
        order[dim] = dims[i];
      return read(trans.getSrc(), order);
    }
    if (isScalar)
      return isa<tile::PtrType>(value.getType()) ? std::nullopt : symbol(value);
    return std::nullopt;
  }

private:
  static std::optional<Address> base(Value value) {
    if (!isa<BlockArgument>(value) ||
        !isa<FunctionOpInterface>(value.getParentBlock()->getParentOp()))
      return std::nullopt;
    Address result;
    result.base = value;
    return result;
  }

  static std::optional<Address> symbol(Value value) {
    if (isa<RankedTensorType>(value.getType()))
      return std::nullopt;
    return atom({Atom::Symbol, 0, 0, value.getAsOpaquePointer()});
  }

  template <typename Combine>
  std::optional<Address> both(Operation *op, ArrayRef<unsigned> dims, Combine combine) {
    std::optional<Address> a = read(op->getOperand(0), dims), b = read(op->getOperand(1), dims);
    return a && b ? combine(std::move(*a), *b) : std::nullopt;
  }

  unsigned steps = 0;
};

/// The least and the largest of what a sum adds to the terms that have no lanes; nothing when a
/// lane is scaled by more than a number.
std::optional<std::pair<int64_t, int64_t>> lanesOf(Address &address) {
  int64_t least = 0, largest = 0;
  for (auto at = address.terms.begin(); at != address.terms.end();) {
    const auto &[factors, coefficient] = *at;
    if (llvm::none_of(factors, [](const Atom &each) { return each.kind == Atom::Lane; })) {
      ++at;
      continue;
    }
    int64_t span;
    if (factors.size() != 1 || llvm::MulOverflow(coefficient, factors[0].extent - 1, span) ||
        llvm::AddOverflow(span < 0 ? least : largest, span, span < 0 ? least : largest))
      return std::nullopt;
    at = address.terms.erase(at);
  }
  return std::pair(least, largest);
}

} // namespace

std::optional<Address> addressOf(Value value) {
  SmallVector<unsigned> dims;
  if (auto type = dyn_cast<RankedTensorType>(value.getType()))
    for (int64_t i = 0; i < type.getRank(); ++i)
      dims.push_back(i);
  return Reader().read(value, dims);
}

bool neverMeet(Value first, Value second) {
  std::optional<Address> a = addressOf(first), b = addressOf(second);
  if (!a || !b || a->base != b->base)
    return false;
  auto lanesA = lanesOf(*a), lanesB = lanesOf(*b);
  if (!lanesA || !lanesB)
    return false;
  a->base = Value();
  b->base = Value();
  std::optional<Address> distance = sum(*b, *a, -1);
  if (!distance || distance->terms.size() > 1 ||
      (distance->terms.size() == 1 && !distance->terms.begin()->first.empty()))
    return false;
  int64_t apart = distance->terms.empty() ? 0 : distance->terms.begin()->second;
  // The second lies wholly behind the first, or before it.
  return apart + lanesB->first > lanesA->second || apart + lanesB->second < lanesA->first;
}

//===--- ownership
//--------------------------------------------------------------------------------===//

namespace {

/// A summand that differs between lanes or programs.
struct Digit {
  Atom atom;
  int64_t coefficient;
  Value stride; ///< a factor known at run time, or null

  bool isUnlimited() const { return atom.kind == Atom::ProgramId; }
};

bool isArgument(const void *value) {
  auto argument = dyn_cast<BlockArgument>(Value::getFromOpaquePointer(value));
  return argument && isa<FunctionOpInterface>(argument.getOwner()->getParentOp());
}

/// The argument of the kernel that a mask keeps the positions of a lane below; null if none.
Value boundOf(Value mask, unsigned lane, unsigned depth = 0) {
  Operation *op = mask ? mask.getDefiningOp() : nullptr;
  if (!op || depth > 16)
    return {};
  if (isa<tile::BroadcastOp>(op))
    return boundOf(op->getOperand(0), lane, depth + 1);
  if (isa<arith::AndIOp>(op))
    for (Value side : op->getOperands())
      if (Value bound = boundOf(side, lane, depth + 1))
        return bound;
  auto compare = dyn_cast<arith::CmpIOp>(op);
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt)
    return {};
  std::optional<Address> left = addressOf(compare.getLhs()), right = addressOf(compare.getRhs());
  auto only = [](const std::optional<Address> &address, Atom::Kind kind) -> const Atom * {
    if (!address || address->base || address->terms.size() != 1)
      return nullptr;
    const auto &[factors, coefficient] = *address->terms.begin();
    return coefficient == 1 && factors.size() == 1 && factors[0].kind == kind ? &factors[0]
                                                                              : nullptr;
  };
  const Atom *position = only(left, Atom::Lane), *symbol = only(right, Atom::Symbol);
  if (!position || !symbol || position->number != lane || !isArgument(symbol->value))
    return {};
  return Value::getFromOpaquePointer(symbol->value);
}

/// The digits of an address; empty with the reason in `why` when it has others.
SmallVector<Digit> digitsOf(const Address &address, std::string &why) {
  SmallVector<Digit> digits;
  for (const auto &[factors, coefficient] : address.terms) {
    const Atom *moving = nullptr;
    Value stride;
    for (const Atom &factor : factors) {
      if (factor.kind != Atom::Symbol) {
        if (moving)
          why = "its addresses are products of positions";
        moving = &factor;
      } else if (!isArgument(factor.value)) {
        why = "its addresses come from values that are computed or loaded";
      } else {
        if (stride && factors.size() > 2)
          why = "its strides are products of numbers that are known at run time";
        stride = Value::getFromOpaquePointer(factor.value);
      }
    }
    if (!why.empty())
      return {};
    if (!moving)
      continue; // the same for all
    if (moving->kind == Atom::Lane && moving->extent == 1)
      continue;
    if (coefficient <= 0)
      why = "a stride is negative";
    for (const Digit &other : digits)
      if (other.atom == *moving)
        why = "its addresses depend on one position in two ways";
    if (!why.empty())
      return {};
    digits.push_back({*moving, coefficient, stride});
  }
  return digits;
}

} // namespace

Ownership ownershipOf(Value value, Value mask) {
  Ownership result;
  std::optional<Address> address = addressOf(value);
  if (!address) {
    result.why = "its addresses are no sums of positions, program ids and strides";
    return result;
  }
  SmallVector<Digit> digits = digitsOf(*address, result.why);
  if (!result.why.empty())
    return result;
  // A dimension of the block that does not move the address: its lanes meet.
  if (auto type = dyn_cast<RankedTensorType>(value.getType()))
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (type.getDimSize(i) > 1 && llvm::none_of(digits, [&](const Digit &digit) {
            return digit.atom.kind == Atom::Lane && digit.atom.number == i;
          }))
        result.why = "lanes of one program share addresses";
  llvm::stable_sort(digits, [](const Digit &a, const Digit &b) {
    return std::pair(bool(a.stride), a.coefficient) < std::pair(bool(b.stride), b.coefficient);
  });
  int64_t reach = 1; // one more than what the digits so far reach together
  for (auto [i, digit] : llvm::enumerate(digits)) {
    if (!result.why.empty())
      return result;
    if (digit.isUnlimited() && i + 1 != digits.size())
      result.why = "the number of programs along an axis of the grid is not limited by a stride";
    int64_t step = reach;
    if (digit.stride && !result.stride) { // the first one that is known at run time
      result.stride = digit.stride;
      result.factor = digit.coefficient;
      result.reach = reach;
      if (i == 1 && digits[0].coefficient == 1)
        result.bound = boundOf(mask, digits[0].atom.number);
      step = reach = digit.coefficient; // from here on in units of the stride
    } else if (digit.stride != result.stride) {
      result.why = "two strides are known only at run time";
    }
    if (digit.coefficient < step)
      result.why = "a stride is smaller than what the positions inside it reach";
    int64_t span;
    if (!digit.isUnlimited() &&
        (llvm::MulOverflow(digit.coefficient, digit.atom.extent - 1, span) ||
         llvm::AddOverflow(reach, span, reach)))
      result.why = "its addresses are too far apart";
  }
  if (!result.why.empty())
    return result;
  for (unsigned axis = 0; axis < 3; ++axis)
    if (llvm::none_of(digits, [&](const Digit &digit) {
          return digit.isUnlimited() && digit.atom.number == axis;
        }))
      result.singleAxes.push_back(axis);
  return result;
}

} // namespace nereid::differentiate

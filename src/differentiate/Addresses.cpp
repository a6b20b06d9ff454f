#include "differentiate/Addresses.h"

#include "differentiate/Coordinates.h"
#include "differentiate/Recurrences.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

#include <cstdlib>
#include <limits>

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

/// How deep the operands of a value are looked at: what is equal as far as that, as a value that is
/// computed twice is, may come in any order.
constexpr unsigned orderDepth = 4;

unsigned orderOf(Value value, unsigned depth = orderDepth);

/// A number from what an operation is and what it computes from.
unsigned orderOf(Operation *op, unsigned depth = orderDepth) {
  if (APInt number;
      op->getNumResults() == 1 && matchPattern(op->getResult(0), m_ConstantInt(&number)))
    return unsigned(number.getRawData()[0] * 0x9E3779B97F4A7C15u >> 32);
  uint64_t hash = llvm::xxh3_64bits(op->getName().getStringRef());
  if (depth)
    for (Value operand : op->getOperands())
      hash = 31 * hash + orderOf(operand, depth - 1);
  return unsigned(hash >> 32);
}

/// Arguments of the kernel come first, in their order.
unsigned orderOf(Value value, unsigned depth) {
  constexpr unsigned behindArguments = 1 << 16;
  unsigned number, owner = 0;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    number = argument.getArgNumber();
    if (Operation *around = argument.getOwner()->getParentOp(); isa<func::FuncOp>(around))
      return number;
    else
      owner = orderOf(around, depth ? depth - 1 : 0);
  } else {
    number = cast<OpResult>(value).getResultNumber();
    owner = orderOf(value.getDefiningOp(), depth);
  }
  return (31 * owner + number) | behindArguments;
}

/// Nothing where a coefficient is no multiple.
std::optional<Address> dividedBy(Address a, int64_t divisor) {
  for (auto &[factors, coefficient] : a.terms) {
    if (coefficient % divisor != 0)
      return std::nullopt;
    coefficient /= divisor;
  }
  return a;
}

class Reader {
  using Rounds = decltype(Coordinates::rounds);

public:
  /// `dims`: of each dimension of the value, which one of the block it is.
  std::optional<Address> read(Value value, ArrayRef<unsigned> dims) {
    if (++steps > 2000)
      return std::nullopt;
    bool isScalar = !isa<RankedTensorType>(value.getType());
    if (coordinates) {
      if (std::optional<unsigned> place = coordinates->indexOf(value))
        return atom({Atom::Place, *place});
      if (const Position *position = coordinates->positionOf(value))
        return madeOf(*position);
    }
    Operation *op = value.getDefiningOp();
    if (!op)
      return argument(cast<BlockArgument>(value), dims);
    APInt number;
    if (matchPattern(value, m_ConstantInt(&number)))
      return number.getSignificantBits() <= 64 ? std::optional(constant(number.getSExtValue()))
                                               : std::nullopt;
    if (auto id = dyn_cast<tile::ProgramIdOp>(op))
      return atom({Atom::ProgramId, id.getAxis()});
    if (auto programs = dyn_cast<tile::NumProgramsOp>(op))
      return atom({Atom::Programs, programs.getAxis()});
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
    if (isa<arith::RemSIOp>(op) && !isScalar && wraps)
      return unwrapped(op, dims);
    if (isScalar)
      return isa<tile::PtrType>(value.getType()) ? std::nullopt : symbol(value);
    return std::nullopt;
  }

  const Coordinates *coordinates = nullptr;
  SmallVectorImpl<Wrap> *wraps = nullptr;

private:
  std::optional<Address> madeOf(const Position &position) {
    if (!position.width)
      return atom({Atom::Place, position.place});
    std::optional<Address> quotient = madeOf(coordinates->positions[position.quotient]),
                           remainder = madeOf(coordinates->positions[position.remainder]),
                           width = read(position.width, {});
    if (quotient && width)
      quotient = product(*quotient, *width);
    return quotient && remainder ? sum(std::move(*quotient), *remainder) : std::nullopt;
  }

  std::optional<Address> unwrapped(Operation *op, ArrayRef<unsigned> dims) {
    std::optional<Address> sum = read(op->getOperand(0), dims),
                           bound = read(op->getOperand(1), dims);
    if (!sum || !bound || sum->base || bound->base)
      return std::nullopt;
    if (llvm::none_of(*wraps, [&](const Wrap &known) { return known.op == op; }))
      wraps->push_back({op, op->getOperand(0), *sum, *bound, SmallVector<unsigned>(dims)});
    return sum;
  }

  /// An argument of the kernel, the variable of a loop, or what a loop carries.
  std::optional<Address> argument(BlockArgument value, ArrayRef<unsigned> dims) {
    Operation *parent = value.getOwner()->getParentOp();
    bool isPointer = isa<tile::PtrType>(tile::elementOf(value.getType()));
    if (isa<FunctionOpInterface>(parent)) {
      if (!isPointer)
        return symbol(value);
      Address result;
      result.base = value;
      return result;
    }
    auto otherwise = [&] { return isPointer ? std::nullopt : symbol(value); };
    auto loop = dyn_cast<scf::ForOp>(parent);
    if (!loop)
      return otherwise();
    Address round = atom({Atom::Round, 0, 0, orderOf(loop.getOperation()), loop.getOperation()});
    if (auto block = coordinates ? coordinates->rounds.find(loop) : Rounds::const_iterator();
        coordinates && block != coordinates->rounds.end()) {
      auto [place, step] = block->second;
      if (value == loop.getInductionVar())
        return product(atom({Atom::Place, place}), constant(step));
      std::optional<Address> number = read(loop.getLowerBound(), {});
      if (number)
        number = dividedBy(*number, step);
      if (number)
        number = sum(atom({Atom::Place, place}), *number, -1);
      if (!number)
        return std::nullopt;
      round = *number;
    }
    if (value == loop.getInductionVar()) {
      std::optional<Address> first = read(loop.getLowerBound(), {});
      return first ? plusRounds(std::move(*first), loop.getStep(), {}, 1, round) : std::nullopt;
    }
    unsigned index = value.getArgNumber() - loop.getNumInductionVars();
    auto steps = stepsOf(loop, index);
    if (!steps)
      return otherwise();
    std::optional<Address> result = read(loop.getInitArgs()[index], dims);
    for (const RoundStep &step : *steps)
      if (result)
        result =
            plusRounds(std::move(*result), step.value, dims, step.isSubtracted ? -1 : 1, round);
    return result;
  }

  /// What is reached when every round adds `factor * step`.
  std::optional<Address> plusRounds(Address first, Value step, ArrayRef<unsigned> dims,
                                    int64_t factor, const Address &round) {
    std::optional<Address> each = read(step, dims);
    if (each)
      each = product(*each, round);
    return each ? sum(std::move(first), *each, factor) : std::nullopt;
  }

  static std::optional<Address> symbol(Value value) {
    if (isa<RankedTensorType>(value.getType()))
      return std::nullopt;
    return atom({Atom::Symbol, 0, 0, orderOf(value), value.getAsOpaquePointer()});
  }

  template <typename Combine>
  std::optional<Address> both(Operation *op, ArrayRef<unsigned> dims, Combine combine) {
    std::optional<Address> a = read(op->getOperand(0), dims), b = read(op->getOperand(1), dims);
    return a && b ? combine(std::move(*a), *b) : std::nullopt;
  }

  unsigned steps = 0;
};

/// A lane's part of a sum: a factor, and how many positions it runs over.
struct Lanes {
  int64_t factor, extent;
};

/// Takes the lanes out of a sum; nothing when one is scaled by more than a number.
std::optional<SmallVector<Lanes>> takeLanes(Address &address) {
  SmallVector<Lanes> lanes;
  for (auto at = address.terms.begin(); at != address.terms.end();) {
    const auto &[factors, coefficient] = *at;
    if (llvm::none_of(factors, [](const Atom &each) { return each.kind == Atom::Lane; })) {
      ++at;
      continue;
    }
    if (factors.size() != 1)
      return std::nullopt;
    lanes.push_back({coefficient, factors[0].extent});
    at = address.terms.erase(at);
  }
  return lanes;
}

/// Extends the interval by the values of lanes times `sign`, but for those that `modulus`, if not
/// 0, divides; false when that overflows.
bool extend(ArrayRef<Lanes> lanes, int64_t sign, int64_t modulus, int64_t &least,
            int64_t &largest) {
  for (const Lanes &each : lanes) {
    if (modulus && each.factor % modulus == 0)
      continue;
    int64_t span;
    if (llvm::MulOverflow(each.factor, sign * (each.extent - 1), span) ||
        llvm::AddOverflow(span < 0 ? least : largest, span, span < 0 ? least : largest))
      return false;
  }
  return true;
}

int64_t floorDivide(int64_t value, int64_t by) {
  return value / by - (value % by < 0);
}

} // namespace

SmallVector<unsigned> dimsOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return llvm::to_vector(llvm::seq<unsigned>(0, type ? type.getRank() : 0));
}

std::optional<Address> addressOf(Value value) {
  return addressOf(value, dimsOf(value));
}

std::optional<Address> addressOf(Value value, ArrayRef<unsigned> dims) {
  return Reader().read(value, dims);
}

std::optional<Address> addressIn(const Coordinates &coordinates, Value value,
                                 SmallVectorImpl<Wrap> &wraps) {
  return addressIn(coordinates, value, dimsOf(value), wraps);
}

std::optional<Address> addressIn(const Coordinates &coordinates, Value value,
                                 ArrayRef<unsigned> dims, SmallVectorImpl<Wrap> &wraps) {
  Reader reader;
  reader.coordinates = &coordinates;
  reader.wraps = &wraps;
  return reader.read(value, dims);
}

bool neverMeet(Value first, Value second) {
  std::optional<Address> a = addressOf(first), b = addressOf(second);
  if (!a || !b || a->base != b->base)
    return false;
  auto lanesA = takeLanes(*a), lanesB = takeLanes(*b);
  if (!lanesA || !lanesB)
    return false;
  a->base = Value();
  b->base = Value();
  std::optional<Address> distance = sum(*b, *a, -1);
  if (!distance)
    return false;
  int64_t apart = 0;
  if (auto at = distance->terms.find({}); at != distance->terms.end()) {
    apart = at->second;
    distance->terms.erase(at);
  }

  // The distances of two lanes are in an interval that 0 is not in.
  int64_t least = apart, largest = apart;
  if (distance->terms.empty() && extend(*lanesB, 1, 0, least, largest) &&
      extend(*lanesA, -1, 0, least, largest) && (least > 0 || largest < 0))
    return true;

  // Or this holds modulo the factor of a lane, say of rows: no distance is its multiple.
  for (const SmallVector<Lanes> *lanes : {&*lanesA, &*lanesB})
    for (const Lanes &each : *lanes) {
      if (each.factor == std::numeric_limits<int64_t>::min() || std::abs(each.factor) < 2)
        continue;
      int64_t modulus = std::abs(each.factor);
      least = largest = apart;
      if (llvm::all_of(distance->terms,
                       [&](const auto &term) { return term.second % modulus == 0; }) &&
          extend(*lanesB, 1, modulus, least, largest) &&
          extend(*lanesA, -1, modulus, least, largest) &&
          floorDivide(least - 1, modulus) == floorDivide(largest, modulus))
        return true;
    }
  return false;
}

} // namespace nereid::differentiate

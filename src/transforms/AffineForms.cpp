#include "transforms/AffineForms.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace nereid::transforms {

using namespace nereid::tile;

//===--- polynomials -------------------------------------------------------------------------===//

Polynomial Polynomial::number(int64_t value) {
  Polynomial result;
  result.add({}, value);
  return result;
}

/// A number and its sign extension are one.
static Value withoutExtension(Value value) {
  while (auto extension = value.getDefiningOp<arith::ExtSIOp>())
    value = extension.getIn();
  return value;
}

Polynomial Polynomial::of(Value value) {
  Polynomial result;
  result.add(withoutExtension(value), 1);
  return result;
}

void Polynomial::add(ArrayRef<Value> factors, int64_t coefficient) {
  for (Term &term : terms) {
    if (term.factors.size() != factors.size() ||
        !std::is_permutation(factors.begin(), factors.end(), term.factors.begin()))
      continue;
    if (llvm::AddOverflow(term.coefficient, coefficient, term.coefficient))
      valid = false;
    if (term.coefficient == 0)
      terms.erase(&term);
    return;
  }
  if (coefficient)
    terms.push_back({Factors(factors), coefficient});
}

std::optional<int64_t> Polynomial::constant() const {
  if (!valid || terms.size() > 1 || (terms.size() == 1 && !terms[0].factors.empty()))
    return std::nullopt;
  return terms.empty() ? 0 : terms[0].coefficient;
}

Value Polynomial::value() const {
  bool single = valid && terms.size() == 1 && terms[0].factors.size() == 1;
  return single && terms[0].coefficient == 1 ? terms[0].factors[0] : Value();
}

bool Polynomial::contains(Value value) const {
  return llvm::any_of(terms,
                      [&](const Term &term) { return llvm::is_contained(term.factors, value); });
}

Polynomial Polynomial::plus(const Polynomial &other, int64_t times) const {
  Polynomial result = *this;
  result.valid &= other.valid;
  for (const Term &term : other.terms) {
    int64_t coefficient;
    if (llvm::MulOverflow(term.coefficient, times, coefficient))
      result.valid = false;
    else
      result.add(term.factors, coefficient);
  }
  return result;
}

Polynomial Polynomial::times(const Polynomial &other) const {
  Polynomial result;
  result.valid = valid && other.valid;
  for (const Term &a : terms)
    for (const Term &b : other.terms) {
      int64_t coefficient;
      Factors factors = a.factors;
      factors.append(b.factors);
      if (llvm::MulOverflow(a.coefficient, b.coefficient, coefficient))
        result.valid = false;
      else
        result.add(factors, coefficient);
    }
  return result;
}

Polynomial Polynomial::dividedBy(int64_t divisor) const {
  Polynomial result = *this;
  for (Term &term : result.terms) {
    result.valid &= term.coefficient % divisor == 0;
    term.coefficient /= divisor;
  }
  return result;
}

//===--- scalars -----------------------------------------------------------------------------===//

namespace {
constexpr unsigned maxDepth = 48;
constexpr const char *notAffine = "its addresses are no sum of products with the indices";
constexpr const char *changesInLoop = "its addresses follow from what the loop computes";
constexpr const char *notAMask = "its mask is no comparison of an index with a bound";

unsigned widthOf(Type type) {
  auto integer = dyn_cast<IntegerType>(elementOf(type));
  return integer ? integer.getWidth() : 0;
}

std::optional<int64_t> constantOf(Value value) {
  APInt number;
  if (matchPattern(value, m_ConstantInt(&number)) && number.getSignificantBits() <= 64)
    return number.getSExtValue();
  return std::nullopt;
}

BlockForm formOf(Polynomial base, size_t rank) {
  BlockForm form;
  form.base = std::move(base);
  form.steps.resize(rank);
  form.wraps.resize(rank);
  return form;
}
} // namespace

bool AffineForms::isInside(Value value) const {
  return loop->isAncestor(value.getParentBlock()->getParentOp());
}

/// Notes a condition, once.
void AffineForms::require(FormCondition condition) {
  bool known = llvm::any_of(conditions, [&](const FormCondition &each) {
    return each.least == condition.least && each.most == condition.most &&
           each.sizes == condition.sizes && each.form.base == condition.form.base &&
           std::equal(each.form.steps.begin(), each.form.steps.end(), condition.form.steps.begin(),
                      condition.form.steps.end());
  });
  if (!known)
    conditions.push_back(std::move(condition));
}

void AffineForms::mustFit(const BlockForm &form, Type type) {
  bool uniform = llvm::all_of(form.steps, [](const Polynomial &step) { return step.isZero(); });
  // A number as it stands is in the range of its type.
  if (widthOf(type) >= 64 || (uniform && (form.base.constant() || form.base.value())))
    return;
  llvm::SmallVector<int64_t, 3> sizes;
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    sizes.assign(tensor.getShape().begin(), tensor.getShape().end());
  require({form, sizes, INT32_MIN, INT32_MAX});
}

void AffineForms::mustFit(const Polynomial &number, Type type) {
  mustFit(formOf(number, 0), type);
}

/// The same arithmetic of whole numbers, on operands that `of` knows.
std::optional<Polynomial>
AffineForms::arithmetic(Operation *op, std::optional<Polynomial> (AffineForms::*of)(Value)) {
  if (isa<arith::ExtSIOp>(op)) {
    std::optional<Polynomial> inner = (this->*of)(op->getOperand(0));
    if (inner)
      mustFit(*inner, op->getOperand(0).getType());
    return inner;
  }
  if (isa<HintOp>(op))
    return (this->*of)(op->getOperand(0));
  std::optional<int64_t> shift;
  if (isa<arith::ShLIOp>(op)) {
    shift = constantOf(op->getOperand(1));
    if (!shift || *shift < 0 || *shift > 30)
      return std::nullopt;
  } else if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
    return std::nullopt;
  }
  std::optional<Polynomial> left = (this->*of)(op->getOperand(0));
  if (!left)
    return std::nullopt;
  if (shift)
    return left->times(Polynomial::number(int64_t(1) << *shift));
  std::optional<Polynomial> right = (this->*of)(op->getOperand(1));
  if (!right)
    return std::nullopt;
  if (isa<arith::MulIOp>(op))
    return left->times(*right);
  return left->plus(*right, isa<arith::SubIOp>(op) ? -1 : 1);
}

/// A scalar from outside is one value, one of the loop a polynomial over the loop's variable.
std::optional<Polynomial> AffineForms::scalar(Value value) {
  if (std::optional<int64_t> number = constantOf(value))
    return Polynomial::number(*number);
  if (widthOf(value.getType()) != 32 && widthOf(value.getType()) != 64)
    return no(notAffine);
  return isInside(value) ? scalarInLoop(value) : Polynomial::of(value);
}

std::optional<Polynomial> AffineForms::scalarInLoop(Value value) {
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  if (depth > maxDepth)
    return no(notAffine);
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() != loop.getBody())
      return no(changesInLoop);
    if (argument == loop.getInductionVar())
      return Polynomial::of(value);
    return carried(argument.getArgNumber() - 1);
  }
  std::optional<Polynomial> result = arithmetic(value.getDefiningOp(), &AffineForms::scalar);
  return result ? result : no(changesInLoop);
}

/// A scalar from outside, as far as sums and products show what it is made of.
std::optional<Polynomial> AffineForms::expanded(Value value) {
  if (std::optional<int64_t> number = constantOf(value))
    return Polynomial::number(*number);
  if (isInside(value))
    return no(changesInLoop);
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  Operation *op = value.getDefiningOp();
  if (!op || depth > maxDepth)
    return Polynomial::of(value);
  // Of two factors that are no constants each is a value by itself.
  if (isa<arith::MulIOp>(op) && !constantOf(op->getOperand(0)) && !constantOf(op->getOperand(1)))
    return Polynomial::of(op->getOperand(0)).times(Polynomial::of(op->getOperand(1)));
  if (!isa<arith::ExtSIOp, arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::ShLIOp>(op))
    return Polynomial::of(value);
  std::optional<Polynomial> result = arithmetic(op, &AffineForms::expanded);
  return result ? *result : Polynomial::of(value);
}

/// What is added to `pointer` (an integer or a pointer) on the way to `end`.
std::optional<Polynomial> AffineForms::addedTo(Value pointer, Value end) {
  Polynomial sum;
  while (end != pointer) {
    Operation *op = end.getDefiningOp();
    if (!op || op->getBlock() != loop.getBody() || !isa<AddPtrOp, arith::AddIOp>(op))
      return no(changesInLoop);
    Value added = op->getOperand(1);
    end = op->getOperand(0);
    if (isa<arith::AddIOp>(op) && isInside(added))
      std::swap(added, end);
    std::optional<Polynomial> by = expanded(added);
    if (!by)
      return std::nullopt;
    if (isa<AddPtrOp>(op))
      mustFit(*by, added.getType());
    sum = sum.plus(*by);
  }
  return sum;
}

/// How far what the loop carries has come since the beginning of the loop.
std::optional<Polynomial> AffineForms::carried(unsigned number) {
  Value argument = loop.getRegionIterArg(number);
  std::optional<Polynomial> step =
      addedTo(argument, loop.getBody()->getTerminator()->getOperand(number));
  if (!step)
    return std::nullopt;
  Polynomial turn = step->dividedBy(*constantOf(loop.getStep()));
  std::optional<Polynomial> lower = scalar(loop.getLowerBound());
  if (!turn.isValid() || !lower)
    return no(notAffine);
  Polynomial moved = turn.times(Polynomial::of(loop.getInductionVar()).plus(*lower, -1));
  if (isa<PtrType>(argument.getType()))
    return moved;
  std::optional<Polynomial> init = expanded(loop.getInitArgs()[number]);
  if (!init)
    return std::nullopt;
  return init->plus(moved);
}

//===--- tensors -----------------------------------------------------------------------------===//

/// The form of the result of an op that only arranges elements, from that of its operand.
std::optional<BlockForm> AffineForms::reshaped(Operation *op, BlockForm form) {
  if (auto expand = dyn_cast<ExpandDimsOp>(op)) {
    form.steps.insert(form.steps.begin() + expand.getAxis(), Polynomial());
    form.wraps.insert(form.wraps.begin() + expand.getAxis(), std::nullopt);
    return form;
  }
  if (auto trans = dyn_cast<TransOp>(op)) {
    BlockForm result = formOf(form.base, form.steps.size());
    for (auto [to, from] : llvm::enumerate(trans.getOrder())) {
      result.steps[to] = form.steps[from];
      result.wraps[to] = form.wraps[from];
    }
    return result;
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    // All elements along a repeated dimension are that of index 0.
    auto from = cast<RankedTensorType>(broadcast.getSrc().getType());
    auto to = cast<RankedTensorType>(broadcast.getType());
    for (unsigned d = 0; d < form.steps.size(); ++d)
      if (from.getDimSize(d) != to.getDimSize(d)) {
        if (form.wraps[d])
          return no(notAffine);
        form.steps[d] = Polynomial();
      }
    return form;
  }
  if (isa<HintOp>(op))
    return form;
  return no(notAffine);
}

/// `form` modulo `divisor`, or `form` where that is below `divisor`: a tensor that is one number
/// everywhere.
std::optional<BlockForm> AffineForms::wrapped(BlockForm form, Value divisor, Type type) {
  std::optional<BlockForm> bound = block(divisor);
  if (!bound)
    return std::nullopt;
  std::optional<unsigned> along;
  for (unsigned d = 0; d < form.steps.size(); ++d) {
    if (form.wraps[d] || !bound->steps[d].isZero() || bound->wraps[d])
      return no(notAffine);
    if (form.steps[d].isZero())
      continue;
    if (along || form.steps[d].constant() != 1)
      return no("a remainder is of something else than a start and an index");
    along = d;
  }
  if (!along)
    return no(notAffine);
  mustFit(form, type);
  form.wraps[*along] = Wrap{form.base, bound->base};
  return form;
}

std::optional<BlockForm> AffineForms::block(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp();
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  if (!type || !op || depth > maxDepth)
    return no(notAffine);
  size_t rank = size_t(type.getRank());
  SplatElementsAttr splat;
  if (matchPattern(value, m_Constant(&splat))) {
    auto number = dyn_cast<IntegerAttr>(splat.getSplatValue<Attribute>());
    return number ? std::optional(formOf(Polynomial::number(number.getInt()), rank))
                  : no(notAffine);
  }
  if (auto range = dyn_cast<RangeOp>(op)) {
    BlockForm form = formOf(Polynomial::number(range.getStart()), rank);
    form.steps[0] = Polynomial::number(1);
    return form;
  }
  if (auto repeat = dyn_cast<SplatOp>(op)) {
    std::optional<Polynomial> number = scalar(repeat.getSrc());
    return number ? std::optional(formOf(*number, rank)) : std::nullopt;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    auto compare = select.getCondition().getDefiningOp<arith::CmpIOp>();
    if (!compare || compare.getPredicate() != arith::CmpIPredicate::slt ||
        compare.getLhs() != select.getTrueValue())
      return no(notAffine);
    std::optional<BlockForm> inner = block(select.getTrueValue());
    return inner ? wrapped(*inner, compare.getRhs(), type) : std::nullopt;
  }
  if (isView(op) || isa<HintOp>(op)) {
    std::optional<BlockForm> inner = block(op->getOperand(0));
    return inner ? reshaped(op, std::move(*inner)) : std::nullopt;
  }
  bool isSum = isa<arith::AddIOp, arith::SubIOp>(op);
  if (!isSum && !isa<arith::MulIOp, arith::ShLIOp, arith::ExtSIOp, arith::RemSIOp>(op))
    return no(notAffine);
  std::optional<BlockForm> left = block(op->getOperand(0));
  if (!left)
    return std::nullopt;
  if (isa<arith::ExtSIOp>(op)) {
    mustFit(*left, op->getOperand(0).getType());
    return left;
  }
  if (isa<arith::RemSIOp>(op))
    return wrapped(std::move(*left), op->getOperand(1), type);
  std::optional<BlockForm> right = block(op->getOperand(1));
  if (!right)
    return std::nullopt;
  auto isUniform = [](const BlockForm &form) {
    return llvm::all_of(form.steps, [](const Polynomial &step) { return step.isZero(); }) &&
           llvm::none_of(form.wraps, [](const std::optional<Wrap> &wrap) { return bool(wrap); });
  };
  if (isSum) {
    int64_t sign = isa<arith::SubIOp>(op) ? -1 : 1;
    left->base = left->base.plus(right->base, sign);
    for (unsigned d = 0; d < rank; ++d) {
      // What begins anew goes together with what is the same everywhere alone.
      bool either = left->wraps[d] || right->wraps[d];
      if (either && !left->steps[d].isZero() && !right->steps[d].isZero())
        return no(notAffine);
      if (right->wraps[d])
        left->wraps[d] = right->wraps[d];
      left->steps[d] = left->steps[d].plus(right->steps[d], sign);
    }
    return left;
  }
  if (!isUniform(*right) && !isa<arith::ShLIOp>(op))
    std::swap(left, right);
  if (!isUniform(*right))
    return no(notAffine);
  Polynomial factor = right->base;
  if (isa<arith::ShLIOp>(op)) {
    std::optional<int64_t> by = right->base.constant();
    if (!by || *by < 0 || *by > 30)
      return no(notAffine);
    factor = Polynomial::number(int64_t(1) << *by);
  }
  left->base = left->base.times(factor);
  for (Polynomial &step : left->steps)
    step = step.times(factor);
  return left;
}

//===--- pointers ----------------------------------------------------------------------------===//

/// Adds up what is added to an argument of the kernel.
bool AffineForms::scalarPointer(Value pointer, PointerForm &form) {
  for (unsigned steps = 0; steps < maxDepth; ++steps) {
    if (auto argument = dyn_cast<BlockArgument>(pointer)) {
      Operation *owner = argument.getOwner()->getParentOp();
      if (auto function = dyn_cast<func::FuncOp>(owner)) {
        form.argument = pointer;
        return function->hasAttr("tile.kernel");
      }
      if (owner != loop || argument == loop.getInductionVar())
        break;
      unsigned number = argument.getArgNumber() - 1;
      std::optional<Polynomial> moved = carried(number);
      if (!moved)
        return false;
      form.offsets.base = form.offsets.base.plus(*moved);
      pointer = loop.getInitArgs()[number];
      continue;
    }
    auto add = pointer.getDefiningOp<AddPtrOp>();
    if (!add)
      break;
    Value offset = add.getOffset();
    std::optional<Polynomial> by = isInside(offset) ? scalar(offset) : expanded(offset);
    if (!by)
      return false;
    mustFit(*by, offset.getType());
    form.offsets.base = form.offsets.base.plus(*by);
    pointer = add.getPtr();
  }
  no("it is not known which argument of the kernel it reads");
  return false;
}

std::optional<PointerForm> AffineForms::pointers(Value value) {
  Operation *op = value.getDefiningOp();
  auto type = dyn_cast<RankedTensorType>(value.getType());
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  if (!op || !type || depth > maxDepth)
    return no(notAffine);
  if (auto repeat = dyn_cast<SplatOp>(op)) {
    PointerForm form;
    form.offsets = formOf({}, size_t(type.getRank()));
    return scalarPointer(repeat.getSrc(), form) ? std::optional(form) : std::nullopt;
  }
  if (isView(op) || isa<HintOp>(op)) {
    std::optional<PointerForm> inner = pointers(op->getOperand(0));
    if (!inner)
      return std::nullopt;
    std::optional<BlockForm> offsets = reshaped(op, inner->offsets);
    return offsets ? std::optional(PointerForm{inner->argument, *offsets}) : std::nullopt;
  }
  auto add = dyn_cast<AddPtrOp>(op);
  if (!add)
    return no(notAffine);
  std::optional<PointerForm> form = pointers(add.getPtr());
  std::optional<BlockForm> more = form ? block(add.getOffset()) : std::nullopt;
  if (!more)
    return std::nullopt;
  mustFit(*more, add.getOffset().getType());
  form->offsets.base = form->offsets.base.plus(more->base);
  for (unsigned d = 0; d < more->steps.size(); ++d) {
    bool either = form->offsets.wraps[d] || more->wraps[d];
    if (either && !form->offsets.steps[d].isZero() && !more->steps[d].isZero())
      return no(notAffine);
    if (more->wraps[d])
      form->offsets.wraps[d] = more->wraps[d];
    form->offsets.steps[d] = form->offsets.steps[d].plus(more->steps[d]);
  }
  return form;
}

//===--- masks -------------------------------------------------------------------------------===//

std::optional<SmallVector<MaskLimit>> AffineForms::comparison(Operation *op) {
  auto compare = cast<arith::CmpIOp>(op);
  Value less = compare.getLhs(), more = compare.getRhs();
  bool orEqual = false;
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::sgt:
    std::swap(less, more);
    break;
  case arith::CmpIPredicate::sge:
    std::swap(less, more);
    orEqual = true;
    break;
  case arith::CmpIPredicate::sle:
    orEqual = true;
    break;
  case arith::CmpIPredicate::slt:
    break;
  default:
    return no(notAMask);
  }
  std::optional<BlockForm> low = block(less), high = low ? block(more) : std::nullopt;
  if (!high)
    return std::nullopt;
  mustFit(*low, less.getType());
  mustFit(*high, more.getType());
  // index[dim] < limit  <=>  0 < limit - index[dim]
  BlockForm room = formOf(high->base.plus(low->base, -1), low->steps.size());
  if (orEqual)
    room.base = room.base.plus(Polynomial::number(1));
  std::optional<unsigned> along;
  for (unsigned d = 0; d < room.steps.size(); ++d) {
    room.steps[d] = high->steps[d].plus(low->steps[d], -1);
    if (low->wraps[d] || high->wraps[d])
      return no(notAMask);
    if (room.steps[d].isZero())
      continue;
    if (along)
      return no(notAMask);
    along = d;
  }
  if (!along)
    return no(notAMask);
  if (room.steps[*along].constant() == -1)
    return SmallVector<MaskLimit>{{*along, room.base}};
  if (room.steps[*along].constant() != 1)
    return no(notAMask);
  // A lower bound holds for all indices when it does for the first one.
  require({formOf(room.base, 0), {}, 1, INT64_MAX});
  return SmallVector<MaskLimit>{};
}

std::optional<SmallVector<MaskLimit>> AffineForms::mask(Value value) {
  Operation *op = value.getDefiningOp();
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  SplatElementsAttr splat;
  if (matchPattern(value, m_Constant(&splat)) && splat.getSplatValue<APInt>().isOne())
    return SmallVector<MaskLimit>{};
  if (!op || depth > maxDepth)
    return no(notAMask);
  if (isa<arith::CmpIOp>(op) && isa<RankedTensorType>(value.getType()))
    return comparison(op);
  if (isa<arith::AndIOp>(op)) {
    std::optional<SmallVector<MaskLimit>> left = mask(op->getOperand(0));
    std::optional<SmallVector<MaskLimit>> right = left ? mask(op->getOperand(1)) : std::nullopt;
    if (right)
      left->append(*right);
    return right ? left : std::nullopt;
  }
  if (!isa<ExpandDimsOp, BroadcastOp, TransOp>(op))
    return no(notAMask);
  std::optional<SmallVector<MaskLimit>> limits = mask(op->getOperand(0));
  if (!limits)
    return std::nullopt;
  for (MaskLimit &limit : *limits) {
    if (auto expand = dyn_cast<ExpandDimsOp>(op)) {
      limit.dim += limit.dim >= expand.getAxis();
    } else if (auto trans = dyn_cast<TransOp>(op)) {
      limit.dim =
          unsigned(llvm::find(trans.getOrder(), int32_t(limit.dim)) - trans.getOrder().begin());
    } else {
      auto from = cast<RankedTensorType>(op->getOperand(0).getType());
      if (from.getDimSize(limit.dim) == 1)
        return no(notAMask); // a condition of the whole block
    }
  }
  return limits;
}

} // namespace nereid::transforms

// Gradients of rows from which a program also picks one element, at a position from memory. A loss
// reads a row of logits in blocks, and the logit of its label by itself. Where the label's element
// lies in the row is known at run time, so nobody could own the elements of the gradient if both
// loads were looked at together. Without the picked element the program owns its row:
//
//   for round in rounds                       the transpose of the loads of the row
//     block = gradient of the block
//     block += where(position == label - round * width, gradient of the picked element, 0)
//     store block
//
// An element that the blocks do not cover (a row that several programs read in parts, a mask, a
// label outside of the row) may belong to another program, which stores it at any time. So it takes
// two steps, which are two launches: in the first, each program notes whether it has picked an
// element that its blocks do not cover; in the second, programs that have add the gradient of this
// element atomically. Others read the note and end.
#include "differentiate/PickedElements.h"

#include "differentiate/Access.h"
#include "differentiate/Blocks.h"
#include "differentiate/Transposer.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace nereid::differentiate {
namespace {

bool isOneElement(tile::LoadOp load) {
  return !isa<RankedTensorType>(load.getPtr().getType());
}

bool isRow(tile::LoadOp load) {
  auto block = dyn_cast<RankedTensorType>(load.getPtr().getType());
  return block && block.getRank() == 1;
}

//===--- before tangents are added ---===//

/// Moves loads out of branches, where they are then masked by the condition.
class Mover {
public:
  explicit Mover(func::FuncOp kernel)
      : provenance(kernel), written(provenance.writtenArguments(kernel)) {}

  /// The argument that a load reads and that the kernel does not write; -1 where that is not known.
  int readOnly(tile::LoadOp load) const {
    int argument = provenance.of(load.getPtr()).only();
    bool isWritten = unsigned(argument) < written.size() && written.test(argument);
    return isWritten || load.getIsVolatile() ? -1 : argument;
  }

  /// With what computes its address; false where that may not be computed before the branch.
  bool moveOut(tile::LoadOp load, scf::IfOp branch) const {
    llvm::SetVector<Operation *> ops;
    if (!collect(load.getResult(), *load->getBlock(), ops))
      return false;
    OpBuilder builder(branch);
    Location loc = load.getLoc();
    Value condition = branch.getCondition();
    if (load->getBlock() != branch.thenBlock())
      condition =
          arith::XOrIOp::create(builder, loc, condition,
                                arith::ConstantOp::create(builder, loc, builder.getBoolAttr(true)));
    for (Operation *op : ops) {
      op->moveBefore(branch);
      auto moved = dyn_cast<tile::LoadOp>(op);
      if (!moved)
        continue;
      builder.setInsertionPoint(op);
      Value mask = moved.getMask();
      moved.getMaskMutable().assign(
          mask ? arith::AndIOp::create(builder, loc, condition, mask).getResult() : condition);
    }
    return true;
  }

private:
  /// Adds to `ops`, in the order of the program, what computes a value in a block.
  bool collect(Value value, Block &block, llvm::SetVector<Operation *> &ops) const {
    if (!block.getParent()->isAncestor(value.getParentRegion()))
      return true;
    Operation *op = value.getDefiningOp();
    auto load = dyn_cast_or_null<tile::LoadOp>(op);
    bool isReadOnly = load && isOneElement(load) && readOnly(load) >= 0;
    if (!op || op->getBlock() != &block || op->getNumRegions() || !(isReadOnly || isPure(op)))
      return false;
    if (!llvm::all_of(op->getOperands(), [&](Value each) { return collect(each, block, ops); }))
      return false;
    ops.insert(op);
    return true;
  }

  transforms::Provenance provenance;
  llvm::BitVector written;
};

/// Moves a load and scalars that follow from it in its block before their first users.
void sink(tile::LoadOp load) {
  llvm::SetVector<Operation *> ops;
  ops.insert(load);
  for (size_t i = 0; i < ops.size(); ++i)
    for (Operation *user : ops[i]->getUsers())
      if (user->getBlock() == load->getBlock() && !user->getNumRegions() && isPure(user) &&
          llvm::none_of(user->getResultTypes(), [](Type type) { return isa<ShapedType>(type); }))
        ops.insert(user);
  SmallVector<Operation *> sorted(ops.begin(), ops.end());
  llvm::sort(sorted, [](Operation *a, Operation *b) { return b->isBeforeInBlock(a); });
  for (Operation *op : sorted) {
    Operation *first = nullptr;
    for (Operation *user : op->getUsers()) {
      Operation *here = load->getBlock()->findAncestorOpInBlock(*user);
      if (here && (!first || here->isBeforeInBlock(first)))
        first = here;
    }
    if (first)
      op->moveBefore(first);
  }
}

} // namespace

void movePickedLoads(func::FuncOp kernel, ArrayRef<Argument> arguments) {
  bool mayHaveSteps = false;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    mayHaveSteps |= bool(kernel.getArgAttr(i, "tile.saved"));
  if (!mayHaveSteps)
    return;
  Mover mover(kernel);
  llvm::DenseMap<int, SmallVector<tile::LoadOp>> rows;
  SmallVector<tile::LoadOp> picked;
  kernel.walk([&](tile::LoadOp load) {
    int argument = mover.readOnly(load);
    if (argument < 0 || arguments[argument].tangent < 0 || !arguments[argument].isInput)
      return;
    if (isRow(load))
      rows[argument].push_back(load);
    else if (isOneElement(load))
      picked.push_back(load);
  });
  for (tile::LoadOp load : picked) {
    const SmallVector<tile::LoadOp> &row = rows[mover.readOnly(load)];
    if (row.empty())
      continue;
    while (auto branch = dyn_cast<scf::IfOp>(load->getParentOp()))
      if (llvm::any_of(row, [&](tile::LoadOp each) { return branch->isAncestor(each); }) ||
          !mover.moveOut(load, branch))
        break;
    sink(load);
  }
}

//===--- what is picked from where ---===//

namespace {

/// The loops around an operation, up to a block around it; nothing where there is something else.
std::optional<SmallVector<scf::ForOp>> loopsUpTo(Block *block, Operation *op) {
  SmallVector<scf::ForOp> loops;
  for (; op->getBlock() != block; op = op->getParentOp()) {
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    if (!loop)
      return std::nullopt;
    loops.push_back(loop);
  }
  return loops;
}

bool hasFactor(const std::vector<Atom> &factors, llvm::function_ref<bool(const Atom &)> which) {
  return llvm::any_of(factors, which);
}

} // namespace

std::optional<Transposer::Row> Transposer::rowOf(tile::LoadOp picked, tile::LoadOp load) {
  if (!isOneElement(picked) || !isRow(load) ||
      !picked->getBlock()->findAncestorOpInBlock(*load.getOperation()) ||
      !picked->getBlock()->findAncestorOpInBlock(*load.getOperation())->isBeforeInBlock(picked))
    return std::nullopt;
  auto loops = loopsUpTo(picked->getBlock(), load);
  if (!loops || loops->size() > 1)
    return std::nullopt;
  std::optional<Address> one = addressOf(picked.getPtr()), all = addressOf(load.getPtr());
  if (!one || !all || !one->base || one->base != all->base)
    return std::nullopt;
  Row row;
  row.load = load;
  row.loop = loops->empty() ? scf::ForOp() : loops->front();
  row.width = cast<RankedTensorType>(load.getPtr().getType()).getDimSize(0);
  row.distance = one->terms;
  bool hasLanes = row.width == 1, hasRounds = !row.loop;
  for (const auto &[factors, coefficient] : all->terms) {
    bool isLane = hasFactor(factors, [](const Atom &atom) { return atom.kind == Atom::Lane; });
    bool isRound = hasFactor(factors, [&](const Atom &atom) {
      return atom.kind == Atom::Round && row.loop && atom.loop() == row.loop.getOperation();
    });
    if (isLane || isRound) { // blocks of neighbours, one behind the other
      if (factors.size() != 1 || coefficient != (isLane ? 1 : row.width))
        return std::nullopt;
      (isLane ? hasLanes : hasRounds) = true;
      continue;
    }
    int64_t &rest = row.distance[factors];
    if (llvm::SubOverflow(rest, coefficient, rest))
      return std::nullopt;
    if (rest == 0)
      row.distance.erase(factors);
  }
  if (!hasLanes || !hasRounds)
    return std::nullopt;
  for (const auto &[factors, coefficient] : row.distance)
    for (const Atom &atom : factors) {
      bool isKnown = atom.kind == Atom::ProgramId || atom.kind == Atom::Programs;
      if (atom.kind == Atom::Symbol)
        isKnown = atom.symbol().getParentRegion()->isAncestor(picked->getParentRegion());
      if (!isKnown)
        return std::nullopt;
    }
  APInt step;
  if (row.loop &&
      (row.loop.getUnsignedCmp() || !matchPattern(row.loop.getStep(), m_ConstantInt(&step)) ||
       !step.isStrictlyPositive()))
    return std::nullopt;
  row.step = row.loop ? step.getSExtValue() : 1;
  if (load.getMask() && !inElement(row, load.getMask(), Value(), Value()))
    return std::nullopt;
  return row;
}

/// What a value of the row's loop or a block of its positions is for one element. Without a place
/// in the row: whether that can be said, as any value that is not null; nothing is written then.
Value Transposer::inElement(const Row &row, Value value, Value lane, Value variable) {
  const bool isTest = !lane;
  Operation *op = value.getDefiningOp();
  bool isBlock = isa<RankedTensorType>(value.getType());
  bool isInside =
      row.loop && tile::LoadOp(row.load)->getParentRegion()->isAncestor(value.getParentRegion());
  if (!isBlock && !isInside)
    return isTest ? value : here(value);
  if (!op)
    return row.loop && value == scf::ForOp(row.loop).getInductionVar() ? (isTest ? value : variable)
                                                                       : Value();
  Location loc = value.getLoc();
  if (isa<tile::SplatOp>(op))
    return inElement(row, op->getOperand(0), lane, variable);
  if (auto range = dyn_cast<tile::RangeOp>(op)) {
    if (isTest)
      return value;
    Value start = arith::ConstantOp::create(builder, loc,
                                            builder.getI32IntegerAttr(int32_t(range.getStart())));
    return arith::AddIOp::create(builder, loc, start, lane);
  }
  Type element = tile::elementOf(value.getType());
  if (DenseElementsAttr all; isBlock && matchPattern(value, m_Constant(&all))) {
    if (!all.isSplat())
      return {};
    return isTest ? value
                  : arith::ConstantOp::create(builder, loc,
                                              cast<TypedAttr>(all.getSplatValue<Attribute>()));
  }
  if (!isa<arith::ArithDialect>(op->getDialect()) || op->getNumResults() != 1 ||
      !element.isIntOrIndex() || !isPure(op))
    return {};
  if (op->getNumOperands() == 0)
    return isTest ? value : builder.clone(*op)->getResult(0);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(inElement(row, operand, lane, variable));
    if (!operands.back())
      return {};
  }
  if (isTest)
    return value;
  OperationState state(loc, op->getName(), operands, {element}, op->getAttrs());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return builder.create(state)->getResult(0);
}

void Transposer::findPicked() {
  if (!memory || !step || !mayHaveSchedules || !saved.empty() || !scheduled.empty())
    return;
  for (Owner &owner : owners) {
    if (!owner.isByLoads || owner.shared.owner.why.empty())
      continue;
    llvm::MapVector<Operation *, Picked> found;
    SmallVector<tile::LoadOp> rest;
    for (tile::LoadOp load : owner.loads) {
      Picked one;
      one.load = load;
      for (tile::LoadOp other : owner.loads)
        if (std::optional<Row> row = rowOf(load, other))
          one.rows.push_back(*row);
      if (one.rows.empty())
        rest.push_back(load);
      else
        found[load] = one;
    }
    if (found.empty() || rest.empty())
      continue;
    SharedOwnership shared = ownershipOf(rest);
    if (!shared.owner.why.empty())
      continue;
    for (auto [i, load] : llvm::enumerate(rest))
      contributions[load] = {shared.owner, false, shared.isFirst[i]};
    owner.shared = shared;
    owner.loads = rest;
    owner.isPicked = true;
    for (auto &[load, one] : found)
      picked.insert({load, one});
  }
}

//===--- what is written ---===//

/// 64 bits of an integer.
static Value widened(OpBuilder &builder, Value value) {
  Type wide = builder.getI64Type();
  if (value.getType() == wide)
    return value;
  if (value.getType().isIndex())
    return arith::IndexCastOp::create(builder, value.getLoc(), wide, value);
  return arith::ExtSIOp::create(builder, value.getLoc(), wide, value);
}

static Value narrowed(OpBuilder &builder, Value value, Type type) {
  if (value.getType() == type)
    return value;
  if (type.isIndex())
    return arith::IndexCastOp::create(builder, value.getLoc(), type, value);
  return arith::TruncIOp::create(builder, value.getLoc(), type, value);
}

/// Whether an element at a distance from the row's first lies in one of its blocks and is read
/// there, an i1.
Value Transposer::isCovered(const Row &row, Value distance) {
  Location loc = distance.getLoc();
  using Predicate = arith::CmpIPredicate;
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
  };
  auto both = [&](Value a, Value b) -> Value { return arith::AndIOp::create(builder, loc, a, b); };
  Value width = number(row.width), variable;
  Value covered = arith::CmpIOp::create(builder, loc, Predicate::sge, distance, number(0));
  Value lane = distance;
  if (scf::ForOp loop = row.loop) {
    Value round = arith::DivSIOp::create(builder, loc, distance, width);
    lane = arith::RemSIOp::create(builder, loc, distance, width);
    Value begin = widened(builder, here(loop.getLowerBound()));
    Value end = widened(builder, here(loop.getUpperBound()));
    Value at = arith::AddIOp::create(builder, loc, begin,
                                     arith::MulIOp::create(builder, loc, round, number(row.step)));
    covered = both(covered, arith::CmpIOp::create(builder, loc, Predicate::slt, at, end));
    // Far outside, the product may wrap.
    Value length = arith::SubIOp::create(builder, loc, end, begin);
    covered = both(covered, arith::CmpIOp::create(builder, loc, Predicate::slt, round, length));
    variable = narrowed(builder, at, loop.getInductionVar().getType());
  } else {
    covered = both(covered, arith::CmpIOp::create(builder, loc, Predicate::slt, distance, width));
  }
  if (Value mask = tile::LoadOp(row.load).getMask()) {
    lane = narrowed(builder, lane, builder.getI32Type());
    covered = both(covered, inElement(row, mask, lane, variable));
  }
  return covered;
}

/// Whether a picked element is added atomically, an i1.
Value Transposer::isLeft(Picked &one) {
  Location loc = one.load.getLoc();
  auto number = [&](bool value) {
    return arith::ConstantOp::create(builder, loc, builder.getBoolAttr(value));
  };
  Value covered;
  for (Row &row : one.rows) {
    // The row that takes the element is known when the row is written, which follows.
    auto takes = number(row.isTaker);
    if (isSaving)
      row.takes = takes;
    Value distance = valueOf(row.distance, builder, loc, [&](Value value) { return here(value); });
    row.at = distance;
    Value by = arith::AndIOp::create(builder, loc, takes, isCovered(row, distance));
    covered = covered ? arith::OrIOp::create(builder, loc, covered, by).getResult() : by;
  }
  Value left = arith::XOrIOp::create(builder, loc, covered, number(true));
  if (Value mask = one.load.getMask())
    left = arith::AndIOp::create(builder, loc, left, here(mask));
  return left;
}

/// A float before it was rounded to a narrower type.
static Value unrounded(OpBuilder &builder, Value value) {
  Value wide = value;
  while (Operation *op = wide.getDefiningOp()) {
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      break;
    wide = op->getOperand(0);
  }
  Type element = tile::elementOf(wide.getType());
  if (element.getIntOrFloatBitWidth() < 32)
    element = builder.getF32Type();
  if (element.getIntOrFloatBitWidth() < tile::elementOf(value.getType()).getIntOrFloatBitWidth())
    return value;
  return convertTo(builder, wide, element);
}

/// Notes the gradient of a picked element for the row, and whether none takes it.
void Transposer::pick(Picked &one, Value a) {
  Location loc = one.load.getLoc();
  a = unrounded(builder, zeroed(a));
  if (Value mask = one.load.getMask())
    a = arith::SelectOp::create(builder, loc, here(mask), a, zeroOf(builder, loc, a.getType()));
  one.adjoint = a;
  Value left = isLeft(one);
  Value yes = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(1));
  tile::StoreOp::create(builder, loc, noteAddress(loc), yes, left);
}

/// Adds what is picked from a row to the gradient of its block.
Value Transposer::withPicked(tile::LoadOp load, Value a) {
  for (auto &[op, one] : picked) {
    if (!one.adjoint || llvm::any_of(one.rows, [](const Row &row) { return row.isTaker; }))
      continue;
    auto row = llvm::find_if(one.rows, [&](const Row &each) { return each.load == load; });
    if (row == one.rows.end())
      continue;
    row->isTaker = true;
    cast<arith::ConstantOp>(row->takes.getDefiningOp()).setValueAttr(builder.getBoolAttr(true));
    Location loc = one.load.getLoc();
    auto number = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(value));
    };
    Value lane = row->at, zero = number(0), width = number(row->width);
    if (scf::ForOp loop = row->loop) {
      Value begin = widened(builder, here(loop.getLowerBound()));
      Value before = arith::SubIOp::create(builder, loc,
                                           widened(builder, here(loop.getInductionVar())), begin);
      if (row->step != row->width)
        before = arith::MulIOp::create(
            builder, loc, arith::DivSIOp::create(builder, loc, before, number(row->step)), width);
      lane = arith::SubIOp::create(builder, loc, lane, before);
    }
    using Predicate = arith::CmpIPredicate;
    Value isInside = arith::AndIOp::create(
        builder, loc, arith::CmpIOp::create(builder, loc, Predicate::sge, lane, zero),
        arith::CmpIOp::create(builder, loc, Predicate::slt, lane, width));
    lane = arith::SelectOp::create(builder, loc, isInside, lane, number(-1));
    auto positions = RankedTensorType::get({row->width}, builder.getI32Type());
    Value at = tile::SplatOp::create(builder, loc, positions,
                                     narrowed(builder, lane, builder.getI32Type()));
    Value isIt = arith::CmpIOp::create(
        builder, loc, Predicate::eq,
        tile::RangeOp::create(builder, loc, positions, 0, uint32_t(row->width)), at);
    Type element = tile::elementOf(a.getType());
    Value block = unrounded(builder, a), own = unrounded(builder, one.adjoint);
    Type wide = tile::elementOf(block.getType());
    if (wide.getIntOrFloatBitWidth() < tile::elementOf(own.getType()).getIntOrFloatBitWidth())
      wide = tile::elementOf(own.getType());
    block = convertTo(builder, block, wide);
    Value other =
        tile::SplatOp::create(builder, loc, block.getType(), convertTo(builder, own, wide));
    block = arith::SelectOp::create(builder, loc, isIt,
                                    arith::AddFOp::create(builder, loc, block, other), block);
    a = convertTo(builder, block, element);
  }
  return a;
}

/// Where a program notes in the first step whether the second has something to add: an i32.
Value Transposer::noteAddress(Location loc) {
  Value number;
  for (unsigned axis = 3; axis-- > 0;) {
    Value id =
        widened(builder, tile::ProgramIdOp::create(builder, loc, builder.getI32Type(), axis));
    if (number) {
      Value count =
          widened(builder, tile::NumProgramsOp::create(builder, loc, builder.getI32Type(), axis));
      number = arith::AddIOp::create(builder, loc,
                                     arith::MulIOp::create(builder, loc, number, count), id);
    } else {
      number = id;
    }
  }
  Value size = arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(noteBytes / 4));
  auto pointer = tile::PtrType::get(builder.getI32Type());
  return tile::AddPtrOp::create(builder, loc, pointer,
                                tile::PtrCastOp::create(builder, loc, pointer, memory),
                                arith::MulIOp::create(builder, loc, number, size));
}

void Transposer::transposePicked(Block &body) {
  Location loc = kernel.getLoc();
  if (!lastOfKernel)
    lastOfKernel = &*std::prev(builder.getInsertionPoint());
  auto inStep = [&](int64_t which, llvm::function_ref<void()> write) {
    Value isStep = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, step,
        arith::ConstantOp::create(builder, loc, IntegerAttr::get(step.getType(), which)));
    auto branch = scf::IfOp::create(builder, loc, isStep, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    write();
    if (!refusal)
      eraseDead(*branch.thenBlock());
  };
  auto transposeAll = [&](bool withOutputs) {
    adjoints.clear();
    lanes.clear();
    residuals.clear();
    recompute(body, withOutputs);
    transposeBlock(body);
  };
  inStep(0, [&] {
    Value no = arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(0));
    tile::StoreOp::create(builder, loc, noteAddress(loc), no, Value());
    isSaving = true;
    transposeAll(/*withOutputs=*/true);
    isSaving = false;
  });
  if (refusal)
    return;
  inStep(1, [&] {
    Value note = tile::LoadOp::create(builder, loc, builder.getI32Type(), noteAddress(loc), Value(),
                                      Value());
    Value hasLeft = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::ne, note,
        arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(0)));
    auto branch = scf::IfOp::create(builder, loc, hasLeft, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    for (auto &[op, one] : picked)
      alone.push_back(one.load);
    transposeAll(/*withOutputs=*/false);
    alone.clear();
  });
  if (refusal)
    return;
  savedBytes = noteBytes;
  writeQuery();
}

} // namespace nereid::differentiate

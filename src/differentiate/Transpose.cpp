#include "differentiate/Transpose.h"

#include "differentiate/Access.h"
#include "differentiate/Blocks.h"
#include "differentiate/Combiners.h"
#include "differentiate/Transposer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace nereid::differentiate {

Transposer::Transposer(func::FuncOp kernel, ArrayRef<Argument> arguments, bool mayHaveSchedules)
    : kernel(kernel), arguments(arguments), provenance(kernel), builder(kernel.getContext()),
      mayHaveSchedules(mayHaveSchedules) {
  isGradient.resize(arguments.size());
  for (const Argument &argument : arguments)
    if (argument.tangent >= 0 && argument.isInput)
      isGradient.set(argument.tangent);
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
    if (auto row = kernel.getArgAttrOfType<IntegerAttr>(i, "tile.row"))
      rows[i] = int(row.getInt());
  if (auto known = kernel->getAttrOfType<StringAttr>(knownConditionsAttribute))
    if (auto parsed = parseConditions(known.getValue()))
      knownConditions = std::move(*parsed);
}

/// Its results, and the arguments of its blocks.
static void forEachValueOf(Operation *op, llvm::function_ref<void(Value)> visit) {
  for (Value result : op->getResults())
    visit(result);
  for (Region &region : op->getRegions())
    for (Block &block : region)
      for (Value argument : block.getArguments())
        visit(argument);
}

/// Of writes that a gradient with outputs keeps. Copies have it, too.
static constexpr llvm::StringLiteral outputAttribute = "tile.output";

std::optional<Refusal> Transposer::run() {
  while (findLinear())
    ;
  if (std::optional<Refusal> refusal = checkRegions())
    return refusal;
  findOwners();
  Block &body = kernel.getBody().front();
  SmallVector<Operation *> before;
  body.walk<WalkOrder::PreOrder>([&](Operation *op) { before.push_back(op); });
  builder.setInsertionPoint(body.getTerminator());
  markOutputs();
  transposeKernel(body);
  if (!refusal) {
    SmallVector<Operation *> writes;
    bool areInFirstStep = savedBytes > 0;
    llvm::copy_if(before, std::back_inserter(writes), [&](Operation *op) {
      return isWrite(op) && (areInFirstStep || !op->hasAttr(outputAttribute));
    });
    strip(before);
    for (Operation *write : writes)
      if (!gone.contains(write))
        write->erase();
    kernel.walk([](Operation *op) { op->removeAttr(outputAttribute); });
    distributePrograms();
    kernel->setAttr("tile.gradients",
                    builder.getStrArrayAttr(llvm::map_to_vector(
                        notes, [](const std::string &note) { return llvm::StringRef(note); })));
    if (!conditions.empty())
      kernel->setAttr(conditionsAttribute,
                      builder.getStrArrayAttr(llvm::to_vector_of<StringRef>(conditions)));
  }
  return refusal;
}

/// Marks what the kernel writes besides tangents, if it is to write that.
void Transposer::markOutputs() {
  if (!kernel->hasAttr("tile.outputs"))
    return;
  llvm::BitVector tangents(kernel.getNumArguments());
  for (const Argument &argument : arguments)
    if (argument.tangent >= 0)
      tangents.set(argument.tangent);
  kernel.walk([&](Operation *op) {
    std::optional<Access> access = accessOf(op);
    bool isOfTangent =
        access && access->stored &&
        (isLinear(op) || provenance.of(access->address).arguments.anyCommon(tangents));
    if (isWrite(op) && !isOfTangent)
      op->setAttr(outputAttribute, builder.getUnitAttr());
  });
}

//===--- what is linear ---===//

/// Whether it reads what will be a gradient.
bool Transposer::readsGradient(Operation *op) const {
  std::optional<Access> access = accessOf(op);
  return access && access->loaded && !access->stored &&
         provenance.of(access->address).arguments.anyCommon(isGradient);
}

bool Transposer::isFloat(Value value) {
  return isa<FloatType>(tile::elementOf(value.getType()));
}

/// One more round over the kernel; whether anything was found.
bool Transposer::findLinear() {
  size_t before = linear.size();
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto addAll = [&](ValueRange values) {
      for (Value value : values)
        if (isFloat(value))
          linear.insert(value);
    };
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      for (Region &region : branch->getRegions())
        if (!region.empty())
          for (auto [result, yielded] :
               llvm::zip(branch.getResults(), region.front().getTerminator()->getOperands()))
            if (linear.contains(yielded))
              linear.insert(result);
      return;
    }
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (auto [i, carried] : llvm::enumerate(loop.getRegionIterArgs()))
        if (linear.contains(loop.getInitArgs()[i]) || linear.contains(loop.getYieldedValues()[i])) {
          linear.insert(carried);
          linear.insert(loop.getResult(i));
        }
      return;
    }
    if (readsGradient(op) || (!isa<scf::YieldOp>(op) && hasLinear(op->getOperands()))) {
      addAll(op->getResults());
      for (Region &region : op->getRegions())
        for (Block &block : region)
          addAll(block.getArguments());
    }
  });
  return linear.size() != before;
}

bool Transposer::hasLinear(ValueRange values) const {
  return llvm::any_of(values, [&](Value value) { return linear.contains(value); });
}

bool Transposer::isLinear(Operation *op) const {
  if (hasLinear(op->getOperands()) || hasLinear(op->getResults()))
    return true;
  return op->getNumRegions() && op->walk([&](Operation *inner) {
                                    return hasLinear(inner->getOperands()) ||
                                                   hasLinear(inner->getResults())
                                               ? WalkResult::interrupt()
                                               : WalkResult::advance();
                                  }).wasInterrupted();
}

/// `while` loops, and combiners without a transpose.
std::optional<Refusal> Transposer::checkRegions() const {
  std::optional<Refusal> found;
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<scf::WhileOp>(op) && isLinear(op))
      found = refuse(
          op->getLoc(), diag::GradientRefused,
          "a `while` loop, or a `for` loop that is left early, around what is differentiated",
          "its rounds cannot be counted before it, since its condition depends on memory that the "
          "loop may write, on an atomic operation or a volatile load; give it a bound, as in "
          "`while tl.at_most(condition, count)`, or use `nereid.jvp`");
    else if (isa<tile::MapElementwiseOp>(op) && isLinear(op))
      found = refuse(op->getLoc(), diag::GradientRefused, "`map_elementwise`",
                     "call the function on blocks, or use `nereid.jvp`");
    else if (isa<tile::ReduceOp, tile::ScanOp>(op) && isLinear(op) && !isOneSum(op) &&
             !isLinearScan(op))
      found = refuse(op->getLoc(), diag::GradientRefused, "a reduction or scan with this combiner",
                     "it contains control flow, or an operation without a rule; write it with "
                     "`tl.where`, or use `nereid.jvp`");
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

//===--- adjoints ---===//

/// What a value that is not linear is where the transpose is written.
Value Transposer::here(Value value) const {
  return residuals.lookupOrDefault(value);
}

void Transposer::accumulate(Value value, Value adjoint) {
  if (!adjoint || !linear.contains(value))
    return;
  if (hasDeadLanes)
    liveWhereNotZero(adjoint);
  Value sum = adjoints.lookup(value);
  if (!sum) {
    adjoints[value] = adjoint;
    return;
  }
  Location loc = adjoint.getLoc();
  auto first = lanes.find(sum), second = lanes.find(adjoint);
  std::optional<Live> live;
  if (first != lanes.end() && second != lanes.end()) {
    if (first->second.mask == second->second.mask)
      live = Live{first->second.mask, first->second.isZeroed && second->second.isZeroed};
    else
      live =
          Live{arith::OrIOp::create(builder, loc, first->second.mask, second->second.mask), true};
  }
  if (!live || first->second.mask != second->second.mask) {
    sum = zeroed(sum);
    adjoint = zeroed(adjoint);
  }
  Value both = arith::AddFOp::create(builder, loc, sum, adjoint);
  if (live)
    lanes.insert({both, *live});
  adjoints[value] = both;
}

Value Transposer::zeroed(Value adjoint) {
  auto live = lanes.find(adjoint);
  if (!adjoint || live == lanes.end() || live->second.isZeroed)
    return adjoint;
  Value mask = live->second.mask;
  Location loc = adjoint.getLoc();
  Value result =
      arith::SelectOp::create(builder, loc, mask, adjoint, zeroOf(builder, loc, adjoint.getType()));
  lanes.insert({result, {mask, true}});
  return result;
}

Value Transposer::sameLanes(Value made, Value adjoint, bool isScaled) {
  if (auto live = lanes.find(adjoint); live != lanes.end()) {
    Live of = live->second;
    of.isZeroed &= !isScaled;
    lanes.insert({made, of});
  }
  return made;
}

bool Transposer::hasMasks(Operation *region) const {
  return !lanes.empty() || region
                               ->walk([&](Operation *op) {
                                 auto store = dyn_cast<tile::StoreOp>(op);
                                 auto atomic = dyn_cast<tile::AtomicRMWOp>(op);
                                 bool leavesOut = (store && store.getMask()) ||
                                                  (atomic && atomic.getMask()) ||
                                                  (isa<arith::SelectOp>(op) && isLinear(op));
                                 return leavesOut ? WalkResult::interrupt() : WalkResult::advance();
                               })
                               .wasInterrupted();
}

Value Transposer::liveWhereNotZero(Value adjoint) {
  if (!lanes.contains(adjoint)) {
    Location loc = adjoint.getLoc();
    Value zero = zeroOf(builder, loc, adjoint.getType());
    Value mask = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, adjoint, zero);
    lanes.insert({adjoint, {mask, true}});
  }
  return adjoint;
}

Value Transposer::selected(Value condition, Value adjoint, bool isTrue) {
  Location loc = adjoint.getLoc();
  Value zero = zeroOf(builder, loc, adjoint.getType());
  Value result = arith::SelectOp::create(builder, loc, condition, isTrue ? adjoint : zero,
                                         isTrue ? zero : adjoint);
  bool isBlock = isa<RankedTensorType>(adjoint.getType());
  if (isBlock != isa<RankedTensorType>(condition.getType()))
    return sameLanes(result, adjoint);
  Live live{condition, true};
  if (!isTrue) {
    Value all = arith::ConstantOp::create(
        builder, loc,
        isBlock ? TypedAttr(DenseElementsAttr::get(cast<ShapedType>(condition.getType()), true))
                : TypedAttr(builder.getBoolAttr(true)));
    live.mask = arith::XOrIOp::create(builder, loc, condition, all);
  }
  if (auto before = lanes.find(adjoint); before != lanes.end()) {
    live.mask = arith::AndIOp::create(builder, loc, before->second.mask, live.mask);
    live.isZeroed = before->second.isZeroed;
  }
  lanes.insert({result, live});
  return result;
}

Value Transposer::orZero(Value adjoint, Value of) {
  return adjoint ? adjoint : zeroOf(builder, of.getLoc(), of.getType());
}

void Transposer::refuseHere(Operation *op, llvm::StringRef what, llvm::StringRef why) {
  if (!refusal)
    refusal = refuse(op->getLoc(), diag::GradientRefused, what.str(), why.str());
}

void Transposer::transposeBlock(Block &block) {
  bool isWritten = lastOfKernel && lastOfKernel->getBlock() == &block;
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block.without_terminator()))) {
    if (refusal)
      return;
    isWritten &= &op != lastOfKernel;
    if (isWritten) // by schedules
      continue;
    if (isLinear(&op))
      transposeOp(&op);
  }
}

void Transposer::transposeOp(Operation *op) {
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return transposeIf(branch);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return transposeFor(loop);
  if (transposeMemory(op))
    return;
  if (op->getNumResults() == 0)
    return;
  if (auto split = dyn_cast<tile::SplitOp>(op))
    return transposeSplit(split);
  if (isLinearScan(op))
    return transposeLinearScan(cast<tile::ScanOp>(op));
  Value a = adjoints.lookup(op->getResult(0));
  if (!a)
    return; // nothing that is wanted depends on it
  if (transposeArithmetic(op, a))
    return;
  llvm::SaveAndRestore dead(hasDeadLanes, lanes.contains(a) && !isa<tile::DotOp>(op));
  a = zeroed(a); // lanes meet below, or change places
  if (transposeShape(op, a))
    return;
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](tile::DotOp dot) { transposeDot(dot, a); })
      .Case([&](tile::ReduceOp reduce) { transposeSum(reduce, reduce.getAxis(), a); })
      .Case([&](tile::ScanOp scan) { transposeScan(scan, a); })
      .Case([&](tile::ExternOp device) { transposeDevice(device, a); })
      .Default([&](Operation *) {
        refuseHere(op, "`" + op->getName().getStringRef().str() + "`",
                   "this operation is not transposed yet; use `nereid.jvp`");
      });
}

//===--- branches ---===//

/// A branch computes anew what its transpose needs of it, and gives the adjoints of what it used
/// from outside.
void Transposer::transposeIf(scf::IfOp branch) {
  Location loc = branch.getLoc();
  Operation *fresh =
      scf::IfOp::create(builder, loc, here(branch.getCondition()), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  llvm::DenseMap<Value, Value> outer = adjoints;
  llvm::DenseMap<Value, Live> outerLanes = lanes;
  bool isMasked = hasMasks(branch);
  IRMapping outerResiduals = residuals;
  SmallVector<llvm::DenseMap<Value, Value>> inner(2);
  llvm::SetVector<Value> used;
  for (auto [i, region] : llvm::enumerate(branch->getRegions())) {
    adjoints.clear();
    residuals = outerResiduals;
    Block &target = fresh->getRegion(i).front();
    if (target.mightHaveTerminator())
      target.getTerminator()->erase();
    builder.setInsertionPointToEnd(&target);
    if (!region.empty()) {
      Block &source = region.front();
      recompute(source);
      for (auto [result, yielded] :
           llvm::zip(branch.getResults(), source.getTerminator()->getOperands()))
        accumulate(yielded, outer.lookup(result));
      transposeBlock(source);
      if (refusal)
        return;
      for (auto &[value, adjoint] : adjoints)
        if (!region.isAncestor(value.getParentRegion()))
          used.insert(value);
    }
    inner[i] = adjoints;
  }
  SmallVector<Value> given = ordered(used);
  for (auto [i, region] : llvm::enumerate(fresh->getRegions())) {
    builder.setInsertionPointToEnd(&region.front());
    SmallVector<Value> yielded;
    for (Value value : given)
      yielded.push_back(orZero(zeroed(inner[i].lookup(value)), value));
    scf::YieldOp::create(builder, loc, yielded);
  }
  OperationState state(loc, fresh->getName());
  state.addOperands(fresh->getOperands());
  for (Value value : given)
    state.addTypes(value.getType());
  for (Region &region : fresh->getRegions())
    state.addRegion()->takeBody(region);
  builder.setInsertionPoint(fresh);
  Operation *whole = builder.create(state);
  fresh->erase();
  adjoints = std::move(outer);
  lanes = std::move(outerLanes);
  residuals = std::move(outerResiduals);
  builder.setInsertionPointAfter(whole);
  for (auto [value, adjoint] : llvm::zip(given, whole->getResults()))
    accumulate(value, isMasked ? liveWhereNotZero(adjoint) : adjoint);
}

/// The values in the order of the program.
SmallVector<Value> Transposer::ordered(const llvm::SetVector<Value> &values) {
  SmallVector<Value> result;
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    forEachValueOf(op, [&](Value value) {
      if (values.contains(value))
        result.push_back(value);
    });
  });
  return result;
}

/// A copy that uses what values are here, and gives what they are from here on.
Operation *Transposer::copyHere(Operation *op) {
  // Of an earlier copy; arguments of blocks that are in the map get no copies.
  op->walk([&](Operation *inner) {
    for (Region &region : inner->getRegions())
      for (Block &block : region)
        for (Value argument : block.getArguments())
          residuals.erase(argument);
  });
  return builder.clone(*op, residuals);
}

/// Copies of what a block computes besides tangents, without what it stores; or with the outputs.
void Transposer::recompute(Block &source, bool withOutputs) {
  for (Operation &op : source.without_terminator()) {
    if (lastOfKernel && op.getPrevNode() == lastOfKernel)
      break; // what follows was written by schedules
    if (isGiven(&op))
      continue;
    if (isWrite(&op)) {
      if (withOutputs && op.hasAttr(outputAttribute))
        copyHere(&op);
      continue;
    }
    if (!isLinear(&op)) {
      dropWritesIn(copyHere(&op), withOutputs);
      continue;
    }
    if (op.getNumRegions() == 0)
      continue;
    Operation *copy = copyHere(&op); // a branch or a loop with both
    SmallVector<Operation *> inside;
    op.walk<WalkOrder::PreOrder>([&](Operation *each) {
      forEachValueOf(each, [&](Value value) {
        if (!linear.contains(value))
          return;
        linear.insert(residuals.lookup(value));
        residuals.erase(value); // the copy will be gone
      });
    });
    copy->walk<WalkOrder::PreOrder>([&](Operation *each) { inside.push_back(each); });
    strip(inside);
    dropWritesIn(copy, withOutputs);
  }
}

//===--- what is left of forward mode ---===//

/// Removes linear operations, all of whose users are linear. Branches give zeros in their place,
/// and loops carry zeros.
void Transposer::strip(ArrayRef<Operation *> ops) {
  for (Operation *op : llvm::reverse(ops)) {
    OpBuilder at(op);
    auto zero = [&](OpOperand &operand) {
      operand.set(zeroOf(at, op->getLoc(), operand.get().getType()));
    };
    if (isa<scf::YieldOp>(op)) {
      auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
      for (OpOperand &operand : op->getOpOperands())
        if (linear.contains(operand.get())) {
          if (loop)
            operand.set(loop.getRegionIterArg(operand.getOperandNumber()));
          else
            zero(operand);
        }
    } else if (isa<scf::ForOp>(op)) {
      for (OpOperand &operand : op->getOpOperands())
        if (linear.contains(operand.get()))
          zero(operand);
    } else if (!isa<scf::IfOp>(op) && isLinear(op) && !isa<tile::YieldOp>(op) &&
               !isInCombiner(op)) {
      gone.insert(op);
      forget(op);
      op->erase();
    }
  }
}

/// Other values may come to the place of those of an operation that is erased.
void Transposer::forget(Operation *op) {
  op->walk(
      [&](Operation *inner) { forEachValueOf(inner, [&](Value value) { linear.erase(value); }); });
}

bool Transposer::isInCombiner(Operation *op) {
  return isa<tile::ReduceOp, tile::ScanOp, tile::MapElementwiseOp>(op->getParentOp());
}

bool Transposer::isWrite(Operation *op) {
  std::optional<Access> access = accessOf(op);
  return (access && access->stored) || isa<tile::PrintOp>(op);
}

void Transposer::dropWritesIn(Operation *op, bool exceptOutputs) {
  SmallVector<Operation *> writes;
  op->walk([&](Operation *inner) {
    if (inner != op && isWrite(inner) && !(exceptOutputs && inner->hasAttr(outputAttribute)))
      writes.push_back(inner);
  });
  for (Operation *write : writes)
    write->erase();
}

std::optional<Refusal> transpose(func::FuncOp kernel, ArrayRef<Argument> arguments,
                                 bool mayHaveSchedules) {
  return Transposer(kernel, arguments, mayHaveSchedules).run();
}

} // namespace nereid::differentiate

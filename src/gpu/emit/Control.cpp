// Loops and branches as basic blocks with a phi per register; calls; what names the program.
//
// Conditions are scalars, so all threads of a program take the same way: barriers and matrix
// instructions may stand anywhere inside.
#include "gpu/emit/Emitter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace nereid::gpu {
namespace {

/// The registers of several values, side by side.
Values flat(Emitter &e, ValueRange values) {
  Values result;
  for (mlir::Value value : values)
    llvm::append_range(result, e.get(value));
  return result;
}

/// Gives `values` their registers out of those of all, side by side.
void unflatten(Emitter &e, ValueRange values, llvm::ArrayRef<llvm::Value *> registers) {
  for (mlir::Value value : values) {
    unsigned count = e.registerCount(value.getType());
    e.set(value, registers.take_front(count));
    registers = registers.drop_front(count);
  }
}

/// Phis at the insertion point, with one incoming edge so far.
llvm::SmallVector<llvm::PHINode *> phis(Emitter &e, llvm::ArrayRef<llvm::Value *> values,
                                        llvm::BasicBlock *from) {
  llvm::SmallVector<llvm::PHINode *> result;
  for (llvm::Value *value : values) {
    auto *phi = e.b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, from);
    result.push_back(phi);
  }
  return result;
}

Values asValues(llvm::ArrayRef<llvm::PHINode *> phis) {
  return Values(phis.begin(), phis.end());
}

void addIncoming(llvm::ArrayRef<llvm::PHINode *> phis, llvm::ArrayRef<llvm::Value *> values,
                 llvm::BasicBlock *from) {
  for (auto [phi, value] : llvm::zip_equal(phis, values))
    phi->addIncoming(value, from);
}

/// Is a value that a loop carries read by matrix products alone, which take halves in pairs? Its
/// registers are then carried in pairs too: a phi of each half would take them apart in every
/// iteration.
bool inPairs(Emitter &e, scf::ForOp loop, unsigned number) {
  BlockArgument arg = loop.getRegionIterArg(number);
  auto type = dyn_cast<RankedTensorType>(arg.getType());
  return type && (type.getElementType().isF16() || type.getElementType().isBF16()) &&
         e.registerCount(type) % 2 == 0 && !arg.use_empty() &&
         llvm::all_of(arg.getUsers(), llvm::IsaPred<ngpu::WgmmaOp>);
}

/// What the loop carries of `values`, which are one for each of its arguments.
Values toCarried(Emitter &e, scf::ForOp loop, ValueRange values) {
  Values result;
  for (auto [number, value] : llvm::enumerate(values)) {
    llvm::ArrayRef<llvm::Value *> registers = e.get(value);
    if (!inPairs(e, loop, number)) {
      llvm::append_range(result, registers);
      continue;
    }
    auto *pair = llvm::FixedVectorType::get(registers[0]->getType(), 2);
    for (size_t i = 0; i < registers.size(); i += 2) {
      llvm::Value *both = llvm::PoisonValue::get(pair);
      for (uint64_t k = 0; k < 2; ++k)
        both = e.b.CreateInsertElement(both, registers[i + k], k);
      result.push_back(both);
    }
  }
  return result;
}

/// Gives `values` their registers out of what the loop carries.
void fromCarried(Emitter &e, scf::ForOp loop, ValueRange values,
                 llvm::ArrayRef<llvm::Value *> carried) {
  for (auto [number, value] : llvm::enumerate(values)) {
    unsigned count = e.registerCount(value.getType());
    bool pairs = inPairs(e, loop, number);
    llvm::ArrayRef<llvm::Value *> its = carried.take_front(pairs ? count / 2 : count);
    carried = carried.drop_front(its.size());
    if (!pairs) {
      e.set(value, its);
      continue;
    }
    Values registers;
    for (llvm::Value *both : its)
      for (uint64_t k = 0; k < 2; ++k)
        registers.push_back(e.b.CreateExtractElement(both, k));
    e.set(value, registers);
  }
}

llvm::MDNode *loopMetadata(Emitter &e, Operation *loop) {
  llvm::LLVMContext &context = e.b.getContext();
  llvm::SmallVector<llvm::Metadata *> parts = {nullptr};
  auto add = [&](StringRef name, std::optional<int64_t> number = {}) {
    llvm::SmallVector<llvm::Metadata *> words = {llvm::MDString::get(context, name)};
    if (number)
      words.push_back(llvm::ConstantAsMetadata::get(e.i32(*number)));
    parts.push_back(llvm::MDNode::get(context, words));
  };
  if (auto unroll = loop->getAttrOfType<IntegerAttr>("tile.unroll"); unroll && unroll.getInt() > 1)
    add("llvm.loop.unroll.count", unroll.getInt());
  else // The author says which loops are unrolled.
    add("llvm.loop.unroll.disable");
  llvm::MDNode *node = llvm::MDNode::getDistinct(context, parts);
  node->replaceOperandWith(0, node);
  return node;
}

void emitFor(Emitter &e, scf::ForOp loop) {
  llvm::Value *lower = e.scalar(loop.getLowerBound()), *upper = e.scalar(loop.getUpperBound()),
              *step = e.scalar(loop.getStep());
  Values initial = toCarried(e, loop, loop.getInitArgs());
  auto less = [&](llvm::Value *index) {
    return loop.getUnsignedCmp() ? e.b.CreateICmpULT(index, upper)
                                 : e.b.CreateICmpSLT(index, upper);
  };
  llvm::BasicBlock *before = e.b.GetInsertBlock(), *body = e.block("loop"),
                   *after = e.block("loop.end");
  e.b.CreateCondBr(less(lower), body, after);

  e.enter(body);
  auto *index = e.b.CreatePHI(lower->getType(), 2, "i");
  index->addIncoming(lower, before);
  auto carried = phis(e, initial, before);
  e.set(loop.getInductionVar(), {index});
  fromCarried(e, loop, loop.getRegionIterArgs(), asValues(carried));
  e.emitBlock(*loop.getBody());
  if (e.failed())
    return;
  Values yielded = toCarried(e, loop, loop.getBody()->getTerminator()->getOperands());
  e.b.SetCurrentDebugLocation(llvm::DebugLoc());
  // As in scf, the index does not pass the largest number.
  llvm::Value *next = e.b.CreateAdd(index, step, "", /*HasNUW=*/loop.getUnsignedCmp(),
                                    /*HasNSW=*/!loop.getUnsignedCmp());
  llvm::Value *again = less(next);
  // Registers in flight are awaited on the way out, before they meet those of a loop that was not
  // entered.
  bool inFlight = llvm::any_of(loop.getBody()->getTerminator()->getOperands(),
                               [&](mlir::Value value) { return e.isInFlight(value); });
  llvm::BasicBlock *end = e.b.GetInsertBlock(), *out = inFlight ? e.block("drain") : after;
  auto *branch = e.b.CreateCondBr(again, body, out);
  branch->setMetadata(llvm::LLVMContext::MD_loop, loopMetadata(e, loop));
  index->addIncoming(next, end);
  addIncoming(carried, yielded, end);
  if (inFlight) {
    e.enter(out);
    for (mlir::Value value : loop.getBody()->getTerminator()->getOperands())
      if (e.isInFlight(value))
        e.set(value, e.await(e.get(value)));
    yielded = toCarried(e, loop, loop.getBody()->getTerminator()->getOperands());
    e.b.CreateBr(after);
    end = out;
  }

  e.enter(after);
  auto results = phis(e, initial, before);
  addIncoming(results, yielded, end);
  fromCarried(e, loop, loop.getResults(), asValues(results));
}

void emitWhile(Emitter &e, scf::WhileOp loop) {
  Values initial = flat(e, loop.getInits());
  llvm::BasicBlock *before = e.b.GetInsertBlock(), *condition = e.block("while"),
                   *body = e.block("while.body"), *after = e.block("while.end");
  e.b.CreateBr(condition);
  e.enter(condition);
  auto carried = phis(e, initial, before);
  unflatten(e, loop.getBeforeArguments(), asValues(carried));
  e.emitBlock(*loop.getBeforeBody());
  if (e.failed())
    return;
  scf::ConditionOp decision = loop.getConditionOp();
  Values passed = flat(e, decision.getArgs());
  e.b.CreateCondBr(e.scalar(decision.getCondition()), body, after);

  e.enter(body);
  unflatten(e, loop.getAfterArguments(), passed);
  e.emitBlock(*loop.getAfterBody());
  if (e.failed())
    return;
  addIncoming(carried, flat(e, loop.getYieldOp().getOperands()), e.b.GetInsertBlock());
  auto *branch = e.b.CreateBr(condition);
  branch->setMetadata(llvm::LLVMContext::MD_loop, loopMetadata(e, loop));
  e.enter(after);
  unflatten(e, loop.getResults(), passed);
}

void emitIf(Emitter &e, scf::IfOp op) {
  bool hasElse = !op.getElseRegion().empty();
  llvm::BasicBlock *thenBlock = e.block("if"), *elseBlock = hasElse ? e.block("else") : nullptr,
                   *after = e.block("if.end");
  e.b.CreateCondBr(e.scalar(op.getCondition()), thenBlock, hasElse ? elseBlock : after);
  auto branch = [&](llvm::BasicBlock *block, Block *body) -> std::pair<Values, llvm::BasicBlock *> {
    e.enter(block);
    e.emitBlock(*body);
    if (e.failed())
      return {};
    Values values = flat(e, body->getTerminator()->getOperands());
    llvm::BasicBlock *end = e.b.GetInsertBlock();
    e.b.CreateBr(after);
    return {values, end};
  };
  auto [thenValues, thenEnd] = branch(thenBlock, op.thenBlock());
  if (e.failed())
    return;
  if (!hasElse) {
    e.enter(after);
    return;
  }
  auto [elseValues, elseEnd] = branch(elseBlock, op.elseBlock());
  if (e.failed())
    return;
  e.enter(after);
  auto results = phis(e, thenValues, thenEnd);
  addIncoming(results, elseValues, elseEnd);
  unflatten(e, op.getResults(), asValues(results));
}

void emitCall(Emitter &e, func::CallOp call) {
  auto module = call->getParentOfType<ModuleOp>();
  auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (!function || function.isExternal())
    return e.fail(call, "internal error: a call of a function without a body");
  auto *result = e.b.CreateCall(e.callee(function), flat(e, call.getOperands()));
  result->setConvergent();
  Values registers;
  if (auto *type = dyn_cast<llvm::StructType>(result->getType()))
    for (unsigned i = 0; i < type->getNumElements(); ++i)
      registers.push_back(e.b.CreateExtractValue(result, i));
  unflatten(e, call.getResults(), registers);
}

} // namespace

bool emitControl(Emitter &e, Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    emitFor(e, loop);
  else if (auto loop = dyn_cast<scf::WhileOp>(op))
    emitWhile(e, loop);
  else if (auto branch = dyn_cast<scf::IfOp>(op))
    emitIf(e, branch);
  else if (auto call = dyn_cast<func::CallOp>(op))
    emitCall(e, call);
  else if (auto id = dyn_cast<tile::ProgramIdOp>(op))
    e.set(id, {e.programId(id.getAxis())});
  else if (auto count = dyn_cast<tile::NumProgramsOp>(op))
    e.set(count, {e.programCount(count.getAxis())});
  else if (isa<tile::BarrierOp>(op))
    e.barrier();
  else
    return false;
  return true;
}

} // namespace nereid::gpu

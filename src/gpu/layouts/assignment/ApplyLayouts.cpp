// Rewrites a kernel by the layouts chosen: types get their encodings, computed values a copy per
// layout, placed values a `convert_layout` per further layout, dots their ops and operands.
#include "gpu/layouts/LayoutRelations.h"
#include "gpu/layouts/assignment/LayoutAssignment.h"
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

class Applier {
public:
  explicit Applier(LayoutProblem &problem) : p(problem) {}

  void run() {
    p.sweep(demands);
    instances.resize(p.values.size());
    // Loops and branches come before what is in them, so their arguments are there in time.
    for (unsigned i = 0; i < p.steps.size(); ++i)
      apply(i);
    for (Operation *op : llvm::reverse(dead))
      if (op->use_empty())
        op->erase();
  }

private:
  void apply(unsigned step);
  void applyComputed(unsigned step);
  void applyDot(unsigned step);
  void setOperands(Operation *op, unsigned step, LayoutId base);
  void setResults(Operation *op, LayoutId layout);
  void place(Value value);
  Value instance(unsigned value, LayoutId layout);
  Value buffer(OpOperand &operand, unsigned source, const DotOperandPlan &plan);
  Value anyInstance(unsigned value);
  void insertBehind(OpBuilder &builder, Value value);

  LayoutProblem &p;
  Demands demands;
  std::vector<SmallVector<std::pair<LayoutId, Value>, 2>> instances; ///< by value
  llvm::DenseMap<std::pair<Value, Type>, Value> buffers;
  SmallVector<Operation *> dead;
};

Value Applier::instance(unsigned value, LayoutId layout) {
  for (auto [known, there] : instances[value])
    if (known == layout)
      return there;
  llvm_unreachable("a use wants a layout that the sweep did not see");
}

Value Applier::anyInstance(unsigned value) {
  return instances[value].front().second;
}

void Applier::insertBehind(OpBuilder &builder, Value value) {
  if (auto arg = dyn_cast<BlockArgument>(value))
    builder.setInsertionPointToStart(arg.getOwner());
  else
    builder.setInsertionPointAfter(value.getDefiningOp());
}

/// A placed value gets its type, and a conversion for every other layout wanted.
void Applier::place(Value value) {
  unsigned number = p.numbers.lookup(value);
  LayoutId own = p.layoutOf(p.values[number]);
  value.setType(ngpu::withLayout(value.getType(), p.table[own]));
  instances[number].push_back({own, value});
  OpBuilder builder(p.kernel.getContext());
  insertBehind(builder, value);
  for (LayoutId other : demands[number])
    if (other != own)
      instances[number].push_back(
          {other, ngpu::ConvertLayoutOp::create(builder, value.getLoc(),
                                                ngpu::withLayout(value.getType(), p.table[other]),
                                                value)});
}

void Applier::setOperands(Operation *op, unsigned step, LayoutId base) {
  for (LayoutUse &use : p.steps[step].uses) {
    Value there;
    if (use.any)
      there = anyInstance(use.value);
    else if (use.node >= 0)
      there = instance(use.value, p.nodes[use.node].layout);
    else
      there = instance(use.value, p.operand(step, use, base));
    op->setOperand(use.operand, there);
  }
}

void Applier::applyComputed(unsigned index) {
  LayoutStep &step = p.steps[index];
  unsigned value = step.results.front();
  if (demands[value].empty()) {
    dead.push_back(step.op);
    return;
  }
  OpBuilder builder(step.op);
  for (auto [i, base] : llvm::enumerate(demands[value])) {
    Operation *op = step.op;
    if (i > 0) {
      builder.setInsertionPointAfter(step.op);
      op = builder.clone(*step.op);
    }
    setOperands(op, index, base);
    for (auto [result, number] : llvm::zip(op->getResults(), step.results)) {
      result.setType(ngpu::withLayout(result.getType(), p.table[base]));
      instances[number].push_back({base, result});
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto type = cast<RankedTensorType>(constant.getType());
      auto dense = cast<DenseElementsAttr>(constant.getValue());
      constant.setValueAttr(dense.isSplat()
                                ? DenseElementsAttr(dense.resizeSplat(type))
                                : DenseElementsAttr::getFromRawBuffer(type, dense.getRawData()));
    }
  }
}

/// The buffer that holds an operand of a dot; one for all dots that want it alike.
Value Applier::buffer(OpOperand &operand, unsigned source, const DotOperandPlan &plan) {
  auto type = cast<RankedTensorType>(operand.get().getType());
  MLIRContext *context = type.getContext();
  auto bufferOf = [&](Value value, const LinearLayout &layout) {
    return ngpu::BufferType::get(context, tile::shapeOf(value.getType()), type.getElementType(),
                                 ngpu::LayoutAttr::get(context, layout));
  };
  // The value behind each view, from the operand back to the filled buffer.
  ViewedValue viewed(operand.get());
  LinearLayout layout = plan.layout;
  SmallVector<ngpu::BufferType, 3> types{bufferOf(operand.get(), layout)};
  for (Operation *view : viewed.views) {
    layout = bufferBehind(view, layout);
    types.push_back(bufferOf(view->getOperand(0), layout));
  }
  Value tensor = anyInstance(source);
  OpBuilder builder(context);
  Value &whole = buffers[{tensor, types.back()}];
  if (!whole) {
    insertBehind(builder, tensor);
    whole =
        ngpu::LocalAllocOp::create(builder, tensor.getLoc(), types.back(), tensor, IntegerAttr());
  }
  Value seen = whole;
  builder.setInsertionPointAfter(whole.getDefiningOp());
  for (unsigned i = viewed.views.size(); i-- > 0;) {
    Location loc = tensor.getLoc();
    if (auto trans = dyn_cast<tile::TransOp>(viewed.views[i]))
      seen = ngpu::TransBufferOp::create(builder, loc, types[i], seen, trans.getOrder());
    else
      seen = ngpu::ReshapeBufferOp::create(builder, loc, types[i], seen);
  }
  return seen;
}

/// Products that start from zero need no accumulator made of zeros.
Value useAccumulator(OpBuilder &builder, tile::DotOp dot) {
  if (!matchPattern(dot.getC(), m_AnyZeroFloat()) && !matchPattern(dot.getC(), m_Zero()))
    return {};
  return arith::ConstantOp::create(builder, dot.getLoc(), builder.getBoolAttr(false));
}

void Applier::applyDot(unsigned index) {
  LayoutStep &step = p.steps[index];
  auto dot = cast<tile::DotOp>(step.op);
  const DotPlan &plan = p.dots[step.dot];
  auto operand = [&](unsigned i, const DotOperandPlan &wanted) {
    LayoutUse &use = step.uses[i];
    if (use.any)
      return buffer(dot->getOpOperand(use.operand), use.value, wanted);
    return instance(use.value, use.layout);
  };
  Value a = operand(0, plan.a), b = operand(1, plan.b);
  Value c = instance(step.uses[2].value, p.nodes[step.node].layout);
  OpBuilder builder(dot);
  Location loc = dot.getLoc();
  Value result;
  switch (plan.unit) {
  case MatrixUnit::Mma:
    result = ngpu::MmaOp::create(builder, loc, c.getType(), a, b, c, false, false);
    break;
  case MatrixUnit::Wgmma:
    result = ngpu::WgmmaOp::create(builder, loc, c.getType(), a, b, c, useAccumulator(builder, dot),
                                   false, plan.promoteK);
    break;
  case MatrixUnit::Fma:
    result = ngpu::FmaDotOp::create(builder, loc, c.getType(), a, b, c);
    break;
  }
  unsigned number = p.numbers.lookup(dot.getResult());
  dot.getResult().replaceAllUsesWith(result);
  p.values[number].value = result;
  p.numbers[result] = number;
  dot.erase();
  step.op = result.getDefiningOp();
  place(result);
}

void Applier::apply(unsigned index) {
  LayoutStep &step = p.steps[index];
  if (step.computed)
    return applyComputed(index);
  if (step.dot >= 0)
    return applyDot(index);
  setOperands(step.op, index, step.node >= 0 ? p.nodes[step.node].layout : kNoLayout);
  auto placeAll = [&](ValueRange values) {
    for (Value value : values)
      if (isa<RankedTensorType>(value.getType()))
        place(value);
  };
  placeAll(step.op->getResults());
  if (auto loop = dyn_cast<scf::ForOp>(step.op))
    placeAll(loop.getRegionIterArgs());
  if (auto loop = dyn_cast<scf::WhileOp>(step.op)) {
    placeAll(loop.getBeforeArguments());
    placeAll(loop.getAfterArguments());
  }
}

} // namespace

void applyLayouts(LayoutProblem &problem) {
  Applier(problem).run();
}

} // namespace nereid::gpu

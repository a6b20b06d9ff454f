// Forward mode. The kernel is walked once in its order; tangents and shadows are written beside the
// operations that they belong to. Loops, branches and combiners get further operands and results;
// everything that the kernel computed it computes as before.
#include "differentiate/Forward.h"

#include "differentiate/Access.h"
#include "differentiate/Blocks.h"
#include "differentiate/Combiners.h"
#include "differentiate/Rules.h"
#include "ir/tile/Combiner.h"
#include "ir/tile/Dialect.h"
#include "ir/tile/WithTangent.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace nereid::differentiate {
namespace {

class Forward {
public:
  Forward(func::FuncOp kernel, ArrayRef<Argument> arguments, Activity &activity, bool forTranspose)
      : kernel(kernel), activity(activity), builder(kernel.getContext()),
        forTranspose(forTranspose) {
    builder.setInsertionPointToStart(&kernel.getBody().front());
    for (auto [argument, value] : llvm::zip(arguments, kernel.getArguments())) {
      if (argument.tangent < 0)
        continue;
      Value partner = kernel.getArgument(argument.tangent);
      if (isa<tile::PtrType>(partner.getType()) && !isa<tile::PtrType>(value.getType()))
        partner = loaded(partner, value.getType());
      partners[value] = partner;
    }
  }

  void run() { walk(kernel.getBody().front()); }

private:
  //===--- tangents and shadows ---===//

  /// The tangent of a value, or the shadow of an address; null where there is none. Of sizes and
  /// strides of an argument's descriptor: those of its tangent's.
  Value partnerOf(Value value) const {
    Value partner = partners.lookup(value);
    bool isFloat = isa<FloatType>(tile::elementOf(value.getType()));
    return isFloat && !activity.hasTangent(value) ? Value() : partner;
  }

  bool isWanted(Value value) const {
    return activity.hasTangent(value) || activity.hasShadow(value);
  }

  /// The same where one has to be.
  Value partnerOrNothing(Value value) {
    if (Value partner = partnerOf(value))
      return partner;
    if (isa<FloatType>(tile::elementOf(value.getType())))
      return zeroOf(builder, value.getLoc(), value.getType());
    return ub::PoisonOp::create(builder, value.getLoc(), value.getType());
  }

  SmallVector<Value> partnersOrNothing(ValueRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return partnerOrNothing(value); });
  }

  /// Those of the values that have partners.
  SmallVector<unsigned> wantedOf(ValueRange values) const {
    SmallVector<unsigned> wanted;
    for (auto [i, value] : llvm::enumerate(values))
      if (isWanted(value))
        wanted.push_back(i);
    return wanted;
  }

  //===--- the walk ---===//

  void walk(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      builder.setInsertionPointAfter(&op);
      visit(&op);
    }
  }

  void visit(Operation *op) {
    if (isa<scf::ForOp>(op))
      return visitFor(cast<scf::ForOp>(op));
    if (isa<scf::WhileOp>(op))
      return visitWhile(cast<scf::WhileOp>(op));
    if (isa<scf::IfOp>(op))
      return visitIf(cast<scf::IfOp>(op));
    if (isa<tile::ReduceOp, tile::ScanOp>(op))
      return visitCombiner(op);
    if (isa<tile::MapElementwiseOp>(op))
      return visitMap(cast<tile::MapElementwiseOp>(op));
    if (isa<tile::DotOp>(op))
      return visitDot(cast<tile::DotOp>(op));
    if (visitMemory(op))
      return;
    if (tile::isWithTangent(op)) {
      if (activity.hasTangent(op->getResult(0)))
        partners[op->getResult(0)] = partnerOrNothing(op->getOperand(1));
      return;
    }
    const Row *row = findRow(op->getName().getStringRef());
    if (auto device = dyn_cast<tile::ExternOp>(op))
      row = findDeviceRow(device.getSymbol());
    else if (auto assembly = dyn_cast<tile::InlineAsmOp>(op))
      row = findAssemblyRow(assembly.getAssembly());
    if (row && row->kind == Row::Kind::Moves)
      visitMoves(op);
    else if (row && row->kind == Row::Kind::Rule && activity.hasTangent(op->getResult(0)))
      partners[op->getResult(0)] =
          row->rule(Dual(builder, op, [&](Value value) { return partnerOf(value); }));
  }

  /// The same operation on tangents or shadows.
  void visitMoves(Operation *op) {
    // The two must not be put into different orders.
    if (auto reshape = dyn_cast<tile::ReshapeOp>(op); reshape && isWanted(op->getResult(0)))
      reshape.setAnyOrder(false);
    if (llvm::none_of(op->getResults(), [&](Value result) { return isWanted(result); }))
      return;
    // What the author promises of an address, its alignment say, need not hold for its tangent's.
    if (isa<tile::HintOp>(op) && activity.hasShadow(op->getResult(0))) {
      partners[op->getResult(0)] = partnerOf(op->getOperand(0));
      return;
    }
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      bool isMoved =
          isa<FloatType, tile::PtrType, tile::DescType>(tile::elementOf(operand.getType()));
      Value partner = partnerOf(operand);
      // The sizes and strides of an argument's descriptor are those of its tangent's.
      bool isOfDescriptor = partner && isa<tile::MakeDescriptorOp>(op);
      operands.push_back(isMoved ? partnerOrNothing(operand) : isOfDescriptor ? partner : operand);
    }
    Operation *copy = builder.clone(*op);
    copy->setOperands(operands);
    for (auto [result, partner] : llvm::zip(op->getResults(), copy->getResults())) {
      // A gradient's elements may be wider than those of what it belongs to.
      for (Value operand : operands)
        if (Type element = tile::elementOf(operand.getType());
            isa<tile::PtrType>(element) && isa<tile::PtrType>(tile::elementOf(partner.getType())) &&
            !isa<tile::PtrCastOp>(op))
          partner.setType(tile::withShapeOf(element, partner.getType()));
      if (auto desc = dyn_cast<tile::DescType>(partner.getType()))
        partner.setType(leadingTo(pointeeOf(operands[0].getType()), desc));
      partners[result] = partner;
    }
  }

  /// The type of a descriptor of the same blocks with other elements.
  static Type leadingTo(Type element, tile::DescType desc) {
    return tile::DescType::get(desc.getContext(), desc.getShape(), element, desc.getPadding());
  }

  //===--- memory ---===//

  /// A copy of an access that takes place through the shadow.
  Operation *throughShadow(Operation *op, Value address) {
    Operation *copy = builder.clone(*op);
    copy->replaceUsesOfWith(address, partners.lookup(address));
    return copy;
  }

  bool visitMemory(Operation *op) {
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      if (!activity.hasTangent(load.getResult()))
        return true;
      visitLoad(load);
    } else if (isa<tile::DescLoadOp, tile::DescGatherOp>(op)) {
      if (activity.hasTangent(op->getResult(0))) {
        Value loaded = throughShadow(op, op->getOperand(0))->getResult(0);
        Type element = tile::elementOf(loaded.getType());
        Type stored = pointeeOf(partners.lookup(op->getOperand(0)).getType());
        loaded.setType(tile::withShapeOf(stored, loaded.getType()));
        partners[op->getResult(0)] = convertTo(builder, loaded, element);
      }
    } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
      if (activity.hasShadow(store.getPtr())) {
        Value tangent = partnerOrNothing(store.getValue());
        cast<tile::StoreOp>(throughShadow(op, store.getPtr())).getValueMutable().assign(tangent);
      }
    } else if (auto store = dyn_cast<tile::DescStoreOp>(op)) {
      if (activity.hasShadow(store.getDesc())) {
        Value tangent = partnerOrNothing(store.getValue());
        cast<tile::DescStoreOp>(throughShadow(op, store.getDesc()))
            .getValueMutable()
            .assign(tangent);
      }
    } else if (auto store = dyn_cast<tile::DescScatterOp>(op)) {
      if (activity.hasShadow(store.getDesc())) {
        Value tangent = partnerOrNothing(store.getValue());
        cast<tile::DescScatterOp>(throughShadow(op, store.getDesc()))
            .getValueMutable()
            .assign(tangent);
      }
    } else if (auto atomic = dyn_cast<tile::AtomicRMWOp>(op)) {
      Value tangent = partnerOf(atomic.getValue());
      if (activity.hasShadow(atomic.getPtr()) && tangent)
        cast<tile::AtomicRMWOp>(throughShadow(op, atomic.getPtr()))
            .getValueMutable()
            .assign(tangent);
    } else if (auto reduce = dyn_cast<tile::DescReduceOp>(op)) {
      Value tangent = partnerOf(reduce.getValue());
      if (activity.hasShadow(reduce.getDesc()) && tangent)
        cast<tile::DescReduceOp>(throughShadow(op, reduce.getDesc()))
            .getValueMutable()
            .assign(tangent);
    } else {
      return isa<tile::Atomic>(op);
    }
    return true;
  }

  /// Masked lanes have the tangent of `other`, which is zero without one.
  void visitLoad(tile::LoadOp load) {
    Value other = load.getOther() ? partnerOf(load.getOther()) : Value();
    Type type = load.getResult().getType();
    Value address = activity.hasShadow(load.getPtr()) ? partners.lookup(load.getPtr()) : Value();
    if (!address) { // `other` alone depends on the inputs
      Value zero = zeroOf(builder, load.getLoc(), type);
      Value mask = load.getMask();
      partners[load.getResult()] =
          mask && other ? arith::SelectOp::create(builder, load.getLoc(), mask, zero, other) : zero;
      return;
    }
    auto copy = cast<tile::LoadOp>(builder.clone(*load));
    copy.getPtrMutable().assign(address);
    Type element = tile::elementOf(type);
    Type stored = cast<tile::PtrType>(tile::elementOf(address.getType())).getPointee();
    builder.setInsertionPoint(copy);
    if (other)
      other = convertTo(builder, other, stored);
    copy.getOtherMutable().assign(other ? ValueRange(other) : ValueRange());
    copy.getResult().setType(tile::withShapeOf(stored, type));
    builder.setInsertionPointAfter(copy);
    partners[load.getResult()] = convertTo(builder, copy.getResult(), element);
  }

  /// The number that a pointer leads to.
  Value loaded(Value pointer, Type type) {
    Type stored = cast<tile::PtrType>(pointer.getType()).getPointee();
    Value value =
        tile::LoadOp::create(builder, pointer.getLoc(), stored, pointer, Value(), Value());
    return convertTo(builder, value, type);
  }

  //===--- products ---===//

  /// da b + a db + dc, summed in the accumulator as the product is.
  void visitDot(tile::DotOp dot) {
    if (!activity.hasTangent(dot.getResult()))
      return;
    Value da = partnerOf(dot.getA()), db = partnerOf(dot.getB());
    Value sum = partnerOf(dot.getC());
    auto product = [&](Value a, Value b) {
      if (!sum)
        sum = zeroOf(builder, dot.getLoc(), dot.getC().getType());
      auto copy = cast<tile::DotOp>(builder.clone(*dot));
      copy->setOperands({a, b, sum});
      sum = copy.getResult();
    };
    if (da)
      product(da, dot.getB());
    if (db)
      product(dot.getA(), db);
    partners[dot.getResult()] = sum;
  }

  //===--- regions ---===//

  /// Creates `op` anew with further operands and results, its regions moved into the new one.
  Operation *widened(Operation *op, ValueRange operands, ArrayRef<Type> resultTypes) {
    builder.setInsertionPoint(op);
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(resultTypes);
    state.addAttributes(op->getAttrs());
    for (Region &region : op->getRegions())
      state.addRegion()->takeBody(region);
    Operation *wide = builder.create(state);
    for (auto [from, to] : llvm::zip(op->getResults(), wide->getResults())) {
      activity.replaced(from, to);
      from.replaceAllUsesWith(to);
    }
    op->erase();
    return wide;
  }

  void appendToTerminator(Block &block, ArrayRef<unsigned> wanted, unsigned skipped = 0) {
    Operation *end = block.getTerminator();
    builder.setInsertionPoint(end);
    SmallVector<Value> operands(end->getOperands());
    for (unsigned i : wanted)
      operands.push_back(partnerOrNothing(end->getOperand(skipped + i)));
    end->setOperands(operands);
  }

  void addArguments(Block &block, ArrayRef<unsigned> wanted, unsigned skipped = 0) {
    for (unsigned i : wanted) {
      BlockArgument argument = block.getArgument(skipped + i);
      partners[argument] = block.addArgument(argument.getType(), argument.getLoc());
    }
  }

  SmallVector<Type> typesWith(Operation *op, ArrayRef<unsigned> wanted) const {
    SmallVector<Type> types(op->getResultTypes());
    for (unsigned i : wanted)
      types.push_back(op->getResult(i).getType());
    return types;
  }

  /// A gradient's elements may be wider than those of what it belongs to: gives the last of `to`,
  /// which are partners of `wanted`, the types of the last of `from`. Poison has the type of
  /// others.
  static void agree(ValueRange from, ValueRange to, ArrayRef<unsigned> wanted) {
    for (auto [a, b] : llvm::zip(from.take_back(wanted.size()), to.take_back(wanted.size())))
      if (!a.getDefiningOp<ub::PoisonOp>())
        b.setType(a.getType());
  }

  void noteResults(Operation *op, ArrayRef<unsigned> wanted) {
    unsigned count = op->getNumResults() - wanted.size();
    for (auto [k, i] : llvm::enumerate(wanted))
      partners[op->getResult(i)] = op->getResult(count + k);
  }

  void visitFor(scf::ForOp loop) {
    SmallVector<unsigned> wanted = wantedOf(loop.getResults());
    Operation *op = loop;
    if (!wanted.empty()) {
      builder.setInsertionPoint(op);
      SmallVector<Value> operands(op->getOperands());
      for (unsigned i : wanted)
        operands.push_back(partnerOrNothing(loop.getInitArgs()[i]));
      op = widened(op, operands, typesWith(op, wanted));
      addArguments(op->getRegion(0).front(), wanted, /*skipped=*/1);
      // The variable of the loop takes the place of its three bounds.
      agree(op->getOperands().drop_front(3), op->getRegion(0).getArguments().drop_front(1), wanted);
    }
    Block &body = op->getRegion(0).front();
    walk(body);
    appendToTerminator(body, wanted);
    noteResults(op, wanted);
    agree(body.getTerminator()->getOperands(), body.getArguments().drop_front(1), wanted);
    agree(body.getTerminator()->getOperands(), op->getOperands().drop_front(3), wanted);
    agree(body.getTerminator()->getOperands(), op->getResults(), wanted);
  }

  void visitWhile(scf::WhileOp loop) {
    SmallVector<unsigned> carried = wantedOf(loop.getBeforeArguments());
    SmallVector<unsigned> given = wantedOf(loop.getResults());
    Operation *op = loop;
    if (!carried.empty() || !given.empty()) {
      builder.setInsertionPoint(op);
      SmallVector<Value> operands(op->getOperands());
      for (unsigned i : carried)
        operands.push_back(partnerOrNothing(loop.getInits()[i]));
      op = widened(op, operands, typesWith(op, given));
      addArguments(op->getRegion(0).front(), carried);
      addArguments(op->getRegion(1).front(), given);
      agree(op->getOperands(), op->getRegion(0).getArguments(), carried);
    }
    walk(op->getRegion(0).front());
    appendToTerminator(op->getRegion(0).front(), given, /*skipped=*/1); // the condition
    ValueRange passed = op->getRegion(0).front().getTerminator()->getOperands().drop_front(1);
    agree(passed, op->getRegion(1).getArguments(), given);
    agree(passed, op->getResults(), given);
    walk(op->getRegion(1).front());
    appendToTerminator(op->getRegion(1).front(), carried);
    noteResults(op, given);
  }

  void visitIf(scf::IfOp branch) {
    SmallVector<unsigned> wanted = wantedOf(branch.getResults());
    Operation *op = branch;
    if (!wanted.empty())
      op = widened(op, op->getOperands(), typesWith(op, wanted));
    for (Region &region : op->getRegions()) {
      if (region.empty())
        continue;
      walk(region.front());
      appendToTerminator(region.front(), wanted);
      agree(region.front().getTerminator()->getOperands(), op->getResults(), wanted);
    }
    noteResults(op, wanted);
    for (Region &region : op->getRegions())
      if (!region.empty())
        agree(op->getResults(), region.front().getTerminator()->getOperands(), wanted);
  }

  /// Whether tangents combine as the values do: all that have one are sums of their own.
  bool isSum(Operation *op, ArrayRef<unsigned> wanted) const {
    return llvm::all_of(wanted, [&](unsigned i) {
      return tile::resultKind(op->getRegion(0), i) == tile::CombinerKind::AddF;
    });
  }

  /// A reduction or scan of values and tangents together: the combiner's derivative is associative
  /// as the combiner is. Sums are summed on their own, which targets do best.
  void visitCombiner(Operation *op) {
    SmallVector<unsigned> wanted;
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      if (activity.hasTangent(op->getResult(i)))
        wanted.push_back(i);
    // Of an extremum with its index, the index may be all that is used.
    if (llvm::all_of(wanted, [&](unsigned i) { return op->getResult(i).use_empty(); }))
      return;
    if (op->getNumOperands() == 1 && isSum(op, wanted)) {
      Value tangent = partnerOrNothing(op->getOperand(0));
      Operation *copy = builder.clone(*op);
      copy->setOperands({tangent});
      partners[op->getResult(0)] = copy->getResult(0);
      return;
    }
    if (forTranspose && op->getNumOperands() == 1 && visitExtremum(op))
      return;
    if (forTranspose && visitAnyCombiner(op, wanted))
      return;
    builder.setInsertionPoint(op);
    unsigned count = op->getNumOperands();
    SmallVector<Value> operands(op->getOperands());
    for (unsigned i : wanted)
      operands.push_back(partnerOrNothing(op->getOperand(i)));
    op = widened(op, operands, typesWith(op, wanted));
    Block &body = op->getRegion(0).front();
    // Left values, left tangents, right values, right tangents.
    for (auto [k, i] : llvm::enumerate(wanted)) {
      BlockArgument of = body.getArgument(i);
      partners[of] = body.insertArgument(count + k, of.getType(), of.getLoc());
    }
    addArguments(body, wanted, /*skipped=*/count + wanted.size());
    walk(body);
    appendToTerminator(body, wanted);
    noteResults(op, wanted);
  }

  /// The tangent of a largest or smallest element as a sum of which one summand is not zero.
  bool visitExtremum(Operation *op) {
    auto reduce = dyn_cast<tile::ReduceOp>(op);
    if (!reduce)
      return false;
    using Kind = tile::CombinerKind;
    Kind kind = tile::resultKind(op->getRegion(0), 0);
    bool isLargest = kind == Kind::MaxNum || kind == Kind::Maximum;
    if (!isLargest && kind != Kind::MinNum && kind != Kind::Minimum)
      return false;
    Location loc = op->getLoc();
    unsigned axis = reduce.getAxis();
    auto type = cast<RankedTensorType>(op->getOperand(0).getType());
    Value first = firstExtremum(builder, loc, op->getOperand(0), axis, isLargest);
    Value positions = positionsAlong(builder, loc, axis, type.getShape());
    Value chosen = arith::CmpIOp::create(
        builder, loc, arith::CmpIPredicate::eq, positions,
        repeatAlong(builder, loc, first, axis, cast<RankedTensorType>(positions.getType())));
    Value summand = arith::SelectOp::create(
        builder, loc, chosen, partnerOrNothing(op->getOperand(0)), zeroOf(builder, loc, type));
    partners[op->getResult(0)] = sumAlong(builder, loc, summand, axis);
    return true;
  }

  /// Tangents as a linear recurrence, which has a transpose.
  bool visitAnyCombiner(Operation *op, ArrayRef<unsigned> wanted) {
    SmallVector<Value> tangents = llvm::map_to_vector(
        op->getOperands(), [&](Value operand) -> Value { return partnerOf(operand); });
    auto found = tangentsOfCombination(builder, op, wanted, tangents);
    if (!found)
      return false;
    for (auto [i, tangent] : llvm::zip(wanted, *found))
      partners[op->getResult(i)] = tangent;
    return true;
  }

  void visitMap(tile::MapElementwiseOp map) {
    SmallVector<unsigned> sources = wantedOf(map.getSrcs()), wanted = wantedOf(map.getResult());
    if (wanted.empty())
      return;
    builder.setInsertionPoint(map);
    unsigned pack = map.getPack();
    SmallVector<Value> operands(map.getSrcs());
    for (unsigned i : sources)
      operands.push_back(partnerOrNothing(map.getSrcs()[i]));
    Operation *op = widened(map, operands, typesWith(map, wanted));
    Block &body = op->getRegion(0).front();
    auto places = [&](ArrayRef<unsigned> values) {
      SmallVector<unsigned> all;
      for (unsigned i : values)
        for (unsigned k = 0; k < pack; ++k)
          all.push_back(i * pack + k);
      return all;
    };
    addArguments(body, places(sources));
    walk(body);
    appendToTerminator(body, places(wanted));
    noteResults(op, wanted);
  }

  func::FuncOp kernel;
  Activity &activity;
  OpBuilder builder;
  bool forTranspose;
  llvm::DenseMap<Value, Value> partners;
};

} // namespace

void addTangents(func::FuncOp kernel, ArrayRef<Argument> arguments, Activity &activity,
                 bool forTranspose) {
  Forward(kernel, arguments, activity, forTranspose).run();
}

} // namespace nereid::differentiate

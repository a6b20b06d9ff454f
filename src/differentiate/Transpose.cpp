#include "differentiate/Transpose.h"

#include "differentiate/Access.h"
#include "differentiate/Addresses.h"
#include "differentiate/Blocks.h"
#include "differentiate/Refuse.h"
#include "ir/tile/Combiner.h"
#include "transforms/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using nereid::transforms::Origins;
using nereid::transforms::Provenance;

namespace nereid::differentiate {

//===--- what has no gradient
//-----------------------------------------------------------------------------===//

namespace {

struct Store {
  Operation *op;
  Access access;
};

/// Whether the two stand in different branches of one `if`.
bool exclude(Operation *a, Operation *b) {
  for (Operation *parent = a->getParentOp(); parent; parent = parent->getParentOp())
    if (auto branch = dyn_cast<scf::IfOp>(parent)) {
      Region *ofA = nullptr, *ofB = nullptr;
      for (Region &region : branch->getRegions()) {
        if (region.isAncestor(a->getParentRegion()))
          ofA = &region;
        if (region.isAncestor(b->getParentRegion()))
          ofB = &region;
      }
      if (ofA && ofB && ofA != ofB)
        return true;
    }
  return false;
}

} // namespace

std::optional<Refusal> findGradientRefusal(func::FuncOp kernel, ArrayRef<Argument> arguments) {
  Provenance provenance(kernel);
  llvm::BitVector isRead(arguments.size());
  SmallVector<SmallVector<Store>> stores(arguments.size());
  std::optional<Refusal> found;
  kernel.walk([&](Operation *op) {
    std::optional<Access> access = accessOf(op);
    if (!access)
      return WalkResult::advance();
    const Origins &from = provenance.of(access->address);
    if (from.unknown) {
      found = refuse(op->getLoc(), diag::DerivativePointerUnknown);
      return WalkResult::interrupt();
    }
    for (unsigned argument : from.arguments.set_bits()) {
      if (access->loaded)
        isRead.set(argument);
      if (access->stored)
        stores[argument].push_back({op, *access});
    }
    return WalkResult::advance();
  });
  if (found)
    return found;
  for (unsigned argument = 0; argument < arguments.size(); ++argument) {
    ArrayRef<Store> all = stores[argument];
    if (all.empty())
      continue;
    if (isRead.test(argument))
      return refuse(all[0].op->getLoc(), diag::GradientInPlace, argumentName(kernel, argument));
    if (!arguments[argument].isOutput)
      continue;
    for (unsigned i = 0; i < all.size(); ++i)
      for (unsigned j = i + 1; j < all.size(); ++j) {
        bool areSums = all[i].access.isAtomic && all[j].access.isAtomic;
        if (!areSums && !exclude(all[i].op, all[j].op) &&
            !neverMeet(all[i].access.address, all[j].access.address))
          return refuse(all[j].op->getLoc(), diag::GradientStoredTwice,
                        argumentName(kernel, argument));
      }
  }
  return std::nullopt;
}

//===--- the transpose
//--------------------------------------------------------------------------------===//

namespace {

class Transposer {
public:
  Transposer(func::FuncOp kernel, ArrayRef<Argument> arguments)
      : kernel(kernel), arguments(arguments), provenance(kernel), builder(kernel.getContext()) {
    isGradient.resize(arguments.size());
    for (const Argument &argument : arguments)
      if (argument.tangent >= 0 && argument.isInput)
        isGradient.set(argument.tangent);
    loads.resize(arguments.size());
    kernel.walk([&](Operation *op) {
      if (readsGradient(op))
        for (unsigned argument : provenance.of(accessOf(op)->address).arguments.set_bits())
          ++loads[argument];
    });
  }

  std::optional<Refusal> run() {
    while (findLinear())
      ;
    if (std::optional<Refusal> refusal = checkRegions())
      return refusal;
    Block &body = kernel.getBody().front();
    SmallVector<Operation *> before;
    body.walk<WalkOrder::PreOrder>([&](Operation *op) { before.push_back(op); });
    builder.setInsertionPoint(body.getTerminator());
    transposeBlock(body);
    if (!refusal) {
      SmallVector<Operation *> writes;
      llvm::copy_if(before, std::back_inserter(writes), isWrite);
      strip(before);
      for (Operation *write : writes)
        if (!gone.contains(write))
          write->erase();
      kernel->setAttr("tile.gradients",
                      builder.getStrArrayAttr(llvm::map_to_vector(
                          notes, [](const std::string &note) { return llvm::StringRef(note); })));
    }
    return refusal;
  }

private:
  //===--- what is linear ---===//

  /// Whether it reads what will be a gradient.
  bool readsGradient(Operation *op) const {
    std::optional<Access> access = accessOf(op);
    return access && access->loaded && !access->stored &&
           provenance.of(access->address).arguments.anyCommon(isGradient);
  }

  static bool isFloat(Value value) { return isa<FloatType>(tile::elementOf(value.getType())); }

  /// One more round over the kernel; whether anything was found.
  bool findLinear() {
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
      if (readsGradient(op) || (!isa<scf::YieldOp>(op) && hasLinear(op->getOperands()))) {
        addAll(op->getResults());
        for (Region &region : op->getRegions())
          for (Block &block : region)
            addAll(block.getArguments());
      }
    });
    return linear.size() != before;
  }

  bool hasLinear(ValueRange values) const {
    return llvm::any_of(values, [&](Value value) { return linear.contains(value); });
  }

  bool isLinear(Operation *op) const {
    if (hasLinear(op->getOperands()) || hasLinear(op->getResults()))
      return true;
    return op->getNumRegions() && op->walk([&](Operation *inner) {
                                      return hasLinear(inner->getOperands()) ||
                                                     hasLinear(inner->getResults())
                                                 ? WalkResult::interrupt()
                                                 : WalkResult::advance();
                                    }).wasInterrupted();
  }

  /// Loops, and combiners other than sums.
  std::optional<Refusal> checkRegions() const {
    std::optional<Refusal> found;
    kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<scf::ForOp, scf::WhileOp>(op) && isLinear(op))
        found = refuse(op->getLoc(), diag::GradientRefused, "a loop that computes with tangents",
                       "unroll it with `tl.static_range`, or use `nereid.jvp`");
      else if (isa<tile::MapElementwiseOp>(op) && isLinear(op))
        found = refuse(op->getLoc(), diag::GradientRefused, "`map_elementwise`",
                       "call the function on blocks, or use `nereid.jvp`");
      else if (isa<tile::ReduceOp, tile::ScanOp>(op) && isLinear(op) && !isOneSum(op))
        found =
            refuse(op->getLoc(), diag::GradientRefused, "a reduction or scan with this combiner",
                   "so far sums, and extrema without an index, have one; use `nereid.jvp`");
      return found ? WalkResult::interrupt() : WalkResult::advance();
    });
    return found;
  }

  //===--- adjoints ---===//

  /// What a value that is not linear is where the transpose is written.
  Value here(Value value) const { return residuals.lookupOrDefault(value); }

  void accumulate(Value value, Value adjoint) {
    if (!adjoint || !linear.contains(value))
      return;
    Value &sum = adjoints[value];
    sum =
        sum ? arith::AddFOp::create(builder, adjoint.getLoc(), sum, adjoint).getResult() : adjoint;
  }

  Value orZero(Value adjoint, Value of) {
    return adjoint ? adjoint : zeroOf(builder, of.getLoc(), of.getType());
  }

  void refuseHere(Operation *op, llvm::StringRef what, llvm::StringRef why) {
    if (!refusal)
      refusal = refuse(op->getLoc(), diag::GradientRefused, what.str(), why.str());
  }

  void transposeBlock(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block.without_terminator()))) {
      if (refusal)
        return;
      if (isLinear(&op))
        transposeOp(&op);
    }
  }

  void transposeOp(Operation *op) {
    if (auto branch = dyn_cast<scf::IfOp>(op))
      return transposeIf(branch);
    if (transposeMemory(op))
      return;
    if (op->getNumResults() == 0)
      return;
    if (auto split = dyn_cast<tile::SplitOp>(op))
      return transposeSplit(split);
    Value a = adjoints.lookup(op->getResult(0));
    if (!a)
      return; // nothing that is wanted depends on it
    if (transposeArithmetic(op, a) || transposeShape(op, a))
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

  //===--- elementwise ---===//

  bool transposeArithmetic(Operation *op, Value a) {
    Location loc = op->getLoc();
    auto x = [&](unsigned i) { return op->getOperand(i); };
    if (isa<arith::AddFOp>(op)) {
      accumulate(x(0), a);
      accumulate(x(1), a);
    } else if (isa<arith::SubFOp>(op)) {
      accumulate(x(0), a);
      if (linear.contains(x(1)))
        accumulate(x(1), arith::NegFOp::create(builder, loc, a));
    } else if (isa<arith::NegFOp>(op)) {
      accumulate(x(0), arith::NegFOp::create(builder, loc, a));
    } else if (isa<arith::MulFOp>(op) && linear.contains(x(0)) != linear.contains(x(1))) {
      unsigned i = linear.contains(x(0)) ? 0 : 1;
      accumulate(x(i), arith::MulFOp::create(builder, loc, a, here(x(1 - i))));
    } else if (isa<arith::DivFOp>(op) && !linear.contains(x(1))) {
      accumulate(x(0), arith::DivFOp::create(builder, loc, a, here(x(1))));
    } else if (auto select = dyn_cast<arith::SelectOp>(op)) {
      Value zero = zeroOf(builder, loc, a.getType()), condition = here(select.getCondition());
      auto part = [&](Value whereTrue, Value whereFalse) -> Value {
        return arith::SelectOp::create(builder, loc, condition, whereTrue, whereFalse);
      };
      if (linear.contains(select.getTrueValue()))
        accumulate(select.getTrueValue(), part(a, zero));
      if (linear.contains(select.getFalseValue()))
        accumulate(select.getFalseValue(), part(zero, a));
    } else if (isa<arith::ExtFOp, arith::TruncFOp, tile::FpCastOp>(op)) {
      accumulate(x(0), convertTo(builder, a, tile::elementOf(x(0).getType())));
    } else {
      return false;
    }
    return true;
  }

  /// Functions of the library that are linear: scaling by powers of two, conversions.
  void transposeDevice(tile::ExternOp op, Value a) {
    StringRef symbol = op.getSymbol();
    Value x = op->getOperand(0);
    if (symbol.contains("double2float"))
      return accumulate(x, convertTo(builder, a, tile::elementOf(x.getType())));
    if (!symbol.contains("ldexp") && !symbol.contains("scalbn"))
      return refuseHere(op, "`" + symbol.str() + "`", "it is not transposed yet; use `nereid.jvp`");
    Operation *copy = builder.clone(*op);
    SmallVector<Value> operands{a};
    for (Value operand : op->getOperands().drop_front())
      operands.push_back(here(operand));
    copy->setOperands(operands);
    accumulate(x, copy->getResult(0));
  }

  //===--- shapes ---===//

  bool transposeShape(Operation *op, Value a) {
    Location loc = op->getLoc();
    Value x = op->getOperand(0);
    auto type = dyn_cast<RankedTensorType>(x.getType());
    if (isa<tile::HintOp>(op)) {
      accumulate(x, a);
    } else if (isa<tile::SplatOp>(op)) {
      accumulate(x, sumOfAll(builder, loc, a));
    } else if (isa<tile::UnsplatOp>(op)) {
      accumulate(x, tile::SplatOp::create(builder, loc, type, a));
    } else if (isa<tile::BroadcastOp>(op)) {
      auto wide = cast<RankedTensorType>(a.getType());
      for (int64_t i = 0; i < type.getRank(); ++i)
        if (type.getDimSize(i) != wide.getDimSize(i)) {
          SmallVector<int64_t> shape(cast<RankedTensorType>(a.getType()).getShape());
          shape[i] = 1;
          Value sum = sumAlong(builder, loc, a, i);
          a = isa<RankedTensorType>(sum.getType())
                  ? tile::ExpandDimsOp::create(builder, loc, type.clone(shape), sum, i).getResult()
                  : tile::SplatOp::create(builder, loc, type.clone(shape), sum).getResult();
        }
      accumulate(x, a);
    } else if (isa<tile::ExpandDimsOp, tile::ReshapeOp>(op)) {
      accumulate(x, tile::ReshapeOp::create(builder, loc, type, a));
    } else if (auto trans = dyn_cast<tile::TransOp>(op)) {
      SmallVector<int32_t> inverse(trans.getOrder().size());
      for (auto [i, dim] : llvm::enumerate(trans.getOrder()))
        inverse[dim] = i;
      accumulate(x, tile::TransOp::create(builder, loc, type, a, inverse));
    } else if (auto exchange = dyn_cast<tile::ExchangeOp>(op)) {
      Operation *copy = builder.clone(*op);
      copy->setOperands({a});
      accumulate(x, copy->getResult(0));
    } else if (auto join = dyn_cast<tile::JoinOp>(op)) {
      auto parts = tile::SplitOp::create(builder, loc, x.getType(), x.getType(), a);
      accumulate(join.getLhs(), parts.getLhs());
      accumulate(join.getRhs(), parts.getRhs());
    } else if (auto cat = dyn_cast<tile::CatOp>(op)) {
      SmallVector<int64_t> offsets(type.getRank(), 0), steps(type.getRank(), 1);
      for (Value part : {cat.getLhs(), cat.getRhs()}) {
        accumulate(part, tile::SliceOp::create(builder, loc, part.getType(), a, offsets, steps));
        offsets[cat.getDim()] += cast<RankedTensorType>(part.getType()).getDimSize(cat.getDim());
      }
    } else {
      return false;
    }
    return true;
  }

  void transposeSplit(tile::SplitOp split) {
    Value left = adjoints.lookup(split.getLhs()), right = adjoints.lookup(split.getRhs());
    if (!left && !right)
      return;
    accumulate(split.getSrc(),
               tile::JoinOp::create(builder, split.getLoc(), split.getSrc().getType(),
                                    orZero(left, split.getLhs()), orZero(right, split.getRhs())));
  }

  //===--- sums and products ---===//

  static bool isOneSum(Operation *op) {
    return op->getNumOperands() == 1 &&
           tile::resultKind(op->getRegion(0), 0) == tile::CombinerKind::AddF;
  }

  void transposeSum(tile::ReduceOp op, unsigned axis, Value a) {
    Value x = op->getOperand(0);
    accumulate(x, repeatAlong(builder, op->getLoc(), a, axis, cast<RankedTensorType>(x.getType())));
  }

  /// Element i is in the sums from i on.
  void transposeScan(tile::ScanOp op, Value a) {
    auto copy = cast<tile::ScanOp>(builder.clone(*op));
    copy->setOperands({a});
    copy.setReverse(!op.getReverse());
    accumulate(op->getOperand(0), copy.getResult()[0]);
  }

  Value swapped(Value matrix) {
    auto type = cast<RankedTensorType>(matrix.getType());
    SmallVector<int32_t> order = llvm::to_vector(llvm::seq<int32_t>(0, type.getRank()));
    SmallVector<int64_t> shape(type.getShape());
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    return tile::TransOp::create(builder, matrix.getLoc(), type.clone(shape), matrix, order);
  }

  /// da = a b^T and db = a^T da, the adjoint rounded to the operands' type as the product's
  /// operands are.
  void transposeDot(tile::DotOp dot, Value a) {
    accumulate(dot.getC(), a);
    auto product = [&](Value left, Value right, Value of) {
      Type element = tile::elementOf(of.getType());
      Type wide = tile::withShapeOf(tile::elementOf(dot.getC().getType()), of.getType());
      OperationState state(dot.getLoc(), dot->getName());
      state.addOperands({left, right, zeroOf(builder, dot.getLoc(), wide)});
      state.addTypes({wide});
      state.addAttributes(dot->getAttrs());
      accumulate(of, convertTo(builder, builder.create(state)->getResult(0), element));
    };
    if (linear.contains(dot.getA())) {
      Value b = here(dot.getB());
      product(convertTo(builder, a, tile::elementOf(b.getType())), swapped(b), dot.getA());
    }
    if (linear.contains(dot.getB())) {
      Value left = here(dot.getA());
      product(swapped(left), convertTo(builder, a, tile::elementOf(left.getType())), dot.getB());
    }
  }

  //===--- memory ---===//

  bool transposeMemory(Operation *op) {
    std::optional<Access> access = accessOf(op);
    if (!access)
      return false;
    Location loc = op->getLoc();
    if (isa<tile::DescGatherOp, tile::DescScatterOp>(op)) {
      refuseHere(op, "an access to rows of a descriptor", "use pointers in its place");
      return true;
    }
    if (access->stored) { // the gradient of what was stored
      auto atomic = dyn_cast<tile::AtomicRMWOp>(op);
      auto store = dyn_cast<tile::StoreOp>(op);
      Type type = access->stored.getType();
      if (atomic || store) {
        Value mask = atomic ? atomic.getMask() : store.getMask();
        accumulate(access->stored, tile::LoadOp::create(builder, loc, type, here(access->address),
                                                        mask ? here(mask) : mask, Value()));
        return true;
      }
      if (cast<tile::DescType>(access->address.getType()).getPadding() == tile::Padding::NaN) {
        refuseHere(op, "a descriptor with the padding NaN", "what is outside would give NaN");
        return true;
      }
      auto coords = isa<tile::DescStoreOp>(op) ? cast<tile::DescStoreOp>(op).getCoords()
                                               : cast<tile::DescReduceOp>(op).getCoords();
      SmallVector<Value> places = llvm::map_to_vector(coords, [&](Value v) { return here(v); });
      accumulate(access->stored,
                 tile::DescLoadOp::create(builder, loc, type, here(access->address), places));
      return true;
    }
    Value a = adjoints.lookup(access->loaded);
    if (!a)
      return true;
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      Value mask = load.getMask() ? here(load.getMask()) : Value();
      if (load.getOther() && linear.contains(load.getOther()))
        accumulate(load.getOther(), arith::SelectOp::create(builder, loc, mask,
                                                            zeroOf(builder, loc, a.getType()), a));
      if (readsGradient(op))
        addTo(load, a);
    } else if (auto load = dyn_cast<tile::DescLoadOp>(op)) {
      SmallVector<Value> places =
          llvm::map_to_vector(load.getCoords(), [&](Value v) { return here(v); });
      notes.push_back("a gradient is summed by atomic additions: it belongs to a descriptor");
      tile::DescReduceOp::create(builder, loc, tile::AtomicKind::FAdd, here(load.getDesc()), places,
                                 a);
    }
    return true;
  }

  /// Adds to a gradient. Other programs, and other loads of this one, may add to the same element,
  /// unless it is proven, or found at run time, that each element has one owner.
  void addTo(tile::LoadOp load, Value a) {
    Location loc = load.getLoc();
    Value address = here(load.getPtr()), mask = load.getMask() ? here(load.getMask()) : Value();
    int argument = provenance.of(load.getPtr()).only();
    Ownership owner;
    if (argument < 0)
      owner.why = "the address may belong to several arguments";
    else if (loads[argument] > 1)
      owner.why = "it is loaded in " + std::to_string(loads[argument]) + " places";
    else
      owner = ownershipOf(load.getPtr(), load.getMask());
    note(argument, owner);
    auto addAtomically = [&] {
      tile::AtomicRMWOp::create(builder, loc, a.getType(), tile::AtomicKind::FAdd, address, a, mask,
                                tile::MemSemantic::Relaxed);
    };
    if (!owner.why.empty())
      return addAtomically();
    auto branch = scf::IfOp::create(builder, loc, conditionOf(owner, loc), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    tile::StoreOp::create(builder, loc, address, a, mask);
    builder.setInsertionPointToStart(branch.elseBlock());
    addAtomically();
  }

  /// Whether the conditions of an ownership hold in this launch.
  Value conditionOf(const Ownership &owner, Location loc) {
    using Predicate = arith::CmpIPredicate;
    auto number = [&](unsigned bits, int64_t value) -> Value {
      return arith::ConstantOp::create(builder, loc,
                                       IntegerAttr::get(builder.getIntegerType(bits), value));
    };
    auto compare = [&](Predicate predicate, Value x, Value y) -> Value {
      return arith::CmpIOp::create(builder, loc, predicate, x, y);
    };
    auto wide = [&](Value value) -> Value {
      return value.getType().isInteger(64)
                 ? value
                 : arith::ExtSIOp::create(builder, loc, builder.getI64Type(), value).getResult();
    };
    Value condition = number(1, 1);
    auto require = [&](Value also) {
      condition = arith::AndIOp::create(builder, loc, condition, also);
    };
    for (unsigned axis : owner.singleAxes)
      require(compare(Predicate::eq,
                      tile::NumProgramsOp::create(builder, loc, builder.getI32Type(), axis),
                      number(32, 1)));
    if (owner.stride) {
      Value stride =
          arith::MulIOp::create(builder, loc, wide(owner.stride), number(64, owner.factor));
      Value suffices = compare(Predicate::sge, stride, number(64, owner.reach));
      if (owner.bound) {
        Value bounded = compare(Predicate::sge, stride, wide(owner.bound));
        // Without positions there is nothing to store; a stride of 0 gives none a place of its own.
        bounded = arith::AndIOp::create(builder, loc, bounded,
                                        compare(Predicate::sgt, stride, number(64, 0)));
        suffices = arith::OrIOp::create(builder, loc, suffices, bounded);
      }
      require(suffices);
    }
    return condition;
  }

  void note(int argument, const Ownership &owner) {
    std::string text =
        "the gradient of " +
        (argument < 0 ? "several tensors" : "`" + argumentName(kernel, tensorOf(argument)) + "`");
    if (!owner.why.empty()) {
      notes.push_back(text + " is summed by atomic additions: " + owner.why);
      return;
    }
    std::string conditions;
    auto add = [&](const std::string &condition) {
      conditions += (conditions.empty() ? "" : " and ") + condition;
    };
    for (unsigned axis : owner.singleAxes)
      add("the grid has one program along axis " + std::to_string(axis));
    if (owner.stride) {
      auto nameOf = [&](Value value) {
        return "`" + argumentName(kernel, cast<BlockArgument>(value).getArgNumber()) + "`";
      };
      std::string least = std::to_string(owner.reach);
      add((owner.factor > 1 ? std::to_string(owner.factor) + " * " : "") + nameOf(owner.stride) +
          " is at least " + (owner.bound ? nameOf(owner.bound) + " or " : "") + least);
    }
    notes.push_back(text + " is stored by the program that owns it" +
                    (conditions.empty() ? "" : " where " + conditions) +
                    ", and summed by atomic additions elsewhere");
  }

  /// The argument whose gradient this one is.
  unsigned tensorOf(int gradient) const {
    for (auto [i, argument] : llvm::enumerate(arguments))
      if (argument.tangent == gradient)
        return i;
    return gradient;
  }

  //===--- branches ---===//

  /// A branch computes anew what its transpose needs of it, and gives the adjoints of what it used
  /// from outside.
  void transposeIf(scf::IfOp branch) {
    Location loc = branch.getLoc();
    Operation *fresh =
        scf::IfOp::create(builder, loc, here(branch.getCondition()), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    llvm::DenseMap<Value, Value> outer = adjoints;
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
        yielded.push_back(orZero(inner[i].lookup(value), value));
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
    residuals = std::move(outerResiduals);
    builder.setInsertionPointAfter(whole);
    for (auto [value, adjoint] : llvm::zip(given, whole->getResults()))
      accumulate(value, adjoint);
  }

  /// The values in the order of the program.
  SmallVector<Value> ordered(const llvm::SetVector<Value> &values) {
    SmallVector<Value> result;
    kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
      for (Value value : op->getResults())
        if (values.contains(value))
          result.push_back(value);
    });
    return result;
  }

  /// Copies of what a block computes besides tangents, without what it stores.
  void recompute(Block &source) {
    for (Operation &op : source.without_terminator()) {
      std::optional<Access> access = accessOf(&op);
      if ((access && access->stored) || isa<tile::PrintOp>(op))
        continue;
      if (!isLinear(&op)) {
        dropWritesIn(builder.clone(op, residuals));
        continue;
      }
      if (op.getNumRegions() == 0)
        continue;
      Operation *copy = builder.clone(op, residuals); // a branch with both
      SmallVector<Operation *> inside;
      op.walk<WalkOrder::PreOrder>([&](Operation *each) {
        for (Value value : each->getResults())
          if (linear.contains(value))
            linear.insert(residuals.lookup(value));
      });
      copy->walk<WalkOrder::PreOrder>([&](Operation *each) { inside.push_back(each); });
      strip(inside);
      dropWritesIn(copy);
    }
  }

  //===--- what is left of forward mode ---===//

  /// Removes linear operations, all of whose users are linear. Branches give zeros in their place.
  void strip(ArrayRef<Operation *> ops) {
    for (Operation *op : llvm::reverse(ops)) {
      if (isa<scf::YieldOp>(op)) {
        OpBuilder at(op);
        for (OpOperand &operand : op->getOpOperands())
          if (linear.contains(operand.get()))
            operand.set(zeroOf(at, op->getLoc(), operand.get().getType()));
      } else if (!isa<scf::IfOp>(op) && isLinear(op) && !isa<tile::YieldOp>(op) &&
                 !isInCombiner(op)) {
        gone.insert(op);
        forget(op);
        op->erase();
      }
    }
  }

  /// Other values may come to the place of those of an operation that is erased.
  void forget(Operation *op) {
    op->walk([&](Operation *inner) {
      for (Value result : inner->getResults())
        linear.erase(result);
      for (Region &region : inner->getRegions())
        for (Block &block : region)
          for (Value argument : block.getArguments())
            linear.erase(argument);
    });
  }

  static bool isInCombiner(Operation *op) {
    return isa<tile::ReduceOp, tile::ScanOp, tile::MapElementwiseOp>(op->getParentOp());
  }

  static bool isWrite(Operation *op) {
    std::optional<Access> access = accessOf(op);
    return (access && access->stored) || isa<tile::PrintOp>(op);
  }

  static void dropWritesIn(Operation *op) {
    SmallVector<Operation *> writes;
    op->walk([&](Operation *inner) {
      if (inner != op && isWrite(inner))
        writes.push_back(inner);
    });
    for (Operation *write : writes)
      write->erase();
  }

  mutable func::FuncOp kernel;
  ArrayRef<Argument> arguments;
  Provenance provenance;
  OpBuilder builder;
  SmallVector<std::string> notes; ///< how gradients are summed
  llvm::BitVector isGradient;
  SmallVector<unsigned> loads; ///< places that read each argument's tangents
  llvm::DenseSet<Value> linear;
  llvm::DenseMap<Value, Value> adjoints;
  IRMapping residuals;
  std::optional<Refusal> refusal;
  llvm::DenseSet<Operation *> gone;
};

} // namespace

std::optional<Refusal> transpose(func::FuncOp kernel, ArrayRef<Argument> arguments) {
  return Transposer(kernel, arguments).run();
}

} // namespace nereid::differentiate

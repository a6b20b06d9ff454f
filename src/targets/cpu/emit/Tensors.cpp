// Ops on whole tensors that are neither elementwise nor part of a loop step. Plain loops over
// elements: none of these is hot, except scan and dot, which have files of their own.
#include "kernel_abi/cpu.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "targets/cpu/emit/Checks.h"
#include "targets/cpu/emit/Control.h"
#include "targets/cpu/emit/Loops.h"

using namespace mlir;

namespace nereid::cpu {

Value elementAt(Kernel &k, Value value, ArrayRef<Value> indices) {
  if (!isa<RankedTensorType>(value.getType()))
    return k.scalar(value);
  Point point;
  auto shape = tile::shapeOf(value.getType());
  for (auto [size, index] : llvm::zip(shape, indices))
    point.push_back(size == 1 ? Index{} : Index{index, -1});
  return Elements(k).at(value, point);
}

void writeElement(Kernel &k, const Buffer &buffer, ArrayRef<Value> indices, Value value) {
  Point point;
  for (Value index : indices)
    point.push_back({index, -1});
  Elements(k).write(buffer, point, value);
}

static void emitJoin(Kernel &k, tile::JoinOp op) {
  Buffer target = k.allocate(op.getResult());
  forEachPoint(k, tile::shapeOf(op.getLhs().getType()), [&](ArrayRef<Value> indices) {
    SmallVector<Value> place(indices);
    place.push_back(k.e.i64(0));
    Value lhs = elementAt(k, op.getLhs(), indices), rhs = elementAt(k, op.getRhs(), indices);
    writeElement(k, target, place, lhs);
    place.back() = k.e.i64(1);
    writeElement(k, target, place, rhs);
  });
  k.buffers[op.getResult()] = target;
}

static void emitSplit(Kernel &k, tile::SplitOp op) {
  for (auto [number, result] : llvm::enumerate(op.getResults())) {
    auto shape = tile::shapeOf(result.getType());
    if (shape.empty()) {
      k.scalars[result] = elementAt(k, op.getSrc(), k.e.i64(number));
      continue;
    }
    Buffer target = k.allocate(result);
    forEachPoint(k, shape, [&](ArrayRef<Value> indices) {
      SmallVector<Value> place(indices);
      place.push_back(k.e.i64(number));
      writeElement(k, target, indices, elementAt(k, op.getSrc(), place));
    });
    k.buffers[result] = target;
  }
}

static void emitCat(Kernel &k, tile::CatOp op) {
  Buffer target = k.allocate(op.getResult());
  int64_t start = 0;
  for (Value part : {op.getLhs(), op.getRhs()}) {
    auto shape = tile::shapeOf(part.getType());
    forEachPoint(k, shape, [&](ArrayRef<Value> indices) {
      SmallVector<Value> place(indices);
      place[op.getDim()] = k.e.add(place[op.getDim()], k.e.i64(start));
      writeElement(k, target, place, elementAt(k, part, indices));
    });
    start += shape[op.getDim()];
  }
  k.buffers[op.getResult()] = target;
}

// The bin of each element is computed in lanes first: what is off, or is no bin, goes to one behind
// the others. So counting has neither conditions nor branches.
static Buffer binsOf(Kernel &k, tile::HistogramOp op, int64_t bins) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type i32 = b.getI32Type();
  auto like = [](Value value, Type element) {
    return cast<RankedTensorType>(value.getType()).clone(element);
  };
  Value number = op.getSrc();
  if (tile::elementOf(number.getType()).getIntOrFloatBitWidth() < 32)
    number = arith::ExtUIOp::create(b, loc, like(number, i32), number);
  auto type = cast<RankedTensorType>(number.getType());
  Value behind = arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(type, b.getIntegerAttr(type.getElementType(), bins)));
  Value counts = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, number, behind);
  if (Value mask = op.getMask()) {
    if (!isa<RankedTensorType>(mask.getType()))
      mask = tile::SplatOp::create(b, loc, like(number, b.getI1Type()), mask);
    counts = arith::AndIOp::create(b, loc, counts, mask);
  }
  Value bin = arith::SelectOp::create(b, loc, counts, number, behind);
  if (!type.getElementType().isInteger(32))
    bin = arith::TruncIOp::create(b, loc, like(bin, i32), bin);
  return materialize(k, bin);
}

static void emitHistogram(Kernel &k, tile::HistogramOp op) {
  Emit &e = k.e;
  auto type = cast<RankedTensorType>(op.getType());
  int64_t bins = type.getNumElements();
  Buffer numbers = binsOf(k, op, bins);
  Buffer target = k.allocate(type.clone(ArrayRef<int64_t>{bins + 1}));
  Type i32 = k.b.getI32Type();
  LLVM::MemsetOp::create(k.b, e.loc, target.base, e.integer(k.b.getI8Type(), 0),
                         e.i64(4 * (bins + 1)), false);
  forEachPoint(k, numbers.type.getShape(), [&](ArrayRef<Value> indices) {
    Point point;
    for (Value index : indices)
      point.push_back({index, -1});
    Value number = Elements(k).read(numbers, point);
    number = arith::ExtUIOp::create(k.b, e.loc, k.b.getI64Type(), number);
    Value bin = e.advance(target.base, e.mul(number, e.i64(4)));
    e.store(i32, bin, e.add(e.load(i32, bin, 1), e.integer(i32, 1)));
  });
  k.buffers[op.getResult()] = {target.base, type};
}

// A call of one of the run-time functions of kernel_abi/cpu.h.
static void callSupport(Kernel &k, StringRef name, ArrayRef<Value> arguments) {
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(k.b.getContext()),
      llvm::map_to_vector(arguments, [](Value v) { return v.getType(); }));
  auto module = k.entryAnchor->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPointToStart(module.getBody());
    LLVM::LLVMFuncOp::create(k.b, k.e.loc, name, type);
  }
  LLVM::CallOp::create(k.b, k.e.loc, type, name, arguments);
}

void Kernel::callSpin() {
  needsOrder = true;
  callSupport(*this, "nereid_cpu_spin", info);
}

/// The places of a location, innermost first: of the operation, then of the calls around it.
static void appendPlaces(const Kernel &k, Location location, std::vector<SitePlace> &places) {
  if (auto call = dyn_cast<CallSiteLoc>(location)) {
    appendPlaces(k, call.getCallee(), places);
    appendPlaces(k, call.getCaller(), places);
  } else if (auto name = dyn_cast<NameLoc>(location)) {
    appendPlaces(k, name.getChildLoc(), places);
  } else if (auto file = dyn_cast<FileLineColLoc>(location)) {
    SitePlace &place = places.emplace_back();
    place.file = file.getFilename().str();
    place.line = file.getLine();
    place.column = file.getColumn();
    if (k.sourceLine)
      if (auto line = k.sourceLine(place.file, unsigned(place.line))) {
        place.source = line->text;
        place.indent = int(line->indent);
      }
  }
}

static Site siteOf(const Kernel &k, Location location) {
  Site site;
  appendPlaces(k, location, site.places);
  return site;
}

static int32_t addSite(Kernel &k, Site site) {
  k.sites.sites.push_back(std::move(site));
  return k.sites.sites.size() - 1;
}

/// Ends the program where `condition` is false (and `mask`, which may be null, true), at the first
/// such lane. `details` gives the last two numbers of the failure at a lane.
static void emitFailure(Kernel &k, Value condition, Value mask, FailureKind kind, int32_t site,
                        llvm::function_ref<std::pair<Value, Value>(ArrayRef<Value>)> details) {
  auto shape = tile::shapeOf(condition.getType());
  if (mask && shape.empty())
    shape = tile::shapeOf(mask.getType());
  OpBuilder::InsertionGuard outside(k.b);
  if (Value known = allLanesHold(k, condition, mask)) {
    auto branch = scf::IfOp::create(k.b, k.e.loc, known, true);
    k.b.setInsertionPointToStart(&branch.getElseRegion().front());
  }
  forEachPoint(k, shape, [&](ArrayRef<Value> indices) {
    Value holds = elementAt(k, condition, indices);
    Type i1 = k.b.getI1Type();
    Value failed = arith::XOrIOp::create(k.b, k.e.loc, holds, k.e.integer(i1, 1));
    if (mask)
      failed = arith::AndIOp::create(k.b, k.e.loc, failed, elementAt(k, mask, indices));
    auto branch = scf::IfOp::create(k.b, k.e.loc, failed, false);
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPointToStart(&branch.getThenRegion().front());
    Value lane = k.e.i64(0);
    for (auto [size, index] : llvm::zip(shape, indices))
      lane = k.e.add(k.e.mul(lane, k.e.i64(size)), index);
    Type i32 = k.b.getI32Type();
    auto [first, second] = details(indices);
    callSupport(k, "nereid_cpu_fail",
                {k.info, k.program, k.e.integer(i32, int32_t(kind)), k.e.integer(i32, site), lane,
                 first, second});
  });
}

static void emitAssert(Kernel &k, tile::AssertOp op) {
  Site site = siteOf(k, op.getLoc());
  site.text = op.getMessage().str();
  emitFailure(k, op.getCondition(), op.getMask(), FailureKind::Assert, addSite(k, std::move(site)),
              [&](ArrayRef<Value>) { return std::pair(k.e.i64(0), k.e.i64(0)); });
}

static void emitCheck(Kernel &k, tile::CheckOp op) {
  FailureKind kind =
      op.getKind() == tile::CheckKind::Bounds ? FailureKind::OutOfBounds : FailureKind::Overflow;
  emitFailure(k, op.getCondition(), op.getMask(), kind, addSite(k, siteOf(k, op.getLoc())),
              [&](ArrayRef<Value> indices) {
                Value detail = op.getDetail() ? elementAt(k, op.getDetail(), indices) : k.e.i64(0);
                return std::pair(detail, k.e.i64(op.getArgument()));
              });
}

static ElementKind kindOf(Type type, bool isSigned) {
  if (isa<tile::PtrType>(type))
    return ElementKind::Pointer;
  if (type.isF16())
    return ElementKind::F16;
  if (type.isBF16())
    return ElementKind::BF16;
  if (type.isF32())
    return ElementKind::F32;
  if (type.isF64())
    return ElementKind::F64;
  if (isa<Float8E4M3FNType>(type))
    return ElementKind::F8E4M3FN;
  if (isa<Float8E5M2Type>(type))
    return ElementKind::F8E5M2;
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return ElementKind::Bool;
  case 8:
    return isSigned ? ElementKind::I8 : ElementKind::U8;
  case 16:
    return isSigned ? ElementKind::I16 : ElementKind::U16;
  case 32:
    return isSigned ? ElementKind::I32 : ElementKind::U32;
  default:
    return isSigned ? ElementKind::I64 : ElementKind::U64;
  }
}

static void emitPrint(Kernel &k, tile::PrintOp op) {
  Site site = siteOf(k, op.getLoc());
  site.text = op.getPrefix().str();
  site.hex = op.getHex();
  for (auto [number, argument] : llvm::enumerate(op.getArgs())) {
    auto shape = tile::shapeOf(argument.getType());
    bool isSigned = number >= op.getIsSigned().size() || op.getIsSigned()[number];
    site.operands.push_back({kindOf(tile::elementOf(argument.getType()), isSigned),
                             std::vector<int64_t>(shape.begin(), shape.end())});
  }
  k.needsOrder = true;
  Type i32 = k.b.getI32Type();
  bool empty = site.operands.empty();
  Value number = k.e.integer(i32, addSite(k, std::move(site)));
  if (empty)
    callSupport(k, "nereid_cpu_print",
                {k.info, k.program, number, k.e.integer(i32, -1),
                 LLVM::ZeroOp::create(k.b, k.e.loc, k.e.ptr())});
  for (auto [index, argument] : llvm::enumerate(op.getArgs())) {
    Buffer data;
    if (isa<RankedTensorType>(argument.getType())) {
      data = materialize(k, argument);
    } else {
      data = k.allocate(RankedTensorType::get({1}, argument.getType()));
      k.e.store(argument.getType(), data.base, k.scalar(argument));
    }
    callSupport(k, "nereid_cpu_print",
                {k.info, k.program, number, k.e.integer(i32, index), data.base});
  }
}

SmallVector<Value> combineScalars(Kernel &k, Region &combiner, ArrayRef<Value> lhs,
                                  ArrayRef<Value> rhs) {
  if (isSimpleCombiner(combiner))
    return k.e.combine(combiner, lhs, rhs, 1);
  Block &block = combiner.front();
  for (auto [index, argument] : llvm::enumerate(block.getArguments()))
    k.scalars[argument] = index < lhs.size() ? lhs[index] : rhs[index - lhs.size()];
  k.emitBlock(block);
  return llvm::map_to_vector(block.getTerminator()->getOperands(),
                             [&](Value v) { return k.scalar(v); });
}

bool isSimpleCombiner(Region &combiner) {
  return llvm::all_of(combiner.front().without_terminator(), [](Operation &op) {
    return isa<arith::ConstantOp>(op) || (Emit::isElementwise(&op) && isMemoryEffectFree(&op));
  });
}

void emitSequential(Kernel &k, ValueRange sources, int axis, Region &combiner, bool reverse,
                    function_ref<void(ArrayRef<Value> indices, ArrayRef<Value> values)> each) {
  auto shape = tile::shapeOf(sources[0].getType());
  SmallVector<int64_t> others(shape);
  others[axis] = 1;
  forEachPoint(k, others, [&](ArrayRef<Value> indices) {
    SmallVector<Value> place(indices);
    auto load = [&](Value position) {
      place[axis] = reverse ? k.e.sub(k.e.i64(shape[axis] - 1), position) : position;
      return llvm::map_to_vector(sources,
                                 [&](Value source) { return elementAt(k, source, place); });
    };
    SmallVector<Value> carried = load(k.e.i64(0));
    each(place, carried);
    if (shape[axis] == 1)
      return;
    auto loop =
        scf::ForOp::create(k.b, k.e.loc, k.e.i64(1), k.e.i64(shape[axis]), k.e.i64(1), carried);
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> before(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    SmallVector<Value> values = combineScalars(k, combiner, before, load(loop.getInductionVar()));
    each(place, values);
    scf::YieldOp::create(k.b, k.e.loc, values);
  });
}

// A reduction whose combiner has control flow or effects: element by element, in order.
static void emitReduce(Kernel &k, tile::ReduceOp op) {
  SmallVector<Buffer> targets;
  for (Value result : op.getResults())
    targets.push_back(isa<RankedTensorType>(result.getType())
                          ? k.allocate(result)
                          : k.allocate(RankedTensorType::get({1}, result.getType())));
  int axis = op.getAxis();
  emitSequential(k, op.getSrcs(), axis, op.getCombine(), false,
                 [&](ArrayRef<Value> indices, ArrayRef<Value> values) {
                   SmallVector<Value> place(indices);
                   place.erase(place.begin() + axis);
                   if (place.empty())
                     place.push_back(k.e.i64(0));
                   for (auto [target, value] : llvm::zip(targets, values)) // the last one stays
                     writeElement(k, target, place, value);
                 });
  for (auto [result, target] : llvm::zip(op.getResults(), targets)) {
    if (isa<RankedTensorType>(result.getType()))
      k.buffers[result] = target;
    else
      k.scalars[result] = k.e.load(result.getType(), target.base, 1);
  }
}

bool emitTensorOp(Kernel &k, Operation *op) {
  if (auto join = dyn_cast<tile::JoinOp>(op))
    return emitJoin(k, join), true;
  if (auto split = dyn_cast<tile::SplitOp>(op))
    return emitSplit(k, split), true;
  if (auto cat = dyn_cast<tile::CatOp>(op))
    return emitCat(k, cat), true;
  if (auto histogram = dyn_cast<tile::HistogramOp>(op))
    return emitHistogram(k, histogram), true;
  if (auto reduce = dyn_cast<tile::ReduceOp>(op))
    return emitReduce(k, reduce), true;
  if (auto scan = dyn_cast<tile::ScanOp>(op))
    return emitScan(k, scan), true;
  if (auto dot = dyn_cast<tile::DotOp>(op))
    return emitDot(k, dot), true;
  if (auto atomic = dyn_cast<tile::Atomic>(op))
    return emitAtomic(k, atomic), true;
  if (emitForeign(k, op))
    return true;
  if (auto assertion = dyn_cast<tile::AssertOp>(op))
    return emitAssert(k, assertion), true;
  if (auto check = dyn_cast<tile::CheckOp>(op))
    return emitCheck(k, check), true;
  if (auto print = dyn_cast<tile::PrintOp>(op))
    return emitPrint(k, print), true;
  if (isa<tile::BarrierOp>(op)) // a program is one thread, and steps keep their order
    return true;
  if (auto unsplat = dyn_cast<tile::UnsplatOp>(op)) {
    SmallVector<Value> origin(tile::shapeOf(unsplat.getSrc().getType()).size(), k.e.i64(0));
    k.scalars[unsplat.getResult()] = elementAt(k, unsplat.getSrc(), origin);
    return true;
  }
  if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) {
    Buffer source = materialize(k, reshape.getSrc());
    k.buffers[reshape.getResult()] = {source.base, cast<RankedTensorType>(reshape.getType())};
    return true;
  }
  if (op->getNumResults() == 1 && isa<RankedTensorType>(op->getResult(0).getType())) {
    // A volatile load, an impure function of a device library: once for every element, in order.
    Value result = op->getResult(0);
    if (isa<ub::PoisonOp>(op)) {
      k.buffers[result] = k.allocate(result);
      return true;
    }
    if (!isa<tile::LoadOp, tile::ExternOp>(op))
      return false;
    Buffer target = k.allocate(result);
    forEachPoint(k, tile::shapeOf(result.getType()), [&](ArrayRef<Value> indices) {
      SmallVector<Value> in =
          llvm::map_to_vector(op->getOperands(), [&](Value v) { return elementAt(k, v, indices); });
      Value value;
      if (auto load = dyn_cast<tile::LoadOp>(op)) {
        unsigned next = 1;
        Value mask = load.getMask() ? in[next++] : Value();
        Value other = load.getOther() ? in[next++] : Value();
        value = k.e.guardedLoad(tile::elementOf(result.getType()), in[0], mask, other,
                                load.getIsVolatile());
      } else {
        value = k.e.elementwise(op, in, 1);
      }
      writeElement(k, target, indices, value);
    });
    k.buffers[result] = target;
    return true;
  }
  if (isa<tile::ExternOp>(op)) {
    SmallVector<Value> in =
        llvm::map_to_vector(op->getOperands(), [&](Value v) { return k.scalar(v); });
    k.scalars[op->getResult(0)] = k.e.elementwise(op, in, 1);
    return true;
  }
  return false;
}

} // namespace nereid::cpu

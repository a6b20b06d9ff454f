// Whether the loads and stores of a step may be mixed in one loop, and what is done where they may
// not or where only the launch can tell.
#include "targets/cpu/emit/Loops.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace nereid::cpu {

static int64_t sizeOf(Value pointer) {
  return tile::sizeInBytes(cast<tile::PtrType>(tile::elementOf(pointer.getType())).getPointee());
}

// A condition under which all elements of one access lie in the gaps between those of another: both
// have one running dimension and the same constant stride, as the fields of records and the parts
// of complex numbers. Null where that cannot be. `first`, `otherFirst`: their least addresses, i64.
static Value liesBetween(Emit &e, Value first, ArrayRef<Value> strides, int64_t size,
                         Value otherFirst, ArrayRef<Value> otherStrides, int64_t otherSize) {
  std::optional<int64_t> stride;
  if (strides.size() != otherStrides.size())
    return {};
  for (auto [left, right] : llvm::zip(strides, otherStrides)) {
    if (!left && !right)
      continue;
    std::optional<int64_t> step = left && right ? Emit::constant(left) : std::nullopt;
    if (stride || !step || *step <= 0 || Emit::constant(right) != step)
      return {};
    stride = step;
  }
  if (!stride || *stride < size + otherSize)
    return {};
  // Of the addresses modulo the stride; the distance itself may be negative.
  Value distance = e.sub(otherFirst, first), number = e.i64(*stride);
  distance = e.b.createOrFold<arith::RemSIOp>(e.loc, distance, number);
  distance = e.b.createOrFold<arith::RemSIOp>(e.loc, e.add(distance, number), number);
  return e.both(e.cmp(arith::CmpIPredicate::sge, distance, e.i64(size)),
                e.cmp(arith::CmpIPredicate::sle, distance, e.i64(*stride - otherSize)));
}

// A condition (null: always) under which running the step chunk by chunk gives what whole-tensor
// loads followed by whole-tensor stores give. `impossible`: nothing could be found out.
Value LoopStep::fusionIsSafe(bool &impossible) {
  impossible = false;
  llvm::SmallSetVector<Operation *, 8> loads;
  for (const Root &root : step.roots)
    if (root.op)
      for (Value operand : root.op->getOperands())
        collectLoads(operand, k, loads);
    else if (!k.buffers.count(root.value))
      collectLoads(root.value, k, loads);
  if (stores.empty() || (loads.empty() && stores.size() == 1))
    return {};

  Elements pre(k);
  Forms forms(k, step.shape, true, [&](Value v, ArrayRef<Index> p) { return pre.at(v, p); });
  struct Extent {
    Value pointer, first, last;
    Form form;
    bool isStore;
  };
  SmallVector<Extent> extents;
  auto add = [&](Value pointer, bool isStore) {
    auto shape = tile::shapeOf(pointer.getType());
    Point point;
    // The iteration space of a load seen through a broadcast or the like differs: its own extents
    // are used.
    for (size_t d = 0; d < shape.size(); ++d)
      point.push_back(shape[d] == 1 ? Index{} : Index{Value(), int(d)});
    Forms own(k, shape, true, [&](Value v, ArrayRef<Index> p) { return pre.at(v, p); });
    bool sameShape = shape == ArrayRef<int64_t>(step.shape);
    Forms &used = sameShape ? forms : own;
    std::optional<Form> form = used.of(pointer, point);
    if (!form)
      return false;
    if (!sameShape)
      for (Value condition : own.assumptions)
        if (!forms.require(condition))
          return false;
    auto [first, last] = used.bounds(*form);
    extents.push_back({pointer, first, k.e.add(last, k.e.i64(sizeOf(pointer))), *form, isStore});
    return true;
  };
  for (Operation *load : loads)
    if (!add(cast<tile::LoadOp>(load).getPtr(), false)) {
      impossible = true;
      return {};
    }
  for (const Root &root : stores)
    if (!add(cast<tile::StoreOp>(root.op).getPtr(), true)) {
      impossible = true;
      return {};
    }
  Value safe;
  for (size_t i = 0; i < extents.size(); ++i)
    for (size_t j = i + 1; j < extents.size(); ++j) {
      Extent &a = extents[i], &b = extents[j];
      if (!a.isStore && !b.isStore)
        continue;
      bool samePlaces = a.pointer == b.pointer ||
                        (a.form.base == b.form.base && a.form.strides == b.form.strides);
      if (samePlaces && step.shape.size() == 1) {
        std::optional<int64_t> stride =
            a.form.strides[0] ? Emit::constant(a.form.strides[0]) : std::optional<int64_t>(0);
        if (stride && *stride != 0)
          continue;
      }
      Value apart = k.b.createOrFold<arith::OrIOp>(
          k.e.loc, k.e.cmp(arith::CmpIPredicate::ule, a.last, b.first),
          k.e.cmp(arith::CmpIPredicate::ule, b.last, a.first));
      if (Value between = liesBetween(k.e, a.first, a.form.strides, sizeOf(a.pointer), b.first,
                                      b.form.strides, sizeOf(b.pointer)))
        apart = k.b.createOrFold<arith::OrIOp>(k.e.loc, apart, between);
      // The same place for the same element, and another for every other element.
      if (a.form.strides.size() == b.form.strides.size() && a.form.strides.size() <= 2 &&
          tile::shapeOf(a.pointer.getType()) == tile::shapeOf(b.pointer.getType())) {
        Value same = k.e.cmp(arith::CmpIPredicate::eq, a.first, b.first);
        same = k.e.both(same, k.e.cmp(arith::CmpIPredicate::eq, a.last, b.last));
        Value zero = k.e.i64(0);
        SmallVector<Value> steps;
        for (auto [s, t] : llvm::zip(a.form.strides, b.form.strides)) {
          Value left = s ? s : zero, right = t ? t : zero;
          same = k.e.both(same, k.e.cmp(arith::CmpIPredicate::eq, left, right));
          steps.push_back(k.e.max(left, k.e.sub(zero, left)));
        }
        int64_t bytes = sizeOf(a.pointer);
        auto covers = [&](size_t outer, size_t inside) {
          Value reach =
              k.e.add(k.e.mul(steps[inside], k.e.i64(step.shape[inside] - 1)), k.e.i64(bytes));
          return k.e.both(k.e.cmp(arith::CmpIPredicate::sge, steps[outer], reach),
                          k.e.cmp(arith::CmpIPredicate::sge, steps[inside], k.e.i64(bytes)));
        };
        if (steps.size() == 1)
          same = k.e.both(same, k.e.cmp(arith::CmpIPredicate::sge, steps[0], k.e.i64(bytes)));
        else if (steps.size() == 2)
          same =
              k.e.both(same, k.b.createOrFold<arith::OrIOp>(k.e.loc, covers(0, 1), covers(1, 0)));
        apart = k.b.createOrFold<arith::OrIOp>(k.e.loc, apart, same);
      }
      safe = k.e.both(safe, apart);
    }
  for (Value condition : forms.assumptions)
    safe = k.e.both(safe, condition);
  if (std::optional<int64_t> known = Emit::constant(safe)) {
    impossible = *known == 0;
    return {};
  }
  return safe;
}

void LoopStep::emitSafe() {
  bool impossible;
  Value safe = fusionIsSafe(impossible);
  if (!safe && !impossible)
    return emitNest();
  // Otherwise: read what the step reads, then run its roots in order, each alone.
  auto separately = [&] {
    llvm::SmallSetVector<Operation *, 8> loads;
    for (const Root &root : step.roots)
      if (root.op)
        for (Value operand : root.op->getOperands())
          collectLoads(operand, k, loads);
      else
        collectLoads(root.value, k, loads);
    Kernel::Space mark = k.scratchMark();
    // Loads of one shape in one loop; a load whose pointer was loaded comes after it.
    llvm::DenseMap<Operation *, llvm::SmallSetVector<Operation *, 8>> below;
    for (Operation *load : loads)
      for (Value operand : load->getOperands())
        collectLoads(operand, k, below[load]);
    SmallVector<Value> made;
    while (!loads.empty()) {
      Step reading;
      SmallVector<Operation *> later;
      for (Operation *load : llvm::reverse(loads)) { // operands of a load come after it in the set
        Value value = load->getResult(0);
        auto shape = tile::shapeOf(value.getType());
        if (llvm::any_of(below[load], [&](Operation *each) { return loads.contains(each); }) ||
            (!reading.roots.empty() && shape != ArrayRef<int64_t>(reading.shape))) {
          later.push_back(load);
          continue;
        }
        reading.shape.assign(shape.begin(), shape.end());
        reading.roots.push_back({Root::Materialize, nullptr, value});
        made.push_back(value);
        if (auto known = targets.find(value); known != targets.end())
          k.destinations[value] = known->second;
      }
      LoopStep(k, reading).emit();
      loads.clear();
      loads.insert(later.rbegin(), later.rend());
    }
    auto allStores = std::move(stores), allReduces = std::move(reduces),
         allMaterials = std::move(materials);
    stores.clear();
    reduces = allReduces;
    llvm::copy_if(allMaterials, std::back_inserter(materials),
                  [&](const Root &root) { return !k.buffers.count(root.value); });
    if (!reduces.empty() || !materials.empty())
      emitNest();
    reduces.clear();
    materials.clear();
    for (const Root &root : allStores) {
      stores = {root};
      emitNest();
    }
    for (Value value : made)
      k.buffers.erase(value);
    k.scratchRelease(mark);
    stores = allStores;
    reduces = allReduces;
    materials = allMaterials;
  };
  if (impossible)
    return separately();
  auto branch = scf::IfOp::create(k.b, k.e.loc, safe, true);
  OpBuilder::InsertionGuard guard(k.b);
  k.b.setInsertionPointToStart(&branch.getThenRegion().front());
  emitNest();
  k.b.setInsertionPointToStart(&branch.getElseRegion().front());
  bool before = std::exchange(k.forcedScalar, true);
  separately();
  k.forcedScalar = before;
}

} // namespace nereid::cpu

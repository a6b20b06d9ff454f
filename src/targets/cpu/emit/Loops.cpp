#include "targets/cpu/emit/Loops.h"

#include "ir/tile/Combiner.h"

#include "explain/Report.h"
#include "transforms/Explain.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace nereid::cpu {

/// The place of what a step is for.
static Location placeOf(const Root &root, Location other) {
  if (root.op)
    return root.op->getLoc();
  Operation *made = root.value.getDefiningOp();
  return made ? made->getLoc() : other;
}

void LoopStep::emit() {
  llvm::SaveAndRestore<Location> place(
      k.e.loc, step.roots.empty() ? k.e.loc : placeOf(step.roots.front(), k.e.loc));
  for (const Root &root : step.roots) {
    if (root.kind == Root::Store)
      stores.push_back(root);
    else if (root.kind == Root::Reduce || root.kind == Root::Scan)
      reduces.push_back(root);
    else if (!k.buffers.count(root.value))
      materials.push_back(root);
  }
  scans = !reduces.empty() && reduces.front().kind == Root::Scan;
  chooseDims();
  narrowSources();
  allocate();
  Kernel::Space mark = k.scratchMark();
  llvm::DenseMap<Value, Buffer> outer = std::move(k.transposed);
  k.transposed.clear();
  SmallVector<Value> loaded;
  readTransposed(loaded);
  unrolled = staysInRegisters();
  emitSafe();
  for (Value value : loaded)
    k.buffers.erase(value);
  if (!loaded.empty() || !k.transposed.empty())
    k.scratchRelease(mark);
  k.transposed = std::move(outer);
  for (auto &[value, buffer] : targets) {
    if (isa<RankedTensorType>(value.getType()))
      k.buffers[value] = buffer;
    else
      k.scalars[value] = k.e.load(value.getType(), buffer.base, 1);
  }
}

void LoopStep::chooseDims() {
  axis = reduces.empty() || scans ? -1 : step.axis;
  for (int d = step.shape.size(); d-- > 0;)
    if (step.shape[d] != 1) {
      lane = d;
      break;
    }
  if (int chosen = step.lane >= 0 ? step.lane : laneOfStores(); chosen >= 0)
    lane = chosen;
  if (axis >= 0 && step.shape[axis] == 1 && lane >= 0)
    columns = true;
  else
    columns = axis >= 0 && lane >= 0 && axis != lane;
}

void LoopStep::allocate() {
  for (const Root &root : materials)
    targets[root.value] = k.allocate(root.value);
  for (const Root &root : reduces)
    for (Value result : root.op->getResults()) {
      if (isa<RankedTensorType>(result.getType()))
        targets[result] = k.allocate(result);
      else
        targets[result] = k.allocate(RankedTensorType::get({1}, result.getType()));
    }
}

// Sums and the like that a loop carries, if few registers hold them. Their chunks are straight code
// then, each at a constant address of scratch memory, which LLVM keeps in a register for all turns
// of the loop (LICM).
bool LoopStep::staysInRegisters() const {
  constexpr int costly = 16; // beside which memory takes no time
  if (!stores.empty() || !reduces.empty() || materials.empty() || k.forcedScalar || lane < 0)
    return false;
  int64_t bytes = 0;
  for (const Root &root : materials) {
    Buffer target = targets.lookup(root.value);
    if (!k.accumulators.contains(target.base))
      return false;
    bytes += target.type.getNumElements() * tile::sizeInBytes(target.type.getElementType());
  }
  // The other registers are for what is computed.
  return bytes <= int64_t(k.e.features.vectorBytes * k.e.features.vectorRegisters / 2) &&
         costOfElements() <= costly;
}

//--- the nest
//-----------------------------------------------------------------------------------------------

void LoopStep::emitNest() {
  SmallVector<Value, 4> outer;
  emitOuter(0, outer);
}

void LoopStep::emitOuter(size_t dim, SmallVector<Value, 4> &outer) {
  if (dim == step.shape.size())
    return emitVersions(outer);
  if (int(dim) == lane || (columns && int(dim) == axis) || step.shape[dim] == 1) {
    outer.push_back(Value());
    emitOuter(dim + 1, outer);
    outer.pop_back();
    return;
  }
  SmallVector<Value> none;
  loop(0, step.shape[dim], 1, none, [&](Value index, SmallVectorImpl<Value> &) {
    outer.push_back(index);
    emitOuter(dim + 1, outer);
    outer.pop_back();
  });
}

void LoopStep::loop(int64_t begin, int64_t end, int64_t by, SmallVectorImpl<Value> &carried,
                    LoopBody body) {
  if (end - begin <= by)
    return body(k.e.i64(begin), carried);
  constexpr int64_t most = 16; // rounds of straight code
  if (unrolled && end - begin <= most * by) {
    for (; begin < end; begin += by)
      body(k.e.i64(begin), carried);
    return;
  }
  loop(k.e.i64(begin), k.e.i64(end), by, carried, body);
}

void LoopStep::loop(Value begin, Value end, int64_t by, SmallVectorImpl<Value> &carried,
                    LoopBody body) {
  auto loop = scf::ForOp::create(k.b, k.e.loc, begin, end, k.e.i64(by), carried);
  OpBuilder::InsertionGuard guard(k.b);
  if (carried.empty())
    k.b.setInsertionPoint(loop.getBody()->getTerminator());
  else
    k.b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> inside(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  body(loop.getInductionVar(), inside);
  if (!carried.empty())
    scf::YieldOp::create(k.b, k.e.loc, inside);
  carried.assign(loop.getResults().begin(), loop.getResults().end());
}

// Loop variable 0 runs along the lanes; 1, for column reductions, along the axis.
Point LoopStep::pointOf(ArrayRef<Value> outer, bool withoutAxis) const {
  Point point;
  for (int d = 0, rank = step.shape.size(); d < rank; ++d) {
    if (withoutAxis && d == axis)
      continue;
    if (step.shape[d] == 1)
      point.push_back({});
    else if (d == lane)
      point.push_back({Value(), 0});
    else if (columns && d == axis)
      point.push_back({Value(), 1});
    else
      point.push_back({outer[d], -1});
  }
  return point;
}

// Reductions along the lanes want independent chains.
int64_t LoopStep::registersOfLanes(bool scattered) const {
  bool reducesLanes = !columns && llvm::any_of(step.roots, [](const Root &root) {
    return root.kind == Root::Reduce;
  });
  return scattered ? 1 : reducesLanes ? 4 : columns ? registersOfColumns() : 2;
}

// Columns are reduced over short pieces of many rows: the more lanes, the longer the pieces, as far
// as the partial results leave registers for the rest. What takes many values a lane to compute
// keeps to two registers.
int64_t LoopStep::registersOfColumns() const {
  constexpr int64_t fewest = 2, most = 8;
  constexpr int cheap = 4;
  if (!stores.empty() || !materials.empty())
    return fewest;
  int64_t results = 0;
  for (const Root &root : reduces)
    results += root.op->getNumResults();
  if (results == 0 || costOfElements() > cheap)
    return fewest;
  int64_t share = int64_t(k.e.features.vectorRegisters) / (4 * results);
  return std::clamp(int64_t(llvm::bit_floor(uint64_t(share))), fewest, most);
}

// Of what the roots compute and store, as costOf counts.
int LoopStep::costOfElements() const {
  int cost = 0;
  llvm::DenseSet<Value> seen;
  SmallVector<Value> stack;
  for (const Root &root : step.roots)
    if (root.op)
      llvm::append_range(stack, root.op->getOperands());
    else
      stack.push_back(root.value);
  while (!stack.empty()) {
    Value value = stack.pop_back_val();
    Operation *op = value.getDefiningOp();
    // Positions, masks and addresses are mostly the same in all rows, or numbers.
    if (!op || k.buffers.count(value) || !isVirtual(op) || !seen.insert(value).second ||
        tile::elementOf(value.getType()).isInteger(1) ||
        isa<tile::PtrType>(tile::elementOf(value.getType())))
      continue;
    cost += costOf(op);
    llvm::append_range(stack, op->getOperands());
  }
  return cost;
}

int64_t LoopStep::vectorWidth(bool scattered) const {
  int64_t widest = 1;
  auto visit = [&](Type type) {
    widest = std::max<int64_t>(widest, tile::sizeInBytes(tile::elementOf(type)));
  };
  llvm::SmallSetVector<Operation *, 8> loads;
  for (const Root &root : step.roots) {
    if (root.kind == Root::Store) {
      visit(cast<tile::StoreOp>(root.op).getValue().getType());
      collectLoads(cast<tile::StoreOp>(root.op).getValue(), k, loads);
    } else if (root.op) {
      for (Value source : root.op->getOperands()) {
        visit(source.getType());
        collectLoads(source, k, loads);
      }
    } else {
      visit(root.value.getType());
      collectLoads(root.value, k, loads);
    }
  }
  for (Operation *load : loads)
    visit(load->getResult(0).getType());
  // Narrow data is mostly computed with in 32 bits.
  int64_t width = int64_t(k.e.features.vectorBytes) / std::clamp<int64_t>(widest, 2, 8);
  width *= registersOfLanes(scattered);
  return std::min<int64_t>(width, scattered ? 16 : columns ? 128 : 64);
}

SmallVector<LoopStep::Segment> LoopStep::segments(int64_t maxWidth) const {
  SmallVector<Segment> result;
  int64_t extent = lane >= 0 ? step.shape[lane] : 1, begin = 0;
  for (int64_t width = maxWidth; width > 1 && begin < extent; width /= 2) {
    if (width < 4 && extent > 4)
      break;
    if (int64_t count = (extent - begin) / width) {
      result.push_back({begin, count, width});
      begin += count * width;
    }
  }
  if (begin < extent)
    result.push_back({begin, extent - begin, 1});
  return result;
}

//--- versions
//-----------------------------------------------------------------------------------------------

void LoopStep::explainAccess(Operation *op, Value pointer, const char *how, const std::string &why,
                             const char *remedy) {
  explain::Report *report = k.explanation;
  if (!report)
    return;
  explain::AccessFact fact;
  fact.what = isa<tile::StoreOp>(op) ? "store" : "load";
  fact.place = transforms::placeOf(op->getLoc());
  fact.type = transforms::shapeOf(pointer.getType());
  fact.route = how;
  fact.masked = op->getNumOperands() > (isa<tile::StoreOp>(op) ? 2 : 1);
  fact.parameter = report->parameterAt(fact.place);
  for (const explain::AccessFact &known : report->accesses)
    if (known.place == fact.place && known.what == fact.what)
      return;
  if (!why.empty())
    report->hint(explain::HintKind::CpuGather, fact.place, {fact.what, why, remedy});
  report->accesses.push_back(std::move(fact));
}

/// The loop goes over the block that is made, which may be the transpose of what is loaded.
constexpr const char *lastDimensionRemedy = "let the dimension that varies fastest in memory be "
                                            "the last one of the block (where `tl.trans` "
                                            "or `permute` follows: of the block that they give)";

void LoopStep::preparePointer(Value pointer, ArrayRef<Index> point, Forms &forms, bool &scattered,
                              Operation *op) {
  if (!isa<RankedTensorType>(pointer.getType()))
    return;
  std::optional<Form> form = forms.of(pointer, point);
  if (!form) {
    explainAccess(op, pointer, "element by element",
                  "its addresses are no multiple of the position: they are read from memory, or "
                  "computed with `/` or `%`",
                  "gather whole rows, or sort the indices");
    scattered = true;
    return prepare(pointer, point, forms, scattered);
  }
  Value stride = form->strides[0];
  if (!stride)
    return explainAccess(op, pointer, "one value for all lanes");
  int64_t size =
      tile::sizeInBytes(cast<tile::PtrType>(tile::elementOf(pointer.getType())).getPointee());
  if (auto known = Emit::constant(stride)) {
    bool apart = *known != size && *known != 0;
    bool spread = apart && *known % size == 0 && Emit::isSpread(*known / size) &&
                  (!isa_and_present<tile::StoreOp>(op) || k.e.canStoreSpread(*known / size));
    if (spread)
      explainAccess(op, pointer, "vectors, their elements rearranged");
    else if (apart)
      explainAccess(op, pointer, "element by element",
                    "neighbouring elements are " + std::to_string(*known) + " bytes apart",
                    lastDimensionRemedy);
    else
      explainAccess(op, pointer, *known ? "vectors" : "one value for all lanes");
    scattered = scattered || apart;
    return;
  }
  Value wanted = k.e.i64(size);
  if (forms.require(k.e.cmp(arith::CmpIPredicate::eq, stride, wanted))) {
    form->strides[0] = wanted;
    forms.replace(pointer, point, *form);
    explainAccess(op, pointer, "vectors when the stride is 1, which is tested while running");
  } else {
    explainAccess(op, pointer, "element by element",
                  "neighbouring elements are a stride apart that is not 1", lastDimensionRemedy);
    scattered = true;
  }
}

// Finds the forms of all addresses that computing `value` at `point` will use.
void LoopStep::prepare(Value value, ArrayRef<Index> point, Forms &forms, bool &scattered) {
  // Once each: a value that is used twice at every step of a chain would be seen exponentially
  // often.
  if (!isa<RankedTensorType>(value.getType()) || !runsWith(point) ||
      !prepared.insert(TensorPoint{value, Point(point)}).second)
    return;
  if (auto buffer = k.buffers.lookup(value)) {
    for (auto [d, index] : llvm::enumerate(point))
      if (index.dim == 0)
        scattered = scattered || buffer.stride(d) != 1;
    return;
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return;
  if (auto load = dyn_cast<tile::LoadOp>(op)) {
    preparePointer(load.getPtr(), point, forms, scattered, load);
    for (Value operand : load->getOperands().drop_front())
      prepare(operand, point, forms, scattered);
    return;
  }
  if (movesElements(op)) {
    if (std::optional<Point> source = sourcePoint(op, point, k.e))
      prepare(op->getOperand(0), *source, forms, scattered);
    return;
  }
  if (auto gather = dyn_cast<tile::GatherOp>(op)) {
    scattered = true;
    return prepare(gather.getIndices(), point, forms, scattered);
  }
  if (Emit::isElementwise(op))
    for (Value operand : op->getOperands())
      prepare(operand, point, forms, scattered);
}

void LoopStep::prepareMasks(ArrayRef<Index> point, Masks &masks, Nest &nest) {
  for (const Root &root : stores)
    if (Value mask = cast<tile::StoreOp>(root.op).getMask())
      masks.collectMask(mask, point);
  auto operandsOf = [](const Root &root) {
    return root.op ? llvm::to_vector<2>(root.op->getOperands()) : SmallVector<Value, 2>{root.value};
  };
  for (ArrayRef<Root> roots : {ArrayRef(stores), ArrayRef(reduces), ArrayRef(materials)})
    for (const Root &root : roots)
      for (Value operand : operandsOf(root))
        masks.collect(operand, point);
  if (!masks.off())
    return;
  nest.masks = &masks;
  nest.offIsShort = !scans && llvm::all_of(stores, [&](const Root &root) {
    Value mask = cast<tile::StoreOp>(root.op).getMask();
    return mask && masks.isOff(mask, point);
  });
  for (ArrayRef<Root> roots : {ArrayRef(reduces), ArrayRef(materials)})
    for (const Root &root : roots)
      for (Value operand : operandsOf(root))
        nest.offIsShort = nest.offIsShort && masks.isUniformOff(operand, point);
}

void LoopStep::emitVersions(ArrayRef<Value> outer) {
  Elements outside(k);
  Nest nest;
  nest.outer.assign(outer.begin(), outer.end());
  auto run = [&] { columns ? emitColumns(nest) : emitRows(nest); };
  if (k.forcedScalar || lane < 0) {
    nest.outside = &outside;
    return run();
  }
  SmallVector<int64_t> extents{step.shape[lane]};
  if (columns)
    extents.push_back(step.shape[axis]);
  Forms forms(k, extents, true, [&](Value v, ArrayRef<Index> p) { return outside.at(v, p); });
  Point point = pointOf(outer);
  bool scattered = false;
  prepared.clear();
  size_t explained = k.explanation ? k.explanation->accesses.size() : 0;
  for (const Root &root : step.roots) {
    if (root.kind == Root::Store) {
      if (!llvm::is_contained(llvm::map_range(stores, [](const Root &r) { return r.op; }), root.op))
        continue;
      auto store = cast<tile::StoreOp>(root.op);
      preparePointer(store.getPtr(), point, forms, scattered, store);
      prepare(store.getValue(), point, forms, scattered);
      if (store.getMask())
        prepare(store.getMask(), point, forms, scattered);
    } else if (root.op) {
      for (Value source : root.op->getOperands())
        prepare(source, point, forms, scattered);
    } else {
      prepare(root.value, point, forms, scattered);
    }
  }
  Masks masks(k, forms, outside, step.shape[lane]);
  if (!columns)
    prepareMasks(point, masks, nest);
  nest.forms = &forms;
  nest.maxWidth = vectorWidth(scattered);
  if (k.explanation)
    for (explain::AccessFact &fact : MutableArrayRef(k.explanation->accesses).drop_front(explained))
      fact.lanes = std::min(nest.maxWidth, step.shape[lane]);
  nest.narrowWidth = std::max<int64_t>(4, nest.maxWidth / registersOfLanes(scattered));
  Value condition;
  for (Value assumption : forms.assumptions)
    condition = k.e.both(condition, assumption);
  if (!condition) {
    nest.outside = &outside;
    return run();
  }
  // Memory that one of two versions walks in a loop stays memory.
  llvm::SaveAndRestore<bool> asLoops(unrolled, false);
  auto branch = scf::IfOp::create(k.b, k.e.loc, condition, true);
  OpBuilder::InsertionGuard guard(k.b);
  Elements fastOutside = outside, slowOutside = outside;
  k.b.setInsertionPointToStart(&branch.getThenRegion().front());
  nest.outside = &fastOutside;
  run();
  k.b.setInsertionPointToStart(&branch.getElseRegion().front());
  Nest slow;
  slow.outer = nest.outer;
  slow.outside = &slowOutside;
  // Without forms lanes compute their addresses, each by itself, and gather: that takes as long as
  // single elements do, and less where much is computed of them.
  constexpr int costly = 16;
  if (!scans && costOfElements() >= costly)
    slow.narrowWidth = slow.maxWidth = vectorWidth(/*scattered=*/true);
  nest = slow;
  run();
}

//--- rows and columns
//---------------------------------------------------------------------------------------

void LoopStep::emitRoots(Elements &lanes, const Nest &nest, MutableArrayRef<Partial> partials,
                         bool first, bool ordered) {
  Point point = pointOf(nest.outer);
  auto pointFor = [&](Value value) {
    return isa<RankedTensorType>(value.getType()) ? ArrayRef<Index>(point) : ArrayRef<Index>();
  };
  // All reading comes before all writing.
  SmallVector<Value> materialValues;
  for (const Root &root : materials)
    materialValues.push_back(lanes.lanesAt(root.value, point));
  for (const Root &root : stores) {
    auto store = cast<tile::StoreOp>(root.op);
    std::optional<bool> isOn =
        store.getMask() ? lanes.knownMask(store.getMask(), point) : std::optional(true);
    if (isOn == false)
      continue;
    lanes.at(store.getValue(), pointFor(store.getValue()));
    if (!isOn)
      lanes.at(store.getMask(), pointFor(store.getMask()));
  }
  for (auto [root, partial] : llvm::zip(reduces, partials)) {
    llvm::SaveAndRestore<Location> place(k.e.loc, root.op->getLoc());
    if (scans) {
      emitScan(root, lanes, point, nest.narrowWidth, partial);
      continue;
    }
    SmallVector<Value> values;
    std::optional<Extremes> extremes = extremesOf(root, lanes.width);
    Value narrowSource = extremes ? narrow.lookup(root.op) : Value();
    for (Value source : root.op->getOperands())
      values.push_back(lanes.lanesAt(narrowSource ? narrowSource : source, point));
    Region &combiner = root.op->getRegion(0);
    bool commutative = isReorderable(combiner);
    if (ordered && !commutative && lanes.width > 1 && !columns)
      values = combineLanes(k, combiner, values, false);
    if (extremes) {
      if (partial.empty())
        partial.assign(extremes->of(values.front()));
      else
        extremes->add(partial, values.front());
      continue;
    }
    if (partial.empty())
      partial.assign(values.begin(), values.end());
    else
      partial = k.e.combine(combiner, partial, values, Emit::widthOf(values.front()));
  }
  for (auto [root, value] : llvm::zip(materials, materialValues))
    lanes.write(targets[root.value], point, value);
  for (const Root &root : stores) {
    llvm::SaveAndRestore<Location> place(k.e.loc, root.op->getLoc());
    lanes.store(cast<tile::StoreOp>(root.op), point);
  }
}

// Each register of a chunk is scanned by itself; then the total of all before it goes in front of
// its lanes. So only one combination a register waits for the register before.
void LoopStep::emitScan(const Root &root, Elements &lanes, ArrayRef<Index> point, int64_t width,
                        Partial &before) {
  SmallVector<Value> values;
  for (Value source : root.op->getOperands())
    values.push_back(lanes.lanesAt(source, point));
  Region &combiner = root.op->getRegion(0);
  SmallVector<Value> results; // of the registers so far
  width = std::min(width, lanes.width);
  for (int64_t first = 0; first < lanes.width; first += width) {
    SmallVector<Value> part(values);
    if (width < lanes.width)
      for (Value &value : part)
        value = k.e.shuffle(value, llvm::to_vector(llvm::seq(first, first + width)));
    part = scanLanes(k, combiner, part);
    if (!before.empty()) {
      SmallVector<Value> front;
      for (Value value : before)
        front.push_back(k.e.splat(value, width));
      part = k.e.combine(combiner, front, part, width);
    }
    before.clear();
    for (Value value : part)
      before.push_back(width == 1 ? value : k.e.extract(value, width - 1));
    if (first == 0) {
      results = part;
      continue;
    }
    auto both = llvm::to_vector(llvm::seq<int64_t>(0, first + width));
    // Of one length, as a shuffle wants them.
    for (auto [result, value] : llvm::zip(results, part)) {
      if (first > width) {
        SmallVector<int64_t> longer = llvm::to_vector(llvm::seq<int64_t>(0, first));
        for (int64_t &lane : longer)
          lane = std::min(lane, width - 1);
        value = k.e.shuffle(value, longer);
      }
      result = vector::ShuffleOp::create(k.b, k.e.loc, result, value, both);
    }
  }
  for (auto [result, value] : llvm::zip(root.op->getResults(), results))
    lanes.write(targets[result], point, value);
}

static void flatten(ArrayRef<SmallVector<Value, 2>> partials, SmallVectorImpl<Value> &flat) {
  flat.clear();
  for (auto &partial : partials)
    llvm::append_range(flat, partial);
}

void LoopStep::emitChunk(const Nest &nest, const Segment &segment, Value index,
                         SmallVectorImpl<Value> &carried, Elements::Known known,
                         ArrayRef<std::pair<Value, Value>> values) {
  size_t next = 0;
  SmallVector<Partial> current(reduces.size());
  bool empty = carried.empty();
  for (auto [partial, root] : llvm::zip(current, reduces))
    if (!empty)
      for (size_t i = 0; i < statesOf(root, segment.width); ++i)
        partial.push_back(carried[next++]);
  Elements lanes(k, segment.width, segment.width == 1 ? -1 : 0, index, nest.forms, nest.outside);
  lanes.known = known;
  lanes.masks = nest.masks;
  for (auto [value, scalar] : values)
    lanes.set(value, pointOf(nest.outer), scalar);
  emitRoots(lanes, nest, current, empty, true);
  SmallVector<Value> flat;
  flatten(current, flat);
  carried.assign(flat.begin(), flat.end());
}

// A chunk without masks where all are on, else with them.
void LoopStep::emitEither(const Nest &nest, const Segment &segment, Value index,
                          SmallVectorImpl<Value> &carried) {
  Value last = k.e.add(index, k.e.i64(segment.width));
  Value isOn = k.e.cmp(arith::CmpIPredicate::sge, nest.masks->on(), last);
  SmallVector<Type> types = llvm::map_to_vector(carried, [](Value v) { return v.getType(); });
  auto branch = scf::IfOp::create(k.b, k.e.loc, types, isOn, true);
  OpBuilder::InsertionGuard guard(k.b);
  for (auto known : {Elements::Known::On, Elements::Known::Nothing}) {
    bool on = known == Elements::Known::On;
    Block &block = (on ? branch.getThenRegion() : branch.getElseRegion()).front();
    SmallVector<Value> inside(carried.begin(), carried.end());
    if (types.empty())
      k.b.setInsertionPoint(block.getTerminator());
    else
      k.b.setInsertionPointToStart(&block);
    emitChunk(nest, segment, index, inside, known);
    if (!types.empty())
      scf::YieldOp::create(k.b, k.e.loc, inside);
  }
  carried.assign(branch.getResults().begin(), branch.getResults().end());
}

// Partial results of fewer lanes, where they have more.
void LoopStep::narrowPartials(SmallVectorImpl<Value> &carried, int64_t width) {
  size_t next = 0;
  for (const Root &root : reduces) {
    int64_t before = Emit::widthOf(carried[next]);
    std::optional<Extremes> extremes = extremesOf(root, before);
    MutableArrayRef<Value> partial(&carried[next], statesOf(root, before));
    next += partial.size();
    if (before <= width)
      continue;
    SmallVector<Value> narrowed;
    if (extremes)
      narrowed = extremes->folded(partial, width);
    if (narrowed.empty()) {
      narrowed.assign(partial.begin(), partial.end());
      if (extremes)
        narrowed = {extremes->lanes(partial)};
      narrowed = combineLanes(k, root.op->getRegion(0), narrowed, true, width);
      if (extremes)
        narrowed = extremesOf(root, width)->of(narrowed.front());
    }
    llvm::copy(narrowed, partial.begin());
  }
}

/// How partial results of a reduction of rows are kept, if not as lanes of its results.
std::optional<Extremes> LoopStep::extremesOf(const Root &root, int64_t width) const {
  if (columns || scans)
    return std::nullopt;
  tile::CombinerKind kind = tile::combinerKind(root.op->getRegion(0));
  Type element = tile::elementOf(root.op->getOperand(0).getType());
  if (!Extremes::applies(kind, element, width))
    return std::nullopt;
  Value source = narrow.lookup(root.op);
  return Extremes(k.e, kind, element, width, source ? tile::elementOf(source.getType()) : Type());
}

unsigned LoopStep::statesOf(const Root &root, int64_t width) const {
  std::optional<Extremes> extremes = extremesOf(root, width);
  return extremes ? extremes->states() : root.op->getNumResults();
}

/// Finds the sources of extremes that have 16 bits.
void LoopStep::narrowSources() {
  for (const Root &root : reduces) {
    if (!extremesOf(root, 2))
      continue;
    Value source = root.op->getOperand(0);
    auto isInMemory = [&](Value value) {
      return k.buffers.count(value) ||
             llvm::any_of(materials, [&](const Root &other) { return other.value == value; });
    };
    if (Value found = narrowSource(source, root.op, isInMemory))
      narrow[root.op] = found;
  }
}

// Lanes of the results from the partial results of a segment, whose chunks had `width` lanes.
void LoopStep::mergeStates(SmallVectorImpl<Value> &carried, int64_t width) {
  SmallVector<Value> merged;
  ArrayRef<Value> rest(carried);
  for (const Root &root : reduces) {
    ArrayRef<Value> partial = rest.take_front(statesOf(root, width));
    rest = rest.drop_front(partial.size());
    if (extremesOf(root, width))
      merged.push_back(extremesOf(root, Emit::widthOf(partial.front()))->lanes(partial));
    else
      llvm::append_range(merged, partial);
  }
  carried.assign(merged.begin(), merged.end());
}

/// Rows of fewer chunks have one loop, which asks for each chunk what is known of its masks.
constexpr int64_t leastSplit = 4;

// The chunks of a segment from `begin` on.
void LoopStep::emitSegment(const Nest &nest, const Segment &segment, int64_t begin,
                           SmallVectorImpl<Value> &carried) {
  using Known = Elements::Known;
  int64_t end = segment.begin + segment.count * segment.width;
  if (begin >= end)
    return;
  // What does not run with the loops is computed before them.
  llvm::SaveAndRestore<Operation *> anchor(nest.outside->anchor);
  bool isAnchored = nest.outside->anchor;
  auto setAnchor = [&] {
    if (!isAnchored)
      nest.outside->anchor = arith::ConstantOp::create(k.b, k.e.loc, k.b.getI64IntegerAttr(0));
  };
  int64_t chunks = (end - begin) / segment.width;
  if (!nest.masks || segment.width == 1 || unrolled ||
      (!nest.masks->ofAccesses() && (chunks < leastSplit || !nest.offIsShort))) {
    setAnchor();
    return loop(begin, end, segment.width, carried,
                [&](Value index, SmallVectorImpl<Value> &inside) {
                  emitChunk(nest, segment, index, inside, Known::Nothing);
                });
  }
  if (chunks < leastSplit) { // asked of each: less code
    setAnchor();
    return loop(begin, end, segment.width, carried,
                [&](Value index, SmallVectorImpl<Value> &inside) {
                  emitEither(nest, segment, index, inside);
                });
  }
  // Most chunks run without masks. The one or two in which the masks of accesses end have narrower
  // lanes: less code, and fewer lanes that are off.
  bool ofAccesses = nest.masks->ofAccesses();
  Segment narrow = segment;
  if (ofAccesses && nest.offIsShort)
    narrow.width = std::min(segment.width, nest.narrowWidth);
  // Counts lie in [0, extent].
  auto chunksBefore = [&](Value count, int64_t width, int64_t more) -> Value {
    if (begin > 0)
      count = k.e.max(count, k.e.i64(begin));
    if (end < nest.masks->extent)
      count = k.e.min(count, k.e.i64(end));
    Value lanes = k.e.add(count, k.e.i64(more - begin));
    lanes = k.b.createOrFold<arith::AndIOp>(k.e.loc, lanes, k.e.i64(-width));
    Value chunks = k.e.add(lanes, k.e.i64(begin));
    return more < width ? chunks : k.e.min(chunks, k.e.i64(end));
  };
  Value allOff = k.e.i64(end);
  // Of what is materialised, an element that is off is computed: it stands for all others.
  if (nest.offIsShort)
    allOff = chunksBefore(nest.masks->off(), narrow.width,
                          materials.empty() ? narrow.width - 1 : narrow.width);
  Value endOfWhole = allOff;
  if (ofAccesses)
    endOfWhole = chunksBefore(nest.masks->on(), segment.width, 0);
  setAnchor();
  loop(k.e.i64(begin), endOfWhole, segment.width, carried,
       [&](Value index, SmallVectorImpl<Value> &inside) {
         emitChunk(nest, segment, index, inside, ofAccesses ? Known::On : Known::Nothing);
       });
  if (ofAccesses) {
    narrowPartials(carried, narrow.width);
    setAnchor();
    loop(endOfWhole, allOff, narrow.width, carried,
         [&](Value index, SmallVectorImpl<Value> &inside) {
           emitChunk(nest, narrow, index, inside, Known::Nothing);
         });
  }
  if (!nest.offIsShort || (reduces.empty() && materials.empty()))
    return;
  setAnchor();
  Point last = pointOf(nest.outer);
  last[lane] = {k.e.sub(allOff, k.e.i64(1)), -1};
  Elements before(k);
  SmallVector<std::pair<Value, Value>> values;
  for (const Root &root : materials)
    values.push_back({root.value, before.read(targets[root.value], last)});
  loop(allOff, k.e.i64(end), narrow.width, carried,
       [&](Value index, SmallVectorImpl<Value> &inside) {
         emitChunk(nest, narrow, index, inside, Known::Off, values);
       });
}

void LoopStep::emitRows(const Nest &nest) {
  SmallVector<Partial> totals(reduces.size());
  Elements still(k, 1, -1, ArrayRef<Value>{k.e.i64(0)}, nullptr, nest.outside);
  for (Segment segment : segments(nest.maxWidth)) {
    int64_t begin = segment.begin;
    SmallVector<Value> carried;
    if (!reduces.empty()) {
      // Where every combiner has a neutral element the loop starts from it; else the first round is
      // peeled.
      bool fromIdentity = segment.count > 1 && !scans;
      SmallVector<TypedAttr> identities(reduces.size());
      for (auto [identity, root] : llvm::zip(identities, reduces)) {
        Region &combiner = root.op->getRegion(0);
        identity = tile::neutralElement(tile::combinerKind(combiner),
                                        combiner.front().getArgument(0).getType());
        fromIdentity = fromIdentity && identity;
      }
      if ((segment.width == 1 || scans) && !totals[0].empty())
        flatten(totals, carried);
      else if (fromIdentity)
        for (auto [identity, root] : llvm::zip(identities, reduces))
          if (std::optional<Extremes> extremes = extremesOf(root, segment.width))
            llvm::append_range(carried, extremes->none());
          else
            carried.push_back(
                k.e.splat(k.e.constantOf(identity, identity.getType()), segment.width));
      if (carried.empty()) {
        emitChunk(nest, segment, k.e.i64(begin), carried, Elements::Known::Nothing);
        begin += segment.width;
      }
    }
    emitSegment(nest, segment, begin, carried);
    if (reduces.empty())
      continue;
    mergeStates(carried, segment.width);
    size_t next = 0;
    for (auto [root, total] : llvm::zip(reduces, totals)) {
      Partial partial;
      for (size_t i = 0; i < root.op->getNumResults(); ++i)
        partial.push_back(carried[next++]);
      Region &combiner = root.op->getRegion(0);
      bool commutative = isReorderable(combiner);
      if (segment.width == 1 || scans) {
        total = partial;
        continue;
      }
      if (commutative)
        partial = combineLanes(k, combiner, partial, true);
      if (total.empty())
        total = partial;
      else
        total = k.e.combine(combiner, total, partial, 1);
    }
  }
  if (!scans)
    finish(nest, still, totals);
}

/// Of a block of columns, a row is too short a piece of memory for the processor to fetch the next
/// ones by itself.
constexpr int64_t rowsAhead = 16, fewestFetchedAhead = 8;

void LoopStep::emitColumns(const Nest &nest) {
  for (Segment segment : segments(nest.maxWidth)) {
    SmallVector<Value> none;
    Operation *savedAnchor = nest.outside->anchor;
    Operation *marker = arith::ConstantOp::create(k.b, k.e.loc, k.b.getI64IntegerAttr(0));
    if (!savedAnchor)
      nest.outside->anchor = marker;
    loop(segment.begin, segment.begin + segment.count * segment.width, segment.width, none,
         [&](Value column, SmallVectorImpl<Value> &) {
           SmallVector<Value> carried;
           auto body = [&](Value row, SmallVectorImpl<Value> &carried) {
             size_t next = 0;
             SmallVector<Partial> current(reduces.size());
             bool empty = carried.empty();
             for (auto [partial, root] : llvm::zip(current, reduces))
               if (!empty)
                 for (size_t i = 0; i < root.op->getNumResults(); ++i)
                   partial.push_back(carried[next++]);
             Elements lanes(k, segment.width, segment.width == 1 ? -1 : 0, {column, row},
                            nest.forms, nest.outside);
             if (segment.width > 1 && step.shape[axis] >= fewestFetchedAhead)
               lanes.ahead = {1, rowsAhead};
             emitRoots(lanes, nest, current, empty, false);
             SmallVector<Value> flat;
             flatten(current, flat);
             carried.assign(flat.begin(), flat.end());
           };
           body(k.e.i64(0), carried);
           if (step.shape[axis] > 1)
             loop(1, step.shape[axis], 1, carried, body);
           Elements lanes(k, segment.width, segment.width == 1 ? -1 : 0, {column, k.e.i64(0)},
                          nullptr, nest.outside);
           SmallVector<Partial> partials;
           size_t next = 0;
           for (const Root &root : reduces) {
             partials.emplace_back();
             for (size_t i = 0; i < root.op->getNumResults(); ++i)
               partials.back().push_back(carried[next++]);
           }
           finish(nest, lanes, partials);
         });
    nest.outside->anchor = savedAnchor;
  }
}

// Writes the results of the reductions.
void LoopStep::finish(const Nest &nest, Elements &lanes, ArrayRef<Partial> partials) {
  Point point = pointOf(nest.outer, true);
  if (step.shape.size() == 1)
    point.push_back({});
  for (auto [root, partial] : llvm::zip(reduces, partials))
    for (auto [result, value] : llvm::zip(root.op->getResults(), partial))
      lanes.write(targets[result], point, value);
}

//--- one tensor
//---------------------------------------------------------------------------------------------

void materializeInto(Kernel &k, Value value, const Buffer &target) {
  Buffer saved = k.destinations.lookup(value);
  k.destinations[value] = target;
  Buffer existing = k.buffers.lookup(value);
  Step step;
  auto shape = tile::shapeOf(value.getType());
  step.shape.assign(shape.begin(), shape.end());
  if (existing) { // a copy: through an alias that has no buffer
    Value bytes =
        k.e.i64(target.type.getNumElements() * tile::sizeInBytes(target.type.getElementType()));
    LLVM::MemcpyOp::create(k.b, k.e.loc, target.base, existing.base, bytes, false);
  } else {
    step.roots.push_back({Root::Materialize, nullptr, value});
    LoopStep(k, step).emit();
    k.buffers.erase(value);
  }
  k.destinations.erase(value);
  if (saved)
    k.destinations[value] = saved;
}

void materialize(Kernel &k, ArrayRef<Value> values) {
  Step step;
  auto shape = tile::shapeOf(values.front().getType());
  step.shape.assign(shape.begin(), shape.end());
  for (Value value : values)
    if (!k.buffers.count(value))
      step.roots.push_back({Root::Materialize, nullptr, value});
  if (!step.roots.empty())
    LoopStep(k, step).emit();
}

Buffer materialize(Kernel &k, Value value) {
  materialize(k, ArrayRef(value));
  return k.buffers.lookup(value);
}

void forEachPoint(Kernel &k, ArrayRef<int64_t> shape, function_ref<void(ArrayRef<Value>)> body) {
  SmallVector<Value> indices;
  std::function<void()> next = [&] {
    if (indices.size() == shape.size())
      return body(indices);
    auto loop =
        scf::ForOp::create(k.b, k.e.loc, k.e.i64(0), k.e.i64(shape[indices.size()]), k.e.i64(1));
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPoint(loop.getBody()->getTerminator());
    indices.push_back(loop.getInductionVar());
    next();
    indices.pop_back();
  };
  next();
}

} // namespace nereid::cpu

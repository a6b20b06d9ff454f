#include "gpu/explain/Explain.h"

#include "gpu/dots/DotPlan.h"
#include "gpu/layouts/AccessWidth.h"
#include "gpu/layouts/LayoutCost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <set>

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {

using explain::HintKind;
using explain::SourcePlace;
using transforms::placeOf;
using transforms::shapeOf;

namespace {

std::string number(int64_t value) {
  return std::to_string(value);
}

/// "`a`, `b` and `c`".
std::string listed(ArrayRef<std::string> names) {
  std::string text;
  for (auto [i, name] : llvm::enumerate(names))
    text += (i == 0 ? "`" : i + 1 == names.size() ? " and `" : ", `") + name + "`";
  return text;
}

//===--- products ----------------------------------------------------------------------------===//

std::string typeName(Type type) {
  return shapeOf(type).element;
}

/// Why a unit cannot compute a product, and what would help.
std::pair<std::string, std::string> wordsFor(Obstacle obstacle, MatrixUnit unit,
                                             const DotFacts &facts, const GpuOptions &options) {
  std::string name = unit == MatrixUnit::Wgmma ? "wgmma" : "the matrix unit";
  int64_t rows = unit == MatrixUnit::Wgmma ? 64 : 16, columns = 8;
  switch (obstacle) {
  case Obstacle::None:
    break;
  case Obstacle::Device:
    return {"the GPU has none for " + typeName(facts.a.element), "a newer GPU, or 16-bit elements"};
  case Obstacle::Depth:
    return {"K is " + number(facts.k) + ", one instruction takes " +
                number(instructionK(facts.a.element)),
            "a block that is deeper along K"};
  case Obstacle::Rows:
    return {"M is " + number(facts.m()) + ", " + name + " computes " + number(rows) +
                " rows at once",
            "a block with more rows, or with a number of them that is a power of two"};
  case Obstacle::Columns:
    return {"N is " + number(facts.n()) + ", " + name + " computes at least " + number(columns) +
                " columns for every four warps",
            "a block with more columns, or fewer warps"};
  case Obstacle::Types:
    return {"no unit multiplies " + typeName(facts.a.element) + " by " + typeName(facts.b.element) +
                " into " + typeName(facts.accumulator),
            "operands of one type: fp16, bf16, fp8, int8, or fp32 as tf32"};
  case Obstacle::Precision:
    return {"fp32 in full precision was asked for",
            "`input_precision=\"tf32\"` keeps 10 bits of the fraction, `\"tf32x3\"` nearly all"};
  case Obstacle::Warps:
    return {"`num_warps` is " + number(options.numWarps) + ", wgmma takes groups of 4 warps",
            "`num_warps=4` or 8"};
  case Obstacle::Batches:
    return {"the product has batches", "a loop over the batches, or one program for each"};
  }
  return {};
}

} // namespace

void explainProducts(func::FuncOp kernel, const GpuOptions &options,
                     const transforms::IntegerAnalysis &analysis) {
  explain::Report &report = *options.explanation;
  kernel.walk([&](tile::DotOp dot) {
    DotFacts facts = gatherDotFacts(dot, analysis);
    DotPlan plan = planDot(facts, options);
    explain::ProductFact fact;
    fact.place = placeOf(dot.getLoc());
    fact.shape.assign(facts.shape.begin(), facts.shape.end());
    fact.k = facts.k;
    fact.a = typeName(facts.a.element);
    fact.b = typeName(facts.b.element);
    fact.accumulator = typeName(facts.accumulator);
    fact.unit = plan.unit == MatrixUnit::Wgmma ? "wgmma"
                : plan.unit == MatrixUnit::Mma ? "mma.sync"
                                               : "multiply-adds";
    if (plan.unit == MatrixUnit::Fma) {
      auto [why, remedy] =
          wordsFor(obstacle(MatrixUnit::Mma, facts, options), MatrixUnit::Mma, facts, options);
      fact.why = why;
      report.hint(HintKind::SlowProduct, fact.place, {why, remedy});
    } else if (plan.unit < options.machine.best) {
      auto [why, remedy] = wordsFor(obstacle(options.machine.best, facts, options),
                                    options.machine.best, facts, options);
      fact.why = why;
      report.hint(HintKind::NoWgmma, fact.place, {why, remedy});
    }
    if (plan.a.reordered)
      report.hint(HintKind::ReorderedOperand, fact.place, {"A", "K"});
    else if (plan.b.reordered)
      report.hint(HintKind::ReorderedOperand, fact.place, {"B", "K"});
    report.products.push_back(std::move(fact));
  });
}

//===--- loops -------------------------------------------------------------------------------===//

namespace {

/// Why a loop is not pipelined, and what its author can do.
struct WhyNotPipelined {
  StaysPut reason;
  const char *why, *remedy;
};
constexpr WhyNotPipelined whyNotPipelined[] = {
    {StaysPut::OneStage, "`num_stages` is 1", "`num_stages=2` or more"},
    {StaysPut::NoRoom, "shared memory has no room for two of each", "smaller blocks"},
    {StaysPut::Unsigned, "its bounds are unsigned numbers", "signed bounds"},
    {StaysPut::Writes,
     "it writes to global memory, and a load must not pass a store that may be to the same place",
     "store behind the loop, or load in a loop of its own"},
    {StaysPut::InnerLoop, "there is a loop in it", "one loop over both ranges"},
    {StaysPut::Depends, "their addresses or masks follow from what the loop computes",
     "addresses that follow from the loop's variable and from values known before it"},
    {StaysPut::NoProduct, "none of them feeds a product",
     "`tl.range(..., num_stages=3)` fetches ahead whatever the loads are for"},
};

const WhyNotPipelined *whyNot(const LoopDecision &decision) {
  auto *row = llvm::find_if(
      whyNotPipelined, [&](const WhyNotPipelined &each) { return each.reason == decision.whyNot; });
  return row == std::end(whyNotPipelined) ? nullptr : row;
}

} // namespace

void adviseOnOptions(func::FuncOp kernel, const GpuOptions &options,
                     std::vector<explain::Hint> &advice) {
  kernel.walk([&](scf::ForOp loop) {
    std::vector<std::string> names;
    for (StringRef name : {"flatten"})
      if (loop->hasAttr(("tile." + name).str()))
        names.push_back((name + "=True").str());
    if (!names.empty())
      advice.push_back(makeHint(HintKind::NoEffect, placeOf(loop.getLoc()), {listed(names)}));
  });
}

std::optional<explain::Hint> adviceOnLoop(scf::ForOp loop, const LoopDecision &decision) {
  const WhyNotPipelined *row = whyNot(decision);
  if (!row || decision.whyNot == StaysPut::OneStage || decision.whyNot == StaysPut::NoRoom ||
      !loop->hasAttr("tile.num_stages"))
    return std::nullopt;
  return makeHint(HintKind::StagesIgnored, placeOf(loop.getLoc()),
                  {number(decision.stagesAsked), row->why, row->remedy});
}

void explainLoop(scf::ForOp loop, bool feeds, const LoopDecision &decision,
                 explain::Report &report) {
  bool loads = false;
  for (Operation &op : *loop.getBody())
    loads |= isa<tile::DescLoadOp>(op) ||
             (isa<tile::LoadOp>(op) && isa<RankedTensorType>(op.getResult(0).getType()));
  SourcePlace place = placeOf(loop.getLoc());
  const WhyNotPipelined *row = whyNot(decision);
  for (explain::LoopFact &fact : report.loops) {
    if (!(fact.place == place))
      continue;
    fact.considered = loads;
    fact.stagesAsked = decision.stagesAsked;
    fact.stages = decision.stages;
    if (loads && row)
      fact.why = row->why;
  }
  if (decision.stages && decision.stages < decision.stagesAsked)
    report.hint(HintKind::SharedLimit, place,
                {number(decision.stages), number(decision.stagesAsked)});
  bool worth = feeds || decision.whyNot == StaysPut::NoProduct;
  if (loads && worth && row)
    report.hint(HintKind::NotPipelined, place, {row->why, row->remedy});
}

//===--- conversions -------------------------------------------------------------------------===//

void explainConversion(ngpu::ConvertLayoutOp convert, Move move, explain::Report &report) {
  auto from = cast<RankedTensorType>(convert.getSrc().getType());
  auto to = cast<RankedTensorType>(convert.getType());
  unsigned bytes = tile::sizeInBytes(from.getElementType());
  int64_t repeats = 1;
  for (int64_t size : from.getShape())
    repeats *= repeatCount(size);
  explain::ConversionFact fact;
  fact.place = placeOf(convert.getLoc());
  fact.type = shapeOf(from);
  fact.bytes = from.getNumElements() * bytes;
  fact.cycles = conversionCost(ngpu::layoutOf(from).getLayout(), ngpu::layoutOf(to).getLayout(),
                               8 * bytes, repeats, convert.getWithinWarps());
  fact.how = move == Move::Shared     ? "shared memory"
             : move == Move::Shuffles ? "shuffles"
                                      : "registers";
  if (move == Move::Shared && convert->getParentOfType<scf::ForOp>() &&
      !convert.getSrc().getDefiningOp<ngpu::LocalLoadOp>())
    report.hint(HintKind::SharedConversion, fact.place,
                {number(fact.bytes), number(int64_t(fact.cycles))});
  report.conversions.push_back(std::move(fact));
}

//===--- accesses to global memory -----------------------------------------------------------===//

namespace {

/// What an address changes with along one dimension of its tensor.
struct Source {
  std::set<std::string> strides; ///< arguments that multiply the position
  bool gathered = false;         ///< numbers read from memory
  bool wrapped = false;          ///< a remainder
};

void findSource(Value value, unsigned dim, Source &source, unsigned depth = 0) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || depth > 40 || type.getDimSize(dim) == 1)
    return;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (loop && argument.getArgNumber() > 0)
      findSource(loop.getInitArgs()[argument.getArgNumber() - 1], dim, source, depth + 1);
    return;
  }
  Operation *op = value.getDefiningOp();
  auto follow = [&](Value next, unsigned along) { findSource(next, along, source, depth + 1); };
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](tile::LoadOp) { source.gathered = true; })
      .Case<ngpu::LocalLoadOp, tile::GatherOp>([&](auto) { source.gathered = true; })
      .Case([&](tile::ExpandDimsOp expand) {
        unsigned axis = expand.getAxis();
        if (dim != axis)
          follow(expand.getSrc(), dim - (dim > axis));
      })
      .Case([&](tile::TransOp trans) { follow(trans.getSrc(), trans.getOrder()[dim]); })
      .Case([&](arith::MulIOp mul) {
        for (auto [side, other] :
             {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())}) {
          auto splat = side.getDefiningOp<tile::SplatOp>();
          if (!splat)
            continue;
          auto argument = dyn_cast<BlockArgument>(splat.getSrc());
          auto function = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp())
                                   : func::FuncOp();
          if (function)
            if (auto name =
                    function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "tile.name"))
              source.strides.insert(name.str());
          follow(other, dim);
        }
      })
      .Case<arith::RemSIOp, arith::RemUIOp>([&](auto rem) {
        source.wrapped = true;
        follow(rem.getLhs(), dim);
      })
      .Case<tile::SplatOp, tile::ReshapeOp>([](auto) {})
      .Default([&](Operation *other) {
        if (other->getNumRegions() == 0)
          for (Value operand : other->getOperands())
            if (auto tensor = dyn_cast<RankedTensorType>(operand.getType());
                tensor && tensor.getRank() == type.getRank())
              follow(operand, dim);
      });
}

/// Where the lanes of a warp go in one request.
struct LaneFacts {
  std::optional<int64_t> stride; ///< bytes from a lane to the next one that goes elsewhere
  unsigned unknownDim = 0;       ///< what these two differ in, when that is not known
  unsigned sectors = 1, least = 1;
  /// All requests of a warp together touch twice the sectors that they need, or more: it is not
  /// only that a thread's neighbouring elements take several requests.
  bool wasteful = false;
};

LaneFacts laneFacts(const transforms::IntegerInfo *info, RankedTensorType type, int64_t bytes,
                    int64_t element, const Machine &machine) {
  const int64_t sector = machine.sectorBytes;
  const LinearLayout &map = ngpu::layoutOf(type).getLayout();
  struct Spot {
    SmallVector<int64_t, 4> unknown; ///< what the place depends on and is not known
    int64_t offset = 0;
    Coords coords;
  };
  auto spotOf = [&](unsigned reg, unsigned lane) {
    Spot spot;
    spot.coords.assign(map.rank(), 0);
    for (auto [axis, index] : {std::pair(Axis::Register, reg), std::pair(Axis::Lane, lane)})
      for (unsigned bit = 0; bit < map.bits(axis); ++bit)
        if (index >> bit & 1)
          for (auto [coord, step] : llvm::zip(spot.coords, map.basis(axis, bit)))
            coord ^= step;
    for (unsigned dim = 0; dim < map.rank(); ++dim) {
      transforms::Run run = info ? info->run(dim) : transforms::Run();
      spot.unknown.push_back(spot.coords[dim] / run.length);
      spot.offset += run.step * (spot.coords[dim] % run.length);
    }
    return spot;
  };
  using Places = std::set<std::pair<SmallVector<int64_t, 4>, int64_t>>;
  auto touch = [sector](Places &sectors, const Spot &spot, int64_t size) {
    for (int64_t byte = spot.offset; byte < spot.offset + size; byte += std::min(size, sector))
      sectors.insert({spot.unknown, byte >= 0 ? byte / sector : -1 - (-1 - byte) / sector});
  };
  auto needed = [sector](const Places &places, int64_t size) {
    return unsigned(std::max<int64_t>(1, (int64_t(places.size()) * size + sector - 1) / sector));
  };

  LaneFacts facts;
  SmallVector<Spot> lanes;
  Places sectors, places, allSectors, allPlaces;
  for (unsigned lane = 0; lane < machine.lanes; ++lane) {
    Spot spot = spotOf(0, lane);
    touch(sectors, spot, bytes);
    places.insert({spot.unknown, spot.offset});
    if (llvm::none_of(lanes, [&](const Spot &known) { return known.coords == spot.coords; }))
      lanes.push_back(std::move(spot));
    for (unsigned reg = 0; reg < std::min<int64_t>(map.size(Axis::Register), 256); ++reg) {
      Spot each = spotOf(reg, lane);
      touch(allSectors, each, element);
      allPlaces.insert({each.unknown, each.offset});
    }
  }
  facts.sectors = sectors.size();
  facts.least = needed(places, bytes);
  facts.wasteful =
      facts.sectors >= 2 * facts.least && allSectors.size() >= 2 * needed(allPlaces, element);
  if (lanes.size() > 1) {
    if (lanes[0].unknown == lanes[1].unknown)
      facts.stride = lanes[1].offset - lanes[0].offset;
    for (unsigned dim = 0; dim < map.rank(); ++dim)
      if (lanes[0].unknown[dim] != lanes[1].unknown[dim])
        facts.unknownDim = dim;
  }
  return facts;
}

class Accesses {
public:
  Accesses(func::FuncOp kernel, const Machine &machine, explain::Report &report)
      : report(report), machine(machine), analysis(addressAnalysis(kernel)),
        supposed(kernel, transforms::Mode::Speculative), kernel(kernel) {
    for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes()))
      if (auto name = kernel.getArgAttrOfType<StringAttr>(i, "tile.name"))
        names.push_back(name.str());
      else
        names.push_back("");
  }
  void add(StringRef what, StringRef route, Operation *op, Value ptr, Value mask, unsigned most);

private:
  void adviseLanes(const explain::AccessFact &fact, const LaneFacts &lanes, Value ptr);
  void adviseWidth(const explain::AccessFact &fact, Value ptr, Value mask);

  explain::Report &report;
  const Machine &machine;
  transforms::IntegerAnalysis analysis, supposed;
  func::FuncOp kernel;
  std::vector<std::string> names;
};

void Accesses::adviseLanes(const explain::AccessFact &fact, const LaneFacts &lanes, Value ptr) {
  if (!lanes.wasteful)
    return;
  if (lanes.stride) {
    bool flat = fact.type.sizes.size() == 1;
    int64_t apart = flat ? supposed.lookup(ptr)->run(0).step : *lanes.stride;
    report.hint(flat ? HintKind::Strided : HintKind::Uncoalesced, fact.place,
                {fact.what, number(apart) + " bytes", number(lanes.sectors), number(lanes.least)});
    return;
  }
  Source source;
  findSource(ptr, lanes.unknownDim, source);
  std::vector<std::string> strides(source.strides.begin(), source.strides.end());
  if (source.gathered)
    report.hint(HintKind::Gathered, fact.place, {fact.what, "numbers that are read from memory"});
  else if (!strides.empty())
    report.hint(HintKind::UnknownStride, fact.place, {fact.what, listed(strides)});
  else
    report.hint(HintKind::Gathered, fact.place,
                {fact.what, source.wrapped ? "a remainder (`%`)" : "arithmetic that is no stride"});
}

void Accesses::adviseWidth(const explain::AccessFact &fact, Value ptr, Value mask) {
  auto type = cast<RankedTensorType>(ptr.getType());
  const transforms::IntegerInfo *info = analysis.lookup(ptr);
  if (!info || fact.bytes >= 16)
    return;
  int64_t element = std::max(1u, fact.type.bits / 8);
  unsigned dim = 0;
  for (unsigned other = 0; other < type.getRank(); ++other)
    if (info->contiguity(other) > info->contiguity(dim))
      dim = other;
  int64_t contiguous = info->contiguity(dim) * element;
  if (contiguous <= fact.bytes)
    return; // nothing adjacent: adviseLanes has spoken
  int64_t held = int64_t(ngpu::registerCount(type)) * element;
  int64_t wanted = std::min<int64_t>({16, contiguous, held});
  std::string is = number(fact.bytes), could = number(wanted);
  if (int64_t aligned = info->divisibility(dim); aligned <= fact.bytes && wanted > fact.bytes) {
    auto suspects = transforms::unalignedArguments(ptr, 16);
    report.hint(HintKind::NarrowAlignment, fact.place,
                {fact.what, is, could, suspects.empty() ? "its addresses" : listed(suspects)});
  } else if (mask && analysis.constancy(mask, dim) * element <= fact.bytes && wanted > fact.bytes) {
    auto suspects = transforms::unalignedArguments(mask, 16);
    report.hint(HintKind::NarrowMask, fact.place,
                {fact.what, is, could, suspects.empty() ? "its bound" : listed(suspects)});
  } else if (held < 16 && held <= fact.bytes && contiguous >= 16) {
    report.hint(HintKind::NarrowBlock, fact.place,
                {fact.what, is, "16", number(ngpu::registerCount(type))});
  }
}

void Accesses::add(StringRef what, StringRef route, Operation *op, Value ptr, Value mask,
                   unsigned most) {
  auto type = dyn_cast<RankedTensorType>(ptr.getType());
  if (!type)
    return;
  explain::AccessFact fact;
  fact.what = what.str();
  fact.route = route.str();
  fact.place = placeOf(op->getLoc());
  fact.type = shapeOf(ptr.getType());
  fact.masked = bool(mask);
  fact.parameter = report.parameterAt(fact.place);
  int64_t element = tile::sizeInBytes(cast<tile::PtrType>(type.getElementType()).getPointee());
  AccessWidth width = accessWidth(analysis, ptr, mask, most);
  fact.bytes = width.elements * element;
  fact.possible =
      std::min<int64_t>(16, int64_t(llvm::bit_floor(ngpu::registerCount(type))) * element);
  // The strides of lanes come from the analysis that assumes that offsets do not wrap.
  LaneFacts lanes = laneFacts(supposed.lookup(ptr), type, fact.bytes, element, machine);
  fact.laneStride = lanes.stride;
  fact.sectors = lanes.sectors;
  fact.leastSectors = lanes.least;
  // Pipelining makes several copies of an access: what is in the loop counts.
  for (explain::AccessFact &known : report.accesses)
    if (known.place == fact.place && known.what == fact.what && known.type.sizes == fact.type.sizes)
      return;
  adviseLanes(fact, lanes, ptr);
  if (what != "atomic")
    adviseWidth(fact, ptr, mask);
  report.accesses.push_back(std::move(fact));
}

/// A block that the copy engine moves.
void addBlock(StringRef what, Operation *op, ngpu::BufferType buffer, explain::Report &report) {
  explain::AccessFact fact;
  fact.what = what.str();
  fact.route = "copy engine";
  fact.place = placeOf(op->getLoc());
  fact.parameter = report.parameterAt(fact.place);
  fact.type = shapeOf(RankedTensorType::get(buffer.getShape(), buffer.getElementType()));
  fact.bytes = fact.possible = 16;
  fact.masked = false;
  for (const explain::AccessFact &known : report.accesses)
    if (known.place == fact.place && known.what == fact.what)
      return;
  report.accesses.push_back(std::move(fact));
}

//===--- layouts -----------------------------------------------------------------------------===//

class Layouts {
public:
  explicit Layouts(explain::Report &report) : report(report) {}
  void add(StringRef what, Operation *op, Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && ngpu::layoutOf(tensor))
      add(what, op, shapeOf(type), ngpu::layoutOf(tensor).getLayout());
    else if (auto buffer = dyn_cast<ngpu::BufferType>(type); buffer && !ngpu::isMBarrier(buffer))
      add(what, op, shapeOf(RankedTensorType::get(buffer.getShape(), buffer.getElementType())),
          buffer.getLayout().getLayout());
  }

private:
  void add(StringRef what, Operation *op, explain::Shape shape, const LinearLayout &layout) {
    SourcePlace place = placeOf(op->getLoc());
    for (const explain::LayoutFact &known : report.layouts)
      if (known.place.line == place.line && known.what == what && known.layout == layout)
        return;
    if (report.layouts.size() < 60)
      report.layouts.push_back({what.str(), place, std::move(shape), layout});
  }
  explain::Report &report;
};

void explainLayouts(func::FuncOp kernel, explain::Report &report) {
  Layouts layouts(report);
  kernel.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](tile::LoadOp load) { layouts.add("load", op, load.getType()); })
        .Case([&](tile::StoreOp store) { layouts.add("store", op, store.getValue().getType()); })
        .Case([&](tile::Atomic atomic) { layouts.add("atomic", op, atomic.getPtr().getType()); })
        .Case([&](ngpu::AsyncCopyOp copy) {
          layouts.add("asynchronous copy, by thread", op, copy.getPtr().getType());
          layouts.add("asynchronous copy, in shared memory", op, copy.getBuffer().getType());
        })
        .Case([&](ngpu::FetchOp fetch) {
          layouts.add("asynchronous copy, by thread", op, fetch.getPtr().getType());
        })
        .Case([&](ngpu::TmaLoadOp load) {
          layouts.add("block of the copy engine, in shared memory", op, load.getBuffer().getType());
        })
        .Case<ngpu::WgmmaOp, ngpu::MmaOp, ngpu::FmaDotOp>([&](auto product) {
          layouts.add("accumulator of a product", op, product.getType());
          layouts.add("operand A of a product", op, product.getA().getType());
          layouts.add("operand B of a product", op, product.getB().getType());
        })
        .Case<tile::ReduceOp, tile::ScanOp>([&](auto reduce) {
          layouts.add(isa<tile::ScanOp>(op) ? "operand of a scan" : "operand of a reduction", op,
                      reduce.getSrcs()[0].getType());
        })
        .Case([&](ngpu::LocalAllocOp alloc) {
          if (alloc.getSrc())
            layouts.add("buffer in shared memory", op, alloc.getType());
        });
  });
}

} // namespace

void explainKernel(func::FuncOp kernel, const GpuOptions &options) {
  explain::Report &report = *options.explanation;
  report.sm = options.machine.generation;
  report.resources.sharedLimit = options.machine.maxSharedBytes;
  explainLayouts(kernel, report);
  explainParts(kernel, report);
  Accesses accesses(kernel, options.machine, report);
  // Ops in loops first: prologues are copies of them.
  SmallVector<std::pair<int, Operation *>> ops;
  kernel.walk([&](Operation *op) {
    int depth = 0;
    for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
      depth -= isa<LoopLikeOpInterface>(parent);
    ops.push_back({depth, op});
  });
  llvm::stable_sort(ops, [](auto &a, auto &b) { return a.first < b.first; });
  for (auto [depth, op] : ops)
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](tile::LoadOp load) {
          accesses.add("load", "registers", op, load.getPtr(), load.getMask(), 16);
        })
        .Case([&](tile::StoreOp store) {
          accesses.add("store", "registers", op, store.getPtr(), store.getMask(), 16);
        })
        .Case([&](tile::Atomic atomic) {
          Type element = tile::elementOf(atomic.getPtr().getType());
          accesses.add("atomic", "registers", op, atomic.getPtr(), atomic.getMask(),
                       tile::sizeInBytes(cast<tile::PtrType>(element).getPointee()));
        })
        .Case([&](ngpu::AsyncCopyOp copy) {
          accesses.add("load", "asynchronous copy", op, copy.getPtr(), copy.getMask(),
                       copy.getContiguity() *
                           tile::sizeInBytes(copy.getBuffer().getType().getElementType()));
        })
        .Case([&](ngpu::FetchOp fetch) { // of the next program's row; each block begins with one
          accesses.add(
              "load", "asynchronous copy", op, fetch.getPtr(), fetch.getMask(),
              fetch.getContiguity() *
                  tile::sizeInBytes(
                      cast<tile::PtrType>(tile::elementOf(fetch.getPtr().getType())).getPointee()));
        })
        .Case(
            [&](ngpu::TmaLoadOp load) { addBlock("load", op, load.getBuffer().getType(), report); })
        .Case([&](ngpu::TmaStoreOp store) {
          addBlock("store", op, store.getBuffer().getType(), report);
        });
}

} // namespace nereid::gpu

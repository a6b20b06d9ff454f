#include "gpu/layouts/Rearrange.h"

#include "gpu/layouts/LayoutCost.h"
#include "ir/ngpu/Dialect.h"
#include "layout/Constructors.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace nereid::layout;

namespace nereid::gpu {
namespace {

/// Two barriers and the latency around them.
constexpr double kBarriers = 60;
/// Bytes of bins that warps may have of their own, all together.
constexpr int64_t kPrivateBins = 8192;
/// Bytes of shared memory for an exchange at most: larger tensors go in pieces.
constexpr unsigned kExchangeBytes = 32768;

constexpr unsigned kRowsOfPlace = 12; // bits of lane and warp in the stacked matrix

/// Finds places by coordinates, and by lane and warp where these are to be kept.
class Places {
public:
  enum class Keep : uint8_t { Nothing, Warp, LaneAndWarp };

  Places(const LinearLayout &of, Keep keep) : of(of), keep(keep), rows(bitsOf(of)) {
    SmallVector<uint64_t, 32> columns;
    for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp})
      for (auto [bit, column] : llvm::enumerate(of.flatBases(axis)))
        columns.push_back(column | kept(axis, bit));
    matrix.emplace(rows + kRowsOfPlace, columns);
  }

  /// The place that holds the element at the packed coordinates; `axis` and `bit` name the bit of a
  /// place of the same thread, if it stands for one.
  std::optional<PlaceStep> find(uint64_t flat, Axis axis = Axis::Register, unsigned bit = 0) const {
    auto place = matrix->solve(flat | kept(axis, bit));
    if (!place)
      return std::nullopt;
    unsigned regs = of.bits(Axis::Register), lanes = of.bits(Axis::Lane);
    PlaceStep step;
    step.reg = uint32_t(*place & ((uint64_t(1) << regs) - 1));
    step.lane = uint32_t(*place >> regs & ((uint64_t(1) << lanes) - 1));
    step.warp = uint32_t(*place >> (regs + lanes));
    return step;
  }

private:
  static unsigned bitsOf(const LinearLayout &layout) {
    return llvm::Log2_64(uint64_t(layout.elements()));
  }
  uint64_t kept(Axis axis, unsigned bit) const {
    if (axis == Axis::Warp && keep != Keep::Nothing)
      return uint64_t(1) << (rows + of.bits(Axis::Lane) + bit);
    if (axis == Axis::Lane && keep == Keep::LaneAndWarp)
      return uint64_t(1) << (rows + bit);
    return 0;
  }

  const LinearLayout &of;
  Keep keep;
  unsigned rows;
  std::optional<BitMatrix> matrix;
};

/// Places of the source for all bits of the result's places. `coordinates` maps packed coordinates
/// of the result to those of the source.
std::optional<WarpMove> moveWithin(const LinearLayout &source, const LinearLayout &result,
                                   llvm::function_ref<uint64_t(uint64_t)> coordinates,
                                   uint64_t origin, ArrayRef<uint64_t> index) {
  if (source.bits(Axis::Lane) != result.bits(Axis::Lane) ||
      source.bits(Axis::Warp) != result.bits(Axis::Warp))
    return std::nullopt;
  for (auto keep : {Places::Keep::LaneAndWarp, Places::Keep::Warp}) {
    Places places(source, keep);
    WarpMove move;
    move.shuffles = keep == Places::Keep::Warp;
    bool found = true;
    auto add = [&](SmallVector<PlaceStep, 8> &steps, uint64_t flat, Axis axis, unsigned bit) {
      auto step = places.find(flat, axis, bit);
      // The register of a shuffle is the same in all threads.
      found &= step && !(axis != Axis::Register && step->reg);
      steps.push_back(step.value_or(PlaceStep()));
    };
    for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp})
      for (auto [bit, column] : llvm::enumerate(result.flatBases(axis)))
        add(axis == Axis::Register ? move.ofRegister
            : axis == Axis::Lane   ? move.ofLane
                                   : move.ofWarp,
            coordinates(column), axis, bit);
    for (uint64_t flat : index)
      add(move.ofIndex, flat, Axis::Register, 0);
    auto first = places.find(origin);
    if (!found || !first)
      continue;
    move.origin = *first;
    return move;
  }
  return std::nullopt;
}

int64_t elementsOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

bool isPowerOfTwoShape(ArrayRef<int64_t> shape) {
  return llvm::all_of(shape, [](int64_t size) { return llvm::isPowerOf2_64(size); });
}

/// Cycles of a row-major round trip through shared memory.
double sharedCost(const LinearLayout &from, const LinearLayout &to, unsigned elementBits,
                  int64_t fromRepeats, int64_t toRepeats) {
  double words = std::max(1u, elementBits / 32);
  double warps = double(from.size(Axis::Warp));
  double written = double(from.size(Axis::Register) * fromRepeats);
  double read = double(to.size(Axis::Register) * toRepeats);
  return kBarriers + (written + read) * words * warps + issueCycles(2 * (written + read), from);
}

/// Cycles of a warp's way.
double warpCost(const WarpMove &move, const LinearLayout &result, unsigned elementBits) {
  double words = std::max(1u, elementBits / 32), registers = double(result.size(Axis::Register));
  double each = move.candidates();
  double shuffles = move.shuffles ? registers * each * words * double(result.size(Axis::Warp)) : 0;
  double lane = move.ofIndex.empty() ? 0 : 2; // the lane is computed from the index
  return shuffles + issueCycles(registers * (lane + (each - 1) * words), result);
}

int64_t repeatsOf(Value value) {
  int64_t repeats = 1;
  for (int64_t size : tile::shapeOf(value.getType()))
    repeats *= repeatCount(size);
  return repeats;
}

unsigned elementBitsOf(Value value) {
  return 8 * tile::sizeInBytes(tile::elementOf(value.getType()));
}

} // namespace

PlaceStep exchangeStep(const LinearLayout &layout, unsigned axis, int64_t mask) {
  Coords coords(layout.rank(), 0);
  coords[axis] = int32_t(mask);
  auto step = Places(layout, Places::Keep::Nothing).find(uint64_t(layout.flat(coords)));
  return step.value_or(PlaceStep());
}

unsigned exchangeRegisters(tile::ExchangeOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  unsigned most = kExchangeBytes / ngpu::threadCount(op) / tile::sizeInBytes(type.getElementType());
  return std::min(ngpu::registerCount(type), std::max(2u, most & ~1u)); // pairs stay together
}

bool slicesBits(tile::SliceOp op) {
  auto from = tile::shapeOf(op.getSrc().getType()), to = tile::shapeOf(op.getType());
  if (!isPowerOfTwoShape(from) || !isPowerOfTwoShape(to))
    return false;
  for (auto [size, offset, step] : llvm::zip(to, op.getOffsets(), op.getSteps())) {
    if (size == 1)
      continue;
    int64_t distance = std::abs(step), span = distance * size;
    // Forwards from the bottom of an aligned piece, or backwards from its top.
    int64_t bottom = step > 0 ? offset : offset - distance * (size - 1);
    if (!llvm::isPowerOf2_64(uint64_t(distance)) || bottom % span >= distance)
      return false;
  }
  return true;
}

LinearLayout slicedBits(tile::SliceOp op, const LinearLayout &source) {
  auto to = tile::shapeOf(op.getType());
  std::array<SmallVector<Coords, 8>, kAxes> bases;
  for (Axis axis : {Axis::Register, Axis::Lane, Axis::Warp})
    for (unsigned bit = 0; bit < source.bits(axis); ++bit) {
      Coords coords = source.basis(axis, bit);
      for (unsigned d = 0; d < to.size(); ++d)
        coords[d] = to[d] == 1 ? 0 : int32_t(coords[d] / std::abs(op.getSteps()[d]) & (to[d] - 1));
      bases[unsigned(axis)].push_back(coords);
    }
  return LinearLayout(to, bases).withoutRedundantRegisters();
}

PlaceStep WarpMove::at(unsigned reg) const {
  PlaceStep step = origin;
  for (auto [bit, part] : llvm::enumerate(ofRegister))
    if (reg >> bit & 1) {
      step.reg ^= part.reg;
      step.lane ^= part.lane;
    }
  return step;
}

unsigned WarpMove::candidates() const {
  return 1u << llvm::count_if(ofIndex, [](const PlaceStep &step) { return step.reg != 0; });
}

std::optional<WarpMove> sliceMove(tile::SliceOp op, const LinearLayout &source,
                                  const LinearLayout &result) {
  if (!slicesBits(op))
    return std::nullopt;
  auto to = tile::shapeOf(op.getType());
  Coords origin;
  for (auto [size, offset] : llvm::zip(to, op.getOffsets()))
    origin.push_back(int32_t(offset));
  return moveWithin(source, result,
                    [&](uint64_t flat) {
                      Coords coords = result.unflat(int64_t(flat));
                      for (unsigned d = 0; d < coords.size(); ++d)
                        coords[d] =
                            to[d] == 1 ? 0 : int32_t(coords[d] * std::abs(op.getSteps()[d]));
                      return uint64_t(source.flat(coords));
                    },
                    uint64_t(source.flat(origin)), {});
}

std::optional<WarpMove> gatherMove(tile::GatherOp op, const LinearLayout &source,
                                   const LinearLayout &result) {
  if (!isPowerOfTwoShape(tile::shapeOf(op.getSrc().getType())) ||
      !isPowerOfTwoShape(tile::shapeOf(op.getType())))
    return std::nullopt;
  unsigned axis = op.getAxis();
  SmallVector<uint64_t, 8> index;
  for (int64_t at = 1; at < source.shape()[axis]; at *= 2) {
    Coords coords(source.rank(), 0);
    coords[axis] = int32_t(at);
    index.push_back(uint64_t(source.flat(coords)));
  }
  auto move = moveWithin(
      source, result,
      [&](uint64_t flat) {
        Coords coords = result.unflat(int64_t(flat));
        coords[axis] = 0;
        return uint64_t(source.flat(coords));
      },
      0, index);
  unsigned bits = elementBitsOf(op.getSrc());
  if (move && warpCost(*move, result, bits) > sharedCost(source, result, bits, 1, 1))
    return std::nullopt;
  return move;
}

bool gathersFromBase(tile::GatherOp op) {
  return elementsOf(op.getSrc()) <= elementsOf(op.getIndices()) &&
         isPowerOfTwoShape(tile::shapeOf(op.getSrc().getType())) &&
         isPowerOfTwoShape(tile::shapeOf(op.getType()));
}

LinearLayout gatherSource(tile::GatherOp op, const LinearLayout &base) {
  if (!gathersFromBase(op))
    return base;
  unsigned axis = op.getAxis();
  SmallVector<int64_t> shape(base.shape());
  shape[axis] = tile::shapeOf(op.getSrc().getType())[axis];
  std::array<SmallVector<Coords, 8>, kAxes> bases;
  for (Axis place : {Axis::Register, Axis::Lane, Axis::Warp})
    for (Coords coords : base.bases(place)) {
      coords[axis] &= int32_t(shape[axis] - 1);
      bases[unsigned(place)].push_back(coords);
    }
  return LinearLayout(shape, bases).withoutRedundantRegisters();
}

LinearLayout histogramLayout(tile::HistogramOp op, unsigned warps) {
  const unsigned order[] = {0};
  return striped(coreShape(tile::shapeOf(op.getType())), 1, ngpu::laneCount(op), warps, order);
}

unsigned histogramCopies(tile::HistogramOp op, unsigned warps) {
  int64_t bytes = 4 * elementsOf(op.getResult());
  while (warps > 1 && bytes * warps > kPrivateBins)
    warps /= 2;
  return warps;
}

unsigned rearrangeScratch(Operation *op) {
  auto layoutOf = [](Value value) -> const LinearLayout & {
    return ngpu::layoutOf(value.getType()).getLayout();
  };
  auto bytes = [](Value value) {
    return unsigned(elementsOf(value) * tile::sizeInBytes(tile::elementOf(value.getType())));
  };
  if (auto exchange = dyn_cast<tile::ExchangeOp>(op)) {
    auto type = cast<RankedTensorType>(exchange.getType());
    if (!exchangeStep(layoutOf(exchange.getResult()), exchange.getAxis(), exchange.getMask()).warp)
      return 0;
    return exchangeRegisters(exchange) * ngpu::threadCount(op) *
           tile::sizeInBytes(type.getElementType());
  }
  if (auto slice = dyn_cast<tile::SliceOp>(op))
    return sliceMove(slice, layoutOf(slice.getSrc()), layoutOf(slice.getResult()))
               ? 0
               : bytes(slice.getSrc());
  if (auto gather = dyn_cast<tile::GatherOp>(op))
    return gatherMove(gather, layoutOf(gather.getSrc()), layoutOf(gather.getResult()))
               ? 0
               : bytes(gather.getSrc());
  if (auto histogram = dyn_cast<tile::HistogramOp>(op))
    return bytes(histogram.getResult()) * histogramCopies(histogram, ngpu::warpCount(op));
  return 0;
}

double rearrangeCost(Operation *op, const LinearLayout &base, unsigned bits, int64_t repeats) {
  double registers = double(base.size(Axis::Register) * repeats);
  double warps = double(base.size(Axis::Warp)), words = std::max(1u, bits / 32);
  if (auto exchange = dyn_cast<tile::ExchangeOp>(op)) {
    PlaceStep step = exchangeStep(base, exchange.getAxis(), exchange.getMask());
    if (step.warp)
      return sharedCost(base, base, bits, repeats, repeats);
    return step.lane ? registers * words * warps : 0;
  }
  if (auto slice = dyn_cast<tile::SliceOp>(op)) {
    if (!slicesBits(slice)) // the base is the result's
      return sharedCost(base, base, bits, repeats, repeats);
    LinearLayout result = slicedBits(slice, base);
    auto move = sliceMove(slice, base, result);
    return move ? warpCost(*move, result, bits) : sharedCost(base, result, bits, 1, 1);
  }
  if (auto gather = dyn_cast<tile::GatherOp>(op)) {
    LinearLayout source = gatherSource(gather, base);
    auto move = gathersFromBase(gather) ? gatherMove(gather, source, base) : std::nullopt;
    return move ? warpCost(*move, base, bits)
                : sharedCost(base, base, bits, repeatsOf(gather.getSrc()), repeats);
  }
  // A histogram: an atomic operation for each element.
  return kBarriers + 4 * registers * warps;
}

} // namespace nereid::gpu

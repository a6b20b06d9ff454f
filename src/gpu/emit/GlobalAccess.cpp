#include "gpu/emit/GlobalAccess.h"

#include "gpu/layouts/AccessWidth.h"

#include <bit>
#include <map>

using namespace mlir;

namespace nereid::gpu {

using layout::Axis;

llvm::Value *Address::pointer(Emitter &e) const {
  if (!offset)
    return base;
  return e.b.CreateGEP(e.b.getInt8Ty(), base, e.i64(offset));
}

namespace {

/// Bits of a coordinate within which all elements lie in one run: below a run's length, when that
/// is a power of two or the whole dimension.
uint32_t runMask(const transforms::Run &run, int64_t size) {
  if (run.length >= size)
    return ~0u;
  return uint32_t(run.length & -run.length) - 1;
}

/// Bits of the coordinates that lane and warp contribute to, a mask per dimension.
llvm::SmallVector<uint32_t, 4> threadMasks(const layout::LinearLayout &layout) {
  llvm::SmallVector<uint32_t, 4> masks(layout.rank(), 0);
  for (Axis axis : {Axis::Lane, Axis::Warp})
    for (const auto &basis : layout.bases(axis))
      for (unsigned d = 0; d < layout.rank(); ++d)
        masks[d] |= basis[d];
  return masks;
}

/// Registers by the element they hold: its place in the core and in the repeats.
class Elements {
public:
  Elements(Emitter &e, RankedTensorType type) {
    for (unsigned reg = 0; reg < e.registerCount(type); ++reg) {
      places.push_back(ngpu::registerPlace(type, reg));
      originals.push_back(
          byPlace.try_emplace(keyOf(places[reg].core, places[reg].repeatOffset), reg)
              .first->second);
    }
  }
  std::optional<unsigned> find(llvm::ArrayRef<int32_t> core, llvm::ArrayRef<int32_t> repeat) const {
    auto found = byPlace.find(keyOf(core, repeat));
    return found == byPlace.end() ? std::nullopt : std::optional(found->second);
  }

  llvm::SmallVector<ngpu::RegisterPlace> places;
  llvm::SmallVector<unsigned> originals;

private:
  using Key = llvm::SmallVector<int32_t, 8>;
  static Key keyOf(llvm::ArrayRef<int32_t> core, llvm::ArrayRef<int32_t> repeat) {
    Key key(core);
    key.append(repeat.begin(), repeat.end());
    return key;
  }
  std::map<Key, unsigned> byPlace;
};

llvm::SmallVector<std::pair<unsigned, int64_t>>
originsAmong(const Elements &elements, const transforms::IntegerInfo *info, RankedTensorType type) {
  const auto &layout = ngpu::layoutOf(type).getLayout();
  auto masks = threadMasks(layout);
  llvm::SmallVector<std::pair<unsigned, int64_t>> result;
  for (unsigned reg = 0; reg < elements.places.size(); ++reg) {
    // Without what a run makes a constant.
    auto core = elements.places[reg].core, repeat = elements.places[reg].repeatOffset;
    int64_t distance = 0;
    for (unsigned d = 0; info && d < layout.rank(); ++d) {
      transforms::Run run = info->run(d);
      uint32_t within = runMask(run, type.getDimSize(d)) & ~masks[d];
      distance += run.step * int64_t(core[d] & within);
      core[d] &= ~within;
      if (run.length >= type.getDimSize(d)) {
        distance += run.step * repeat[d];
        repeat[d] = 0;
      }
    }
    auto origin = elements.find(core, repeat);
    bool fits = distance == int32_t(distance);
    result.push_back(origin && fits ? std::pair(*origin, distance) : std::pair(reg, int64_t(0)));
  }
  return result;
}

} // namespace

llvm::SmallVector<std::pair<unsigned, int64_t>> runOrigins(Emitter &e, Operation *op,
                                                           Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return originsAmong(Elements(e, type), e.integers(op).lookup(tensor), type);
}

GlobalAccess::GlobalAccess(Emitter &e, Operation *op, Value ptr, Value mask, unsigned maxBytes)
    : e(e), ptr(ptr) {
  auto type = dyn_cast<RankedTensorType>(ptr.getType());
  if (!type) {
    accesses = {{0}};
    originals = {0};
    bases = {{0, 0}};
    return;
  }
  const auto &analysis = e.integers(op);
  auto vector = accessWidth(analysis, ptr, mask, maxBytes);
  width = vector.elements;
  unsigned vectorMask = 0;
  for (unsigned bit : vector.registerBits)
    vectorMask |= 1u << bit;

  Elements elements(e, type);
  originals = elements.originals;
  bases = originsAmong(elements, analysis.lookup(ptr), type);
  const auto &layout = ngpu::layoutOf(type).getLayout();
  for (unsigned reg = 0; reg < originals.size(); ++reg) {
    if (originals[reg] != reg || (reg & vectorMask & (layout.size(Axis::Register) - 1)))
      continue;
    llvm::SmallVector<unsigned, 4> group;
    for (unsigned i = 0; i < width; ++i) {
      unsigned member = reg;
      for (auto [k, bit] : llvm::enumerate(vector.registerBits))
        if (i >> k & 1)
          member |= 1u << bit;
      group.push_back(member);
    }
    accesses.push_back(group);
  }
}

Address GlobalAccess::address(unsigned reg) const {
  auto [base, bytes] = bases[reg];
  return {e.get(ptr)[base], bytes};
}

llvm::Value *both(Emitter &e, llvm::Value *a, llvm::Value *b) {
  if (!a || !b)
    return a ? a : b;
  return e.b.CreateAnd(a, b);
}

} // namespace nereid::gpu

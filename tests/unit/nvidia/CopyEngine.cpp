#include "CopyEngine.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>

using namespace llvm;

namespace nereid::test {

bool CopyEngine::knows(StringRef text) {
  for (StringRef name :
       {"mbarrier.init", "mbarrier.inval", "mbarrier.arrive", "st.async.", "cp.async.bulk.",
        "cp.reduce.async.bulk.", "setmaxnreg", "prefetch.tensormap"})
    if (text.starts_with(name))
      return true;
  return false;
}

bool CopyEngine::completed(uint64_t barrier, uint64_t parity, std::string &wrong) const {
  auto found = barriers.find(barrier);
  if (found == barriers.end()) {
    wrong = "a wait for what is no mbarrier, at byte " + std::to_string(barrier - sharedBase);
    return false;
  }
  // The phase before the current one, of the other parity, has; before the first one, too.
  return found->second.phase % 2 != parity;
}

void CopyEngine::settle(Barrier &barrier) {
  if (barrier.pending || barrier.bytes)
    return;
  ++barrier.phase;
  barrier.pending = barrier.count;
}

std::string CopyEngine::arrive(uint64_t at, int64_t count, int64_t bytes) {
  auto found = barriers.find(at);
  if (found == barriers.end())
    return "an arrival at what is no mbarrier, at byte " + std::to_string(at - sharedBase);
  Barrier &barrier = found->second;
  barrier.bytes += bytes;
  barrier.pending -= count;
  if (barrier.pending < 0)
    return "more arrivals than the mbarrier at byte " + std::to_string(at - sharedBase) +
           " expects";
  settle(barrier);
  return "";
}

void CopyEngine::forBox(const SimulatedMap &map, uint64_t at, ArrayRef<int64_t> coords,
                        function_ref<void(uint64_t, uint64_t)> each) const {
  SmallVector<int64_t, 5> index(map.rank, 0);
  uint64_t mask = map.swizzleBytes / 16 ? map.swizzleBytes / 16 - 1 : 0, offset = 0;
  while (true) {
    uint64_t from = map.base;
    bool inside = true;
    for (unsigned d = 0; d < map.rank; ++d) {
      int64_t coord = coords[d] + index[d];
      inside &= coord >= 0 && coord < map.sizes[d];
      from += coord * map.strides[d];
    }
    for (int64_t byte = 0; byte < map.strides[0]; ++byte, ++offset) {
      uint64_t place = at + offset;
      place ^= (place >> 7 & mask) << 4;
      each(place, inside ? from + byte : 0);
    }
    unsigned d = 0;
    for (; d < map.rank && ++index[d] == map.box[d]; ++d)
      index[d] = 0;
    if (d == map.rank)
      return;
  }
}

std::string CopyEngine::waitForStores(unsigned thread, unsigned pending) {
  Stores &its = stores[thread];
  std::string wrong;
  erase_if(its.pending, [&](const Store &store) {
    if (store.group + pending >= its.groups)
      return false;
    if (!std::equal(store.bytes.begin(), store.bytes.end(),
                    shared.begin() + (store.at - sharedBase)))
      wrong = "bytes from " + std::to_string(store.at - sharedBase) +
              " on change while the copy engine reads them";
    forBox(*store.map, store.at, store.coords, [&](uint64_t place, uint64_t to) {
      if (to && store.adds) { // floats, of which the first byte stands for all
        if (to % 4)
          return;
        float part = 0;
        std::memcpy(&part, &shared[place - sharedBase], 4);
        *reinterpret_cast<float *>(to) += part;
      } else if (to)
        *reinterpret_cast<uint8_t *>(to) = shared[place - sharedBase];
    });
    return true;
  });
  return wrong;
}

std::string CopyEngine::run(unsigned thread, StringRef text,
                            function_ref<uint64_t(unsigned)> operand) {
  auto last = [&] {
    int64_t number = 0;
    text.rsplit(", ").second.trim("; ").getAsInteger(10, number);
    return number;
  };
  if (text.starts_with("mbarrier.init")) {
    if (operand(0) % 8)
      return "a misaligned mbarrier";
    barriers[operand(0)] = {last(), last(), 0, 0};
    return "";
  }
  if (text.starts_with("mbarrier.inval")) {
    return barriers.erase(operand(0)) ? "" : "no mbarrier to end";
  }
  if (text.starts_with("mbarrier.arrive.expect_tx"))
    return arrive(operand(0), 1, last());
  if (text.starts_with("mbarrier.arrive"))
    return arrive(operand(0), last(), 0);
  if (text.starts_with("cp.async.bulk.commit_group"))
    return ++stores[thread].groups, "";
  if (text.starts_with("cp.async.bulk.wait_group")) {
    unsigned pending = 0;
    text.rsplit(' ').second.trim("; ").getAsInteger(10, pending);
    return waitForStores(thread, pending);
  }
  bool adds = text.consume_front("cp.reduce.async.bulk.tensor.");
  if (!adds && !text.consume_front("cp.async.bulk.tensor."))
    return "";
  bool loads = text.contains(".shared::cluster.global");
  if (!loads && !text.contains(".global.shared::cta"))
    return "the simulator does not know: " + text.str();
  if (adds && !text.contains(".add."))
    return "the simulator only adds: " + text.str();
  unsigned rank = 0;
  text.consumeInteger(10, rank);
  const auto *map = reinterpret_cast<const SimulatedMap *>(operand(loads ? 1 : 0));
  if (map->rank != rank)
    return "a copy of another rank than its tensor map";
  SmallVector<int64_t, 5> coords;
  for (unsigned d = 0; d < rank; ++d)
    coords.push_back(int32_t(operand((loads ? 3 : 2) + d)));
  uint64_t at = operand(loads ? 0 : 1), begin = at - sharedBase, size = map->strides[0];
  for (unsigned d = 0; d < rank; ++d)
    size *= map->box[d];
  if (at < sharedBase || begin + size > shared.size() || at % 128)
    return "a box beyond shared memory or misaligned, at byte " + std::to_string(begin);
  if (!loads) {
    Stores &its = stores[thread];
    auto first = shared.begin() + begin;
    its.pending.push_back(
        {map, at, {coords.begin(), coords.end()}, its.groups, {first, first + size}, adds});
    return "";
  }
  ++copies;
  if (onWrite)
    if (std::string wrong = onWrite(begin, begin + size); !wrong.empty())
      return wrong;
  Copy copy{operand(2), {}};
  forBox(*map, at, coords, [&](uint64_t place, uint64_t from) {
    copy.bytes.push_back({place - sharedBase, from ? *reinterpret_cast<uint8_t *>(from) : 0});
    shared[place - sharedBase] = 0x7f; // not a number, or a large one
  });
  underWay.push_back(std::move(copy));
  return "";
}

std::string CopyEngine::send(uint64_t at, ArrayRef<uint64_t> words, uint64_t barrier) {
  uint64_t size = 4 * words.size();
  if (at < sharedBase || at - sharedBase + size > shared.size() || at % size)
    return "words are sent beyond shared memory or misaligned, to byte " +
           std::to_string(at - sharedBase);
  Copy message{barrier, {}};
  for (uint64_t i = 0; i < size; ++i) {
    message.bytes.push_back({at - sharedBase + i, uint8_t(words[i / 4] >> 8 * (i % 4))});
    shared[at - sharedBase + i] = 0x7f;
  }
  underWay.push_back(std::move(message));
  ++sent;
  return "";
}

bool CopyEngine::finishOne() {
  if (underWay.empty())
    return false;
  Copy copy = std::move(underWay.front());
  underWay.erase(underWay.begin());
  for (auto [place, byte] : copy.bytes)
    shared[place] = byte;
  if (auto found = barriers.find(copy.barrier); found != barriers.end()) {
    found->second.bytes -= int64_t(copy.bytes.size());
    settle(found->second);
  }
  return true;
}

} // namespace nereid::test

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

std::string CopyEngine::acquire(unsigned thread, uint64_t at) {
  const Barrier &barrier = barriers.find(at)->second;
  if (!order)
    return "";
  if (!order->sees(thread, barrier.made))
    return "no order: a thread waits for the mbarrier at byte " + std::to_string(at - sharedBase) +
           ", which may not have been made";
  order->acquire(thread, barrier.released);
  return "";
}

void CopyEngine::fenceInits(unsigned thread) {
  for (auto &[at, barrier] : barriers)
    barrier.initFenced |= barrier.made.agent == thread;
}

void CopyEngine::settle(Barrier &barrier) {
  if (barrier.pending || barrier.bytes)
    return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  if (!order)
    return;
  barrier.released = barrier.gathered;
  std::vector<uint32_t> &seen = barrier.released.seen;
  seen.resize(std::max<size_t>(seen.size(), barrier.agent + 1));
  seen[barrier.agent] = barrier.phase;
}

std::string CopyEngine::makeBarrier(unsigned thread, uint64_t at, int64_t count) {
  if (at % 8)
    return "a misaligned mbarrier";
  Barrier &barrier = barriers[at] = {};
  barrier.count = barrier.pending = count;
  if (!order)
    return "";
  std::string where = "the mbarrier at byte " + std::to_string(at - sharedBase);
  barrier.agent = order->newAgent("a copy counted by " + where);
  barrier.made = order->now(thread);
  return order->access(thread, block, at - sharedBase, 8, true);
}

std::string CopyEngine::endBarrier(unsigned thread, uint64_t at) {
  if (!barriers.erase(at))
    return "no mbarrier to end";
  return order ? order->access(thread, block, at - sharedBase, 8, true) : "";
}

std::string CopyEngine::arrive(unsigned thread, uint64_t at, int64_t count, int64_t bytes) {
  auto found = barriers.find(at);
  if (found == barriers.end())
    return "an arrival at what is no mbarrier, at byte " + std::to_string(at - sharedBase);
  Barrier &barrier = found->second;
  if (order && !order->sees(thread, barrier.made))
    return "no order: an arrival at the mbarrier at byte " + std::to_string(at - sharedBase) +
           ", which may not have been made";
  barrier.bytes += bytes;
  barrier.pending -= count;
  if (order)
    order->release(thread, barrier.gathered);
  if (barrier.pending < 0)
    return "more arrivals than the mbarrier at byte " + std::to_string(at - sharedBase) +
           " expects";
  settle(barrier);
  return "";
}

void CopyEngine::forBox(const SimulatedMap &map, uint64_t at, ArrayRef<int64_t> coords,
                        function_ref<void(uint64_t, uint64_t, unsigned)> each) const {
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
      each(place, inside ? from + byte : 0, unsigned(byte));
    }
    unsigned d = 0;
    for (; d < map.rank && ++index[d] == map.box[d]; ++d)
      index[d] = 0;
    if (d == map.rank)
      return;
  }
}

void CopyEngine::land(const Store &store) {
  const SimulatedMap &map = *store.map;
  unsigned bytes = unsigned(map.strides[0]);
  uint64_t part = 0, old = 0;
  forBox(map, store.at, store.coords, [&](uint64_t place, uint64_t to, unsigned byte) {
    uint8_t value = store.bytes[place - store.at];
    if (!to)
      return;
    if (store.reduces.empty()) {
      *reinterpret_cast<uint8_t *>(to) = value;
      return;
    }
    part = byte ? part | uint64_t(value) << 8 * byte : value;
    if (byte + 1 < bytes)
      return;
    auto *element = reinterpret_cast<uint8_t *>(to - byte);
    old = 0;
    std::memcpy(&old, element, bytes);
    uint64_t left = *reduceElement(map.element, store.reduces, old, part);
    std::memcpy(element, &left, bytes);
  });
}

void CopyEngine::land() {
  for (auto &[thread, its] : stores) {
    for (const Store &store : its.landing)
      land(store);
    its.landing.clear();
  }
}

std::string CopyEngine::waitForStores(unsigned thread, unsigned pending, bool onlyRead) {
  Stores &its = stores[thread];
  std::string wrong;
  erase_if(its.pending, [&](Store &store) {
    if (store.group + pending >= its.groups)
      return false;
    if (!std::equal(store.bytes.begin(), store.bytes.end(),
                    shared.begin() + (store.at - sharedBase)))
      wrong = "bytes from " + std::to_string(store.at - sharedBase) +
              " on change while the copy engine reads them";
    its.landing.push_back(std::move(store));
    return true;
  });
  if (!onlyRead)
    erase_if(its.landing, [&](const Store &store) {
      bool ended = store.group + pending < its.groups;
      if (ended)
        land(store);
      return ended;
    });
  if (order && its.agent && its.groups > pending)
    order->complete(thread, {its.agent, its.groups - pending, true});
  return wrong;
}

std::string CopyEngine::run(unsigned thread, StringRef text,
                            function_ref<uint64_t(unsigned)> operand) {
  auto last = [&] {
    int64_t number = 0;
    text.rsplit(", ").second.trim("; ").getAsInteger(10, number);
    return number;
  };
  if (text.starts_with("mbarrier.init"))
    return makeBarrier(thread, operand(0), last());
  if (text.starts_with("mbarrier.inval"))
    return endBarrier(thread, operand(0));
  if (text.starts_with("mbarrier.arrive.expect_tx"))
    return arrive(thread, operand(0), 1, last());
  if (text.starts_with("mbarrier.arrive"))
    return arrive(thread, operand(0), last(), 0);
  if (text.starts_with("cp.async.bulk.commit_group"))
    return ++stores[thread].groups, "";
  if (isStoreWait(text)) {
    unsigned pending = 0;
    text.rsplit(' ').second.trim("; ").getAsInteger(10, pending);
    return waitForStores(thread, pending, text.contains(".read"));
  }
  return copyTensor(thread, text, operand);
}

std::string CopyEngine::copyTensor(unsigned thread, StringRef text,
                                   function_ref<uint64_t(unsigned)> operand) {
  StringRef whole = text;
  bool reduces = text.consume_front("cp.reduce.async.bulk.tensor.");
  if (!reduces && !text.consume_front("cp.async.bulk.tensor."))
    return text.starts_with("cp.") ? "the simulator does not know: " + text.str() : "";
  bool loads = text.contains(".shared::cluster.global");
  if (!loads && !text.contains(".global.shared::cta"))
    return "the simulator does not know: " + whole.str();
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
  if (loads)
    return startLoad(thread, *map, at, coords, operand(2), size);
  // "2d.global.shared::cta.add.tile.bulk_group"
  StringRef operation = reduces ? text.split("shared::cta.").second.split('.').first : "";
  if (reduces && !reduceElement(map->element, operation, 0, 0))
    return "the copy engine does not reduce such elements: " + whole.str();
  return startStore(thread, *map, at, coords, operation, size);
}

std::string CopyEngine::startStore(unsigned thread, const SimulatedMap &map, uint64_t at,
                                   ArrayRef<int64_t> coords, StringRef reduces, uint64_t size) {
  Stores &its = stores[thread];
  uint64_t begin = at - sharedBase;
  // Loads may begin in front of a tensor, stores may not.
  if (llvm::any_of(coords, [](int64_t coord) { return coord < 0; }))
    return "illegal instruction: a store by the copy engine that begins at negative coordinates";
  std::string wrong;
  if (order) {
    if (!its.agent)
      its.agent = order->newAgent("a store of thread " + std::to_string(thread));
    wrong = order->accessAsync(thread, {its.agent, its.groups + 1, true}, block,
                               {{begin, begin + size}}, false);
    forBox(map, at, coords, [&](uint64_t, uint64_t to, unsigned) {
      if (to && wrong.empty())
        wrong = order->accessGlobalAsync(thread, to, 1);
    });
  }
  auto first = shared.begin() + begin;
  its.pending.push_back({&map, at, coords.vec(), its.groups, {first, first + size}, reduces.str()});
  return wrong;
}

std::string CopyEngine::startLoad(unsigned thread, const SimulatedMap &map, uint64_t at,
                                  ArrayRef<int64_t> coords, uint64_t counted, uint64_t size) {
  uint64_t begin = at - sharedBase;
  ++copies;
  if (onWrite)
    if (std::string wrong = onWrite(begin, begin + size); !wrong.empty())
      return wrong;
  std::string wrong;
  auto barrier = barriers.find(counted);
  if (barrier == barriers.end())
    return "a copy is counted by what is no mbarrier, at byte " +
           std::to_string(counted - sharedBase);
  if (order) {
    const Barrier &counts = barrier->second;
    bool isMade = order->sees(thread, counts.made);
    if (!isMade || (!counts.initFenced && !order->fences(thread, counts.made)))
      return std::string(isMade ? "a proxy fence is missing" : "no order") +
             ": a copy is counted by the mbarrier at byte " + std::to_string(counted - sharedBase) +
             ", which the copy engine may not see yet";
    wrong = order->accessAsync(thread, {counts.agent, counts.phase + 1, true}, block,
                               {{begin, begin + size}}, true);
  }
  Copy copy{counted, {}};
  forBox(map, at, coords, [&](uint64_t place, uint64_t from, unsigned byte) {
    if (order && from && wrong.empty())
      wrong = order->accessGlobalAsync(thread, from, 1);
    copy.bytes.push_back(
        {place - sharedBase, from ? *reinterpret_cast<uint8_t *>(from) : map.fill(byte)});
    shared[place - sharedBase] = 0x7f; // not a number, or a large one
  });
  underWay.push_back(std::move(copy));
  return wrong;
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

bool CopyEngine::finishOne(std::string &wrong) {
  if (underWay.empty())
    return false;
  Copy copy = std::move(underWay.front());
  underWay.erase(underWay.begin());
  for (auto [place, byte] : copy.bytes)
    shared[place] = byte;
  if (auto found = barriers.find(copy.barrier); found != barriers.end()) {
    found->second.bytes -= int64_t(copy.bytes.size());
    settle(found->second);
  } else {
    wrong = "a copy ends behind the mbarrier that counts its bytes, at byte " +
            std::to_string(copy.barrier - sharedBase);
  }
  return true;
}

} // namespace nereid::test

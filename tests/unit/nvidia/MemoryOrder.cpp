#include "MemoryOrder.h"

#include <algorithm>

using namespace llvm;

namespace nereid::test {

static void joinClocks(std::vector<uint32_t> &into, ArrayRef<uint32_t> other) {
  if (into.size() < other.size())
    into.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i)
    into[i] = std::max(into[i], other[i]);
}

void MemoryOrder::Knowledge::join(const Knowledge &other) {
  joinClocks(seen, other.seen);
  joinClocks(fenced, other.fenced);
  joinClocks(fencedGlobal, other.fencedGlobal);
}

MemoryOrder::MemoryOrder(unsigned threads, unsigned blocks, size_t bytes)
    : threads(threads), known(threads), shared(blocks, std::vector<Byte>(bytes)) {
  for (unsigned thread = 0; thread < threads; ++thread) {
    known[thread].seen.assign(threads, 0);
    known[thread].seen[thread] = 1;
  }
}

uint32_t MemoryOrder::newAgent(std::string name) {
  names.push_back(std::move(name));
  return uint32_t(threads + names.size() - 1);
}

std::string MemoryOrder::nameOf(uint32_t agent) const {
  return agent < threads ? "thread " + std::to_string(agent) : names[agent - threads];
}

void MemoryOrder::meet(ArrayRef<unsigned> group, const Knowledge *arrived) {
  Knowledge all;
  if (arrived)
    all.join(*arrived);
  for (unsigned thread : group)
    all.join(known[thread]);
  for (unsigned thread : group) {
    known[thread] = all;
    ++known[thread].seen[thread];
  }
}

void MemoryOrder::release(unsigned thread, Knowledge &into) {
  into.join(known[thread]);
  ++known[thread].seen[thread];
}

void MemoryOrder::fence(unsigned thread, bool global) {
  Knowledge &mine = known[thread];
  joinClocks(mine.fenced, mine.seen);
  if (global)
    joinClocks(mine.fencedGlobal, mine.seen);
  ++mine.seen[thread];
}

void MemoryOrder::complete(unsigned thread, Mark mark) {
  std::vector<uint32_t> &seen = known[thread].seen;
  if (seen.size() <= mark.agent)
    seen.resize(mark.agent + 1);
  seen[mark.agent] = std::max(seen[mark.agent], mark.clock);
}

std::string MemoryOrder::problem(Mark self, bool write, uint64_t at, unsigned block, Mark other,
                                 bool otherWrote, bool onlyFence) const {
  return (onlyFence ? "a proxy fence is missing: " : "no order: ") + nameOf(self.agent) +
         (write ? " writes" : " reads") + " byte " + std::to_string(at) + " of block " +
         std::to_string(block) + ", which " + nameOf(other.agent) +
         (otherWrote ? " wrote" : " reads");
}

void MemoryOrder::note(Byte &byte, Mark mark, bool write) const {
  if (write) {
    byte.write = mark;
    byte.reads.clear();
    return;
  }
  auto group = [&](uint32_t agent) { return agent < threads ? agent / 32 : agent; };
  for (Mark &read : byte.reads)
    if (read.async == mark.async && group(read.agent) == group(mark.agent)) {
      read = mark;
      return;
    }
  byte.reads.push_back(mark);
}

std::string MemoryOrder::access(unsigned thread, unsigned block, uint64_t at, unsigned bytes,
                                bool write) {
  const std::vector<uint32_t> &seen = known[thread].seen;
  Mark mark = now(thread);
  for (uint64_t i = at; i < at + bytes; ++i) {
    Byte &byte = shared[block][i];
    if (!has(seen, byte.write))
      return problem(mark, write, i, block, byte.write, true, false);
    if (write)
      for (Mark read : byte.reads)
        if (!has(seen, read))
          return problem(mark, true, i, block, read, false, false);
    note(byte, mark, write);
  }
  return "";
}

std::string MemoryOrder::accessAsync(ArrayRef<unsigned> issuers, Mark mark, unsigned block,
                                     ArrayRef<std::pair<uint64_t, uint64_t>> ranges, bool write) {
  mark.async = true;
  // What all of them know.
  Knowledge all = known[issuers[0]];
  auto meet = [](std::vector<uint32_t> &mine, ArrayRef<uint32_t> other) {
    mine.resize(std::min(mine.size(), other.size()));
    for (size_t i = 0; i < mine.size(); ++i)
      mine[i] = std::min(mine[i], other[i]);
  };
  for (unsigned issuer : issuers.drop_front()) {
    meet(all.seen, known[issuer].seen);
    meet(all.fenced, known[issuer].fenced);
  }
  for (auto [begin, end] : ranges)
    for (uint64_t i = begin; i < end; ++i) {
      Byte &byte = shared[block][i];
      bool isSeen = byte.write.agent == mark.agent || has(all.seen, byte.write);
      // Each of the threads sees its own writes.
      isSeen |= !byte.write.async && is_contained(issuers, byte.write.agent) && issuers.size() == 1;
      if (!byte.write.async && byte.write.clock && !has(all.fenced, byte.write))
        return problem(mark, write, i, block, byte.write, true, isSeen);
      if (!isSeen)
        return problem(mark, write, i, block, byte.write, true, false);
      if (write)
        for (Mark read : byte.reads)
          if (!has(all.seen, read))
            return problem(mark, true, i, block, read, false, false);
      note(byte, mark, write);
    }
  return "";
}

void MemoryOrder::writeGlobal(unsigned thread, uint64_t at, unsigned bytes) {
  for (uint64_t i = at; i < at + bytes; ++i)
    global[i] = now(thread);
}

std::string MemoryOrder::accessGlobalAsync(unsigned thread, uint64_t at, unsigned bytes) const {
  if (global.empty())
    return "";
  for (uint64_t i = at; i < at + bytes; ++i)
    if (auto found = global.find(i); found != global.end())
      if (!has(known[thread].fencedGlobal, found->second))
        return std::string(sees(thread, found->second) ? "a proxy fence is missing" : "no order") +
               ": the copy engine accesses global memory that thread " +
               std::to_string(found->second.agent) + " wrote";
  return "";
}

} // namespace nereid::test

#include "targets/nvidia/codegen/Architecture.h"

#include <algorithm>

namespace nereid::nvidia {
namespace {

struct Row {
  int sm;
  int maxShared;   // KiB a block can have
  int totalShared; // KiB of a multiprocessor
  int threads;     // of a multiprocessor
  int firstPtx;
};

constexpr Row table[] = {
    {80, 163, 164, 2048, 70},  {86, 99, 100, 1536, 71},  {87, 163, 164, 1536, 74},
    {89, 99, 100, 1536, 78},   {90, 227, 228, 2048, 80}, {100, 227, 228, 2048, 86},
    {103, 227, 228, 2048, 88}, {120, 99, 100, 1536, 87}, {121, 99, 100, 1536, 88},
};

const Row &rowOf(int sm) {
  const Row *row = std::find_if(std::begin(table), std::end(table),
                                [&](const Row &candidate) { return candidate.sm == sm; });
  return row == std::end(table) ? table[0] : *row;
}

} // namespace

std::string Architecture::name() const {
  return "sm_" + std::to_string(sm) + (archSpecific ? "a" : "");
}

int Architecture::maxSharedPerBlock() const {
  return rowOf(sm).maxShared * 1024;
}
int Architecture::sharedPerMultiprocessor() const {
  return rowOf(sm).totalShared * 1024;
}
int Architecture::maxThreadsPerMultiprocessor() const {
  return rowOf(sm).threads;
}
int Architecture::firstPtxVersion() const {
  return rowOf(sm).firstPtx;
}

llvm::Expected<Architecture> architectureFor(int sm) {
  if (rowOf(sm).sm == sm)
    return Architecture{sm, sm >= 90};
  std::string names;
  for (const Row &row : table)
    names += (names.empty() ? "`cuda:" : ", `cuda:") + std::to_string(row.sm) + "`";
  return llvm::createStringError("unknown GPU architecture `cuda:" + std::to_string(sm) +
                                 "`: expected one of " + names);
}

int ptxVersionFor(const Architecture &arch, std::optional<int> assembler) {
  int first = arch.firstPtxVersion();
  if (!assembler)
    return first;
  return std::max(first, std::min(*assembler, newestPtxVersion));
}

} // namespace nereid::nvidia

#include "explain/Occupancy.h"

#include <algorithm>
#include <climits>

namespace nereid::explain {
namespace {

constexpr Multiprocessor table[] = {
    {80, 64, 32, 164 * 1024},  {86, 48, 16, 100 * 1024},  {87, 48, 16, 164 * 1024},
    {89, 48, 24, 100 * 1024},  {90, 64, 32, 228 * 1024},  {100, 64, 32, 228 * 1024},
    {103, 64, 32, 228 * 1024}, {120, 48, 24, 100 * 1024}, {121, 48, 24, 100 * 1024},
};
constexpr int kParts = 4, kRegisterUnit = 256, kSharedUnit = 128, kSystemShared = 1024;

int roundUp(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

int warpsByRegisters(const Multiprocessor &of, int registers) {
  return of.registers / kParts / roundUp(registers * 32, kRegisterUnit) * kParts;
}

} // namespace

std::optional<Multiprocessor> multiprocessorOf(int sm) {
  for (const Multiprocessor &row : table)
    if (row.sm == sm)
      return row;
  return std::nullopt;
}

std::string_view Occupancy::limit() const {
  if (blocks == blocksByWarps)
    return "warps";
  bool registers = blocks == blocksByRegisters, shared = blocks == blocksByShared;
  if (registers)
    return shared ? "registers and shared memory" : "registers";
  return shared ? "shared memory" : "places for blocks";
}

Occupancy occupancyOf(const Multiprocessor &of, const BlockNeeds &needs) {
  int warps = std::max(1, (needs.threads + 31) / 32);
  Occupancy result;
  result.blocksByWarps = of.warps / warps;
  result.blocksByPlaces = of.blocks;
  result.blocksByRegisters =
      needs.registers > 0 ? warpsByRegisters(of, needs.registers) / warps : INT_MAX;
  result.blocksByShared = of.sharedBytes / roundUp(needs.sharedBytes + kSystemShared, kSharedUnit);
  result.blocks = std::min({result.blocksByWarps, result.blocksByPlaces, result.blocksByRegisters,
                            result.blocksByShared});
  result.warps = result.blocks * warps;
  result.warpsMost = of.warps;
  return result;
}

int registersFor(const Multiprocessor &of, int threads, int blocks) {
  int warps = std::max(1, (threads + 31) / 32);
  for (int registers = 255; registers > 0; --registers)
    if (warpsByRegisters(of, registers) / warps >= blocks)
      return registers;
  return 0;
}

} // namespace nereid::explain

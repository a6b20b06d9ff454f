#include "explain/PeakRates.h"

#include <iterator>

namespace nereid::explain {
namespace {

/// Operations (a multiply-add counts two) of one multiprocessor in one cycle, from the throughput
/// table of the CUDA programming guide and the architectures' white papers (dense matrices,
/// accumulation in fp32), and the figures of one device's data sheet.
struct Row {
  int sm;
  int half, eight, tf32, int8, doubleProduct; ///< matrix units; `eight`: fp8, 0 where there is none
  int single, doubles, integers, special;     ///< ordinary arithmetic
  const char *device;
  int multiprocessors;
  double megahertz, gigabytes;
};

constexpr Row table[] = {
    {80, 2048, 0, 1024, 4096, 128, 128, 64, 128, 16, "NVIDIA A100 80GB SXM", 108, 1410, 2039},
    {86, 512, 0, 256, 2048, 0, 256, 4, 128, 16, "NVIDIA RTX A6000", 84, 1800, 768},
    {89, 1024, 2048, 512, 2048, 0, 256, 4, 128, 16, "NVIDIA L40S", 142, 2520, 864},
    {90, 4096, 8192, 2048, 8192, 256, 256, 128, 128, 16, "NVIDIA H200", 132, 1830, 4800},
    {100, 8192, 16384, 4096, 16384, 128, 256, 128, 128, 16, "NVIDIA B200", 148, 1850, 8000},
    {120, 1024, 2048, 512, 2048, 0, 256, 4, 128, 16, "NVIDIA RTX PRO 6000 Blackwell", 188, 2600,
     1792},
};

const Row *rowOf(int sm) {
  // Devices without a row of their own are like the one before in their family.
  int like = sm == 87 ? 86 : sm == 103 ? 100 : sm == 121 ? 120 : sm;
  for (const Row &row : table)
    if (row.sm == like)
      return &row;
  return nullptr;
}

} // namespace

double PeakRates::rate(std::string_view arithmetic) const {
  if (auto found = measured.find(arithmetic); found != measured.end())
    return found->second;
  const Row *row = rowOf(sm);
  if (!row)
    return 0;
  struct Column {
    std::string_view name;
    int Row::*perCycle;
  };
  static constexpr Column columns[] = {
      {"fp16 product", &Row::half}, {"fp8 product", &Row::eight}, {"tf32 product", &Row::tf32},
      {"int8 product", &Row::int8}, {"fp32", &Row::single},       {"fp64", &Row::doubles},
      {"int32", &Row::integers},    {"special", &Row::special},
  };
  double perSecond = double(multiprocessors) * clock;
  if (arithmetic == "fp64 product")
    return perSecond * (row->doubleProduct ? row->doubleProduct : row->doubles);
  for (const Column &column : columns)
    if (column.name == arithmetic)
      return perSecond * row->*column.perCycle;
  return 0;
}

std::optional<PeakRates> peakRatesOf(int sm, const DeviceFigures *device) {
  const Row *row = rowOf(sm);
  if (!row)
    return std::nullopt;
  PeakRates machine;
  machine.sm = sm;
  machine.name = row->device;
  machine.multiprocessors = row->multiprocessors;
  machine.clock = row->megahertz * 1e6;
  machine.bandwidth = row->gigabytes * 1e9;
  if (device && device->multiprocessors > 0) {
    machine.name = device->name;
    machine.multiprocessors = device->multiprocessors;
    if (device->clockKhz > 0)
      machine.clock = device->clockKhz * 1e3;
    // Both edges of the memory's clock carry data.
    if (device->memoryClockKhz > 0 && device->busBits > 0)
      machine.bandwidth = 2 * device->memoryClockKhz * 1e3 * device->busBits / 8;
  }
  machine.cacheBandwidth = 64.0 * machine.multiprocessors * machine.clock;
  return machine;
}

} // namespace nereid::explain

#include "targets/cpu/executor/Tiles.h"

#include "support/first_use.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cerrno>
#include <cpuid.h>
#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace nereid::cpu {

#if defined(__x86_64__) && defined(__linux__)

static bool processorHasTiles() {
  unsigned a, b, c, d;
  constexpr unsigned osxsave = 1u << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave))
    return false;
  // AMX-BF16, AMX-TILE, AMX-INT8.
  constexpr unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted)
    return false;
  // The system saves the configuration and the data of tiles.
  constexpr unsigned saved = 1u << 17 | 1u << 18;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & saved) == saved;
}

static TileAccess ask() {
  if (!processorHasTiles())
    return {};
  constexpr long requestPermission = 0x1023, tileData = 18; // ARCH_REQ_XCOMP_PERM, XTILEDATA
  if (syscall(SYS_arch_prctl, requestPermission, tileData) == 0)
    return {TileState::Granted, 0};
  return {TileState::Refused, errno};
}

TileAccess requestTiles() {
  static constinit FirstUse<const TileAccess> access;
  return access.get(ask);
}

void releaseTiles() {
  if (requestTiles().state == TileState::Granted)
    __asm__ volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0"); // tilerelease
}

#else

TileAccess requestTiles() {
  return {};
}

void releaseTiles() {}

#endif

} // namespace nereid::cpu

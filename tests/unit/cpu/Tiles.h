// The tile instructions of AMX in C++, so that their kernels run on any x86-64 processor.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>

namespace nereid::test {

/// bf16: the upper half of a float. Made of small integers, which it holds exactly.
struct BFloat16 {
  BFloat16() = default;
  explicit BFloat16(int value) {
    float wide = float(value);
    uint32_t all;
    std::memcpy(&all, &wide, 4);
    bits = uint16_t(all >> 16);
  }
  explicit operator float() const {
    uint32_t all = uint32_t(bits) << 16;
    float wide;
    std::memcpy(&wide, &all, 4);
    return wide;
  }
  explicit operator double() const { return double(float(*this)); }
  uint16_t bits = 0;
};

/// LLVM IR in which functions of this process stand for the tile instructions, for the processor
/// at hand. They abort with a message where an instruction would fault: a tile that is used while
/// the registers are not set up, for example. Each thread has its own registers.
std::string emulateTiles(const std::string &llvmIr);

/// Whether this thread's registers are in use: set up and not given back.
bool tilesInUse();

} // namespace nereid::test

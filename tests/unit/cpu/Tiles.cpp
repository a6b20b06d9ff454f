#include "Tiles.h"

#include "llvm/ADT/StringExtras.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>

namespace nereid::test {
namespace {

struct Tile {
  int rows = 0, rowBytes = 0;
  uint8_t data[16][64] = {};
};

struct Registers {
  bool configured = false;
  Tile tiles[8];
};
thread_local Registers registers;

[[noreturn]] void fault(const char *what) {
  std::fprintf(stderr, "tile instruction: %s\n", what);
  std::abort();
}

Tile &tileOf(int number) {
  if (!registers.configured)
    fault("the registers are not set up");
  Tile &tile = registers.tiles[number];
  if (!tile.rows)
    fault("the tile has no rows");
  return tile;
}

// Palette 1: the bytes of a row of each tile from byte 16 on, the rows from byte 48 on.
void configure(const uint8_t *memory) {
  registers = {};
  if (memory[0] != 1)
    fault("not palette 1");
  registers.configured = true;
  for (int i = 0; i < 8; ++i) {
    uint16_t rowBytes;
    std::memcpy(&rowBytes, memory + 16 + 2 * i, 2);
    if (rowBytes > 64 || memory[48 + i] > 16)
      fault("a tile is too large");
    registers.tiles[i].rows = memory[48 + i];
    registers.tiles[i].rowBytes = rowBytes;
  }
}

void release() {
  registers = {};
}

void clear(int8_t number) {
  std::memset(tileOf(number).data, 0, sizeof(Tile::data));
}

void load(int8_t number, const uint8_t *memory, int64_t stride) {
  Tile &tile = tileOf(number);
  for (int row = 0; row < tile.rows; ++row)
    std::memcpy(tile.data[row], memory + row * stride, tile.rowBytes);
}

void store(int8_t number, uint8_t *memory, int64_t stride) {
  Tile &tile = tileOf(number);
  for (int row = 0; row < tile.rows; ++row)
    std::memcpy(memory + row * stride, tile.data[row], tile.rowBytes);
}

/// c += a b: units of 4 bytes, `Group` numbers of type In in each.
template <typename In, typename Out, int Group> void multiply(int8_t c, int8_t a, int8_t b) {
  Tile &sums = tileOf(c), &left = tileOf(a), &right = tileOf(b);
  if (left.rows != sums.rows || right.rowBytes != sums.rowBytes || left.rowBytes != 4 * right.rows)
    fault("the tiles of a product do not fit together");
  for (int row = 0; row < left.rows; ++row)
    for (int unit = 0; unit < right.rows; ++unit)
      for (int column = 0; column < right.rowBytes / 4; ++column) {
        Out sum;
        In x[Group], y[Group];
        std::memcpy(&sum, sums.data[row] + 4 * column, 4);
        std::memcpy(x, left.data[row] + 4 * unit, 4);
        std::memcpy(y, right.data[unit] + 4 * column, 4);
        for (int i = 0; i < Group; ++i)
          sum += Out(x[i]) * Out(y[i]);
        std::memcpy(sums.data[row] + 4 * column, &sum, 4);
      }
}

struct Instruction {
  const char *intrinsic;
  void *function;
};

template <typename Function> void *address(Function *function) {
  return reinterpret_cast<void *>(function);
}

} // namespace

std::string emulateTiles(const std::string &llvmIr) {
  const Instruction instructions[] = {
      {"ldtilecfg", address(configure)},
      {"tilerelease", address(release)},
      {"tilezero", address(clear)},
      {"tileloadd64", address(load)},
      {"tilestored64", address(store)},
      {"tdpbf16ps", address(multiply<BFloat16, float, 2>)},
      {"tdpfp16ps", address(multiply<_Float16, float, 2>)},
      {"tdpbssd", address(multiply<int8_t, int32_t, 4>)},
  };
  std::string text = std::regex_replace(
      llvmIr, std::regex("declare [^\n]*@llvm\\.x86\\.(tile|ldtile|tdp)[^\n]*\n"), "");
  text = std::regex_replace(text, std::regex("\"target-(cpu|features)\"=\"[^\"]*\""), "");
  for (const Instruction &instruction : instructions)
    text = std::regex_replace(
        text, std::regex(std::string("@llvm\\.x86\\.") + instruction.intrinsic + "\\("),
        "inttoptr (i64 " + llvm::utostr(reinterpret_cast<uintptr_t>(instruction.function)) +
            " to ptr)(");
  return text;
}

bool tilesInUse() {
  return registers.configured;
}

} // namespace nereid::test

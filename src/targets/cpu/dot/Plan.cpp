// Chooses the blocking of a dot by a small model of the core: two multiply-adds and two loads a
// clock, multiply-adds of latency four, so that a block needs eight accumulators, and ten to be at
// ease.
#include "targets/cpu/dot/Dot.h"

#include <algorithm>
#include <cassert>

namespace nereid::cpu {
namespace {

constexpr int64_t ceilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Clocks of one step of K on a block of `rows` by `vectors` accumulators.
double stepCost(int64_t rows, int64_t vectors) {
  double multiplyAdds = double(rows * vectors) / 2, loads = double(rows + vectors) / 2;
  return std::max({multiplyAdds, loads, 5.0});
}

// Vector operations that a width takes: full vectors, then halves, quarters, ...
int64_t vectorsFor(int64_t width, int64_t lanes) {
  return width / lanes + __builtin_popcountll(width % lanes);
}

// Keeps the cheapest of the blockings that it is shown.
class Choice {
public:
  // `blockCost(rows)`: clocks of a block of so many rows over all columns.
  template <typename BlockCost> void offer(const DotBlocking &blocking, BlockCost blockCost) {
    double cost = double(blocking.rowBlocks - blocking.longBlocks) * blockCost(blocking.rows);
    if (blocking.longBlocks)
      cost += double(blocking.longBlocks) * blockCost(blocking.rows + 1);
    // Every different block is code of its own, to be generated and fetched.
    if (blocking.longBlocks)
      cost *= 1.03;
    if (blocking.tailWidth && blocking.panels)
      cost *= 1.03;
    if (best.rowBlocks == 0 || cost < bestCost) {
      bestCost = cost;
      best = blocking;
    }
  }
  const DotBlocking &chosen() const { return best; }

private:
  DotBlocking best{};
  double bestCost = 0;
};

// Clocks of a visit of a block, besides its steps: of the loop, and of fetching and storing C.
constexpr double visit = 12;

// Of blocks of 2 x 2 elements: two products and three loads a clock, a product of latency four. The
// rows of A take a load each, a pair of columns of B one.
DotBlocking planBlocks(const DotUnit &unit, int64_t m, int64_t n, int64_t k, int64_t registers) {
  int64_t pairs = ceilDiv(m, 2);
  Choice choice;
  for (int64_t vectors = 1; vectors <= 6; ++vectors) {
    int64_t mostRows = std::min<int64_t>(6, (registers - 1 - vectors) / vectors);
    int64_t width = 2 * vectors, panels = n / width, tail = n % width;
    int64_t blocks = ceilDiv(pairs, mostRows);
    auto panelCost = [&](int64_t r, int64_t v) { // C is rearranged
      return double(k) * std::max({double(r * v) / 2, double(2 * r + v) / 3, 4.0}) + visit +
             double(r * v);
    };
    choice.offer(
        {&unit, m, n, k, 2, blocks, pairs % blocks, pairs / blocks, panels, width, tail, 2},
        [&](int64_t r) {
          return double(panels) * panelCost(r, vectors) +
                 (tail ? panelCost(r, ceilDiv(tail, 2)) : 0);
        });
  }
  return choice.chosen();
}

} // namespace

DotBlocking blockDot(DotType type, int64_t m, int64_t n, int64_t k, const Features &features) {
  assert(m >= 1 && n >= 1 && k >= 1);
  const DotUnit &unit = dotUnit(type, m, k, features);
  k = ceilDiv(k, unit.group);
  if (unit.tiles) {
    k = ceilDiv(k, tileSize) * tileSize;
    return {&unit,    m, n, k, tileSize, ceilDiv(m, tileSize), 0, tileSize, ceilDiv(n, tileSize),
            tileSize, 0, 1};
  }
  if (unit.blocks)
    return planBlocks(unit, m, n, k, features.vectorRegisters);
  int64_t lanes = features.vectorBytes / (type == DotType::F64 ? 8 : 4);
  // Besides accumulators and the vectors of B: one broadcast, and a product where there is no
  // multiply-add.
  bool isOneInstruction = unit.accumulates || (features.fma && type != DotType::I8);
  int64_t spare = int64_t(features.vectorRegisters) - 1 - (isOneInstruction ? 0 : 1);
  Choice choice;
  for (int64_t vectors = 1; vectors <= 4; ++vectors) {
    int64_t mostRows = std::min<int64_t>(16, (spare - vectors) / vectors);
    int64_t width = vectors * lanes;
    int64_t panels = n / width, tail = n % width;
    int64_t fewest = ceilDiv(m, mostRows);
    for (int64_t blocks = fewest; blocks <= std::min(m, 2 * fewest); ++blocks) {
      choice.offer({&unit, m, n, k, lanes, blocks, m % blocks, m / blocks, panels, width, tail, 4},
                   [&](int64_t r) {
                     double cost = double(panels) * (double(k) * stepCost(r, vectors) + visit);
                     if (tail)
                       cost += double(k) * stepCost(r, vectorsFor(tail, lanes)) + visit;
                     return cost;
                   });
    }
  }
  return choice.chosen();
}

} // namespace nereid::cpu

// Exchanges, slices, gathers and histograms between random layouts, on the simulator.
#include "Simulated.h"

#include "gpu/layouts/LayoutRelations.h"
#include "gpu/layouts/Rearrange.h"
#include "layout/Constructors.h"

using namespace nereid;
using namespace nereid::test;

namespace {

constexpr std::pair<const char *, unsigned> kElements[] = {{"f32", 32}, {"f16", 16}, {"i8", 8},
                                                           {"i1", 1},   {"i64", 64}, {"bf16", 16}};
using Shape = llvm::SmallVector<int64_t, 4>;

Shape unflatten(int64_t flat, llvm::ArrayRef<int64_t> shape) {
  Shape index(shape.size());
  for (unsigned dim = shape.size(); dim-- > 0; flat /= shape[dim])
    index[dim] = flat % shape[dim];
  return index;
}
int64_t flatten(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> shape) {
  int64_t flat = 0;
  for (auto [i, size] : llvm::zip_equal(index, shape))
    flat = flat * size + i;
  return flat;
}
unsigned registersOf(llvm::ArrayRef<int64_t> shape, const LinearLayout &layout) {
  unsigned count = layout.size(Axis::Register);
  for (int64_t size : shape)
    count *= layout::repeatCount(size);
  return count;
}

/// Runs `body`, which records its result, on one block and on clusters; every recorded element must
/// be what `want` says. Gives the run on one block.
SimulatedRun expectElements(const std::string &body, unsigned warps, unsigned records,
                            std::function<uint64_t(llvm::StringRef, uint64_t)> input,
                            std::function<uint64_t(uint64_t)> want) {
  auto runOn = [&](unsigned blocks) {
    unsigned count = 0;
    std::string wrong;
    SimulatedRun run = simulate(
        body, warps,
        [&](unsigned thread, llvm::StringRef name,
            const WarpSimulator::Words &arguments) -> uint64_t {
          if (name != "record")
            return input(name, arguments[0]);
          ++count;
          if (arguments[1] != want(arguments[0]) && wrong.empty())
            wrong = llvm::formatv("thread {0}, element {1}: {2:x}, not {3:x}", thread, arguments[0],
                                  arguments[1], want(arguments[0]));
          return 0;
        },
        90, 232448, blocks);
    EXPECT_EQ(run.error.substr(0, 2000), "") << blocks << " blocks";
    EXPECT_EQ(wrong, "") << blocks << " blocks\n" << body;
    EXPECT_EQ(count, records);
    return run;
  };
  SimulatedRun run = runOn(1);
  bool counts = body.find("tile.histogram") != std::string::npos; // of one block only
  for (unsigned blocks : {2, 4})
    if (blocks <= warps && !counts)
      runOn(blocks);
  return run;
}

Shape randomShape(std::mt19937 &random, bool odd) {
  Shape shape;
  for (unsigned rank = 1 + random() % 3; rank--;)
    shape.push_back(int64_t(1) << random() % 4);
  shape[0] *= 4;
  if (odd)
    shape.push_back(3);
  return shape;
}

TEST(Rearrange, RandomExchanges) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    SCOPED_TRACE(llvm::formatv("seed {0}", seed).str());
    unsigned warps = 1u << random() % 3;
    auto [element, bits] = kElements[random() % std::size(kElements)];
    Shape shape = randomShape(random, seed % 5 == 0);
    unsigned axis = random() % (shape.size() - (seed % 5 == 0));
    unsigned mask = random() % shape[axis];
    LinearLayout layout = randomLayout(random, shape, warps, seed % 3 == 0);
    std::string type = tensor(shape, element, layout);
    std::string body = indices("i", shape, layout) + input("x", "i", shape, element, layout) +
                       "  %y = tile.exchange %x axis " + std::to_string(axis) + " mask " +
                       std::to_string(mask) + " : " + type + "\n" +
                       record("i", "y", shape, element, layout);
    SimulatedRun run = expectElements(
        body, warps, warps * 32 * registersOf(shape, layout),
        [bits = bits](llvm::StringRef, uint64_t index) { return noise(index, bits); },
        [&, bits = bits](uint64_t index) {
          Shape place = unflatten(index, shape);
          place[axis] ^= mask;
          return noise(flatten(place, shape), bits);
        });
    bool crosses = gpu::exchangeStep(layout, axis, mask).warp != 0;
    EXPECT_EQ(run.sharedBytes != 0, crosses);
  }
}

TEST(Rearrange, ExchangesWithinAWarpAreShuffles) {
  const unsigned order[] = {0};
  Shape shape = {1024};
  LinearLayout layout =
      layout::striped(shape, 4, 32, 4, order); // registers, lanes, warps, registers
  for (auto [mask, shuffles, bytes] : {std::tuple{1u, 0u, 0u},
                                       {3u, 0u, 0u},
                                       {4u, 8u, 0u},
                                       {127u, 8u, 0u},
                                       {512u, 0u, 0u},
                                       {128u, 0u, 4096u},
                                       {1023u, 0u, 4096u}}) {
    std::string body = indices("i", shape, layout) + input("x", "i", shape, "f32", layout) +
                       "  %y = tile.exchange %x axis 0 mask " + std::to_string(mask) + " : " +
                       tensor(shape, "f32", layout) + "\n" + record("i", "y", shape, "f32", layout);
    SimulatedRun run = expectElements(
        body, 4, 1024, [](llvm::StringRef, uint64_t index) { return noise(index, 32); },
        [mask = mask](uint64_t index) { return noise(index ^ mask, 32); });
    EXPECT_EQ(run.shuffles, uint64_t(shuffles) * 4) << mask;
    EXPECT_EQ(run.sharedBytes, bytes) << mask;
  }
}

TEST(Rearrange, LargeExchangesInPieces) {
  const unsigned order[] = {0};
  Shape shape = {16384};
  LinearLayout layout = layout::striped(shape, 1, 32, 2, order);
  std::string body = indices("i", shape, layout) + input("x", "i", shape, "i64", layout) +
                     "  %y = tile.exchange %x axis 0 mask 4129 : " + tensor(shape, "i64", layout) +
                     "\n" + record("i", "y", shape, "i64", layout);
  SimulatedRun run = expectElements(
      body, 2, 16384, [](llvm::StringRef, uint64_t index) { return noise(index, 64); },
      [](uint64_t index) { return noise(index ^ 4129, 64); });
  EXPECT_EQ(run.sharedBytes, 32768u);
  EXPECT_EQ(run.barriers, 7u);
}

TEST(Rearrange, RandomSlices) {
  unsigned ways[2] = {0, 0};
  for (unsigned seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    SCOPED_TRACE(llvm::formatv("seed {0}", seed).str());
    unsigned warps = 1u << random() % 3;
    auto [element, bits] = kElements[random() % std::size(kElements)];
    Shape from = randomShape(random, seed % 7 == 0), to, offsets, steps;
    bool aligned = seed % 2 && seed % 7;
    for (int64_t size : from) {
      int64_t step = aligned ? int64_t(1) << random() % 2 : 1 + random() % 2;
      if (step >= size)
        step = 1;
      int64_t most = (size + step - 1) / step, count = 1 + random() % most;
      if (aligned)
        count = int64_t(1) << random() % (llvm::Log2_64(most) + 1);
      int64_t span = count * step, room = size - (count - 1) * step;
      int64_t first = aligned ? random() % (size / span) * span + random() % step : random() % room;
      bool backwards = random() % 3 == 0;
      to.push_back(count);
      steps.push_back(backwards ? -step : step);
      offsets.push_back(backwards ? first + (count - 1) * step : first);
    }
    LinearLayout source = randomLayout(random, from, warps, seed % 3 == 0);
    auto list = [](llvm::ArrayRef<int64_t> values) {
      std::string text = "[";
      for (auto [i, value] : llvm::enumerate(values))
        text += (i ? ", " : "") + std::to_string(value);
      return text + "]";
    };
    // The layout that the op asks for is computed from the op without layouts.
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    ngpu::loadDialects(context);
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        "func.func @k(%x: tensor<" + shapeText(from) + element + ">) {\n  %y = tile.slice %x " +
            list(offsets) + " step " + list(steps) + " : tensor<" + shapeText(from) + element +
            "> -> tensor<" + shapeText(to) + element + ">\n  return\n}\n",
        &context);
    ASSERT_TRUE(module);
    LinearLayout result = randomLayout(random, to, warps, false);
    module->walk([&](tile::SliceOp slice) {
      EXPECT_TRUE(!aligned || gpu::slicesBits(slice));
      if (gpu::slicesBits(slice))
        result = gpu::resultLayout(slice, 0, source);
    });
    std::string body = indices("i", from, source) + input("x", "i", from, element, source) +
                       "  %y = tile.slice %x " + list(offsets) + " step " + list(steps) + " : " +
                       tensor(from, element, source) + " -> " + tensor(to, element, result) + "\n" +
                       indices("j", to, result) + record("j", "y", to, element, result);
    SimulatedRun run = expectElements(
        body, warps, warps * 32 * registersOf(to, result),
        [bits = bits](llvm::StringRef, uint64_t index) { return noise(index, bits); },
        [&, bits = bits](uint64_t index) {
          Shape place = unflatten(index, to);
          for (unsigned dim = 0; dim < place.size(); ++dim)
            place[dim] = offsets[dim] + steps[dim] * place[dim];
          return noise(flatten(place, from), bits);
        });
    ++ways[run.sharedBytes != 0];
  }
  EXPECT_GT(ways[0], 20u);
  EXPECT_GT(ways[1], 20u);
}

TEST(Rearrange, RandomGathers) {
  unsigned ways[2] = {0, 0};
  for (unsigned seed = 0; seed < 120; ++seed) {
    std::mt19937 random(seed);
    SCOPED_TRACE(llvm::formatv("seed {0}", seed).str());
    unsigned warps = 1u << random() % 3;
    auto [element, bits] = kElements[random() % std::size(kElements)];
    Shape to = randomShape(random, seed % 7 == 0), from = to;
    unsigned axis = random() % to.size();
    from[axis] = seed % 3 ? std::min<int64_t>(from[axis], 1 << random() % 4) : from[axis] * 2;
    if (seed % 7 == 0)
      from = to;
    LinearLayout result = seed % 2 ? randomLayout(random, to, warps, seed % 3 == 0)
                                   : layout::striped(layout::coreShape(to), 1, 32, warps,
                                                     llvm::SmallVector<unsigned>(llvm::reverse(
                                                         llvm::seq<unsigned>(0, to.size()))));
    LinearLayout source = randomLayout(random, from, warps, seed % 5 == 0);
    const char *indexType = seed % 4 == 0 ? "i64" : "i32";
    std::string op = "tile.gather %x[%k] axis " + std::to_string(axis) + " : ";
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    ngpu::loadDialects(context);
    std::string plainFrom = "tensor<" + shapeText(from) + element + ">";
    std::string plainIndex = "tensor<" + shapeText(to) + indexType + ">";
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        "func.func @k(%x: " + plainFrom + ", %k: " + plainIndex + ") {\n  %y = " + op + plainFrom +
            ", " + plainIndex + " -> tensor<" + shapeText(to) + element + ">\n  return\n}\n",
        &context);
    ASSERT_TRUE(module);
    module->walk([&](tile::GatherOp gather) {
      if (seed % 4 && gpu::gathersFromBase(gather))
        source = gpu::operandLayout(gather, 0, result);
    });
    std::string body = indices("i", from, source) + input("x", "i", from, element, source) +
                       indices("j", to, result) + input("k", "j", to, indexType, result, "index") +
                       "  %y = " + op + tensor(from, element, source) + ", " +
                       tensor(to, indexType, result) + " -> " + tensor(to, element, result) + "\n" +
                       record("j", "y", to, element, result);
    auto indexOf = [&](uint64_t at) { return noise(at, 20, seed + 1) % uint64_t(from[axis]); };
    SimulatedRun run = expectElements(
        body, warps, warps * 32 * registersOf(to, result),
        [&, bits = bits](llvm::StringRef name, uint64_t index) {
          return name == "index" ? indexOf(index) : noise(index, bits);
        },
        [&, bits = bits](uint64_t index) {
          Shape place = unflatten(index, to);
          place[axis] = indexOf(index);
          return noise(flatten(place, from), bits);
        });
    ++ways[run.sharedBytes != 0];
  }
  EXPECT_GT(ways[0], 20u);
  EXPECT_GT(ways[1], 20u);
}

TEST(Rearrange, IndicesOutsideTouchNothing) {
  const unsigned order[] = {0};
  for (int64_t size : {12, 64}) {
    Shape shape = {size};
    LinearLayout layout = layout::striped(layout::coreShape(shape), 1, 32, 2, order);
    std::string body = indices("i", shape, layout) + input("x", "i", shape, "f32", layout) +
                       input("k", "i", shape, "i32", layout, "index") +
                       "  %y = tile.gather %x[%k] axis 0 : " + tensor(shape, "f32", layout) + ", " +
                       tensor(shape, "i32", layout) + " -> " + tensor(shape, "f32", layout) + "\n" +
                       record("i", "y", shape, "f32", layout);
    SimulatedRun run = simulate(body, 2, [](unsigned, llvm::StringRef, const auto &arguments) {
      return noise(arguments[0], 32);
    });
    EXPECT_EQ(run.error, "");
  }
}

TEST(Rearrange, Histograms) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    SCOPED_TRACE(llvm::formatv("seed {0}", seed).str());
    unsigned warps = 1u << random() % 3;
    Shape shape = {int64_t(32) << random() % 4}, bins = {int64_t(1) << random() % 10};
    if (seed % 5 == 0)
      shape[0] *= 3;
    if (seed % 6 == 0)
      bins[0] *= 3;
    bool mask = seed % 2;
    LinearLayout layout = randomLayout(random, shape, warps, seed % 3 == 0);
    const unsigned order[] = {0};
    LinearLayout result = layout::striped(layout::coreShape(bins), 1, 32, warps, order);
    std::string body = indices("i", shape, layout) + input("x", "i", shape, "i32", layout);
    if (mask)
      body += input("m", "i", shape, "i1", layout, "mask");
    body += std::string("  %y = tile.histogram %x ") + (mask ? "mask %m " : "") + ": " +
            tensor(shape, "i32", layout) + (mask ? ", " + tensor(shape, "i1", layout) : "") +
            " -> " + tensor(bins, "i32", result) + "\n" + indices("j", bins, result) +
            record("j", "y", bins, "i32", result);
    auto number = [&](uint64_t index) {
      return uint32_t(noise(index, 32, 1) % uint64_t(bins[0] + 4)) - 2;
    };
    auto masked = [&](uint64_t index) { return !mask || noise(index, 1, 2); };
    std::map<uint64_t, unsigned> counts;
    for (int64_t i = 0; i < shape[0]; ++i)
      counts[number(i)] += masked(i);
    expectElements(
        body, warps, warps * 32 * registersOf(bins, result),
        [&](llvm::StringRef name, uint64_t index) -> uint64_t {
          return name == "mask" ? masked(index) : number(index);
        },
        [&](uint64_t bin) { return counts[bin]; });
  }
}

} // namespace

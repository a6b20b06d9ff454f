// Conversions, buffers and shape operations between layouts of all kinds, on the simulator: every
// register of every thread must hold what its layout says.
#include "Simulated.h"

#include "layout/Constructors.h"
#include "layout/Conversion.h"

using namespace nereid;
using namespace nereid::test;

namespace {

struct Element {
  const char *name;
  unsigned bits;
};
constexpr Element kElements[] = {{"f32", 32}, {"f16", 16}, {"i8", 8},
                                 {"i1", 1},   {"i64", 64}, {"bf16", 16}};

/// `input` gives noise, `record` expects the noise of `where(index)`.
WarpSimulator::External expecting(unsigned bits, unsigned &records, std::string &wrong,
                                  std::function<uint64_t(uint64_t)> where = {}) {
  return [=, &records, &wrong](unsigned thread, llvm::StringRef name,
                               const WarpSimulator::Words &arguments) -> uint64_t {
    if (name == "input")
      return noise(arguments[0], bits);
    ++records;
    uint64_t source = where ? where(arguments[0]) : arguments[0];
    if (arguments[1] != noise(source, bits) && wrong.empty())
      wrong = llvm::formatv("thread {0}, element {1}: {2:x} instead of {3:x}", thread, arguments[0],
                            arguments[1], noise(source, bits))
                  .str();
    return 0;
  };
}

unsigned registersOf(llvm::ArrayRef<int64_t> shape, const LinearLayout &layout) {
  unsigned count = layout.size(Axis::Register);
  for (int64_t size : shape)
    count *= layout::repeatCount(size);
  return count;
}

void expectConverted(llvm::ArrayRef<int64_t> shape, const Element &element,
                     const LinearLayout &from, const LinearLayout &to, unsigned warps, int sm) {
  std::string body = indices("i", shape, from) + input("x", "i", shape, element.name, from) +
                     "  %y = ngpu.convert_layout %x : " + tensor(shape, element.name, from) +
                     " -> " + tensor(shape, element.name, to) + "\n" + indices("j", shape, to) +
                     record("j", "y", shape, element.name, to);
  unsigned records = 0;
  std::string wrong;
  SimulatedRun run = simulate(body, warps, expecting(element.bits, records, wrong), sm);
  EXPECT_EQ(run.error, "") << from.str() << "\n" << to.str();
  EXPECT_EQ(wrong, "") << body;
  EXPECT_EQ(records, warps * 32 * registersOf(shape, to));
  EXPECT_LE(run.barriers, 1u);
  for (unsigned blocks : {2, 4}) {
    if (sm < 90 || blocks > warps)
      continue;
    records = 0;
    run = simulate(body, warps, expecting(element.bits, records, wrong), sm, 232448, blocks);
    EXPECT_EQ(run.error, "") << blocks << " blocks\n" << from.str() << "\n" << to.str();
    EXPECT_EQ(wrong, "") << blocks << " blocks\n" << body;
    EXPECT_EQ(records, warps * 32 * registersOf(shape, to));
    EXPECT_LE(run.meetings, 2u);
  }
}

TEST(Movement, RandomConversions) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    unsigned warps = 1u << random() % 3;
    const Element &element = kElements[random() % std::size(kElements)];
    llvm::SmallVector<int64_t, 3> shape;
    for (unsigned rank = 1 + random() % 3; rank--;)
      shape.push_back(int64_t(1) << random() % 4);
    shape[0] *= 4;
    if (seed % 5 == 0)
      shape[random() % shape.size()] *= 3;
    SCOPED_TRACE(llvm::formatv("seed {0}", seed).str());
    expectConverted(shape, element, randomLayout(random, shape, warps, seed % 3 == 0),
                    randomLayout(random, shape, warps, seed % 4 == 0), warps, seed % 2 ? 90 : 80);
  }
}

TEST(Movement, FragmentConversions) {
  int64_t shape[] = {64, 64};
  const unsigned rowMajor[] = {1, 0}, columnMajor[] = {0, 1};
  for (const Element &element : {Element{"f16", 16}, Element{"i8", 8}}) {
    LinearLayout rows = layout::striped(shape, 128 / element.bits, 32, 4, rowMajor);
    LinearLayout columns = layout::striped(shape, 128 / element.bits, 32, 4, columnMajor);
    LinearLayout a = layout::mmaOperand(shape, layout::Operand::A, {2, 2}, element.bits);
    LinearLayout b = layout::mmaOperand(shape, layout::Operand::B, {2, 2}, element.bits);
    LinearLayout c = layout::mmaAccumulator(shape, {2, 2}, 32);
    LinearLayout w = layout::wgmmaAccumulator(shape, {4, 1}, 64);
    const std::pair<LinearLayout, LinearLayout> pairs[] = {
        {rows, a}, {rows, b}, {columns, a},    {columns, b}, {c, rows},
        {w, rows}, {c, a},    {rows, columns}, {w, c}};
    for (auto &[from, to] : pairs)
      expectConverted(shape, element, from, to, 4, 90);
  }
}

TEST(Movement, BuffersOfAllLayouts) {
  // Stores from one layout, loads to another, through swizzled memory in either order of
  // dimensions.
  int64_t shape[] = {32, 64};
  const unsigned rowMajor[] = {1, 0}, columnMajor[] = {0, 1};
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    const Element &element = kElements[random() % std::size(kElements)];
    unsigned stored = element.bits == 1 ? 8 : element.bits;
    unsigned swizzle = std::min((seed % 4) ? 16u << seed % 4 : 0,
                                layout::swizzleFor((seed % 2 ? 64 : 32) * stored / 8));
    LinearLayout memory =
        layout::sharedSwizzled(shape, seed % 2 ? rowMajor : columnMajor, stored, swizzle);
    LinearLayout from = seed % 3
                            ? layout::striped(shape, 4, 32, 4, seed % 5 ? rowMajor : columnMajor)
                            : randomLayout(random, shape, 4, false);
    LinearLayout to =
        seed % 7 == 0 && stored != 64
            ? layout::mmaOperand(shape, seed % 2 ? layout::Operand::A : layout::Operand::B, {2, 2},
                                 stored)
            : randomLayout(random, shape, 4, seed % 2);
    std::string buffer =
        "!ngpu.buffer<32x64x" + std::string(element.name) + ", " + attribute(memory) + ">";
    std::string body = indices("i", shape, from) + input("x", "i", shape, element.name, from) +
                       "  %m = ngpu.local_alloc " + buffer +
                       "\n  ngpu.local_store %x, %m : " + tensor(shape, element.name, from) + ", " +
                       buffer + "\n  %y = ngpu.local_load %m : " + buffer + " -> " +
                       tensor(shape, element.name, to) + "\n" + indices("j", shape, to) +
                       record("j", "y", shape, element.name, to);
    unsigned records = 0;
    std::string wrong;
    SimulatedRun run = simulate(body, 4, expecting(element.bits, records, wrong), 90);
    EXPECT_EQ(run.error, "") << "seed " << seed;
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << body;
    EXPECT_EQ(records, 128 * registersOf(shape, to));
    EXPECT_EQ(run.barriers, 1u);
  }
}

TEST(Movement, SlotsAndTransposedViews) {
  int64_t shape[] = {16, 32}, turned[] = {32, 16};
  const unsigned rowMajor[] = {1, 0};
  LinearLayout memory = layout::sharedSwizzled(shape, rowMajor, 16, 64);
  LinearLayout from = layout::striped(shape, 4, 32, 2, rowMajor);
  LinearLayout to = layout::striped(turned, 2, 32, 2, rowMajor);
  std::string ring = "!ngpu.buffer<3x16x32xf16, " + attribute(memory) + ">";
  std::string slot = "!ngpu.buffer<16x32xf16, " + attribute(memory) + ">";
  std::string view = "!ngpu.buffer<32x16xf16, " + attribute(memory.transposed({1, 0})) + ">";
  std::string body = indices("i", shape, from) + input("x", "i", shape, "f16", from) +
                     "  %c2 = arith.constant 2 : i32\n  %ring = ngpu.local_alloc " + ring +
                     "\n  %slot = ngpu.slot %ring[%c2] : " + ring + " -> " + slot +
                     "\n  ngpu.local_store %x, %slot : " + tensor(shape, "f16", from) + ", " +
                     slot + "\n  %t = ngpu.trans_buffer %slot [1, 0] : " + slot + " -> " + view +
                     "\n  %y = ngpu.local_load %t : " + view + " -> " + tensor(turned, "f16", to) +
                     "\n" + indices("j", turned, to) + record("j", "y", turned, "f16", to);
  unsigned records = 0;
  std::string wrong;
  SimulatedRun run = simulate(body, 2, expecting(16, records, wrong, [](uint64_t index) {
                                return index % 16 * 32 + index / 16;
                              }));
  EXPECT_EQ(run.error, "");
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(records, 512u);
  EXPECT_EQ(run.barriers, 1u);
}

TEST(Movement, LargeConversionsInPieces) {
  // 128 KiB, where a block can have 100000 bytes: two pieces, each 64 KiB, one after the other.
  int64_t shape[] = {128, 128};
  const unsigned rowMajor[] = {1, 0}, columnMajor[] = {0, 1};
  LinearLayout from = layout::striped(shape, 2, 32, 2, rowMajor);
  LinearLayout to = layout::striped(shape, 2, 32, 2, columnMajor);
  std::string body = indices("i", shape, from) + input("x", "i", shape, "i64", from) +
                     "  %y = ngpu.convert_layout %x : " + tensor(shape, "i64", from) + " -> " +
                     tensor(shape, "i64", to) + "\n" + indices("j", shape, to) +
                     record("j", "y", shape, "i64", to);
  unsigned records = 0;
  std::string wrong;
  SimulatedRun run = simulate(body, 2, expecting(64, records, wrong), 90, 100000);
  EXPECT_EQ(run.error.substr(0, 300), "");
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(records, 16384u);
  EXPECT_EQ(run.sharedBytes, 65536u);
  EXPECT_EQ(run.barriers, 3u);
  run = simulate(body, 2, expecting(64, records, wrong), 90, 100000, 2);
  EXPECT_EQ(run.error.substr(0, 300), "");
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(records, 2 * 16384u);
  EXPECT_EQ(run.meetings, 4u); // the start, and the same
}

TEST(Movement, AMissingBarrierIsARace) {
  // The simulator itself: without its barrier the exchange above must be refused.
  int64_t shape[] = {256};
  const unsigned order[] = {0};
  LinearLayout layout = layout::striped(shape, 1, 32, 4, order);
  LinearLayout other = LinearLayout::fromFlat(
      shape, {LinearLayout::Columns{128}, {64, 1, 2, 4, 8}, {16, 32}, {}, {}});
  LinearLayout memory = layout::sharedLinear(shape, order);
  std::string buffer = "!ngpu.buffer<256xf32, " + attribute(memory) + ">";
  std::string body = indices("i", shape, layout) + input("x", "i", shape, "f32", layout) +
                     "  %m = ngpu.local_alloc %x : " + tensor(shape, "f32", layout) + " -> " +
                     buffer + "\n  %y = ngpu.local_load %m : " + buffer + " -> " +
                     tensor(shape, "f32", other) + "\n";
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ngpu::loadDialects(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      "func.func @k() attributes {tile.kernel, ngpu.num_warps = 4 : i32} {\n" + body +
          "  return\n}\n",
      &context);
  ASSERT_TRUE(module);
  auto kernel = *module->getOps<mlir::func::FuncOp>().begin();
  auto bytes = gpu::allocateShared(kernel, {});
  ASSERT_TRUE(bool(bytes));
  llvm::LLVMContext llvmContext;
  auto emitted = nvidia::emitKernel(kernel, {}, llvmContext);
  ASSERT_TRUE(bool(emitted));
  WarpSimulator simulator(*emitted->module, 4, *bytes);
  simulator.onCall([](unsigned, llvm::StringRef, const WarpSimulator::Words &) { return 0; });
  EXPECT_EQ(simulator.run(emitted->entry, {}).substr(0, 12), "race at byte");
}

} // namespace

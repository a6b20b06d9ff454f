// Atomic loads and stores between memory and random layouts, on the simulator.
#include "Simulated.h"

using namespace nereid;
using namespace nereid::test;

namespace {

/// Pointers to the elements `index` of an array of the host.
std::string pointers(llvm::StringRef name, const void *array, llvm::StringRef index,
                     llvm::ArrayRef<int64_t> shape, llvm::StringRef element,
                     const LinearLayout &layout) {
  std::string pointer = "!tile.ptr<" + element.str() + ">", block = tensor(shape, pointer, layout);
  return llvm::formatv(R"(
  %{0}_at = arith.constant {1} : i64
  %{0}_first = tile.int_to_ptr %{0}_at : i64 -> {2}
  %{0}_all = tile.splat %{0}_first : {2} -> {3}
  %{0} = tile.addptr %{0}_all, %{4} : {3}, {5}
)",
                       name, uint64_t(reinterpret_cast<uintptr_t>(array)), pointer, block, index,
                       tensor(shape, "i32", layout))
      .str();
}

/// Every copy of an element is what memory holds, and lanes that take part are stored.
template <typename Word> void expectCopies(const char *element, unsigned seed) {
  SCOPED_TRACE(llvm::formatv("{0}, seed {1}", element, seed).str());
  std::mt19937 random(seed);
  unsigned warps = 1u << random() % 3;
  llvm::SmallVector<int64_t> shape = {int64_t(4) << random() % 5, int64_t(1) << random() % 4};
  LinearLayout layout = randomLayout(random, shape, warps, seed % 3 == 0);
  unsigned count = shape[0] * shape[1], limit = random() % (count + 1);
  alignas(16) std::array<Word, 512> from, to;
  for (unsigned i = 0; i < count; ++i) {
    from[i] = Word(noise(i, sizeof(Word) * 8));
    to[i] = Word(noise(i, sizeof(Word) * 8, 1));
  }
  auto before = to;
  const char *order = seed % 2 ? " sem relaxed scope sys" : "";
  std::string pointer = tensor(shape, std::string("!tile.ptr<") + element + ">", layout);
  std::string value = tensor(shape, element, layout), flags = tensor(shape, "i1", layout);
  std::string numbers = tensor(shape, "i32", layout);
  std::string body = indices("i", shape, layout) +
                     pointers("p", from.data(), "i", shape, element, layout) +
                     pointers("q", to.data(), "i", shape, element, layout);
  body += llvm::formatv(R"(
  %limit = arith.constant dense<{0}> : {1}
  %mask = arith.cmpi slt, %i, %limit : {1}
  %x = tile.atomic_load %p{2} : {3} -> {4}
  tile.atomic_store %q, %x mask %mask{2} : {3}, {4}, mask {5}
)",
                        limit, numbers, order, pointer, value, flags)
              .str();
  body += record("i", "x", shape, element, layout);
  std::string wrong;
  unsigned records = 0;
  SimulatedRun run = simulate(body, warps, [&](unsigned thread, llvm::StringRef, auto &arguments) {
    ++records;
    if (Word(arguments[1]) != from[arguments[0]] && wrong.empty())
      wrong = llvm::formatv("thread {0}, element {1}", thread, arguments[0]).str();
    return uint64_t(0);
  });
  EXPECT_EQ(run.error.substr(0, 2000), "");
  EXPECT_EQ(wrong, "") << body;
  EXPECT_EQ(records, warps * 32 * layout.size(Axis::Register));
  for (unsigned i = 0; i < count; ++i)
    ASSERT_EQ(to[i], i < limit ? from[i] : before[i]) << i;
}

TEST(Atomic, LoadsAndStores) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    expectCopies<uint8_t>("i8", seed);
    expectCopies<uint16_t>("bf16", seed);
    expectCopies<uint32_t>("f32", seed);
    expectCopies<uint64_t>("i64", seed);
  }
}

} // namespace

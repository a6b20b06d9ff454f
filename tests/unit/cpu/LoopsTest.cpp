// The form of the loops: which chunks of a row evaluate masks, and how matrices are read that lie
// across the order of the loop.
#include "Run.h"

#include "gtest/gtest.h"

using namespace nereid::test;

namespace {

std::string loopsOf(const std::string &text) {
  nereid::targets::CompileOptions options;
  options.features = "avx512";
  options.load = false;
  options.keepStages = true;
  auto compiled = compileText(text, options);
  if (!compiled)
    return llvm::toString(compiled.takeError());
  std::string why;
  return (*compiled)->text("loops", why).value_or(why);
}

size_t count(const std::string &text, const std::string &part) {
  size_t result = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++result;
  return result;
}

/// What stands between the beginnings of loop `number` and the next.
std::string loop(const std::string &text, int number) {
  size_t at = 0;
  for (int i = 0; i <= number; ++i)
    at = text.find("scf.for", at) + 1;
  return text.substr(at, text.find("scf.yield", at) - at);
}

// The sum of exp of a row of up to `size` numbers.
std::string row(const std::string &other, const std::string &size = "1024") {
  std::string text = R"(
func.func @row(%o: !tile.ptr<f32>, %x: !tile.ptr<f32>, %n: i32) attributes {tile.kernel} {
  %cols = tile.range 0 to SIZE : tensor<SIZExi32>
  %xb = tile.splat %x : !tile.ptr<f32> -> tensor<SIZEx!tile.ptr<f32>>
  %xp = tile.addptr %xb, %cols : tensor<SIZEx!tile.ptr<f32>>, tensor<SIZExi32>
  %ns = tile.splat %n : i32 -> tensor<SIZExi32>
  %mask = arith.cmpi slt, %cols, %ns : tensor<SIZExi32>
  OTHER
  %v = tile.load %xp mask %mask other %other : tensor<SIZEx!tile.ptr<f32>>, mask tensor<SIZExi1>, other tensor<SIZExf32> -> tensor<SIZExf32>
  %e = math.exp %v : tensor<SIZExf32>
  %sum = tile.reduce (%e) axis 0 {
  ^bb0(%l: f32, %r: f32):
    %m = arith.addf %l, %r : f32
    tile.yield %m : f32
  } : (tensor<SIZExf32>) -> f32
  tile.store %o, %sum : !tile.ptr<f32>, f32
  return
}
)";
  for (size_t at; (at = text.find("OTHER")) != std::string::npos;)
    text.replace(at, 5, other);
  for (size_t at; (at = text.find("SIZE")) != std::string::npos;)
    text.replace(at, 4, size);
  return text;
}

TEST(Loops, onlyOneChunkOfARowHasAMask) {
  std::string text = loopsOf(row("%other = arith.constant dense<0xFF800000> : tensor<SIZExf32>"));
  // Of programs, of whole chunks, of chunks with masks, of chunks that are off.
  ASSERT_EQ(count(text, "scf.for"), 4u) << text;
  std::string whole = loop(text, 1), masked = loop(text, 2), off = loop(text, 3);
  EXPECT_EQ(count(whole, "masked.load"), 0u) << whole;
  EXPECT_GE(count(whole, "-> vector<64xf32>"), 1u) << whole;
  EXPECT_EQ(count(masked, "masked.load"), 1u) << masked;
  EXPECT_GE(count(masked, "vector<16xf32>"), 1u) << masked;
  EXPECT_EQ(count(off, "load"), 0u) << off;
  EXPECT_EQ(count(off, "math.exp"), 1u) << off; // of one number, which leaves the loop
  EXPECT_NE(off.find(": f32\n", off.find("math.exp")), std::string::npos) << off;
}

TEST(Loops, chunksThatAreOffAreMaskedWhereTheirElementsDiffer) {
  std::string text =
      loopsOf(row("%other = arith.sitofp %cols : tensor<SIZExi32> to tensor<SIZExf32>"));
  ASSERT_EQ(count(text, "scf.for"), 3u) << text;
  EXPECT_EQ(count(loop(text, 1), "masked.load"), 0u);
  EXPECT_EQ(count(loop(text, 2), "masked.load"), 1u);
}

TEST(Loops, shortRowsAskForEachChunk) {
  std::string text =
      loopsOf(row("%other = arith.constant dense<0xFF800000> : tensor<SIZExf32>", "128"));
  EXPECT_EQ(count(text, "scf.for"), 2u) << text;
  EXPECT_EQ(count(text, "scf.if"), 1u) << text;
}

// Where neighbours are a distance apart that the launch gives, costly elements are computed in
// lanes, others one by one.
TEST(Loops, costlyElementsAreCollected) {
  auto loops = [](const std::string &value) {
    return loopsOf(R"(
func.func @across(%o: !tile.ptr<f32>, %x: !tile.ptr<f32>, %s: i32) attributes {tile.kernel} {
  %r = tile.range 0 to 256 : tensor<256xi32>
  %ss = tile.splat %s : i32 -> tensor<256xi32>
  %at = arith.muli %r, %ss : tensor<256xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %at : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %v = tile.load %xp : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
  %w = )" + value + R"( : tensor<256xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %op = tile.addptr %os, %r : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  tile.store %op, %w : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
  return
}
)");
  };
  // Whether a line with the operation computes a register of addresses' worth of lanes; neighbours
  // have twice as many.
  auto isCollected = [](const std::string &text, const std::string &operation) {
    for (size_t at = 0; (at = text.find(operation, at)) != std::string::npos; ++at)
      if (text.substr(at, text.find('\n', at) - at).find("vector<16xf32>") != std::string::npos)
        return true;
    return false;
  };
  std::string costly = loops("math.exp %v"), cheap = loops("math.absf %v");
  EXPECT_TRUE(isCollected(costly, "math.exp")) << costly;
  EXPECT_FALSE(isCollected(cheap, "math.absf")) << cheap;
}

// A matrix of 32 x 32, read by columns or by rows, transposed or not, and written by rows.
std::string matrix(const std::string &load, const std::string &value, const std::string &store) {
  std::string text = R"(
func.func @matrix(%o: !tile.ptr<f32>, %x: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.range 0 to 32 : tensor<32xi32>
  %down = tile.expand_dims %r 1 : tensor<32xi32> -> tensor<32x1xi32>
  %right = tile.expand_dims %r 0 : tensor<32xi32> -> tensor<1x32xi32>
  %a = tile.broadcast %down : tensor<32x1xi32> -> tensor<32x32xi32>
  %b = tile.broadcast %right : tensor<1x32xi32> -> tensor<32x32xi32>
  %w = arith.constant dense<32> : tensor<32x32xi32>
  %aw = arith.muli %a, %w : tensor<32x32xi32>
  %bw = arith.muli %b, %w : tensor<32x32xi32>
  %rows = arith.addi %aw, %b : tensor<32x32xi32>
  %columns = arith.addi %bw, %a : tensor<32x32xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<32x32x!tile.ptr<f32>>
  %xp = tile.addptr %xs, LOAD : tensor<32x32x!tile.ptr<f32>>, tensor<32x32xi32>
  %v = tile.load %xp : tensor<32x32x!tile.ptr<f32>> -> tensor<32x32xf32>
  %t = tile.trans %v [1, 0] : tensor<32x32xf32> -> tensor<32x32xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<32x32x!tile.ptr<f32>>
  %op = tile.addptr %os, STORE : tensor<32x32x!tile.ptr<f32>>, tensor<32x32xi32>
  tile.store %op, VALUE : tensor<32x32x!tile.ptr<f32>>, tensor<32x32xf32>
  return
}
)";
  text.replace(text.find("LOAD"), 4, load);
  text.replace(text.find("STORE"), 5, store);
  text.replace(text.find("VALUE"), 5, value);
  return text;
}

TEST(Loops, matricesAcrossTheLoopAreTransposedInSquares) {
  for (auto [load, value, store] :
       {std::tuple("%columns", "%v", "%rows"), std::tuple("%rows", "%t", "%rows"),
        std::tuple("%rows", "%v", "%columns"), std::tuple("%columns", "%t", "%columns")}) {
    std::string text = loopsOf(matrix(load, value, store));
    // Three steps, each of which exchanges four pairs of blocks.
    EXPECT_EQ(count(text, "vector.shuffle"), 24u) << load << value << store << text;
    EXPECT_EQ(count(text, "-> f32"), 0u) << load << value << store << text;
    EXPECT_EQ(count(text, "gather"), 0u) << load << value << store << text;
  }
}

TEST(Loops, matricesAlongTheLoopAreNot) {
  for (auto [load, value, store] :
       {std::tuple("%rows", "%v", "%rows"), std::tuple("%columns", "%v", "%columns"),
        std::tuple("%columns", "%t", "%rows")}) {
    std::string text = loopsOf(matrix(load, value, store));
    EXPECT_EQ(count(text, "vector.shuffle"), 0u) << load << value << store << text;
    // Those of the version for a target that overlaps the source.
    EXPECT_EQ(count(text, "-> f32"), 2u) << load << value << store << text;
    EXPECT_EQ(count(text, "-> vector<32xf32>"), 1u) << load << value << store << text;
  }
}

// One loop reads a tensor in memory as it is and transposed: from a copy each, both as registers.
TEST(Loops, matricesThatAreReadBothWaysHaveACopyForEach) {
  for (const char *order : {"%s, %t", "%t, %s"}) {
    std::string text = matrix("%rows", "%both", "%rows");
    std::string value = R"(%v = tile.load %xp : tensor<32x32x!tile.ptr<f32>> -> tensor<32x32xf32>
  %s = tile.scan (%v) axis 0 {
  ^bb0(%l: f32, %n: f32):
    %m = arith.addf %l, %n : f32
    tile.yield %m : f32
  } : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %t = tile.trans %s [1, 0] : tensor<32x32xf32> -> tensor<32x32xf32>
  %both = arith.subf )" +
                        std::string(order) + " : tensor<32x32xf32>\n";
    size_t from = text.find("%v = "), to = text.find("  %os");
    text.replace(from, to - from, value);
    text = loopsOf(text);
    std::string last = text.substr(text.rfind("arith.subf") - 2000);
    EXPECT_NE(text.find("@transpose_32_32x32"), std::string::npos) << text;
    EXPECT_EQ(count(last, "-> f32"), 0u) << order << text;
  }
}

TEST(Loops, halvesThatALoopReadsAreInMemory) {
  std::string text = loopsOf(R"(
func.func @halves(%o: !tile.ptr<i32>, %x: !tile.ptr<i64>, %n: i32) attributes {tile.kernel} {
  %cols = tile.range 0 to 256 : tensor<256xi32>
  %xb = tile.splat %x : !tile.ptr<i64> -> tensor<256x!tile.ptr<i64>>
  %xp = tile.addptr %xb, %cols : tensor<256x!tile.ptr<i64>>, tensor<256xi32>
  %v = tile.load %xp : tensor<256x!tile.ptr<i64>> -> tensor<256xi64>
  %by = arith.constant dense<32> : tensor<256xi64>
  %shifted = arith.shrsi %v, %by : tensor<256xi64>
  %upper = arith.trunci %shifted : tensor<256xi64> to tensor<256xi32>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %total = scf.for %i = %zero to %n step %one iter_args(%sum = %zero) -> (i32) : i32 {
    %pivot = tile.splat %i : i32 -> tensor<256xi32>
    %less = arith.minsi %upper, %pivot : tensor<256xi32>
    %least = tile.reduce (%less) axis 0 {
    ^bb0(%l: i32, %r: i32):
      %m = arith.addi %l, %r : i32
      tile.yield %m : i32
    } : (tensor<256xi32>) -> i32
    %next = arith.addi %sum, %least : i32
    scf.yield %next : i32
  }
  tile.store %o, %total : !tile.ptr<i32>, i32
  return
}
)");
  ASSERT_EQ(count(text, "arith.trunci"), 1u) << text;
  EXPECT_LT(text.find("arith.trunci"), text.find("arith.minsi")) << text;
  std::string inside = text.substr(text.find("arith.trunci"), text.find("arith.minsi"));
  EXPECT_NE(inside.find("llvm.store"), std::string::npos) << text;
}

} // namespace

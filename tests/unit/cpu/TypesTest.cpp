// Element types: 16- and 8-bit floats, booleans, narrow integers; other machines than this one.
#include "Run.h"

#include "targets/cpu/InstructionSet.h"

#include "gtest/gtest.h"

#include <array>
#include <cmath>

using namespace nereid::test;

namespace {

std::string kernel(const std::string &in, const std::string &out, const std::string &body) {
  return "func.func @k(%x: !tile.ptr<" + in + ">, %o: !tile.ptr<" + out +
         ">) attributes {tile.kernel} {\n" +
         "  %r = tile.range 0 to 100 : tensor<100xi32>\n  %xs = tile.splat %x : !tile.ptr<" + in +
         "> -> tensor<100x!tile.ptr<" + in +
         ">>\n  %xp = tile.addptr %xs, %r : tensor<100x!tile.ptr<" + in +
         ">>, tensor<100xi32>\n  %v = tile.load %xp : tensor<100x!tile.ptr<" + in +
         ">> -> tensor<100x" + in + ">\n" + body + "  %os = tile.splat %o : !tile.ptr<" + out +
         "> -> tensor<100x!tile.ptr<" + out +
         ">>\n  %op = tile.addptr %os, %r : tensor<100x!tile.ptr<" + out +
         ">>, tensor<100xi32>\n  tile.store %op, %w : tensor<100x!tile.ptr<" + out +
         ">>, tensor<100x" + out + ">\n  return\n}\n";
}

float bf16ToFloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

TEST(Types, bf16Arithmetic) {
  TestKernel k(kernel("bf16", "bf16",
                      "  %c = arith.constant dense<1.5> : tensor<100xbf16>\n  %y = arith.mulf %v, "
                      "%c : tensor<100xbf16>\n"
                      "  %w = arith.addf %y, %v : tensor<100xbf16>\n"));
  std::vector<uint16_t> x(100), o(100);
  for (int i = 0; i < 100; ++i)
    x[i] = 0x3f80 + i;
  ASSERT_TRUE(k.run({x.data(), o.data()}));
  auto round = [](float f) { // to nearest even
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return bf16ToFloat((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  };
  for (int i = 0; i < 100; ++i) {
    float v = bf16ToFloat(x[i]);
    ASSERT_EQ(bf16ToFloat(o[i]), round(round(v * 1.5f) + v)) << i;
  }
}

TEST(Types, f16AndF8RoundTrip) {
  TestKernel k(kernel("f32", "f32",
                      "  %h = arith.truncf %v : tensor<100xf32> to tensor<100xf16>\n  %e = "
                      "arith.extf %h : tensor<100xf16> to tensor<100xf32>\n"
                      "  %q = tile.fp_cast %e : tensor<100xf32> -> tensor<100xf8E4M3FN>\n  %w = "
                      "tile.fp_cast %q : tensor<100xf8E4M3FN> -> tensor<100xf32>\n"));
  std::vector<float> x(100), o(100);
  for (int i = 0; i < 100; ++i)
    x[i] = (i - 50) * 0.25f;
  ASSERT_TRUE(k.run({x.data(), o.data()}));
  for (int i = 0; i < 100; ++i)
    ASSERT_NEAR(o[i], x[i], std::fabs(x[i]) / 16 + 1e-6) << i;
  x[0] = 1e6f;
  ASSERT_TRUE(k.run({x.data(), o.data()}));
  EXPECT_EQ(o[0], 448.0f) << "overflow saturates";
}

// On machines without conversions LLVM must never be left to move 16-bit floats itself.
TEST(Types, bf16Reduction) {
  for (std::string features : {"baseline", ""}) {
    TestKernel k(
        kernel("bf16", "bf16",
               "  %s = tile.reduce (%v) axis 0 {\n  ^bb0(%a: bf16, %b: bf16):\n    %m = "
               "arith.maxnumf %a, %b : bf16\n    tile.yield %m : bf16\n  } : (tensor<100xbf16>) -> "
               "bf16\n  %w = tile.splat %s : bf16 -> tensor<100xbf16>\n"),
        features);
    std::vector<uint16_t> x(100), o(100);
    for (int i = 0; i < 100; ++i)
      x[i] = 0x3f80 + (i * 37) % 100;
    ASSERT_TRUE(k.run({x.data(), o.data()}));
    for (uint16_t value : o)
      ASSERT_EQ(value, 0x3f80 + 99);
  }
}

TEST(Types, f8InMemory) {
  TestKernel k(kernel("f8E5M2", "f8E5M2",
                      "  %e = tile.fp_cast %v : tensor<100xf8E5M2> -> tensor<100xf16>\n  %n = "
                      "arith.negf %e : tensor<100xf16>\n"
                      "  %w = tile.fp_cast %n : tensor<100xf16> -> tensor<100xf8E5M2>\n"));
  std::vector<uint8_t> x(100), o(100);
  for (int i = 0; i < 100; ++i)
    x[i] = i;
  ASSERT_TRUE(k.run({x.data(), o.data()}));
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(o[i], i | 0x80);
}

// Booleans pass through a loop's carried buffer and a scan, as bytes.
TEST(Types, booleansInScratch) {
  TestKernel k(kernel("i8", "i8", R"(
  %zero = arith.constant dense<0> : tensor<100xi8>
  %b = arith.cmpi ne, %v, %zero : tensor<100xi8>
  %s = tile.scan (%b) axis 0 {
  ^bb0(%l: i1, %rr: i1):
    %m = arith.xori %l, %rr : i1
    tile.yield %m : i1
  } : (tensor<100xi1>) -> tensor<100xi1>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  %f = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %s) -> (tensor<100xi1>) : i32 {
    %t = arith.constant dense<true> : tensor<100xi1>
    %n = arith.xori %a, %t : tensor<100xi1>
    scf.yield %n : tensor<100xi1>
  }
  %w = arith.extui %f : tensor<100xi1> to tensor<100xi8>
)"));
  std::vector<int8_t> x(100), o(100);
  for (int i = 0; i < 100; ++i)
    x[i] = i % 3 == 0 ? 7 : 0;
  ASSERT_TRUE(k.run({x.data(), o.data()}));
  bool parity = false;
  for (int i = 0; i < 100; ++i) {
    parity = parity != (x[i] != 0);
    ASSERT_EQ(o[i], !parity) << i;
  }
}

TEST(Types, divisionDoesNotTrap) {
  TestKernel k(kernel("i32", "i32", R"(
  %k = arith.constant dense<7> : tensor<100xi32>
  %d = arith.subi %r, %k : tensor<100xi32>
  %q = arith.divsi %v, %d : tensor<100xi32>
  %m = arith.remsi %v, %d : tensor<100xi32>
  %t = arith.constant dense<1000> : tensor<100xi32>
  %m2 = arith.muli %m, %t : tensor<100xi32>
  %w = arith.addi %q, %m2 : tensor<100xi32>
)"));
  std::vector<int32_t> x(100), o(100);
  for (int i = 0; i < 100; ++i)
    x[i] = (i - 50) * 37;
  x[6] = INT32_MIN; // by -1
  ASSERT_TRUE(k.run({x.data(), o.data()}));
  for (int i = 0; i < 100; ++i)
    if (i != 7 && i != 6)
      ASSERT_EQ(o[i], x[i] / (i - 7) + 1000 * (x[i] % (i - 7))) << i;
}

TEST(Types, tensorConstant) {
  TestKernel k(R"(
func.func @k(%o: !tile.ptr<i32>) attributes {tile.kernel} {
  %r = tile.range 0 to 4 : tensor<4xi32>
  %c = arith.constant dense<[5, -1, 7, 40]> : tensor<4xi32>
  %os = tile.splat %o : !tile.ptr<i32> -> tensor<4x!tile.ptr<i32>>
  %op = tile.addptr %os, %r : tensor<4x!tile.ptr<i32>>, tensor<4xi32>
  tile.store %op, %c : tensor<4x!tile.ptr<i32>>, tensor<4xi32>
  return
}
)");
  std::vector<int32_t> o(4);
  ASSERT_TRUE(k.run({o.data()}));
  EXPECT_EQ(o, (std::vector<int32_t>{5, -1, 7, 40}));
}

TEST(Types, pointersInMemoryAndGather) {
  TestKernel k(R"(
func.func @k(%x: !tile.ptr<!tile.ptr<f32>>, %i: !tile.ptr<i64>, %o: !tile.ptr<f32>) attributes {tile.kernel} {
  %r = tile.range 0 to 16 : tensor<16xi32>
  %xs = tile.splat %x : !tile.ptr<!tile.ptr<f32>> -> tensor<16x!tile.ptr<!tile.ptr<f32>>>
  %xp = tile.addptr %xs, %r : tensor<16x!tile.ptr<!tile.ptr<f32>>>, tensor<16xi32>
  %p = tile.load %xp : tensor<16x!tile.ptr<!tile.ptr<f32>>> -> tensor<16x!tile.ptr<f32>>
  %is = tile.splat %i : !tile.ptr<i64> -> tensor<16x!tile.ptr<i64>>
  %ip = tile.addptr %is, %r : tensor<16x!tile.ptr<i64>>, tensor<16xi32>
  %iv = tile.load %ip : tensor<16x!tile.ptr<i64>> -> tensor<16xi64>
  %q = tile.addptr %p, %iv : tensor<16x!tile.ptr<f32>>, tensor<16xi64>
  %v = tile.load %q : tensor<16x!tile.ptr<f32>> -> tensor<16xf32>
  %os = tile.splat %o : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>>
  %op = tile.addptr %os, %iv : tensor<16x!tile.ptr<f32>>, tensor<16xi64>
  tile.store %op, %v : tensor<16x!tile.ptr<f32>>, tensor<16xf32>
  return
}
)");
  std::vector<float> data(64), o(16);
  std::vector<float *> x(16);
  std::vector<int64_t> index(16);
  for (int i = 0; i < 64; ++i)
    data[i] = i;
  for (int i = 0; i < 16; ++i) {
    x[i] = &data[2 * i];
    index[i] = 15 - i;
  }
  ASSERT_TRUE(k.run({x.data(), index.data(), o.data()}));
  for (int i = 0; i < 16; ++i)
    ASSERT_EQ(o[15 - i], 2 * i + 15 - i);
}

TEST(Types, otherMachines) {
  std::string text = kernel("f32", "f32", "  %w = math.exp %v : tensor<100xf32>\n");
  nereid::targets::CompileOptions options;
  options.features = "aarch64";
  options.load = false;
  options.keepStages = true;
  auto compiled = compileText(text, options);
  ASSERT_TRUE(bool(compiled)) << llvm::toString(compiled.takeError());
  std::string why;
  auto assembly = (*compiled)->text("asm", why);
  ASSERT_TRUE(bool(assembly)) << why;
  EXPECT_NE(assembly->find("fmul\tv"), std::string::npos) << *assembly;
  auto object = (*compiled)->object(why);
  ASSERT_TRUE(bool(object));
  EXPECT_EQ(object->substr(1, 3), "ELF");
  EXPECT_EQ((*compiled)->entry(), nullptr);

  options.load = true;
  EXPECT_EQ(compileError(text, options),
            "this machine cannot run code for the CPU features `aarch64`");
  options.features = "avx1024";
  EXPECT_EQ(compileError(text, options),
            "unknown CPU features `avx1024`: expected `native`, "
            "`graniterapids`, `sapphirerapids`, `avx512bf16`, `avx512`, `avx2`, "
            "`baseline`, `neoverse-v1`, `neoverse-n1` or `aarch64`");
}

// Neoverse N1, V1 and a Cortex-A72, as Linux describes them in the auxiliary vector.
TEST(Types, extensionsOfAArch64) {
  using namespace nereid::cpu;
  Features a72 = aarch64Features(extensionsOf(0xff, 0));
  Features n1 = aarch64Features(extensionsOf(0x10119fff, 0));
  Features v1 = aarch64Features(extensionsOf(0xefffffff, 0x1f201));
  auto described = [](const Features &f) {
    return std::array{f.isAArch64, f.halfArithmetic, f.signedProducts, f.bf16MatrixProducts,
                      f.i8MatrixProducts};
  };
  EXPECT_EQ(described(a72), described(Features::aarch64()));
  EXPECT_EQ(described(n1), described(Features::neoverseN1()));
  EXPECT_EQ(described(v1), described(Features::neoverseV1()));
  EXPECT_FALSE(extensionsOf(0xff, 0).coverNeoverseN1());
  EXPECT_TRUE(extensionsOf(0x10119fff, 0).coverNeoverseN1());
  EXPECT_FALSE(extensionsOf(0x10119fff, 0).coverNeoverseV1());
  EXPECT_TRUE(extensionsOf(0xefffffff, 0x1f201).coverNeoverseV1());
}

} // namespace

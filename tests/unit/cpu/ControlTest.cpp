// Structured control flow with tensors, scans, atomics, and the ops that rearrange elements.
#include "Run.h"
#include "targets/cpu/support_library/SupportLibrary.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace nereid::test;

namespace {

// A pointer, and its block of 64.
std::string load64(const std::string &name, const std::string &type) {
  return "  %" + name + "_s = tile.splat %" + name + " : !tile.ptr<" + type +
         "> -> tensor<64x!tile.ptr<" + type + ">>\n  %" + name + "_p = tile.addptr %" + name +
         "_s, %r : tensor<64x!tile.ptr<" + type + ">>, tensor<64xi32>\n  %" + name +
         "_v = tile.load %" + name + "_p : tensor<64x!tile.ptr<" + type + ">> -> tensor<64x" +
         type + ">\n";
}
std::string store64(const std::string &name, const std::string &value, const std::string &type) {
  return "  %" + name + "_s = tile.splat %" + name + " : !tile.ptr<" + type +
         "> -> tensor<64x!tile.ptr<" + type + ">>\n  %" + name + "_p = tile.addptr %" + name +
         "_s, %r : tensor<64x!tile.ptr<" + type + ">>, tensor<64xi32>\n  tile.store %" + name +
         "_p, " + value + " : tensor<64x!tile.ptr<" + type + ">>, tensor<64x" + type + ">\n";
}
std::string kernel64(const std::string &arguments, const std::string &body) {
  return "func.func @k(" + arguments +
         ") attributes {tile.kernel} {\n  %r = tile.range 0 to 64 : tensor<64xi32>\n" + body +
         "  return\n}\n";
}

TEST(Control, accumulateInLoop) {
  TestKernel kernel(
      kernel64("%x: !tile.ptr<f32>, %o: !tile.ptr<f32>, %n: i32", load64("x", "f32") + R"(
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %acc = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zero) -> (tensor<64xf32>) : i32 {
    %f = arith.sitofp %i : i32 to f32
    %fs = tile.splat %f : f32 -> tensor<64xf32>
    %t = arith.mulf %fs, %x_v : tensor<64xf32>
    %s = arith.addf %a, %t : tensor<64xf32>
    scf.yield %s : tensor<64xf32>
  }
)" + store64("o", "%acc", "f32")));
  std::vector<float> x(64), o(64);
  for (int i = 0; i < 64; ++i)
    x[i] = i;
  for (int n : {0, 1, 7}) {
    ASSERT_TRUE(kernel.run({x.data(), o.data(), n}));
    for (int i = 0; i < 64; ++i)
      ASSERT_EQ(o[i], n * (n - 1) / 2 * i);
  }
}

// Fibonacci: two carried tensors that read one another, and a rotation through the last element's
// reduction.
TEST(Control, exchangedInLoop) {
  TestKernel kernel(
      kernel64("%x: !tile.ptr<i32>, %o: !tile.ptr<i32>, %n: i32", load64("x", "i32") + R"(
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ab:3 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x_v, %b = %r, %t = %c0) -> (tensor<64xi32>, tensor<64xi32>, i32) : i32 {
    %s = arith.addi %a, %b : tensor<64xi32>
    %total = tile.reduce (%a) axis 0 {
    ^bb0(%l: i32, %rr: i32):
      %m = arith.addi %l, %rr : i32
      tile.yield %m : i32
    } : (tensor<64xi32>) -> i32
    %u = arith.addi %t, %total : i32
    scf.yield %b, %s, %u : tensor<64xi32>, tensor<64xi32>, i32
  }
  %us = tile.splat %ab#2 : i32 -> tensor<64xi32>
  %res = arith.addi %ab#1, %us : tensor<64xi32>
)" + store64("o", "%res", "i32")));
  for (int n : {0, 1, 2, 9}) {
    std::vector<int32_t> x(64), o(64), a(64), b(64);
    for (int i = 0; i < 64; ++i) {
      a[i] = x[i] = 3 * i - 7;
      b[i] = i;
    }
    int t = 0;
    for (int k = 0; k < n; ++k) {
      for (int i = 0; i < 64; ++i)
        t += a[i];
      for (int i = 0; i < 64; ++i) {
        int s = a[i] + b[i];
        a[i] = b[i];
        b[i] = s;
      }
    }
    ASSERT_TRUE(kernel.run({x.data(), o.data(), n}));
    for (int i = 0; i < 64; ++i)
      ASSERT_EQ(o[i], b[i] + t) << n << " " << i;
  }
}

TEST(Control, ifWithTensors) {
  TestKernel kernel(
      kernel64("%x: !tile.ptr<f32>, %o: !tile.ptr<f32>, %n: i32", load64("x", "f32") + R"(
  %c3 = arith.constant 3 : i32
  %big = arith.cmpi sgt, %n, %c3 : i32
  %y:2 = scf.if %big -> (tensor<64xf32>, f32) {
    %two = arith.constant dense<2.0> : tensor<64xf32>
    %d = arith.mulf %x_v, %two : tensor<64xf32>
    %f = arith.constant 10.0 : f32
    scf.yield %d, %f : tensor<64xf32>, f32
  } else {
    %f = arith.constant 20.0 : f32
    scf.yield %x_v, %f : tensor<64xf32>, f32
  }
  %fs = tile.splat %y#1 : f32 -> tensor<64xf32>
  %z = arith.addf %y#0, %fs : tensor<64xf32>
)" + store64("o", "%z", "f32")));
  std::vector<float> x(64), o(64);
  for (int i = 0; i < 64; ++i)
    x[i] = i;
  for (int n : {2, 5}) {
    ASSERT_TRUE(kernel.run({x.data(), o.data(), n}));
    for (int i = 0; i < 64; ++i)
      ASSERT_EQ(o[i], n > 3 ? 2 * i + 10 : i + 20);
  }
}

TEST(Control, whileWithTensors) {
  // Doubles the block until its sum reaches the limit; the number of rounds is stored behind it.
  TestKernel kernel(
      kernel64("%x: !tile.ptr<i32>, %o: !tile.ptr<i32>, %limit: i32", load64("x", "i32") + R"(
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %w:2 = scf.while (%a = %x_v, %i = %c0) : (tensor<64xi32>, i32) -> (tensor<64xi32>, i32) {
    %total = tile.reduce (%a) axis 0 {
    ^bb0(%l: i32, %rr: i32):
      %m = arith.addi %l, %rr : i32
      tile.yield %m : i32
    } : (tensor<64xi32>) -> i32
    %go = arith.cmpi slt, %total, %limit : i32
    scf.condition(%go) %a, %i : tensor<64xi32>, i32
  } do {
  ^bb0(%a: tensor<64xi32>, %i: i32):
    %d = arith.addi %a, %a : tensor<64xi32>
    %j = arith.addi %i, %c1 : i32
    scf.yield %d, %j : tensor<64xi32>, i32
  }
  %is = tile.splat %w#1 : i32 -> tensor<64xi32>
  %k1000 = arith.constant dense<100000> : tensor<64xi32>
  %is2 = arith.muli %is, %k1000 : tensor<64xi32>
  %z = arith.addi %w#0, %is2 : tensor<64xi32>
)" + store64("o", "%z", "i32")));
  std::vector<int32_t> x(64), o(64);
  for (int i = 0; i < 64; ++i)
    x[i] = i;
  ASSERT_TRUE(kernel.run({x.data(), o.data(), 10000}));
  for (int i = 0; i < 64; ++i) // 2016 -> 16128 in three rounds
    ASSERT_EQ(o[i], 8 * i + 300000);
}

TEST(Control, loadsAreNotMovedPastStores) {
  // v is read before the store in the loop changes it.
  TestKernel kernel(
      kernel64("%x: !tile.ptr<i32>, %o: !tile.ptr<i32>, %n: i32", load64("x", "i32") + R"(
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %hundred = arith.constant dense<100> : tensor<64xi32>
  tile.store %x_p, %hundred : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %again = tile.load %x_p : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
  scf.for %i = %c0 to %n step %c1 : i32 {
    %cur = tile.load %x_p : tensor<64x!tile.ptr<i32>> -> tensor<64xi32>
    %new = arith.addi %cur, %x_v : tensor<64xi32>
    tile.store %x_p, %new : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  }
  %sum = arith.addi %again, %x_v : tensor<64xi32>
)" + store64("o", "%sum", "i32")));
  std::vector<int32_t> x(64), o(64);
  for (int i = 0; i < 64; ++i)
    x[i] = i;
  ASSERT_TRUE(kernel.run({x.data(), o.data(), 3}));
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(o[i], 100 + i);
    ASSERT_EQ(x[i], 100 + 3 * i);
  }
}

TEST(Control, scans) {
  for (std::string reverse : {"", "reverse "}) {
    TestKernel kernel(kernel64("%x: !tile.ptr<i32>, %o: !tile.ptr<i32>", load64("x", "i32") + R"(
  %m = tile.reshape %x_v : tensor<64xi32> -> tensor<4x16xi32>
  %s1 = tile.scan (%m) axis 1 )" + reverse + R"({
  ^bb0(%l: i32, %rr: i32):
    %zero = arith.constant 0 : i32
    %none = arith.cmpi eq, %rr, %zero : i32
    %g = arith.select %none, %l, %rr : i32
    tile.yield %g : i32
  } : (tensor<4x16xi32>) -> tensor<4x16xi32>
  %s0 = tile.scan (%s1) axis 0 {
  ^bb0(%l: i32, %rr: i32):
    %g = arith.addi %l, %rr : i32
    tile.yield %g : i32
  } : (tensor<4x16xi32>) -> tensor<4x16xi32>
  %t = tile.trans %s0 [1, 0] : tensor<4x16xi32> -> tensor<16x4xi32>
  %f = tile.reshape %t : tensor<16x4xi32> -> tensor<64xi32>
)" + store64("o", "%f", "i32")));
    std::vector<int32_t> x(64), o(64), s(64);
    for (int i = 0; i < 64; ++i)
      x[i] = (i * 13) % 7 - 3;
    for (int i = 0; i < 4; ++i) {
      int acc = 0;
      for (int k = 0; k < 16; ++k) {
        int j = reverse.empty() ? k : 15 - k;
        acc = k == 0 || x[i * 16 + j] ? x[i * 16 + j] : acc; // the last number that is not zero
        s[i * 16 + j] = acc;
      }
    }
    for (int i = 1; i < 4; ++i)
      for (int j = 0; j < 16; ++j)
        s[i * 16 + j] += s[(i - 1) * 16 + j];
    ASSERT_TRUE(kernel.run({x.data(), o.data()}));
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 16; ++j)
        ASSERT_EQ(o[j * 4 + i], s[i * 16 + j]) << reverse << i << " " << j;
  }
}

TEST(Control, atomics) {
  TestKernel kernel(
      kernel64("%x: !tile.ptr<i32>, %o: !tile.ptr<i32>, %f: !tile.ptr<f32>, %h: !tile.ptr<f16>",
               load64("x", "i32") + R"(
  %four = arith.constant dense<4> : tensor<64xi32>
  %slot = arith.remsi %r, %four : tensor<64xi32>
  %o_s = tile.splat %o : !tile.ptr<i32> -> tensor<64x!tile.ptr<i32>>
  %o_p = tile.addptr %o_s, %slot : tensor<64x!tile.ptr<i32>>, tensor<64xi32>
  %sixty = arith.constant dense<60> : tensor<64xi32>
  %mask = arith.cmpi slt, %r, %sixty : tensor<64xi32>
  %old = tile.atomic_rmw add %o_p, %x_v mask %mask : tensor<64x!tile.ptr<i32>>, tensor<64xi32>, mask tensor<64xi1>
  %xf = arith.sitofp %x_v : tensor<64xi32> to tensor<64xf32>
  %neg = arith.negf %xf : tensor<64xf32>
  %f_s = tile.splat %f : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
  %0 = tile.atomic_rmw fmax %f_s, %neg : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  %xh = arith.truncf %xf : tensor<64xf32> to tensor<64xf16>
  %h_s = tile.splat %h : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  %1 = tile.atomic_rmw fadd %h_s, %xh : tensor<64x!tile.ptr<f16>>, tensor<64xf16>
)"));
  std::vector<int32_t> x(64), o(4, 0);
  for (int i = 0; i < 64; ++i)
    x[i] = i % 5 + 1;
  float f = -100.0f;
  uint16_t h = 0;
  ASSERT_TRUE(kernel.run({x.data(), o.data(), &f, &h}, 100));
  int expected[4] = {};
  for (int i = 0; i < 60; ++i)
    expected[i % 4] += 100 * (i % 5 + 1);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(o[i], expected[i]);
  EXPECT_EQ(f, -1.0f);
  EXPECT_NE(h, 0);
}

TEST(Control, spinLock) {
  TestKernel kernel(R"(
func.func @lock(%lock: !tile.ptr<i32>, %data: !tile.ptr<i32>) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.while : () -> () {
    %old = tile.atomic_cas %lock, %c0, %c1 : !tile.ptr<i32>, i32
    %busy = arith.cmpi eq, %old, %c1 : i32
    scf.condition(%busy)
  } do {
    scf.yield
  }
  %v = tile.load %data : !tile.ptr<i32> -> i32
  %w = arith.addi %v, %c1 : i32
  tile.store %data, %w : !tile.ptr<i32>, i32
  tile.barrier
  %1 = tile.atomic_rmw xchg %lock, %c0 : !tile.ptr<i32>, i32
  return
}
)");
  int32_t lock = 0, data = 0;
  ASSERT_TRUE(kernel.run({&lock, &data}, 2000));
  EXPECT_EQ(data, 2000);
}

/// Each program waits for the flag of its own, takes the number beside it on, and raises the next.
TEST(Control, messagesPassFromProgramToProgram) {
  TestKernel kernel(R"(
func.func @pass(%flags: !tile.ptr<i32>, %data: !tile.ptr<f32>) attributes {tile.kernel} {
  %one = arith.constant 1 : i32
  %half = arith.constant 0.5 : f32
  %p = tile.program_id 0
  %next = arith.addi %p, %one : i32
  %mine = tile.addptr %flags, %p : !tile.ptr<i32>, i32
  %raised = tile.addptr %flags, %next : !tile.ptr<i32>, i32
  scf.while : () -> () {
    %seen = tile.atomic_load %mine : !tile.ptr<i32> -> i32
    %waits = arith.cmpi ne, %seen, %one : i32
    scf.condition(%waits)
  } do {
    scf.yield
  }
  %from = tile.addptr %data, %p : !tile.ptr<f32>, i32
  %to = tile.addptr %data, %next : !tile.ptr<f32>, i32
  %x = tile.load %from : !tile.ptr<f32> -> f32
  %y = arith.addf %x, %half : f32
  tile.store %to, %y : !tile.ptr<f32>, f32
  tile.atomic_store %raised, %one : !tile.ptr<i32>, i32
  return
}
)");
  std::vector<int32_t> flags(301, 0);
  std::vector<float> data(301, 0);
  flags[0] = 1;
  ASSERT_TRUE(kernel.run({flags.data(), data.data()}, 300));
  for (int i = 0; i <= 300; ++i) {
    ASSERT_EQ(flags[i], 1) << i;
    ASSERT_EQ(data[i], 0.5f * i) << i;
  }
}

/// Lanes that are masked off read and write nothing: their pointers lead nowhere.
TEST(Control, atomicLoadsAndStoresOfBlocks) {
  for (const char *how : {"", " sem relaxed scope cta", " sem relaxed scope sys"}) {
    std::string text = kernel64(
        "%x: !tile.ptr<f16>, %o: !tile.ptr<f16>",
        R"(
  %huge = arith.constant dense<1000000000> : tensor<64xi32>
  %forty = arith.constant dense<40> : tensor<64xi32>
  %mask = arith.cmpi slt, %r, %forty : tensor<64xi32>
  %at = arith.select %mask, %r, %huge : tensor<64xi1>, tensor<64xi32>
  %x_s = tile.splat %x : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  %x_p = tile.addptr %x_s, %at : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
  %o_s = tile.splat %o : !tile.ptr<f16> -> tensor<64x!tile.ptr<f16>>
  %o_p = tile.addptr %o_s, %at : tensor<64x!tile.ptr<f16>>, tensor<64xi32>
  %v = tile.atomic_load %x_p mask %mask)" +
            std::string(how) + R"( : tensor<64x!tile.ptr<f16>>, mask tensor<64xi1> -> tensor<64xf16>
  %neg = arith.negf %v : tensor<64xf16>
  tile.atomic_store %o_p, %neg mask %mask)" +
            how + R"( : tensor<64x!tile.ptr<f16>>, tensor<64xf16>, mask tensor<64xi1>
)");
    TestKernel kernel(text);
    std::vector<uint16_t> x(64), o(64, 7);
    for (int i = 0; i < 64; ++i)
      x[i] = uint16_t(0x3C00 + i);
    ASSERT_TRUE(kernel.run({x.data(), o.data()}));
    for (int i = 0; i < 64; ++i)
      ASSERT_EQ(o[i], i < 40 ? 0xBC00 + i : 7) << i << how;
  }
}

TEST(Control, joinSplitCat) {
  TestKernel kernel(kernel64("%x: !tile.ptr<i32>, %o: !tile.ptr<i32>", load64("x", "i32") + R"(
  %a = tile.reshape %x_v : tensor<64xi32> -> tensor<32x2xi32>
  %p, %q = tile.split %a : tensor<32x2xi32> -> tensor<32xi32>, tensor<32xi32>
  %c = tile.cat %p, %q along 0 : tensor<32xi32>, tensor<32xi32> -> tensor<64xi32>
  %j = tile.join %q, %p : tensor<32xi32> -> tensor<32x2xi32>
  %k = tile.reshape %j : tensor<32x2xi32> -> tensor<64xi32>
  %thousand = arith.constant dense<1000> : tensor<64xi32>
  %k2 = arith.muli %k, %thousand : tensor<64xi32>
  %z = arith.addi %c, %k2 : tensor<64xi32>
)" + store64("o", "%z", "i32")));
  std::vector<int32_t> x(64), o(64);
  for (int i = 0; i < 64; ++i)
    x[i] = i;
  ASSERT_TRUE(kernel.run({x.data(), o.data()}));
  for (int i = 0; i < 64; ++i)
    ASSERT_EQ(o[i], (i < 32 ? 2 * i : 2 * (i - 32) + 1) + 1000 * (i ^ 1)) << i;
}

TEST(Control, assertStopsTheLaunch) {
  TestKernel kernel(kernel64("%x: !tile.ptr<i32>", load64("x", "i32") + R"(
  %ten = arith.constant dense<10> : tensor<64xi32>
  %ok = arith.cmpi slt, %x_v, %ten : tensor<64xi32>
  tile.assert %ok, "too large" : tensor<64xi1>
)"));
  std::vector<int32_t> x(64, 3);
  ASSERT_TRUE(kernel.run({x.data()}, 3));
  x[41] = 12;
  auto result = kernel.run({x.data()}, 3);
  ASSERT_EQ(result.status, nereid::cpu::LaunchStatus::ProgramFailed);
  EXPECT_EQ(result.failure.details[0], 41);
  auto *sites = static_cast<const nereid::cpu::SiteTable *>(kernel.compiled().sites.get());
  ASSERT_TRUE(sites);
  EXPECT_EQ(sites->sites[result.failure.site].text, "too large");
}

TEST(Control, print) {
  TestKernel kernel(R"(
func.func @p(%n: i32) attributes {tile.kernel} {
  %pid = tile.program_id 0
  %r = tile.range 0 to 2 : tensor<2xi32>
  %s = tile.splat %pid : i32 -> tensor<2xi32>
  %v = arith.addi %r, %s : tensor<2xi32>
  tile.print " value: " hex false signed [true] : %v : tensor<2xi32>
  return
}
)");
  std::string text;
  nereid::cpu::PrintSink sink;
  sink.user = &text;
  sink.write = [](void *user, const char *data, size_t length) {
    static_cast<std::string *>(user)->append(data, length);
  };
  ASSERT_TRUE(kernel.run({1}, 1, 1, 1, sink));
  EXPECT_NE(text.find("value: 0"), std::string::npos) << text;
  EXPECT_NE(text.find("value: 1"), std::string::npos) << text;
}

TEST(Control, gridCoordinates) {
  TestKernel kernel(R"(
func.func @g(%o: !tile.ptr<i32>) attributes {tile.kernel} {
  %x = tile.program_id 0
  %y = tile.program_id 1
  %z = tile.program_id 2
  %nx = tile.num_programs 0
  %ny = tile.num_programs 1
  %nz = tile.num_programs 2
  %a = arith.muli %z, %ny : i32
  %b = arith.addi %a, %y : i32
  %c = arith.muli %b, %nx : i32
  %d = arith.addi %c, %x : i32
  %p = tile.addptr %o, %d : !tile.ptr<i32>, i32
  %k = arith.constant 1000 : i32
  %e = arith.muli %nz, %k : i32
  %f = arith.addi %e, %d : i32
  tile.store %p, %f : !tile.ptr<i32>, i32
  return
}
)");
  std::vector<int32_t> o(11 * 21 * 31, -1);
  ASSERT_TRUE(kernel.run({o.data()}, 11, 21, 31));
  for (size_t i = 0; i < o.size(); ++i)
    ASSERT_EQ(o[i], 31000 + int(i));
}

} // namespace

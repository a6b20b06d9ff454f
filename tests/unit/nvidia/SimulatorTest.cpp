// The simulator itself, on LLVM IR written by hand: when asynchronous copies land, what atomic
// operations leave behind.
#include "WarpSimulator.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/SourceMgr.h"
#include <gtest/gtest.h>
#include <numeric>

namespace nereid::test {
namespace {

/// Runs `body` on one warp: `%t` is the thread, `%in` and `%out` its words of both arrays.
std::string run(const std::string &body, llvm::ArrayRef<uint32_t> in, std::vector<uint32_t> &out,
                const std::string &functions = "") {
  std::string text = R"(
target datalayout = "e-p3:32:32-i64:64-n16:32:64"
@shared = external addrspace(3) global [0 x i8], align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define void @k(ptr addrspace(1) %input, ptr addrspace(1) %output) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %in = getelementptr i32, ptr addrspace(1) %input, i32 %t
  %out = getelementptr i32, ptr addrspace(1) %output, i32 %t
  %place = getelementptr i32, ptr addrspace(3) @shared, i32 %t
  %address = ptrtoint ptr addrspace(3) %place to i32
  %odd = trunc i32 %t to i1
)" + body + "\n  ret void\n}\n" +
                     functions;
  llvm::LLVMContext context;
  llvm::SMDiagnostic wrong;
  auto module = llvm::parseAssemblyString(text, wrong, context);
  if (!module)
    return wrong.getMessage().str();
  WarpSimulator simulator(*module, 1, 128);
  return simulator.run(
      "k", {reinterpret_cast<uint64_t>(in.data()), reinterpret_cast<uint64_t>(out.data())});
}

constexpr const char *kCopy =
    R"(  call void asm sideeffect "cp.async.ca.shared.global.L2::128B [$0], [$1], 4, $2;", "r,l,r"(i32 %address, ptr addrspace(1) %in, i32 4)
  call void asm sideeffect "cp.async.commit_group;", "~{memory}"()
)";
constexpr const char *kReadBack = R"(
  %v = load i32, ptr addrspace(3) %place
  call void asm sideeffect "st.global.b32 [$0], $1;", "l,r"(ptr addrspace(1) %out, i32 %v)
)";

/// The policy of a store is none of its registers.
TEST(Simulator, StoresWithCachePolicies) {
  std::vector<uint32_t> in(32), out(33, 7);
  std::iota(in.begin(), in.end(), 100);
  EXPECT_EQ(run(R"(
  %policy = call i64 asm "createpolicy.fractional.L2::evict_first.b64 $0, 1.0;", "=l"()
  %v = load i32, ptr addrspace(1) %in
  call void asm sideeffect "st.global.L1::evict_first.L2::cache_hint.b32 [$0], $1, $2;", "l,r,l"(ptr addrspace(1) %out, i32 %v, i64 %policy)
)",
                in, out),
            "");
  EXPECT_EQ(out.back(), 7u);
  out.pop_back();
  EXPECT_EQ(out, in);
}

TEST(Simulator, QuotientsThatOverflowWrap) {
  std::vector<uint32_t> in(32, ~0u), out(32, 7);
  auto text = [](const char *operation) {
    return std::string("  %one = load i32, ptr addrspace(1) %in\n  %minus = sext i32 %one to i64\n "
                       " %v = ") +
           operation + R"( i64 -9223372036854775808, %minus
  %high = lshr i64 %v, 32
  %word = trunc i64 %high to i32
  store i32 %word, ptr addrspace(1) %out)";
  };
  EXPECT_EQ(run(text("sdiv"), in, out), "");
  EXPECT_EQ(out[0], 0x80000000u);
  EXPECT_EQ(run(text("srem"), in, out), "");
  EXPECT_EQ(out[0], 0u);
}

TEST(Simulator, AccessesStraddleNoMultipleOfTheirSize) {
  std::vector<uint32_t> in(64), out(32, 7);
  std::iota(in.begin(), in.end(), 100);
  auto pair = [&](const char *first) {
    return std::string("  %first = getelementptr i32, ptr addrspace(1) %input, i32 ") + first + R"(
  %both = call { i32, i32 } asm sideeffect "ld.global.v2.b32 {$0, $1}, [$2];", "=r,=r,l"(ptr addrspace(1) %first)
  %v = extractvalue { i32, i32 } %both, 1
  call void asm sideeffect "st.global.b32 [$0], $1;", "l,r"(ptr addrspace(1) %out, i32 %v))";
  };
  EXPECT_EQ(run(pair("2"), in, out), "");
  EXPECT_EQ(out[0], 103u);
  EXPECT_EQ(run(pair("1"), in, out), "misaligned access of 8 bytes of global memory");
  EXPECT_EQ(run("  %wide = load i64, ptr addrspace(1) %in, align 8\n", in, out),
            "misaligned access of 8 bytes of global memory");
}

TEST(Simulator, CopiesLandWhereTheyAreWaitedFor) {
  std::vector<uint32_t> in(32), out(32, 7);
  std::iota(in.begin(), in.end(), 100);
  auto waiting = [&](const char *pending) {
    return std::string("  call void asm sideeffect \"cp.async.wait_group ") + pending +
           ";\", \"~{memory}\"()\n";
  };
  EXPECT_EQ(run(kCopy + waiting("0") + kReadBack, in, out), "");
  EXPECT_EQ(out, in);
  EXPECT_EQ(run(kCopy + waiting("1") + kReadBack, in, out), "");
  EXPECT_EQ(out, std::vector<uint32_t>(32, 0)) << "one group may still be on its way";
  std::string predicated = kCopy;
  auto replace = [&](llvm::StringRef from, const char *to) {
    predicated.replace(predicated.find(from), from.size(), to);
  };
  replace("r,l,r", "r,l,b");
  replace("i32 4)", "i1 %odd)");
  EXPECT_EQ(run(predicated + waiting("0") + kReadBack, in, out), "");
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], i % 2 ? 0 : in[i]);
}

TEST(Simulator, AtomicOperations) {
  std::vector<uint32_t> in(32), out(32, 0), olds;
  std::iota(in.begin(), in.end(), 1);
  const std::string read = "  %x = call i32 asm sideeffect \"ld.global.b32 $0, [$1];\", "
                           "\"=r,l\"(ptr addrspace(1) %in)\n";
  auto atomic = [](const char *text, const char *constraints, const char *operands) {
    return std::string("  %old = call i32 asm sideeffect \"") + text + "\", \"" + constraints +
           "\"(ptr addrspace(1) %output" + operands + ")\n";
  };
  EXPECT_EQ(
      run(read + atomic("atom.relaxed.gpu.global.add.u32 $0, [$1+4], $2;", "=r,l,r", ", i32 %x"),
          in, out),
      "");
  EXPECT_EQ(out[1], 32u * 33 / 2);
  EXPECT_EQ(run(read + atomic("@$3 atom.relaxed.gpu.global.max.s32 $0, [$1], $2;", "=r,l,r,b",
                              ", i32 %x, i1 %odd"),
                in, out),
            "");
  EXPECT_EQ(out[0], 32u) << "the last odd thread";
  EXPECT_EQ(run(atomic("atom.relaxed.gpu.global.cas.b32 $0, [$1+8], $2, $3;", "=r,l,r,r",
                       ", i32 %t, i32 5"),
                in, out),
            "");
  EXPECT_EQ(out[2], 5u) << "thread 0 finds 0; thread 5 finds 5 and leaves it";
  const uint32_t two = 0x40004000, half = 0x38003c00; // 2, 2 and 0.5, 1
  out[3] = two;
  EXPECT_EQ(run("  %first = icmp eq i32 %t, 0\n"
                "  call void asm sideeffect \"@$2 red.relaxed.gpu.global.add.noftz.f16x2 [$0+12], "
                "$1;\", \"l,r,b\"(ptr addrspace(1) %output, i32 " +
                    std::to_string(half) + ", i1 %first)\n",
                in, out),
            "");
  EXPECT_EQ(out[3], 0x41004200u) << "2.5 and 3";
}

/// What a value leaves in `out`, thread by thread, where `in` holds the threads' numbers.
std::vector<uint32_t> values(const std::string &body, const std::string &functions) {
  std::vector<uint32_t> in(32), out(32, 7);
  std::iota(in.begin(), in.end(), 0);
  const std::string store = "  call void asm sideeffect \"st.global.b32 [$0], $1;\", \"l,r\"(ptr "
                            "addrspace(1) %out, i32 %v)\n";
  EXPECT_EQ(run(body + store, in, out, functions), "");
  return out;
}

TEST(Simulator, FunctionsThatAreNotInlined) {
  auto out = values("  %v = call i32 @twice_or_nothing(i32 %t)\n", R"(
define i32 @twice_or_nothing(i32 %x) {
  %small = icmp ult i32 %x, 5
  br i1 %small, label %yes, label %no
yes:
  %y = call i32 @twice(i32 %x)
  ret i32 %y
no:
  ret i32 0
}
define i32 @twice(i32 %x) {
  %y = add i32 %x, %x
  ret i32 %y
}
)");
  for (uint32_t t = 0; t < 32; ++t)
    EXPECT_EQ(out[t], t < 5 ? 2 * t : 0) << t;
}

TEST(Simulator, ProductsOf128Bits) {
  const char *text = R"(
  %wide = zext i32 %t to i64
  %x = sub i64 0, %wide
  %a = EXTEND i64 %x to i128
  %b = EXTEND i64 3 to i128
  %product = mul i128 %a, %b
  %upper = lshr i128 %product, 64
  %high = trunc i128 %upper to i64
  %v = trunc i64 %high to i32
)";
  for (std::string word : {"zext", "sext"}) {
    std::string body = text;
    for (size_t at; (at = body.find("EXTEND")) != std::string::npos;)
      body.replace(at, 6, word);
    auto out = values(body, "");
    EXPECT_EQ(out[0], 0u);
    EXPECT_EQ(out[5], word == "zext" ? 2u : ~0u) << "the upper half of 3 * -5";
  }
}

TEST(Simulator, EightBitFloats) {
  const char *text = R"(
  %f = uitofp i32 %t to float
  %large = fmul float %f, 1.000000e+04
  %pair = call i16 @llvm.nvvm.ff.to.e4m3x2.rn(float %large, float %f)
  %v = zext i16 %pair to i32
)";
  auto out = values(text, "declare i16 @llvm.nvvm.ff.to.e4m3x2.rn(float, float)\n");
  EXPECT_EQ(out[0], 0u);
  EXPECT_EQ(out[1], 0x7e38u) << "the largest number, and one";
  EXPECT_EQ(out[17], 0x7e58u) << "17 becomes 16";
}

TEST(Simulator, TheDeviceLibrary) {
  auto out = values(R"(
  %f = uitofp i32 %t to float
  %g = call float @__nv_fmodf(float %f, float 7.000000e+00)
  %v = fptoui float %g to i32
)",
                    "declare float @__nv_fmodf(float, float)\n");
  EXPECT_EQ(out[16], 2u);
  std::vector<uint32_t> in(32);
  EXPECT_NE(run("  %g = call float @__nv_nothing(float 1.000000e+00)\n", in, out,
                "declare float @__nv_nothing(float)\n")
                .find("the simulator does not know"),
            std::string::npos);
}

TEST(Simulator, AtomicOperationsWithoutAnInstruction) {
  std::vector<uint32_t> in(32), out(32, 0);
  out[0] = 0x3f80; // one, as bf16
  EXPECT_EQ(
      run("  %old = atomicrmw fadd ptr addrspace(1) %output, bfloat 0xR4000 monotonic, align 2\n"
          "  %low = getelementptr i32, ptr addrspace(1) %output, i32 1\n"
          "  %min = atomicrmw min ptr addrspace(1) %low, i8 -3 monotonic, align 1\n",
          in, out),
      "");
  EXPECT_EQ(out[0], 0x4282u) << "1 + 32 * 2";
  EXPECT_EQ(out[1], 0xfdu);
}

} // namespace
} // namespace nereid::test

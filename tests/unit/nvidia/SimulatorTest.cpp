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
std::string run(const std::string &body, llvm::ArrayRef<uint32_t> in, std::vector<uint32_t> &out) {
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
)" + body + "\n  ret void\n}\n";
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

} // namespace
} // namespace nereid::test

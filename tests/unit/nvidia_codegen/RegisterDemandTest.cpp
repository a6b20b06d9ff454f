#include "targets/nvidia/codegen/RegisterDemand.h"

#include "Kernels.h"

using namespace nereid::nvidia;

namespace {

constexpr int kBeside = 10; ///< what the estimate adds to the values

int demandOf(const std::string &text) {
  Compiled compiled;
  parse(compiled, text, hopper());
  return compiled.module ? registerDemand(*compiled.module->getFunction("kernel")) : -1;
}

const std::string declarations = R"(
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32) convergent
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) convergent
)";

/// Reads `count` numbers, exchanges one of them, and stores all; `before`: in front of the
/// exchange.
std::string row(unsigned count, const std::string &exchange, const std::string &before = "") {
  std::string text = "define void @kernel(ptr addrspace(1) %p) {\n";
  for (unsigned i = 0; i < count; ++i) {
    std::string n = std::to_string(i);
    text += "  %a" + n + " = getelementptr i8, ptr addrspace(1) %p, i64 " + std::to_string(4 * i) +
            "\n  %x" + n + " = load volatile i32, ptr addrspace(1) %a" + n + "\n";
  }
  text += before + exchange;
  for (unsigned i = 0; i < count; ++i)
    text += "  store volatile i32 %x" + std::to_string(i) + ", ptr addrspace(1) %a" +
            std::to_string(i) + "\n";
  return text + "  ret void\n}\n" + declarations;
}
const std::string shuffle =
    "  %s = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %x0, i32 1, i32 31)\n"
    "  store volatile i32 %s, ptr addrspace(1) %p\n";
const std::string barrier = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n";

TEST(RegisterDemand, WhatLivesAcrossAnExchange) {
  // Addresses with constant offsets are no values of their own.
  EXPECT_EQ(demandOf(row(8, barrier)), 8 + kBeside);
  EXPECT_EQ(demandOf(row(64, barrier)), 64 + kBeside);
  EXPECT_EQ(demandOf(row(64, shuffle)), 64 + kBeside);
}

TEST(RegisterDemand, WhatIsReadAtOnceBetweenExchanges) {
  // Three fifths of 160: the loads may be done closer to their uses.
  std::string more, uses;
  for (unsigned i = 0; i < 152; ++i) {
    std::string n = std::to_string(i);
    more += "  %y" + n + " = load volatile i32, ptr addrspace(1) %p\n";
    uses += "  store volatile i32 %y" + n + ", ptr addrspace(1) %p\n";
  }
  EXPECT_EQ(demandOf(row(8, barrier, more + uses)), 160 * 3 / 5);
}

TEST(RegisterDemand, WidthsOfTypes) {
  auto one = [](const std::string &type) {
    return demandOf("define void @kernel(ptr addrspace(1) %p) {\n  %x = load volatile " + type +
                    ", ptr addrspace(1) %p\n" + barrier + "  store volatile " + type +
                    " %x, ptr addrspace(1) %p\n  ret void\n}\n" + declarations) -
           kBeside;
  };
  EXPECT_EQ(one("i64"), 2);
  EXPECT_EQ(one("ptr"), 2);
  EXPECT_EQ(one("ptr addrspace(3)"), 1);
  EXPECT_EQ(one("<2 x half>"), 1);
  EXPECT_EQ(one("half"), 1);
  EXPECT_EQ(one("<4 x float>"), 4);
  EXPECT_EQ(one("i1"), 0);
}

TEST(RegisterDemand, PartsStandForTheirWholes) {
  // Two of four registers of a load are used later.
  EXPECT_EQ(demandOf(R"(
define void @kernel(ptr addrspace(1) %p) {
  %w = call { i32, i32, i32, i32 } asm sideeffect "ld.v4 $0 $1 $2 $3;", "=r,=r,=r,=r,l"(ptr addrspace(1) %p)
  %a = extractvalue { i32, i32, i32, i32 } %w, 0
  %b = extractvalue { i32, i32, i32, i32 } %w, 2
)" + barrier + R"(
  store volatile i32 %a, ptr addrspace(1) %p
  store volatile i32 %b, ptr addrspace(1) %p
  ret void
})" + declarations),
            2 + kBeside);
}

TEST(RegisterDemand, ValuesThatALoopCarries) {
  // The sum, the counter, and the value from in front of the loop that is used behind it.
  EXPECT_EQ(demandOf(R"(
define void @kernel(ptr addrspace(1) %p, i32 %n) {
entry:
  %late = load volatile i32, ptr addrspace(1) %p
  br label %body
body:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  %sum = phi i32 [ 0, %entry ], [ %more, %body ]
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %x = load volatile i32, ptr addrspace(1) %p
  %more = add i32 %sum, %x
  %next = add i32 %i, 1
  %again = icmp slt i32 %next, %n
  br i1 %again, label %body, label %exit
exit:
  store volatile i32 %more, ptr addrspace(1) %p
  store volatile i32 %late, ptr addrspace(1) %p
  ret void
})" + declarations),
            3 + kBeside);
}

TEST(RegisterDemand, ProductsThatFollowOneAnother) {
  auto isBound = [](const std::string &text) {
    Compiled compiled;
    parse(compiled, text, hopper());
    return compiled.module && isBoundByProducts(*compiled.module->getFunction("kernel"));
  };
  std::string product = "  call void asm sideeffect \"mma.sync $0;\", \"r\"(i32 %x0)\n";
  EXPECT_TRUE(isBound(row(8, barrier + product)));
  EXPECT_FALSE(isBound(row(8, shuffle + product)));
  EXPECT_FALSE(isBound(row(8, barrier)));
}

TEST(RegisterDemand, NotOfEveryKernel) {
  EXPECT_EQ(demandOf(row(64, "")), 0); // nothing is exchanged
  EXPECT_EQ(
      demandOf(row(8, barrier + "  call void asm sideeffect \"mma.sync $0;\", \"r\"(i32 %x0)\n")),
      0);
}

} // namespace

#include "targets/nvidia/codegen/RowPointers.h"

#include "Kernels.h"

#include "llvm/IR/Instructions.h"
#include "llvm/IR/Verifier.h"

using namespace nereid::nvidia;

namespace {

/// A loop that copies two rows and one element of which nothing is known beside a product. `unit`
/// is the product's instruction, `copy` the copies'.
std::string loopKernel(const std::string &unit, const std::string &copy) {
  return R"(
define void @loop(ptr addrspace(1) %base, i64 %row0, i64 %row1, i64 %step, i32 %to, i32 %n) {
entry:
  br label %body
body:
  %i = phi i32 [ 0, %entry ], [ %next, %body ]
  %moved = phi i64 [ 7, %entry ], [ %sum, %body ]
  %block = getelementptr i16, ptr addrspace(1) %base, i64 %moved
  %p0 = getelementptr i16, ptr addrspace(1) %block, i64 %row0
  %p1 = getelementptr i16, ptr addrspace(1) %block, i64 %row1
  %wide = sext i32 %i to i64
  %p2 = getelementptr i16, ptr addrspace(1) %block, i64 %wide
  call void asm sideeffect ")" +
         copy + R"( [$0], [$1], 16;", "r,l"(i32 %to, ptr addrspace(1) %p0)
  call void asm sideeffect ")" +
         copy + R"( [$0], [$1], 16;", "r,l"(i32 %to, ptr addrspace(1) %p1)
  call void asm sideeffect ")" +
         copy + R"( [$0], [$1], 16;", "r,l"(i32 %to, ptr addrspace(1) %p2)
  call void asm sideeffect ")" +
         unit + R"(", "~{memory}"()
  %sum = add i64 %moved, %step
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}
)";
}

/// The blocks `entry` and `body` after the pass, as text.
std::pair<std::string, std::string> hoisted(const std::string &kernel) {
  Compiled compiled;
  parse(compiled, kernel, hopper());
  hoistRowPointers(*compiled.module);
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  EXPECT_FALSE(llvm::verifyModule(*compiled.module, &stream)) << problems;
  std::pair<std::string, std::string> result;
  llvm::raw_string_ostream entry(result.first), body(result.second);
  for (llvm::BasicBlock &block : *compiled.module->getFunction("loop")) {
    if (block.getName() == "entry")
      block.print(entry);
    if (block.getName() == "body")
      block.print(body);
  }
  return result;
}

size_t count(const std::string &text, const std::string &part) {
  size_t result = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++result;
  return result;
}

TEST(RowPointers, RowsStayOutsideAndOneOffsetMoves) {
  auto [entry, body] = hoisted(loopKernel("wgmma.mma_async.sync", "cp.async.cg.shared.global"));
  EXPECT_EQ(count(entry, "getelementptr i16, ptr addrspace(1) %base, i64 %row"), 2u) << entry;
  // In bytes, once, and out of sight for what looks for something to reduce.
  EXPECT_EQ(count(body, "asm \"mov.b64 $0, $1;\""), 1u) << body;
  EXPECT_EQ(count(body, "mul i64 %moved, 2"), 1u) << body;
  EXPECT_EQ(count(body, "getelementptr i8, ptr addrspace(1)"), 2u) << body;
  // The third address is another one in every iteration: it stays as it is.
  EXPECT_EQ(count(body, "getelementptr i16, ptr addrspace(1) %block, i64 %wide"), 1u) << body;
  EXPECT_EQ(count(body, "i64 %row"), 0u) << body;
}

TEST(RowPointers, StepsInAnyOrder) {
  // Row and column, either side of what moves, a second thing that moves, and a constant.
  std::string kernel = loopKernel("wgmma.mma_async.sync", "cp.async.cg.shared.global");
  std::string second = "  %p1 = getelementptr i16, ptr addrspace(1) %block, i64 %row1\n";
  kernel.replace(kernel.find(second), second.size(), R"(
  %counted = sext i32 %i to i64
  %c0 = getelementptr i16, ptr addrspace(1) %base, i64 %row1
  %c1 = getelementptr i32, ptr addrspace(1) %c0, i64 %counted
  %c2 = getelementptr i8, ptr addrspace(1) %c1, i64 48
  %c3 = getelementptr i16, ptr addrspace(1) %c2, i64 %moved
  %p1 = getelementptr i16, ptr addrspace(1) %c3, i64 %row0
)");
  auto [entry, body] = hoisted(kernel);
  EXPECT_EQ(count(entry, "getelementptr i16, ptr addrspace(1) %base, i64 %row0"), 1u) << entry;
  EXPECT_EQ(count(entry, "getelementptr i16, ptr addrspace(1) %base, i64 %row1"), 1u) << entry;
  EXPECT_EQ(count(entry, "i64 %row0"), 2u) << entry;
  EXPECT_EQ(count(body, "mul i64 %counted, 4"), 1u) << body;
  EXPECT_EQ(count(body, "mul i64 %moved, 2"), 2u) << body;
  EXPECT_EQ(count(body, "asm \"mov.b64 $0, $1;\""), 2u) << body;
  EXPECT_EQ(count(body, "i64 48"), 1u) << body;
  EXPECT_EQ(count(body, "i64 %row"), 0u) << body;
}

TEST(RowPointers, RowsInFrontOfTheLoopShareAnOffset) {
  // Rows' pointers come from outside. Strength reduction would advance each of them.
  std::string kernel = loopKernel("wgmma.mma_async.sync", "cp.async.cg.shared.global");
  for (std::string row : {"0", "1"}) {
    std::string first =
        "  %p" + row + " = getelementptr i16, ptr addrspace(1) %block, i64 %row" + row;
    std::string outside =
        "  %r" + row + " = getelementptr i16, ptr addrspace(1) %base, i64 %row" + row;
    kernel.replace(kernel.find(first), first.size(),
                   "  %p" + row + " = getelementptr i16, ptr addrspace(1) %r" + row +
                       ", i64 %moved");
    kernel.insert(kernel.find("  br label %body"), outside + "\n");
  }
  auto [entry, body] = hoisted(kernel);
  EXPECT_EQ(count(body, "asm \"mov.b64 $0, $1;\""), 1u) << body;
  EXPECT_EQ(count(body, "mul i64 %moved, 2"), 1u) << body;
  for (std::string row : {"%r0", "%r1"})
    EXPECT_EQ(count(body, "getelementptr i8, ptr addrspace(1) " + row), 1u) << body;
  // An offset of one address alone stays.
  EXPECT_EQ(count(body, "getelementptr i16, ptr addrspace(1) %block, i64 %wide"), 1u) << body;
}

TEST(RowPointers, OnlyCopiesBesideProducts) {
  for (auto [unit, copy] : {std::pair("mma.sync.aligned", "cp.async.cg.shared.global"),
                            std::pair("wgmma.mma_async.sync", "ld.global.b32")}) {
    auto [entry, body] = hoisted(loopKernel(unit, copy));
    EXPECT_EQ(count(entry, "getelementptr"), 0u) << entry;
    EXPECT_EQ(count(body, "getelementptr i16, ptr addrspace(1) %block, i64 %row"), 2u) << body;
  }
}

TEST(RowPointers, LoopsThatComputeWithTheirProductsStay) {
  std::string kernel = loopKernel("wgmma.mma_async.sync", "cp.async.cg.shared.global");
  std::string product = "  call void asm sideeffect \"wgmma.mma_async.sync\", \"~{memory}\"()\n";
  kernel.replace(kernel.find(product), product.size(), R"(
  %pair = call { i32, i32 } asm sideeffect "wgmma.mma_async.sync", "=r,=r,~{memory}"()
  %first = extractvalue { i32, i32 } %pair, 0
  %next = add i32 %i, USE
)");
  std::string counted = "  %next = add i32 %i, 1\n";
  kernel.erase(kernel.find(counted), counted.size());
  for (auto [use, stays] : {std::pair("%first", true), std::pair("1", false)}) {
    std::string text = kernel;
    text.replace(text.find("USE"), 3, use);
    auto [entry, body] = hoisted(text);
    EXPECT_EQ(count(entry, "getelementptr"), stays ? 0u : 2u) << entry;
    EXPECT_EQ(count(body, "asm \"mov.b64"), stays ? 0u : 1u) << body;
  }
}

TEST(RowPointers, BlocksThatStayAreLeftAlone) {
  std::string kernel = loopKernel("wgmma.mma_async.sync", "cp.async.cg.shared.global");
  std::string block = "  %block = getelementptr i16, ptr addrspace(1) %base, i64 %moved\n";
  kernel.erase(kernel.find(block), block.size());
  kernel.insert(kernel.find("  br label %body"),
                "  %block = getelementptr i16, ptr addrspace(1) %base, i64 %step\n");
  auto [entry, body] = hoisted(kernel);
  EXPECT_EQ(count(entry, "getelementptr"), 1u) << entry;
  EXPECT_EQ(count(body, "getelementptr i16, ptr addrspace(1) %block"), 3u) << body;
  EXPECT_EQ(count(body, "asm \"mov.b64"), 0u) << body;
}

} // namespace

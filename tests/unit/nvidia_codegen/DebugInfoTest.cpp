#include "gpu/emit/DebugInfo.h"

#include "Kernels.h"

#include "targets/nvidia/codegen/Assembler.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Verifier.h"

using namespace nereid::nvidia;
using nereid::gpu::DebugInfo;

namespace {

/// A kernel that stores twice: once at kernel.py:12, once in a helper of helpers.py:3 called at
/// kernel.py:14 through helpers.py:7.
std::string ptxWithLines(bool enabled) {
  mlir::MLIRContext mlir(mlir::MLIRContext::Threading::DISABLED);
  auto at = [&](const char *file, unsigned line) -> mlir::Location {
    return mlir::FileLineColLoc::get(&mlir, file, line, 5);
  };
  Compiled compiled;
  parse(compiled, "define void @kernel(ptr addrspace(1) %p) { ret void }", hopper());
  llvm::Function *kernel = compiled.module->getFunction("kernel");
  DebugInfo debug(*compiled.module, enabled);
  debug.beginFunction(*kernel, at("/tmp/kernel.py", 10));
  llvm::IRBuilder<> builder(&kernel->getEntryBlock().front());
  builder.SetCurrentDebugLocation(
      debug.at(mlir::NameLoc::get(mlir::StringAttr::get(&mlir, "x"), at("/tmp/kernel.py", 12))));
  auto *store = builder.CreateStore(builder.getInt32(1), kernel->getArg(0));
  store->setVolatile(true);
  mlir::Location inner = mlir::CallSiteLoc::get(at("/tmp/helpers.py", 3), at("/tmp/helpers.py", 7));
  builder.SetCurrentDebugLocation(
      debug.at(mlir::CallSiteLoc::get(inner, at("/tmp/kernel.py", 14))));
  store = builder.CreateStore(builder.getInt32(2), kernel->getArg(0));
  store->setVolatile(true);
  mlir::Location prelude =
      mlir::CallSiteLoc::get(at("<prelude>/standard.py", 99), at("/tmp/kernel.py", 16));
  builder.SetCurrentDebugLocation(debug.at(prelude));
  store = builder.CreateStore(builder.getInt32(3), kernel->getArg(0));
  store->setVolatile(true);
  EXPECT_TRUE(enabled == bool(debug.at(mlir::UnknownLoc::get(&mlir))));
  debug.finish();
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  EXPECT_FALSE(llvm::verifyModule(*compiled.module, &stream)) << problems;
  return llvm::cantFail(emitPtx(*compiled.module, *compiled.machine));
}

TEST(DebugInfo, LinesAndInlinedCalls) {
  std::string ptx = ptxWithLines(true);
  llvm::StringRef text = ptx;
  EXPECT_TRUE(text.contains(".file")) << ptx;
  EXPECT_TRUE(text.contains("kernel.py")) << ptx;
  EXPECT_TRUE(text.contains("helpers.py")) << ptx;
  EXPECT_TRUE(text.contains(".loc\t1 12 5")) << ptx;
  EXPECT_TRUE(text.contains(".loc\t2 3 5")) << ptx;
  // A function of the prelude stands at its call.
  EXPECT_TRUE(text.contains(".loc\t1 16 5")) << ptx;
  EXPECT_FALSE(text.contains("prelude")) << ptx;
  // Nothing that makes the assembler compile for a debugger.
  EXPECT_FALSE(text.contains(", debug")) << ptx;
  NoAssembler why;
  auto assembler = openNvJitLink(why);
  if (!assembler)
    GTEST_SKIP() << why.why;
  auto assembly = assembler->assemble(ptx, "kernel", {{90, true}});
  ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError());
  EXPECT_TRUE(assembly->warnings.empty()) << assembly->log;
  auto without = assembler->assemble(ptxWithLines(false), "kernel", {{90, true}});
  ASSERT_TRUE(bool(without)) << llvm::toString(without.takeError());
  EXPECT_GT(assembly->cubin.size(), without->cubin.size()); // the table of lines
}

TEST(DebugInfo, Off) {
  std::string ptx = ptxWithLines(false);
  EXPECT_FALSE(llvm::StringRef(ptx).contains(".loc")) << ptx;
  EXPECT_FALSE(llvm::StringRef(ptx).contains(".file")) << ptx;
}

} // namespace

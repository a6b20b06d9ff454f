// LLVM IR of small kernels, and the way from there to PTX.
#pragma once
#include "targets/nvidia/codegen/Ptx.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"

#include <gtest/gtest.h>
#include <memory>
#include <string>

/// c[i] = a[i] + b[i], one element a thread.
inline const char *const addKernel = R"(
define void @add(ptr addrspace(1) align 16 %a, ptr addrspace(1) align 16 %b,
                 ptr addrspace(1) align 16 %c, i32 %n) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %o = sext i32 %t to i64
  %pa = getelementptr float, ptr addrspace(1) %a, i64 %o
  %pb = getelementptr float, ptr addrspace(1) %b, i64 %o
  %pc = getelementptr float, ptr addrspace(1) %c, i64 %o
  %x = load float, ptr addrspace(1) %pa
  %y = load float, ptr addrspace(1) %pb
  %m = fmul float %x, %y
  %z = fadd float %m, %y
  store float %z, ptr addrspace(1) %pc
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
)";

/// A warpgroup's product of two 64x16 fp16 tiles in shared memory at the descriptors %a and %b.
/// `fence`: with the fence that wgmma needs; without it the assembler warns.
inline std::string wgmmaKernel() {
  return R"(
define void @wgmma(i64 %a, i64 %b, ptr addrspace(1) %out, i1 %scale) {
  call void asm sideeffect "wgmma.fence.sync.aligned;", "~{memory}"()
  %flag = zext i1 %scale to i32
  %d = call { float, float, float, float } asm sideeffect
    "{ .reg .pred p; setp.ne.b32 p, $6, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {$0,$1,$2,$3}, $4, $5, p, 1, 1, 0, 0; }",
    "=f,=f,=f,=f,l,l,r,0,1,2,3"(i64 %a, i64 %b, i32 %flag, float 0.0, float 0.0, float 0.0, float 0.0)
  call void asm sideeffect "wgmma.commit_group.sync.aligned;", "~{memory}"()
  %d0 = extractvalue { float, float, float, float } %d, 0
  %d1 = extractvalue { float, float, float, float } %d, 1
  %d2 = extractvalue { float, float, float, float } %d, 2
  %d3 = extractvalue { float, float, float, float } %d, 3
  %w = call { float, float, float, float } asm sideeffect "wgmma.wait_group.sync.aligned 0;",
    "=f,=f,=f,=f,0,1,2,3,~{memory}"(float %d0, float %d1, float %d2, float %d3)
  %w0 = extractvalue { float, float, float, float } %w, 0
  %w3 = extractvalue { float, float, float, float } %w, 3
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %o = sext i32 %t to i64
  %p = getelementptr float, ptr addrspace(1) %out, i64 %o
  %s = fadd float %w0, %w3
  store float %s, ptr addrspace(1) %p
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
)";
}

struct Compiled {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::TargetMachine> machine;
};

inline void parse(Compiled &out, llvm::StringRef text,
                  const nereid::nvidia::CodegenOptions &options,
                  const nereid::nvidia::KernelShape &shape = {}) {
  llvm::SMDiagnostic diagnostic;
  out.module = llvm::parseAssemblyString(text, diagnostic, out.context);
  ASSERT_TRUE(out.module) << diagnostic.getMessage().str() << " line " << diagnostic.getLineNo();
  auto machine = nereid::nvidia::makeTargetMachine(options);
  ASSERT_TRUE(bool(machine));
  out.machine = std::move(*machine);
  nereid::nvidia::prepareModule(*out.module, *out.machine);
  for (llvm::Function &function : *out.module)
    if (!function.isDeclaration() && !function.hasInternalLinkage())
      nereid::nvidia::markKernel(function, shape);
}

/// The PTX of a module's text; "" after a failure.
inline std::string ptxOf(llvm::StringRef text, const nereid::nvidia::CodegenOptions &options,
                         const nereid::nvidia::KernelShape &shape = {}) {
  Compiled compiled;
  parse(compiled, text, options, shape);
  if (!compiled.module || !compiled.machine)
    return "";
  nereid::nvidia::optimize(*compiled.module, *compiled.machine);
  auto ptx = nereid::nvidia::emitPtx(*compiled.module, *compiled.machine);
  if (!ptx) {
    ADD_FAILURE() << llvm::toString(ptx.takeError());
    return "";
  }
  return *ptx;
}

inline nereid::nvidia::CodegenOptions hopper(int ptxVersion = 80) {
  nereid::nvidia::CodegenOptions options;
  options.arch = {90, true};
  options.ptxVersion = ptxVersion;
  return options;
}

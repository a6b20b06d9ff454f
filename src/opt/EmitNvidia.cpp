// --emit-nvidia: prints what the NVIDIA emitter makes of the kernel of the module, as LLVM IR or as
// PTX; for the tests of the emitter. Leave the module itself aside with `-o /dev/null`.
//
//   nereid-opt --emit-nvidia="sm=80 stage=ptx" kernel.mlir -o /dev/null
//   nereid-opt --emit-nvidia="stage=check" kernel.mlir -o /dev/null        (assembles, prints
//   advice)
#include "ir/ngpu/Dialect.h"
#include "targets/nvidia/codegen/Assembler.h"
#include "targets/nvidia/codegen/Libdevice.h"
#include "targets/nvidia/codegen/Ptx.h"
#include "targets/nvidia/emit/Emitter.h"

#include "mlir/Pass/Pass.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace nereid::nvidia;

namespace {

struct EmitNvidia : public PassWrapper<EmitNvidia, OperationPass<ModuleOp>> {
  EmitNvidia() = default;
  EmitNvidia(const EmitNvidia &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "emit-nvidia"; }
  StringRef getDescription() const final { return "print a GPU kernel as LLVM IR or PTX"; }

  void runOnOperation() override {
    if (llvm::Error error = run()) {
      getOperation().emitError() << llvm::toString(std::move(error));
      signalPassFailure();
    }
  }

  llvm::Error run() {
    func::FuncOp kernel;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr("tile.kernel"))
        kernel = function;
    if (!kernel)
      return llvm::createStringError("the module has no kernel");
    Architecture arch{sm, sm >= 90};
    CodegenOptions codegen{arch, ptxVersionFor(arch, std::nullopt), fusion};
    if (ptxVersion)
      codegen.ptxVersion = ptxVersion;
    EmitOptions options;
    options.sm = sm;
    options.ptxVersion = codegen.ptxVersion;
    options.lineInfo = lines;
    options.fpFusion = fusion;
    llvm::LLVMContext context;
    auto emitted = emitKernel(kernel, options, context);
    if (!emitted)
      return emitted.takeError();
    auto machine = makeTargetMachine(codegen);
    if (!machine)
      return machine.takeError();
    llvm::Module &module = *emitted->module;
    prepareModule(module, **machine);
    KernelShape shape;
    shape.threads = 32 * emitted->warps;
    shape.clusterBlocks = emitted->blocks;
    markKernel(*module.getFunction(emitted->entry), shape);
    std::string problems;
    llvm::raw_string_ostream stream(problems);
    if (llvm::verifyModule(module, &stream)) {
      module.print(llvm::errs(), nullptr);
      return llvm::createStringError("internal error: invalid LLVM IR: " + problems);
    }
    if (stage == "llvm") {
      module.print(llvm::outs(), nullptr);
      return llvm::Error::success();
    }
    if (needsLibdevice(module))
      if (llvm::Error error = linkLibdevice(module, arch, true))
        return error;
    optimize(module, **machine);
    if (stage == "optimized") {
      module.print(llvm::outs(), nullptr);
      return llvm::Error::success();
    }
    auto ptx = emitPtx(module, **machine);
    if (!ptx)
      return ptx.takeError();
    if (stage == "ptx") {
      llvm::outs() << *ptx;
      return llvm::Error::success();
    }
    auto assembler = findAssembler(&arch);
    if (!assembler)
      return assembler.takeError();
    auto assembly = (*assembler)->assemble(*ptx, emitted->entry, {arch});
    if (!assembly)
      return assembly.takeError();
    for (const std::string &warning : assembly->warnings)
      llvm::outs() << warning << "\n";
    llvm::outs() << "assembled: " << assembly->spillStoreBytes << " bytes of spills\n";
    return llvm::Error::success();
  }

  Option<int> sm{*this, "sm", llvm::cl::desc("compute capability times ten"), llvm::cl::init(90)};
  Option<int> ptxVersion{*this, "ptx", llvm::cl::desc("PTX version times ten; 0: the oldest"),
                         llvm::cl::init(0)};
  Option<std::string> stage{*this, "stage", llvm::cl::desc("llvm, optimized, ptx or check"),
                            llvm::cl::init("llvm")};
  Option<bool> lines{*this, "lines", llvm::cl::desc("line information"), llvm::cl::init(false)};
  Option<bool> fusion{*this, "fusion", llvm::cl::desc("contract a*b+c"), llvm::cl::init(true)};
};

} // namespace

void registerEmitNvidia() {
  PassRegistration<EmitNvidia>();
}

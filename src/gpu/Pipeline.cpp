#include "gpu/Pipeline.h"

#include "gpu/Explain.h"
#include "gpu/FitKernel.h"
#include "gpu/PadShapes.h"
#include "gpu/Passes.h"
#include "gpu/TensorMaps.h"
#include "ir/ngpu/Dialect.h"
#include "support/settings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/Support/MathExtras.h"

#include <chrono>

using namespace mlir;

namespace nereid::gpu {
namespace {

func::FuncOp kernelOf(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr("tile.kernel"))
      return function;
  return {};
}

/// Of the kernel and of the functions that it calls, which run on the same threads.
void setTarget(func::FuncOp kernel, const GpuOptions &options) {
  Builder builder(kernel.getContext());
  for (auto function : kernel->getParentOfType<ModuleOp>().getOps<func::FuncOp>()) {
    if (function != kernel && function->hasAttr("tile.kernel"))
      continue;
    function->setAttr("ngpu.num_warps", builder.getI32IntegerAttr(options.numWarps));
    function->setAttr("ngpu.sm", builder.getI32IntegerAttr(options.sm));
  }
}

} // namespace

namespace {

/// All passes, once.
llvm::Expected<GpuReport> runPasses(ModuleOp module, const GpuOptions &options, bool wantReport) {
  GpuReport report;
  func::FuncOp kernel = kernelOf(module);
  if (!kernel)
    return llvm::createStringError("internal error: no kernel in the module");
  ngpu::loadDialects(*module.getContext());
  setTarget(kernel, options);

  llvm::Error error = llvm::Error::success();
  bool printing = Settings::concerns(Settings::current().printBefore, kernel.getName());
  auto run = [&](StringRef name, llvm::function_ref<llvm::Error()> pass) {
    if (error)
      return;
    if (printing)
      llvm::errs() << "// -----// IR Dump Before " << name << " //----- //\n" << module << '\n';
    auto start = std::chrono::steady_clock::now();
    error = pass();
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    report.times.emplace_back(name, took.count());
    if (!error && options.verify && failed(mlir::verify(module)))
      error = llvm::createStringError("internal error: " + name.str() + " left invalid IR");
  };
  adviseOnOptions(kernel, options, report.advice);
  // Before anything looks at shapes.
  run("pad-shapes", [&] { return padShapes(kernel, options); });
  // While descriptors are still made of the kernel's arguments.
  run("plan-tensor-maps", [&]() -> llvm::Error {
    auto plans = planTensorMaps(kernel, options);
    if (!plans)
      return plans.takeError();
    report.tensorMaps = std::move(*plans);
    return llvm::Error::success();
  });
  // Dots become what some unit computes, before layouts are chosen for it.
  run("legalise-dots", [&] { return legaliseDots(kernel, options); });
  // Layouts of everything, dots on their units: what follows works on tensors with layouts.
  run("assign-layouts",
      [&] { return assignLayouts(kernel, options, wantReport ? &report.layouts : nullptr); });
  // Loads that feed products go ahead, past the registers; what their addresses needed is left
  // dead.
  run("pipeline-loops", [&] {
    report.stages = pipelineLoops(kernel, options, report.advice);
    return llvm::Error::success();
  });
  run("clean-up", [&] {
    IRRewriter rewriter(kernel.getContext());
    DominanceInfo dominance(kernel);
    eliminateCommonSubExpressions(rewriter, dominance, kernel);
    return llvm::Error::success();
  });
  // Copies of the engine that are left where they stand: those of pipelined loops are done.
  run("lower-tensor-copies", [&] {
    lowerTensorCopies(kernel);
    return llvm::Error::success();
  });
  // After all passes that make or remove conversions: buffers for those that need them.
  run("expand-conversions", [&] { return expandConversions(kernel, options); });
  // All buffers are there now.
  run("allocate-shared", [&]() -> llvm::Error {
    auto bytes = allocateShared(kernel, options);
    if (!bytes)
      return llvm::handleErrors(bytes.takeError(),
                                [&](std::unique_ptr<OutOfSharedMemory> out) -> llvm::Error {
                                  out->stages = report.stages;
                                  return llvm::Error(std::move(out));
                                });
    report.sharedBytes = *bytes;
    return llvm::Error::success();
  });
  // Barriers depend on which buffers share bytes.
  run("insert-barriers", [&] { return insertBarriers(kernel, options); });
  if (error)
    return std::move(error);
  if (options.explanation)
    explainKernel(kernel, options);
  return report;
}

} // namespace

llvm::Expected<GpuReport> runGpuPipeline(ModuleOp module, const GpuOptions &options,
                                         bool wantReport) {
  return fitKernel(module, options,
                   [&](const GpuOptions &now) { return runPasses(module, now, wantReport); });
}

namespace {

/// The options of the passes on the command line.
template <typename Derived> struct GpuPass : PassWrapper<Derived, OperationPass<ModuleOp>> {
  using Base = GpuPass<Derived>;
  GpuPass() = default;
  GpuPass(const GpuPass &other) : PassWrapper<Derived, OperationPass<ModuleOp>>(other) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<ngpu::NGPUDialect, arith::ArithDialect, scf::SCFDialect, ub::UBDialect>();
  }

  GpuOptions options() const {
    GpuOptions options;
    options.sm = sm;
    options.numWarps = warps;
    options.numStages = stages;
    options.best = sm == 90 ? MatrixUnit::Wgmma : MatrixUnit::Mma;
    options.tma = sm >= 90;
    options.fp8Mma = sm >= 89;
    options.verify = true;
    return options;
  }

  template <typename Run> void onKernels(Run run) {
    for (auto kernel : this->getOperation().template getOps<func::FuncOp>()) {
      if (!kernel->hasAttr("tile.kernel"))
        continue;
      setTarget(kernel, options());
      if (llvm::Error error = run(kernel)) {
        kernel.emitError() << llvm::toString(std::move(error));
        return this->signalPassFailure();
      }
    }
  }

  Pass::Option<int> sm{*this, "sm", llvm::cl::desc("compute capability * 10"), llvm::cl::init(90)};
  Pass::Option<int> warps{*this, "warps", llvm::cl::desc("warps of a program"), llvm::cl::init(4)};
  Pass::Option<int> stages{*this, "stages", llvm::cl::desc("depth of pipelined loops"),
                           llvm::cl::init(3)};
  Pass::Option<bool> report{*this, "report", llvm::cl::desc("print what layouts cost"),
                            llvm::cl::init(false)};
};

struct LegaliseDotsPass : GpuPass<LegaliseDotsPass> {
  StringRef getArgument() const final { return "gpu-legalise-dots"; }
  StringRef getDescription() const final { return "dots that no unit computes, as others"; }
  void runOnOperation() override {
    onKernels([&](func::FuncOp kernel) { return legaliseDots(kernel, options()); });
  }
};

struct PadShapesPass : GpuPass<PadShapesPass> {
  StringRef getArgument() const final { return "gpu-pad-shapes"; }
  StringRef getDescription() const final { return "sizes that layouts take well"; }
  void runOnOperation() override {
    onKernels([&](func::FuncOp kernel) { return padShapes(kernel, options()); });
  }
};

struct AssignLayoutsPass : GpuPass<AssignLayoutsPass> {
  StringRef getArgument() const final { return "gpu-assign-layouts"; }
  StringRef getDescription() const final { return "choose a layout for every tensor"; }
  void runOnOperation() override {
    onKernels([&](func::FuncOp kernel) {
      std::string text;
      llvm::Error error = assignLayouts(kernel, options(), report ? &text : nullptr);
      llvm::errs() << text;
      return error;
    });
  }
};

struct ExpandConversionsPass : GpuPass<ExpandConversionsPass> {
  StringRef getArgument() const final { return "gpu-expand-conversions"; }
  StringRef getDescription() const final { return "conversions through shared memory as buffers"; }
  void runOnOperation() override {
    onKernels([&](func::FuncOp kernel) { return expandConversions(kernel, options()); });
  }
};

struct AllocateSharedPass : GpuPass<AllocateSharedPass> {
  StringRef getArgument() const final { return "gpu-allocate-shared"; }
  StringRef getDescription() const final { return "places in shared memory by liveness"; }
  void runOnOperation() override {
    onKernels([&](func::FuncOp kernel) {
      GpuOptions limits = options();
      limits.maxSharedBytes = sm == 90 || sm == 100 ? 232448 : sm == 80 ? 166912 : 101376;
      return allocateShared(kernel, limits).takeError();
    });
  }
};

struct InsertBarriersPass : GpuPass<InsertBarriersPass> {
  StringRef getArgument() const final { return "gpu-insert-barriers"; }
  StringRef getDescription() const final { return "barriers between conflicting accesses"; }
  void runOnOperation() override {
    onKernels([&](func::FuncOp kernel) { return insertBarriers(kernel, options()); });
  }
};

struct PipelineLoopsPass : GpuPass<PipelineLoopsPass> {
  StringRef getArgument() const final { return "gpu-pipeline-loops"; }
  StringRef getDescription() const final { return "multi-buffer the loads of loops"; }
  void runOnOperation() override {
    onKernels([&](func::FuncOp kernel) {
      std::vector<explain::Hint> advice;
      pipelineLoops(kernel, options(), advice);
      return llvm::Error::success();
    });
  }
};

struct LowerTensorCopiesPass : GpuPass<LowerTensorCopiesPass> {
  StringRef getArgument() const final { return "gpu-lower-tensor-copies"; }
  StringRef getDescription() const final {
    return "plan tensor maps, choose layouts, and wait for every copy of a block";
  }
  void runOnOperation() override {
    onKernels([&](func::FuncOp kernel) -> llvm::Error {
      auto plans = planTensorMaps(kernel, options());
      if (!plans)
        return plans.takeError();
      if (llvm::Error error = assignLayouts(kernel, options(), nullptr))
        return error;
      lowerTensorCopies(kernel);
      return llvm::Error::success();
    });
  }
};

struct GpuPipelinePass : GpuPass<GpuPipelinePass> {
  StringRef getArgument() const final { return "gpu-pipeline"; }
  StringRef getDescription() const final { return "all passes from tile IR to GPU IR"; }
  void runOnOperation() override {
    auto done = runGpuPipeline(getOperation(), options(), report);
    if (!done) {
      getOperation().emitError() << llvm::toString(done.takeError());
      return signalPassFailure();
    }
    llvm::errs() << done->layouts;
  }
};

} // namespace

void registerPasses() {
  PassRegistration<AllocateSharedPass>();
  PassRegistration<AssignLayoutsPass>();
  PassRegistration<ExpandConversionsPass>();
  PassRegistration<InsertBarriersPass>();
  PassRegistration<LegaliseDotsPass>();
  PassRegistration<LowerTensorCopiesPass>();
  PassRegistration<PadShapesPass>();
  PassRegistration<PipelineLoopsPass>();
  PassRegistration<GpuPipelinePass>();
}

} // namespace nereid::gpu

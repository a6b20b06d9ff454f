#include "gpu/pipeline/Pipeline.h"

#include "gpu/Passes.h"
#include "gpu/copies/TensorMaps.h"
#include "gpu/explain/Explain.h"
#include "gpu/pipeline/ChooseBlocks.h"
#include "gpu/pipeline/FitKernel.h"
#include "gpu/pipeline/OneBlock.h"
#include "gpu/schedule/PartitionWarps.h"
#include "gpu/schedule/PersistentProducts.h"
#include "gpu/schedule/PersistentRows.h"
#include "gpu/schedule/SkipMaxima.h"
#include "gpu/schedule/SkipScaling.h"
#include "gpu/schedule/SplitProducts.h"
#include "gpu/shapes/PadShapes.h"
#include "ir/ngpu/Dialect.h"
#include "support/settings.h"
#include "transforms/Explain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
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
    if (options.numBlocks > 1)
      function->setAttr("ngpu.num_blocks", builder.getI32IntegerAttr(options.numBlocks));
    function->setAttr("ngpu.num_lanes", builder.getI32IntegerAttr(options.machine.lanes));
    function->setAttr("ngpu.sm", builder.getI32IntegerAttr(options.machine.generation));
  }
}

/// Loops whose own `num_stages` has no effect because several blocks run the program: their copies
/// would be to the shared memory of one block.
void adviseOnStages(func::FuncOp kernel, std::vector<explain::Hint> &advice) {
  kernel.walk([&](scf::ForOp loop) {
    if (auto stages = loop->getAttrOfType<IntegerAttr>("tile.num_stages"))
      advice.push_back(explain::makeHint(
          explain::HintKind::StagesIgnored, transforms::placeOf(loop.getLoc()),
          {std::to_string(stages.getInt()), "several blocks run the program", "`num_ctas=1`"}));
  });
}

/// Removes operations whose results are not used, with what only they use: elimination of common
/// subexpressions looks at each operation once, and leaves all but the last one of a chain.
void eraseUnused(func::FuncOp kernel) {
  kernel.walk<WalkOrder::PostOrder, ReverseIterator>([](Operation *op) {
    if (isOpTriviallyDead(op))
      op->erase();
  });
}

/// What the passes work on, and what they find out.
struct State {
  func::FuncOp kernel;
  const GpuOptions &options;
  GpuReport &report;
  bool wantReport;
  bool storesOverlap = false; ///< OverlapStores.h
};

struct Step {
  StringLiteral name, summary;
  llvm::Error (*run)(State &);
};

/// The only list of GPU passes: the pipeline runs them in this order, and on the command line each
/// is `--gpu-NAME`.
constexpr Step steps[] = {
    // Before anything looks at shapes.
    {"pad-shapes", "pad dimensions to sizes that layouts support",
     [](State &state) { return padShapes(state.kernel, state.options); }},
    // While descriptors are still made of the kernel's arguments.
    {"plan-tensor-maps", "plan the tensor maps of descriptors that the copy engine serves",
     [](State &state) -> llvm::Error {
       auto plans = planTensorMaps(state.kernel, state.options);
       if (!plans)
         return plans.takeError();
       state.report.tensorMaps = std::move(*plans);
       return llvm::Error::success();
     }},
    // While a product is one op that adds to its accumulator.
    {"split-products", "divide the iterations of products among the blocks of a cluster",
     [](State &state) -> llvm::Error {
       state.report.splitRule = splitProducts(state.kernel, state.options);
       return llvm::Error::success();
     }},
    // Before layouts are chosen for the units that compute the dots.
    {"legalise-dots", "rewrite dots that no unit of the device computes",
     [](State &state) { return legaliseDots(state.kernel, state.options); }},
    // Before layouts, whose conversions wait for loads.
    {"issue-loads", "move loads of gradient kernels in front of reductions",
     [](State &state) -> llvm::Error {
       issueLoads(state.kernel, state.options);
       return llvm::Error::success();
     }},
    // While pointers are still made of the kernel's arguments.
    {"stream-stores", "let stores of gradient kernels leave the cache before what is read again",
     [](State &state) -> llvm::Error {
       streamStores(state.kernel);
       return llvm::Error::success();
     }},
    // In front of what looks for sums that can be taken together.
    {"sum-loops", "take sums of loops of gradient kernels behind the loops",
     [](State &state) -> llvm::Error {
       sumLoops(state.kernel, state.options);
       return llvm::Error::success();
     }},
    // Behind what moves loads, which it does not move.
    {"share-exchanges", "write sums of gradient kernels so that they share exchanges",
     [](State &state) -> llvm::Error {
       shareExchanges(state.kernel);
       return llvm::Error::success();
     }},
    // Behind what moves loads: it looks at what is alive across a reduction.
    {"keep-narrow", "compute values of 16 bits and fewer again in place of keeping them as fp32",
     [](State &state) -> llvm::Error {
       keepNarrow(state.kernel, state.options);
       return llvm::Error::success();
     }},
    // The passes that follow work on tensors with layouts.
    {"assign-layouts", "choose a layout for every tensor",
     [](State &state) {
       return assignLayouts(state.kernel, state.options,
                            state.wantReport ? &state.report.layouts : nullptr);
     }},
    // While the rows are loads of the kernel's outermost block, with layouts.
    {"persistent-rows", "let blocks run several programs and fetch the rows of the next one",
     [](State &state) -> llvm::Error {
       state.report.fetchedAhead = runPersistently(state.kernel, state.options);
       return llvm::Error::success();
     }},
    // In front of what divides their loops.
    {"persistent-products", "let blocks compute the products of several programs",
     [](State &state) -> llvm::Error {
       state.report.persistentProducts = persistProducts(state.kernel, state.options);
       return llvm::Error::success();
     }},
    // Before the other loops are pipelined: it takes loops that ask for it.
    {"partition-warps", "divide loops between warps that copy and warps that compute",
     [](State &state) -> llvm::Error {
       state.report.stages = partitionWarps(state.kernel, state.options, state.report.advice);
       return llvm::Error::success();
     }},
    // Loads that feed dots become asynchronous copies; their address computations are left dead.
    {"pipeline-loops", "multi-buffer the loads of loops",
     [](State &state) -> llvm::Error {
       if (state.options.numBlocks > 1) {
         adviseOnStages(state.kernel, state.report.advice);
         return llvm::Error::success();
       }
       state.report.stages = std::max(
           state.report.stages, pipelineLoops(state.kernel, state.options, state.report.advice));
       return llvm::Error::success();
     }},
    {"clean-up", "eliminate common subexpressions and dead operations",
     [](State &state) -> llvm::Error {
       IRRewriter rewriter(state.kernel.getContext());
       DominanceInfo dominance(state.kernel);
       eliminateCommonSubExpressions(rewriter, dominance, state.kernel);
       eraseUnused(state.kernel);
       return llvm::Error::success();
     }},
    // In front of what leaves out the multiplications that belong to new maxima.
    {"skip-maxima", "compute maxima of rows only where weights are too great without",
     [](State &state) -> llvm::Error {
       skipMaxima(state.kernel, state.options);
       return llvm::Error::success();
     }},
    // While the products of divided loops have their final order. It changes nothing that the
    // verification of channels looks at.
    {"skip-scaling", "leave out multiplications of accumulators by factors that are all 1",
     [](State &state) -> llvm::Error {
       skipScaling(state.kernel, state.options);
       return llvm::Error::success();
     }},
    {"lower-channels", "verify channels between warps and make mbarriers of them",
     [](State &state) { return lowerChannels(state.kernel); }},
    // The copies outside of pipelined loops; those inside are done.
    {"lower-tensor-copies", "wait for every copy of a block where it is used",
     [](State &state) -> llvm::Error {
       state.storesOverlap =
           lowerTensorCopies(state.kernel, state.options, state.report.tensorMaps);
       return llvm::Error::success();
     }},
    // After all passes that make or remove conversions.
    {"expand-conversions", "make buffers of conversions through shared memory",
     [](State &state) { return expandConversions(state.kernel, state.options); }},
    // Of these no scratch memory is allocated.
    {"send-partials", "let reductions across blocks send their partial results",
     [](State &state) -> llvm::Error {
       sendPartials(state.kernel, state.options);
       return llvm::Error::success();
     }},
    // Now all buffers exist.
    {"allocate-shared", "place buffers in shared memory by liveness",
     [](State &state) -> llvm::Error {
       auto bytes = allocateShared(state.kernel, state.options);
       if (!bytes)
         return llvm::handleErrors(bytes.takeError(),
                                   [&](std::unique_ptr<OutOfSharedMemory> out) -> llvm::Error {
                                     out->stages = state.report.stages;
                                     out->overlappedStores = state.storesOverlap;
                                     out->persistentProducts = state.report.persistentProducts;
                                     return llvm::Error(std::move(out));
                                   });
       state.report.sharedBytes = *bytes;
       return llvm::Error::success();
     }},
    // Barriers depend on which buffers share bytes.
    {"insert-barriers", "insert barriers between conflicting accesses to shared memory",
     [](State &state) { return insertBarriers(state.kernel, state.options); }},
};

/// All passes, once.
llvm::Expected<GpuReport> runPasses(ModuleOp module, const GpuOptions &options, bool wantReport) {
  GpuReport report;
  func::FuncOp kernel = kernelOf(module);
  if (!kernel)
    return llvm::createStringError("internal error: no kernel in the module");
  ngpu::loadDialects(*module.getContext());
  setTarget(kernel, options);
  adviseOnOptions(kernel, options, report.advice);

  bool printing = Settings::concerns(Settings::current().printBefore, kernel.getName());
  State state{kernel, options, report, wantReport};
  for (const Step &step : steps) {
    if (printing)
      llvm::errs() << "// -----// IR Dump Before " << step.name << " //----- //\n"
                   << module << '\n';
    auto start = std::chrono::steady_clock::now();
    if (llvm::Error error = step.run(state))
      return std::move(error);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    report.times.emplace_back(step.name, took.count());
    if (options.verify && failed(mlir::verify(module)))
      return llvm::createStringError("internal error: " + step.name.str() + " left invalid IR");
  }
  if (options.explanation)
    explainKernel(kernel, options);
  return report;
}

} // namespace

llvm::Expected<GpuReport> runGpuPipeline(ModuleOp module, const GpuOptions &options,
                                         bool wantReport) {
  GpuOptions chosen = options;
  std::optional<explain::Hint> whyOneBlock;
  func::FuncOp kernel = kernelOf(module);
  if (options.numBlocks > 1) {
    if (kernel && (whyOneBlock = oneBlock(kernel, options))) {
      chosen.numWarps /= options.numBlocks;
      chosen.numBlocks = 1;
    }
  } else if (options.choosesBlocks && kernel) {
    if (std::optional<BlockChoice> choice = chooseBlocks(kernel, options)) {
      chosen.numBlocks = choice->blocks;
      chosen.numWarps = choice->blocks * choice->warps;
      if (options.explanation)
        options.explanation->hint(explain::HintKind::ClusterChosen, {},
                                  {std::to_string(choice->needed), std::to_string(options.numWarps),
                                   std::to_string(choice->there), std::to_string(choice->blocks),
                                   std::to_string(choice->warps)});
    }
  }
  auto report = fitKernel(
      module, chosen, [&](const GpuOptions &now) { return runPasses(module, now, wantReport); });
  if (!report)
    return report;
  report->blocks = unsigned(chosen.numBlocks);
  report->pairs = ngpu::isPaired(kernelOf(module));
  if (whyOneBlock)
    report->advice.insert(report->advice.begin(), std::move(*whyOneBlock));
  return report;
}

namespace {

/// Describes the machines that the command line names by a number.
Machine (*machineByNumber)(int number);

/// The options of the passes on the command line.
template <typename Derived> struct GpuPass : PassWrapper<Derived, OperationPass<ModuleOp>> {
  using Base = GpuPass<Derived>;
  GpuPass() = default;
  GpuPass(const GpuPass &other) : PassWrapper<Derived, OperationPass<ModuleOp>>(other) {}

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<ngpu::NGPUDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                    ub::UBDialect>();
  }

  GpuOptions options() const {
    GpuOptions options;
    options.machine = machineByNumber(sm);
    options.numWarps = warps * blocks;
    options.numBlocks = blocks;
    options.numStages = stages;
    options.choosesBlocks = choosesBlocks;
    options.specialise = specialise;
    options.overlapStores = overlapStores;
    options.skipScaling = skipScaling;
    options.skipMaxima = skipMaxima;
    options.splitProducts = splitProducts;
    options.multicast = multicast;
    options.persistentRows = persistentRows;
    options.persistentProducts = persistentProducts;
    options.persistentAttention = persistentAttention;
    options.keepsNarrow = keepsNarrow;
    options.sendsPartials = sendsPartials;
    options.verify = true;
    return options;
  }

  Pass::Option<int> sm{*this, "sm", llvm::cl::desc("compute capability * 10"), llvm::cl::init(90)};
  Pass::Option<int> warps{*this, "warps", llvm::cl::desc("warps of a block"), llvm::cl::init(4)};
  Pass::Option<int> blocks{*this, "blocks", llvm::cl::desc("blocks of a program"),
                           llvm::cl::init(1)};
  Pass::Option<bool> choosesBlocks{*this, "choose-blocks",
                                   llvm::cl::desc("let a cluster run rows of too many registers"),
                                   llvm::cl::init(false)};
  Pass::Option<int> stages{*this, "stages", llvm::cl::desc("depth of pipelined loops"),
                           llvm::cl::init(3)};
  Pass::Option<Specialise> specialise{
      *this, "specialise", llvm::cl::desc("which loops are divided between warps"),
      llvm::cl::init(Specialise::AsAsked),
      llvm::cl::values(clEnumValN(Specialise::AsAsked, "asked", "those that ask for it"),
                       clEnumValN(Specialise::Always, "always", "all that can be"),
                       clEnumValN(Specialise::Never, "never", "none"))};
  Pass::Option<OverlapStores> overlapStores{
      *this, "overlap-stores", llvm::cl::desc("how stores of divided kernels overlap"),
      llvm::cl::init(OverlapStores::Groups),
      llvm::cl::values(clEnumValN(OverlapStores::Never, "never", "not at all"),
                       clEnumValN(OverlapStores::Waits, "waits", "they wait later"),
                       clEnumValN(OverlapStores::Groups, "groups", "groups store alone"))};
  Pass::Option<SkipScaling> skipScaling{
      *this, "skip-scaling", llvm::cl::desc("leave out multiplications by factors that are all 1"),
      llvm::cl::init(SkipScaling::Divided),
      llvm::cl::values(clEnumValN(SkipScaling::Divided, "divided", "in divided loops"),
                       clEnumValN(SkipScaling::Always, "always", "in all loops"),
                       clEnumValN(SkipScaling::Never, "never", "nowhere"))};
  Pass::Option<SkipMaxima> skipMaxima{
      *this, "skip-maxima",
      llvm::cl::desc("compute maxima of rows only where weights are too great"),
      llvm::cl::init(SkipMaxima::Never),
      llvm::cl::values(clEnumValN(SkipMaxima::Never, "never", "nowhere"),
                       clEnumValN(SkipMaxima::Divided, "divided", "in divided loops"),
                       clEnumValN(SkipMaxima::Always, "always", "in all loops"))};
  Pass::Option<bool> splitProducts{
      *this, "split", llvm::cl::desc("divide the iterations of products among blocks of a cluster"),
      llvm::cl::init(false)};
  Pass::Option<bool> multicast{*this, "multicast",
                               llvm::cl::desc("let pairs of programs share copies"),
                               llvm::cl::init(false)};
  Pass::Option<PersistentRows> persistentRows{
      *this, "persistent-rows", llvm::cl::desc("which kernels run several programs in a block"),
      llvm::cl::init(PersistentRows::Never),
      llvm::cl::values(clEnumValN(PersistentRows::Never, "never", "none"),
                       clEnumValN(PersistentRows::Wide, "wide", "those of wide 16-bit rows"),
                       clEnumValN(PersistentRows::Always, "always", "all that can"))};
  Pass::Option<PersistentProducts> persistentProducts{
      *this, "persistent-products",
      llvm::cl::desc("which kernels compute the products of several programs in a block"),
      llvm::cl::init(PersistentProducts::Never),
      llvm::cl::values(clEnumValN(PersistentProducts::Never, "never", "none"),
                       clEnumValN(PersistentProducts::Measured, "measured", "those that gain"),
                       clEnumValN(PersistentProducts::Always, "always", "all that can"))};
  Pass::Option<PersistentProducts> persistentAttention{
      *this, "persistent-attention", llvm::cl::desc("blocks compute several programs of attention"),
      llvm::cl::init(PersistentProducts::Never),
      llvm::cl::values(clEnumValN(PersistentProducts::Never, "never", "none"),
                       clEnumValN(PersistentProducts::Measured, "measured", "those that gain"),
                       clEnumValN(PersistentProducts::Always, "always", "all that can"))};
  Pass::Option<bool> keepsNarrow{
      *this, "narrow", llvm::cl::desc("compute values of narrow rows again behind reductions"),
      llvm::cl::init(true)};
  Pass::Option<bool> sendsPartials{
      *this, "sends", llvm::cl::desc("reductions across blocks send their partial results"),
      llvm::cl::init(false)};
  Pass::Option<bool> report{*this, "report", llvm::cl::desc("print what layouts cost"),
                            llvm::cl::init(false)};
};

struct StepPass : GpuPass<StepPass> {
  explicit StepPass(const Step &step) : step(&step), argument(("gpu-" + step.name).str()) {}
  StringRef getArgument() const final { return argument; }
  StringRef getDescription() const final { return step->summary; }
  StringRef getName() const final { return step->name; }
  void runOnOperation() override {
    GpuOptions given = options();
    for (auto kernel : getOperation().getOps<func::FuncOp>()) {
      if (!kernel->hasAttr("tile.kernel"))
        continue;
      setTarget(kernel, given);
      GpuReport found;
      State state{kernel, given, found, report};
      if (llvm::Error error = step->run(state)) {
        kernel.emitError() << llvm::toString(std::move(error));
        return signalPassFailure();
      }
      llvm::errs() << found.layouts;
    }
  }

private:
  const Step *step;
  std::string argument;
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

void registerPasses(Machine (*machine)(int number)) {
  machineByNumber = machine;
  for (const Step &step : steps)
    mlir::registerPass(
        [&step]() -> std::unique_ptr<Pass> { return std::make_unique<StepPass>(step); });
  PassRegistration<GpuPipelinePass>();
}

} // namespace nereid::gpu

#include "DividedKernel.h"

#include "SimulatedMaps.h"

#include "gpu/pipeline/Pipeline.h"
#include "ir/ngpu/Dialect.h"
#include "targets/nvidia/emit/Emitter.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"

using namespace mlir;

namespace nereid::test {

std::string replaced(std::string text,
                     std::initializer_list<std::pair<std::string, std::string>> pairs) {
  for (const auto &[from, to] : pairs)
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  return text;
}

uint16_t halfOf(float value) {
  llvm::APFloat number(value);
  bool inexact;
  number.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return uint16_t(number.bitcastToAPInt().getZExtValue());
}

DividedOutcome runDivided(const std::string &text, const gpu::GpuOptions &options,
                          WarpSimulator::Words words, llvm::function_ref<void(func::FuncOp)> change,
                          const SimulatedLaunch &launch) {
  DividedOutcome outcome;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ngpu::loadDialects(context);
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return {"cannot parse"};
  auto report = gpu::runGpuPipeline(*module, options);
  if (!report)
    return {llvm::toString(report.takeError())};
  auto kernel = *module->getOps<func::FuncOp>().begin();
  outcome.divided = bool(ngpu::warpSpecializeOf(kernel));
  outcome.persistent = kernel->hasAttr(ngpu::persistentName);
  if (change)
    change(kernel);
  nvidia::EmitOptions emit;
  emit.lineInfo = false;
  llvm::LLVMContext llvmContext;
  auto emitted = nvidia::emitKernel(kernel, emit, llvmContext);
  if (!emitted)
    return {llvm::toString(emitted.takeError())};
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (llvm::verifyModule(*emitted->module, &stream))
    return {"invalid LLVM IR: " + problems};

  std::string refused;
  std::vector<SimulatedMap> maps = makeMaps(report->tensorMaps, words.data(), refused);
  // Tests have tensors of no rows, which a launcher would refuse: `refused` is not looked at.
  words.insert(words.end(), {0, launch.given}); // scratch memory, number of programs
  for (SimulatedMap &map : maps)
    words.push_back(reinterpret_cast<uint64_t>(&map));
  if (launch.damage)
    launch.damage(*emitted->module);
  WarpSimulator simulator(*emitted->module, emitted->warps, report->sharedBytes, launch.blocks);
  simulator.late = launch.late;
  outcome.error =
      simulator.run(emitted->entry, words, {launch.program, 0, 0}, {launch.programs, 1, 1});
  outcome.copies = simulator.copies;
  outcome.meetings = simulator.meetings;
  outcome.shared = simulator.shared;
  return outcome;
}

} // namespace nereid::test

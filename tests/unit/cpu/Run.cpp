#include "Run.h"
#include "Tiles.h"

#include "ir/tile/Dialect.h"
#include "transforms/Pipeline.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <cstdio>
#include <cstdlib>

namespace nereid::test {

using namespace mlir;

llvm::Expected<std::unique_ptr<targets::CompiledKernel>>
compileText(const std::string &text, const targets::CompileOptions &options) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  tile::loadDialects(context);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module) {
    std::fprintf(stderr, "the kernel's tile IR does not parse\n");
    std::abort();
  }
  PassManager passes(&context);
  transforms::TilePipelineOptions pipeline;
  pipeline.functions = transforms::TilePipelineOptions::Functions::None;
  transforms::buildTilePipeline(passes, pipeline);
  if (failed(passes.run(*module))) {
    std::fprintf(stderr, "the tile pipeline failed\n");
    std::abort();
  }
  auto kernel = targets::cpuGenerator().compile(*module, options);
  std::string why;
  if (kernel && options.load && !targets::cpuTarget().load(**kernel, why))
    return llvm::createStringError(why);
  return kernel;
}

TestKernel::TestKernel(const std::string &tileText, const std::string &features) {
  targets::CompileOptions options;
  options.features = features;
  options.keepStages = true;
  options.verify = true;
  if (const char *forced = std::getenv("NEREID_CPU_FEATURES"); forced && features.empty())
    options.features = forced;
  auto result = compileText(tileText, options);
  if (!result) {
    std::fprintf(stderr, "compilation failed: %s\n", llvm::toString(result.takeError()).c_str());
    std::abort();
  }
  kernel = std::move(*result);
  std::string why;
  if (const char *stage = std::getenv("TEST_DUMP_STAGE"))
    if (auto text = kernel->text(stage, why))
      std::fprintf(stderr, "%s\n", text->c_str());
}

TestKernel TestKernel::withEmulatedTiles(const std::string &tileText, const std::string &features) {
  targets::CompileOptions options;
  options.features = features;
  options.keepStages = true;
  options.verify = true;
  options.load = false;
  auto made = compileText(tileText, options);
  std::string why;
  std::optional<std::string> llvmIr = made ? (*made)->text("llir", why) : std::nullopt;
  if (!llvmIr) {
    std::fprintf(stderr, "compilation failed: %s\n", llvm::toString(made.takeError()).c_str());
    std::abort();
  }
  targets::CompileOptions here;
  here.replacement = [text = emulateTiles(*llvmIr)](llvm::StringRef stage) {
    return stage == "llir" ? std::optional(text) : std::nullopt;
  };
  auto emulated = compileText(tileText, here);
  if (!emulated) {
    std::fprintf(stderr, "emulation failed: %s\n", llvm::toString(emulated.takeError()).c_str());
    std::abort();
  }
  TestKernel result;
  result.kernel = std::move(*emulated);
  result.kernel->scratchBytes = (*made)->scratchBytes;
  return result;
}

cpu::LaunchResult TestKernel::run(std::initializer_list<Slot> args, int gridX, int gridY, int gridZ,
                                  cpu::PrintSink print) const {
  int32_t grid[3] = {gridX, gridY, gridZ};
  cpu::LaunchOptions options;
  options.scratchBytes = kernel->scratchBytes;
  options.sites = static_cast<const cpu::SiteTable *>(kernel->sites.get());
  options.print = print;
  return cpu::run(reinterpret_cast<cpu::KernelFn>(kernel->entry()), args.begin(), grid, options);
}

std::string compileError(const std::string &tileText, const targets::CompileOptions &options) {
  auto result = compileText(tileText, options);
  return result ? "" : llvm::toString(result.takeError());
}

} // namespace nereid::test

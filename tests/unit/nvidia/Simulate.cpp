// nereid-simulate GPU.mlir --shared BYTES --grid X,Y,Z [--maps PLANS] [--blocks N] NAME=VALUE ...
//     NAME=FILE:OFFSET ...
// nereid-simulate TILE.mlir --tile --warps N --stages N --grid X NAME=VALUE ... NAME=FILE:OFFSET
// ...
//
// Runs a kernel, as it is after the GPU passes, on the simulated block of threads
// (WarpSimulator.h), program after program. `--tile`: the kernel is as it is before these passes,
// which run here, for a GPU with a copy engine; this engine is simulated too (CopyEngine.h).
// Arguments go by name: integers (floats by their bits), or an address in a file, which is mapped
// and changed. What the kernel has no argument for is ignored. tests/simulated.py runs the language
// tests on it. `--maps`: a file with the kernel's tensor map plans, as its metadata has them
// (`tensor_map_plans`), in JSON; the maps are made of the arguments. `--blocks`: of a cluster,
// where the launcher chooses. What the kernel prints goes to the standard output; an assertion that
// fails is an error, in the words of NVIDIA's driver.
#include "DividedKernel.h"
#include "SimulatedMaps.h"

#include "gpu/Passes.h"
#include "ir/ngpu/Dialect.h"
#include "targets/nvidia/emit/Emitter.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace nereid;

static llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::Required,
                                        llvm::cl::desc("GPU.mlir"));
static llvm::cl::list<std::string> arguments(llvm::cl::Positional, llvm::cl::desc("NAME=VALUE..."));
static llvm::cl::opt<unsigned> sharedBytes("shared", llvm::cl::desc("bytes of shared memory"));
static llvm::cl::opt<std::string> grid("grid", llvm::cl::init("1,1,1"));

static llvm::cl::opt<std::string> planFile("maps", llvm::cl::desc("the plans of tensor maps"));
static llvm::cl::opt<unsigned> blocks("blocks", llvm::cl::init(1),
                                      llvm::cl::desc("of a cluster, where the launcher chooses"));
static llvm::cl::opt<bool> isTile("tile", llvm::cl::desc("the kernel is in tile IR"));
static llvm::cl::opt<int> warps("warps", llvm::cl::init(4));
static llvm::cl::opt<unsigned> stages("stages", llvm::cl::init(2));
static llvm::cl::opt<unsigned> running("running", llvm::cl::init(2),
                                       llvm::cl::desc("programs of a persistent kernel at once"));

static int fail(const llvm::Twine &message) {
  llvm::errs() << message << "\n";
  return 1;
}

/// The address of a file's bytes.
static uint64_t mapped(llvm::StringRef path) {
  int file = open(path.str().c_str(), O_RDWR);
  struct stat status;
  if (file < 0 || fstat(file, &status))
    return 0;
  void *memory = mmap(nullptr, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? 0 : reinterpret_cast<uint64_t>(memory);
}

static bool readPlanFile(std::vector<gpu::TensorMapPlan> &plans) {
  auto file = llvm::MemoryBuffer::getFile(planFile);
  if (!file)
    return false;
  auto value = llvm::json::parse((*file)->getBuffer());
  if (!value) {
    llvm::consumeError(value.takeError());
    return false;
  }
  auto read = test::readPlans(*value);
  if (read)
    plans = std::move(*read);
  return read.has_value();
}

/// What printf(format, ...) writes, with the arguments one after the other in memory.
static std::string printed(const char *format, const char *arguments) {
  std::string text;
  size_t at = 0;
  auto next = [&](auto &value) {
    at = (at + sizeof value - 1) / sizeof value * sizeof value;
    std::memcpy(&value, arguments + at, sizeof value);
    at += sizeof value;
  };
  char word[400]; // %f of the largest double has 316 characters
  for (const char *c = format; *c; ++c) {
    if (*c != '%') {
      text += *c;
      continue;
    }
    std::string conversion = "%";
    while (!std::isalpha(*++c) && *c != '%')
      conversion += *c;
    bool wide = false;
    for (; *c == 'l'; ++c) {
      conversion += 'l';
      wide = true;
    }
    conversion += *c;
    if (*c == '%') {
      text += '%';
    } else if (*c == 'f') {
      double value;
      next(value);
      std::snprintf(word, sizeof word, conversion.c_str(), value);
      text += word;
    } else if (wide) {
      unsigned long long value;
      next(value);
      std::snprintf(word, sizeof word, conversion.c_str(), value);
      text += word;
    } else {
      unsigned value;
      next(value);
      std::snprintf(word, sizeof word, conversion.c_str(), value);
      text += word;
    }
  }
  return text;
}

/// The functions of the device that have no body. `failed` becomes the first failed assertion.
static uint64_t callDevice(llvm::StringRef name, const test::WarpSimulator::Words &arguments,
                           std::string &failed) {
  auto text = [&](unsigned i) { return reinterpret_cast<const char *>(arguments[i]); };
  if (name == "vprintf") {
    std::string line = printed(text(0), text(1));
    std::fwrite(line.data(), 1, line.size(), stdout);
  } else if (name == "__assertfail") {
    if (failed.empty())
      failed = llvm::formatv("{0}:{1}: {2}: Assertion `{3}` failed.", text(1), arguments[2],
                             text(3), text(0));
  } else {
    failed = ("the simulator does not know: @" + name).str();
  }
  return 0;
}

/// Runs the programs of a kernel in tile IR; `words`: its arguments.
static int runTile(mlir::ModuleOp module, const test::WarpSimulator::Words &words) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  gpu::GpuOptions options;
  options.numWarps = warps;
  options.numStages = stages;
  test::SimulatedLaunch launch;
  if (llvm::StringRef(grid).split(',').first.getAsInteger(10, launch.programs))
    return fail("not a number of programs: " + grid);
  for (; launch.program < launch.programs; ++launch.program) {
    test::DividedOutcome outcome = test::runDivided(text, options, words, nullptr, launch);
    if (!outcome.error.empty())
      return fail(outcome.error);
  }
  return 0;
}

int main(int argc, char **argv) {
  llvm::cl::ParseCommandLineOptions(argc, argv);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  ngpu::loadDialects(context);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(input, &context);
  if (!module)
    return fail("cannot parse the kernel");
  mlir::func::FuncOp kernel;
  for (auto function : module->getOps<mlir::func::FuncOp>())
    if (function->hasAttr("tile.kernel"))
      kernel = function;
  if (!kernel)
    return fail("no kernel");

  llvm::StringMap<uint64_t> files, values;
  for (const std::string &argument : arguments) {
    auto [name, text] = llvm::StringRef(argument).split('=');
    auto [path, offset] = text.rsplit(':');
    uint64_t value = 0;
    if (offset.empty()) {
      if (text.getAsInteger(0, value))
        return fail("not a number: " + argument);
    } else {
      if (!files.contains(path))
        files[path] = mapped(path);
      if (offset.getAsInteger(0, value) || !files[path])
        return fail("cannot map " + argument);
      value += files[path];
    }
    values[name] = value;
  }
  test::WarpSimulator::Words words;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i) {
    auto name = kernel.getArgAttrOfType<mlir::StringAttr>(i, "tile.name");
    if (!name || !values.contains(name.getValue()))
      return fail("no value for argument " + llvm::Twine(i));
    words.push_back(values[name.getValue()]);
  }
  if (isTile)
    return runTile(*module, words);
  std::vector<gpu::TensorMapPlan> plans;
  if (!planFile.empty() && !readPlanFile(plans))
    return fail("cannot read the plans of tensor maps: " + planFile);
  nvidia::EmitOptions options;
  options.sm = kernel->getAttrOfType<mlir::IntegerAttr>("ngpu.sm").getInt();
  options.lineInfo = false;
  llvm::LLVMContext llvmContext;
  auto emitted = nvidia::emitKernel(kernel, options, llvmContext);
  if (!emitted)
    return fail(llvm::toString(emitted.takeError()));
  std::string refused;
  std::vector<test::SimulatedMap> maps = test::makeMaps(plans, words.data(), refused);
  if (!refused.empty())
    return fail(refused);
  llvm::SmallVector<llvm::StringRef> sizes;
  llvm::StringRef(grid).split(sizes, ',');
  std::array<uint32_t, 3> extent = {1, 1, 1}, program;
  for (unsigned i = 0; i < sizes.size() && i < 3; ++i)
    sizes[i].getAsInteger(10, extent[i]);
  words.push_back(0); // scratch memory
  // Profile scratch memory, or the number of programs (kernel_abi/nvidia.h).
  bool isPersistent = kernel->hasAttr(ngpu::persistentName);
  words.push_back(isPersistent ? extent[0] : 0);
  // Without plans: maps that could not be made, in whose place copies by threads are.
  alignas(64) static const uint64_t noMap[16] = {};
  for (const test::SimulatedMap &map : maps)
    words.push_back(reinterpret_cast<uint64_t>(map.rank ? static_cast<const void *>(&map) : noMap));
  words.resize(std::max(words.size(), emitted->module->getFunction(emitted->entry)->arg_size()),
               reinterpret_cast<uint64_t>(noMap));
  unsigned together = std::max<unsigned>(emitted->blocks, blocks);
  if (ngpu::isPaired(kernel) && together > 1) { // each block of a cluster runs a program
    if (extent[0] % together)
      return fail("a number of programs that clusters do not divide");
    extent[0] /= together;
  }
  if (isPersistent)
    extent[0] = std::min<uint32_t>(extent[0], running);
  for (program[2] = 0; program[2] < extent[2]; ++program[2])
    for (program[1] = 0; program[1] < extent[1]; ++program[1])
      for (program[0] = 0; program[0] < extent[0]; ++program[0]) {
        test::WarpSimulator simulator(*emitted->module, emitted->warps, sharedBytes, together);
        std::string failed;
        simulator.onCall([&](unsigned, llvm::StringRef name, const auto &given) {
          return callDevice(name, given, failed);
        });
        std::string error = simulator.run(emitted->entry, words, program, extent);
        if (!failed.empty())
          error = failed;
        if (!error.empty())
          return fail(error);
      }
  return 0;
}

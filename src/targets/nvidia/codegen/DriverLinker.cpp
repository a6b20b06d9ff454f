// The assembler inside the NVIDIA driver (cuLink*), for machines that have a GPU and no toolkit.
#include "targets/nvidia/codegen/Assembler.h"

#include "support/settings.h"

#include <dlfcn.h>

namespace nereid::nvidia {
namespace {

// Of cuda.h.
struct LinkState;
enum JitOption : int {
  InfoLogBuffer = 3,
  InfoLogBufferBytes = 4,
  ErrorLogBuffer = 5,
  ErrorLogBufferBytes = 6,
  OptimizationLevel = 7,
  TargetOption = 9,
  LogVerbose = 12,
  GenerateLineInfo = 13,
};
constexpr int inputPtx = 1;                 // CU_JIT_INPUT_PTX
constexpr int archSpecificOffset = 0x10000; // CU_COMPUTE_ACCELERATED_TARGET_BASE

struct Functions {
  int (*init)(unsigned) = nullptr;
  int (*driverVersion)(int *) = nullptr;
  int (*deviceGet)(int *, int) = nullptr;
  int (*contextCurrent)(void **) = nullptr;
  int (*contextPush)(void *) = nullptr;
  int (*contextPop)(void **) = nullptr;
  int (*primaryRetain)(void **, int) = nullptr;
  int (*primaryRelease)(int) = nullptr;
  int (*linkCreate)(unsigned, int *, void **, LinkState **) = nullptr;
  int (*linkAddData)(LinkState *, int, void *, size_t, const char *, unsigned, int *,
                     void **) = nullptr;
  int (*linkComplete)(LinkState *, void **, size_t *) = nullptr;
  int (*linkDestroy)(LinkState *) = nullptr;
};

class DriverLinker final : public Assembler {
public:
  DriverLinker(Functions functions, int version) : f(functions), version(version) {}

  std::string description() const override {
    return "the NVIDIA driver (CUDA " + std::to_string(version / 1000) + "." +
           std::to_string(version % 1000 / 10) + ")";
  }
  int ptxVersion() const override { return ptxVersionOfCuda(version / 1000, version % 1000 / 10); }
  std::string defect() const override {
    return "it takes several times as long as the others: install `nvidia-nvjitlink>=13.3`";
  }

  llvm::Expected<Assembly> assemble(llvm::StringRef ptx, llvm::StringRef kernel,
                                    const AssembleOptions &options) const override {
    // Linking wants a context; borrow the first device's when the thread has none.
    void *context = nullptr;
    bool borrowed = false;
    if (f.contextCurrent(&context) != 0 || !context) {
      int device = 0;
      if (f.deviceGet(&device, 0) != 0 || f.primaryRetain(&context, device) != 0)
        return llvm::createStringError(
            "the NVIDIA driver cannot be used to assemble: it gives no context");
      if (f.contextPush(context) != 0) {
        f.primaryRelease(device);
        return llvm::createStringError(
            "the NVIDIA driver cannot be used to assemble: it gives no context");
      }
      borrowed = true;
    }
    Assembly assembly;
    llvm::Error error = run(ptx, kernel, options, assembly);
    if (borrowed) {
      f.contextPop(&context);
      f.primaryRelease(0);
    }
    if (error)
      return std::move(error);
    return assembly;
  }

private:
  llvm::Error run(llvm::StringRef ptx, llvm::StringRef kernel, const AssembleOptions &options,
                  Assembly &assembly) const {
    std::string info(1 << 16, '\0'), errors(1 << 14, '\0');
    intptr_t target = options.arch.sm + (options.arch.archSpecific ? archSpecificOffset : 0);
    int names[] = {InfoLogBuffer,     InfoLogBufferBytes, ErrorLogBuffer, ErrorLogBufferBytes,
                   OptimizationLevel, TargetOption,       LogVerbose,     GenerateLineInfo};
    // Optimisation goes to 4 here, which is the program's 3.
    void *values[] = {
        info.data(),
        reinterpret_cast<void *>(info.size()),
        errors.data(),
        reinterpret_cast<void *>(errors.size()),
        reinterpret_cast<void *>(intptr_t(options.optLevel == 3 ? 4 : options.optLevel)),
        reinterpret_cast<void *>(target),
        reinterpret_cast<void *>(intptr_t(1)),
        reinterpret_cast<void *>(intptr_t(1))};
    LinkState *link = nullptr;
    int code = f.linkCreate(std::size(names), names, values, &link);
    if (code != 0)
      return assemblerError(description(), kernel, "error " + std::to_string(code));
    std::string source = ptx.str(), name = kernel.str();
    void *image = nullptr;
    size_t bytes = 0;
    code = f.linkAddData(link, inputPtx, source.data(), source.size() + 1, name.c_str(), 0, nullptr,
                         nullptr);
    if (code == 0)
      code = f.linkComplete(link, &image, &bytes);
    if (code == 0)
      assembly.cubin.assign(static_cast<const char *>(image), bytes);
    f.linkDestroy(link);
    if (code != 0)
      return assemblerError(description(), kernel,
                            std::string(errors.c_str()) + "\nerror " + std::to_string(code));
    readLog(info.c_str(), kernel, assembly);
    return llvm::Error::success();
  }

  Functions f;
  int version;
};

} // namespace

std::unique_ptr<Assembler> openDriverLinker(NoAssembler &none) {
  std::string path = Settings::current().cudaLibrary();
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    none.why = "there is no NVIDIA driver (`" + path + "`)";
    return nullptr;
  }
  Functions f;
  auto resolve = [&](const char *name, auto &function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  int version = 0;
  if (!(resolve("cuInit", f.init) && resolve("cuDriverGetVersion", f.driverVersion) &&
        resolve("cuDeviceGet", f.deviceGet) && resolve("cuCtxGetCurrent", f.contextCurrent) &&
        resolve("cuCtxPushCurrent_v2", f.contextPush) &&
        resolve("cuCtxPopCurrent_v2", f.contextPop) &&
        resolve("cuDevicePrimaryCtxRetain", f.primaryRetain) &&
        resolve("cuDevicePrimaryCtxRelease_v2", f.primaryRelease) &&
        resolve("cuLinkCreate_v2", f.linkCreate) && resolve("cuLinkAddData_v2", f.linkAddData) &&
        resolve("cuLinkComplete", f.linkComplete) && resolve("cuLinkDestroy", f.linkDestroy)) ||
      f.driverVersion(&version) != 0) {
    none.why = "the NVIDIA driver is too old";
    return nullptr;
  }
  if (int code = f.init(0)) {
    none.why = "the NVIDIA driver does not start (error " + std::to_string(code) + ")";
    return nullptr;
  }
  return std::make_unique<DriverLinker>(f, version);
}

} // namespace nereid::nvidia

// The assembler inside this process: libnvJitLink, opened at run time.
//
// Its functions carry the library's version in their names (`__nvJitLinkCreate_13_0`); a library
// offers those of every release of its major version up to its own, all of the same shape.
#include "targets/nvidia/codegen/Assembler.h"
#include "targets/nvidia/codegen/CrashGuard.h"
#include "targets/nvidia/codegen/Toolkit.h"

#include "llvm/ADT/STLExtras.h"

#include <atomic>
#include <dlfcn.h>

namespace nereid::nvidia {
namespace {

struct Link; // nvJitLink's own

struct Functions {
  int (*create)(Link **, uint32_t, const char *const *) = nullptr;
  int (*destroy)(Link **) = nullptr;
  int (*addData)(Link *, int, const void *, size_t, const char *) = nullptr;
  int (*complete)(Link *) = nullptr;
  int (*cubinSize)(Link *, size_t *) = nullptr;
  int (*cubin)(Link *, void *) = nullptr;
  int (*errorLogSize)(Link *, size_t *) = nullptr;
  int (*errorLog)(Link *, char *) = nullptr;
  int (*infoLogSize)(Link *, size_t *) = nullptr;
  int (*infoLog)(Link *, char *) = nullptr;
};

constexpr int inputPtx = 2; // NVJITLINK_INPUT_PTX

template <typename T>
bool resolve(void *library, const char *name, const std::string &suffix, T &function) {
  function = reinterpret_cast<T>(dlsym(library, ("__nvJitLink" + (name + suffix)).c_str()));
  return function != nullptr;
}

bool resolveAll(void *library, const std::string &suffix, Functions &f) {
  return resolve(library, "Create", suffix, f.create) &&
         resolve(library, "Destroy", suffix, f.destroy) &&
         resolve(library, "AddData", suffix, f.addData) &&
         resolve(library, "Complete", suffix, f.complete) &&
         resolve(library, "GetLinkedCubinSize", suffix, f.cubinSize) &&
         resolve(library, "GetLinkedCubin", suffix, f.cubin) &&
         resolve(library, "GetErrorLogSize", suffix, f.errorLogSize) &&
         resolve(library, "GetErrorLog", suffix, f.errorLog) &&
         resolve(library, "GetInfoLogSize", suffix, f.infoLogSize) &&
         resolve(library, "GetInfoLog", suffix, f.infoLog);
}

class NvJitLink final : public Assembler {
public:
  NvJitLink(Functions functions, int major, int minor, std::string path)
      : f(functions), code(codeOfLibraryWith(reinterpret_cast<const void *>(functions.complete))),
        major(major), minor(minor), path(std::move(path)) {}

  std::string description() const override {
    return "nvJitLink " + std::to_string(major) + "." + std::to_string(minor) + " (" + path + ")";
  }
  int ptxVersion() const override { return ptxVersionOfCuda(major, minor); }
  bool hasCrashed() const override { return crashed; }
  std::string defect() const override {
    // Seen in 12.9, 13.0 and 13.1, no longer in 13.3.
    bool isOld = major < 13 || (major == 13 && minor < 3);
    return isOld ? "releases before 13.3 crash at some code, which a `ptxas` then assembles: "
                   "install `nvidia-nvjitlink>=13.3`"
                 : "";
  }

  llvm::Expected<Assembly> assemble(llvm::StringRef ptx, llvm::StringRef kernel,
                                    const AssembleOptions &options) const override {
    std::string arch = "-arch=" + options.arch.name();
    // Only 0 and 3 are levels of nvJitLink itself; its ptxas knows all.
    std::string level = "-Xptxas=-O" + std::to_string(options.optLevel);
    std::vector<const char *> words{arch.c_str(), level.c_str(), "-Xptxas=-v", "-no-cache"};
    std::vector<std::string> further;
    for (llvm::StringRef word : options.words())
      further.push_back("-Xptxas=" + word.str());
    for (const std::string &word : further)
      words.push_back(word.c_str());
    Link *link = nullptr;
    Assembly assembly;
    CrashGuard guard(code);
    int status = 0;
    if (guard.call(status, f.create, &link, uint32_t(words.size()), words.data())) {
      if (status != 0)
        return assemblerError(description(), kernel,
                              "error " + std::to_string(status) + ": is " + options.arch.name() +
                                  " too new for it?");
      llvm::Error error = run(guard, link, ptx, kernel, assembly);
      if (!guard.hasCrashed())
        guard.call(status, f.destroy, &link);
      if (error)
        return std::move(error);
    }
    if (!guard.hasCrashed())
      return assembly;
    // Its memory is lost, and its locks may be held.
    crashed = true;
    return llvm::make_error<AssemblerCrashed>(description() + " crashed at `" + kernel.str() + "`");
  }

private:
  std::string text(CrashGuard &guard, Link *link, int (*size)(Link *, size_t *),
                   int (*get)(Link *, char *)) const {
    size_t bytes = 0;
    int status = 0;
    if (!guard.call(status, size, link, &bytes) || status != 0 || bytes == 0)
      return "";
    std::string log(bytes, '\0');
    if (!guard.call(status, get, link, log.data()) || status != 0)
      return "";
    log.resize(log.find('\0') == std::string::npos ? bytes : log.find('\0'));
    return log;
  }

  /// Success also where the guard saw a crash.
  llvm::Error run(CrashGuard &guard, Link *link, llvm::StringRef ptx, llvm::StringRef kernel,
                  Assembly &assembly) const {
    // The text needs its final zero.
    std::string source = ptx.str();
    std::string name = kernel.str();
    size_t bytes = 0;
    int status = 0;
    bool isAlive =
        guard.call(status, f.addData, link, inputPtx, static_cast<const void *>(source.c_str()),
                   source.size() + 1, name.c_str());
    if (isAlive && status == 0)
      isAlive = guard.call(status, f.complete, link);
    if (isAlive && status == 0)
      isAlive = guard.call(status, f.cubinSize, link, &bytes);
    if (isAlive && status == 0) {
      assembly.cubin.resize(bytes);
      isAlive = guard.call(status, f.cubin, link, static_cast<void *>(assembly.cubin.data()));
    }
    if (isAlive && status != 0) {
      std::string log = text(guard, link, f.errorLogSize, f.errorLog);
      if (llvm::StringRef(log).trim().empty() && !guard.hasCrashed())
        log = text(guard, link, f.infoLogSize, f.infoLog) + "error " + std::to_string(status);
      if (!guard.hasCrashed())
        return assemblerError(description(), kernel, log);
    } else if (isAlive) {
      readLog(text(guard, link, f.infoLogSize, f.infoLog), kernel, assembly);
    }
    return llvm::Error::success();
  }

  Functions f;
  CodeRange code;
  int major, minor;
  std::string path;
  mutable std::atomic<bool> crashed = false;
};

std::unique_ptr<Assembler> tryLibrary(const std::string &path, int major, std::string &why) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    why = dlerror();
    return nullptr;
  }
  Functions functions;
  bool found = false;
  for (int minor = 0; minor < 10 && !found; ++minor)
    found =
        resolveAll(library, "_" + std::to_string(major) + "_" + std::to_string(minor), functions);
  if (!found) {
    dlclose(library);
    why = path + ": it has not the functions of nvJitLink";
    return nullptr;
  }
  unsigned release[2] = {unsigned(major), 0};
  if (auto *version =
          reinterpret_cast<int (*)(unsigned *, unsigned *)>(dlsym(library, "nvJitLinkVersion")))
    version(&release[0], &release[1]);
  std::string place = path;
  Dl_info info;
  if (dladdr(reinterpret_cast<void *>(functions.create), &info) && info.dli_fname)
    place = info.dli_fname;
  // Stays open for the life of the process.
  return std::make_unique<NvJitLink>(functions, int(release[0]), int(release[1]), place);
}

} // namespace

std::unique_ptr<Assembler> openNvJitLink(NoAssembler &none) {
  std::string broken;
  for (int major : {13, 12}) {
    std::string name = "libnvJitLink.so." + std::to_string(major);
    // First the one that is loaded already (torch's) or on the loader's path.
    std::string why;
    if (auto assembler = tryLibrary(name, major, why))
      return assembler;
    for (const std::string &path : findLibraries(name)) {
      if (auto assembler = tryLibrary(path, major, why))
        return assembler;
      if (broken.empty())
        broken = why;
    }
  }
  none.isThere = !broken.empty();
  none.why = broken.empty() ? "no library `libnvJitLink` was found"
                            : "nvJitLink cannot be used (" + broken + ")";
  return nullptr;
}

} // namespace nereid::nvidia

#include "runtime/devices/cuda_driver.h"

#include "runtime/launch_state.h"
#include "support/first_use.h"
#include "support/settings.h"

#include <atomic>
#include <dlfcn.h>
#include <pthread.h>

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cuda;

std::string Driver::describe(Result result) const {
  const char *name = nullptr, *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  if (!name)
    return "error " + std::to_string(result);
  return text ? std::string(name) + ": " + text : name;
}

namespace {

/// The driver's library, for the life of the process: it cannot be closed, since what it handed out
/// lives on.
struct DriverLibrary {
  Driver driver;
  std::unique_ptr<Error> error;

  DriverLibrary() { error = open(); }

  ErrorPtr open() {
    std::string path = Settings::current().cudaLibrary();
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *why = dlerror();
      return makeError(NRD_ERROR_RUNTIME, "", diag::NoCudaDriver, why ? why : "unknown error");
    }
#define NEREID_RESOLVE(Name, Params)                                                               \
  driver.Name = reinterpret_cast<Result(*) Params>(dlsym(library, #Name));                         \
  if (!driver.Name)                                                                                \
    return makeError(NRD_ERROR_RUNTIME, "", diag::CudaDriverTooOld, #Name);
    NEREID_CUDA_FUNCTIONS(NEREID_RESOLVE)
#undef NEREID_RESOLVE
    return nullptr;
  }
};

const DriverLibrary &library() {
  static constinit FirstUse<const DriverLibrary> once;
  return once.get();
}

/// The driver, initialised.
struct Opened {
  Driver driver;
  std::unique_ptr<Error> error;

  Opened() { error = open(); }

  ErrorPtr open() {
    if (library().error)
      return std::make_unique<Error>(*library().error);
    driver = library().driver;
    driver.cuDriverGetVersion(&driver.version);
    Result result = driver.cuInit(0);
    if (result == Success)
      result = driver.cuDeviceGetCount(&driver.deviceCount);
    if (result != Success)
      return makeError(NRD_ERROR_RUNTIME, "", diag::NoCudaDevice, driver.describe(result));
    if (!driver.deviceCount)
      return makeError(NRD_ERROR_RUNTIME, "", diag::NoCudaDevice, "it reports 0 devices");
    return nullptr;
  }
};

const Opened &opened() {
  static constinit FirstUse<const Opened> once;
  return once.get();
}

//===--- forks
//----------------------------------------------------------------------------------===//

/// Whether CUDA is in use here.
std::atomic<bool> inUse = false;
auto &inherited = launchState.inherited;

void beforeFork() {
  if (inUse || inherited)
    return;
  // The driver, if someone has opened it; it counts devices only once it was initialised.
  void *library = dlopen(Settings::current().cudaLibrary().c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (!library)
    return;
  auto count = reinterpret_cast<Result (*)(int *)>(dlsym(library, "cuDeviceGetCount"));
  int devices = 0;
  if (count && count(&devices) == Success && devices > 0 && !opened().error) {
    remember(opened().driver);
    inUse = true;
  }
  dlclose(library);
}

void inChild() {
  if (inUse)
    inherited = true;
}

[[maybe_unused]] const int registered = pthread_atfork(&beforeFork, nullptr, &inChild);

} // namespace

ErrorPtr Driver::known(const Driver *&out) {
  const Opened &once = opened();
  if (once.error)
    return std::make_unique<Error>(*once.error);
  out = &once.driver;
  return nullptr;
}

ErrorPtr Driver::get(const Driver *&out) {
  if (inherited.load(std::memory_order_relaxed)) [[unlikely]]
    return makeError(NRD_ERROR_RUNTIME, "", diag::CudaAfterFork);
  return known(out);
}

const Driver *Driver::tryKnown() {
  const Opened &once = opened();
  return once.error ? nullptr : &once.driver;
}

const Driver *Driver::tryOpen() {
  const DriverLibrary &once = library();
  return once.error ? nullptr : &once.driver;
}

const Driver *Driver::tryGet() {
  return inherited.load(std::memory_order_relaxed) ? nullptr : tryKnown();
}

// The C ABI: timing a kernel.
#include "nereid/measure.h"
#include "runtime/c_api.h"
#include "runtime/devices/cuda.h"
#include "runtime/devices/measure.h"
#include "runtime/kernel.h"

#include <algorithm>

using namespace nereid;
using namespace nereid::runtime;

void CacheSweeper::sweep() {
  // More than the third-level cache of the largest servers a core can fill.
  memory.resize(size_t(256) << 20);
  for (size_t i = 0; i < memory.size(); i += 64)
    ++memory[i];
}

static ErrorPtr measureOnHost(llvm::function_ref<ErrorPtr()> run, const nrd_measure_plan &plan,
                              size_t capacity, std::vector<double> &times) {
  using Clock = std::chrono::steady_clock;
  CacheSweeper sweeper;
  auto once = [&](double &ms) -> ErrorPtr {
    if (plan.cold)
      sweeper.sweep();
    auto start = Clock::now();
    ErrorPtr error = run();
    ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    return error;
  };
  double each = 0, spent = 0;
  // The first run starts threads.
  size_t done = 0;
  do {
    if (ErrorPtr error = once(each))
      return error;
    spent += each;
    ++done;
  } while (done < 3 || (spent < plan.warmup && done < 1'000'000));
  for (Progress progress(plan, capacity); progress.wantsMore(); progress.add(each)) {
    if (ErrorPtr error = once(each))
      return error;
    times.push_back(each);
  }
  return nullptr;
}

nrd_error *nrd_kernel_measure(nrd_kernel *kernel, const nrd_arg *args, size_t count,
                              const nrd_launch *launch, const nrd_measure_plan *plan, double *times,
                              size_t capacity, size_t *runs) {
  std::vector<double> all;
  std::vector<nrd_arg> own(args, args + count);
  nrd_launch how = *launch;
  ErrorPtr error;
  auto run = [&](const nrd_launch &at) -> ErrorPtr {
    return taken(nrd_kernel_launch(kernel, own.data(), own.size(), &at));
  };
  if (capacity == 0) {
    *runs = 0;
    return nullptr;
  }
  if (kernel->request.target.backend == Backend::Cpu) {
    error = measureOnHost([&] { return run(how); }, *plan, capacity, all);
  } else {
    int device = 0;
    error = cuda::deviceOfLaunch(own, launch, device);
    cuda::HostCopies copies;
    if (!error)
      error = copies.make(own, device);
    how.device = uint8_t(device + 1);
    if (!error)
      error = cuda::measure(run, how, *plan, capacity, all);
  }
  if (error)
    return wrap(std::move(error));
  *runs = all.size();
  std::copy(all.begin(), all.end(), times);
  return nullptr;
}

// The C ABI: timing a kernel.
#include "nereid/measure.h"
#include "runtime/c_api.h"
#include "runtime/devices/cuda.h"
#include "runtime/kernel.h"
#include "runtime/measure/measure.h"

#include <algorithm>

using namespace nereid;
using namespace nereid::runtime;

nrd_error *nrd_kernel_measure(nrd_kernel *kernel, const nrd_arg *args, size_t count,
                              const nrd_launch *launch, const nrd_measure_plan *plan, double *times,
                              size_t capacity, size_t *runs) try {
  NRD_NEEDS(kernel);
  NRD_NEEDS_ARRAY(args, count);
  NRD_NEEDS(launch);
  NRD_NEEDS(plan);
  NRD_NEEDS_ARRAY(times, capacity);
  NRD_NEEDS(runs);
  *runs = 0;
  if (plan->size != sizeof *plan)
    return badArgument(__func__, "plan->size", std::to_string(sizeof *plan),
                       std::to_string(plan->size));
  if (count > mostItems)
    return badArgument(__func__, "count", "at most " + std::to_string(mostItems),
                       std::to_string(count));
  if (capacity == 0)
    return nullptr;
  std::vector<nrd_arg> own(args, args + count);
  nrd_launch how = *launch;
  std::unique_ptr<Meter> meter;
  cuda::HostCopies copies;
  ErrorPtr error;
  if (kernel->request.target.backend == Backend::Cpu) {
    meter = cpuMeter();
  } else {
    int device = 0;
    error = cuda::deviceOfLaunch(own, launch, device);
    if (!error)
      error = copies.make(own, device);
    how.device = uint8_t(device + 1);
    how.stream = cuda::streamOfLaunch(how, device);
    how.with_stream = 1;
    if (!error)
      error = cudaMeter(device, how.stream, meter);
  }
  std::vector<double> all;
  auto run = [&] { return taken(nrd_kernel_launch(kernel, own.data(), own.size(), &how)); };
  if (!error)
    error = measure(*meter, run, *plan, capacity, all);
  if (error)
    return wrap(std::move(error));
  *runs = all.size();
  std::copy(all.begin(), all.end(), times);
  return nullptr;
}
NRD_CATCH_ERROR

// The C ABI: CUDA devices.
#include "runtime/c_api.h"
#include "runtime/devices/cuda.h"

#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace nereid;
using namespace nereid::runtime;

int nrd_cuda_device_count(void) {
  return cuda::deviceCount();
}

nrd_error *nrd_cuda_check(void) {
  return wrap(cuda::check());
}

nrd_error *nrd_cuda_current_device(int *out) {
  return wrap(cuda::currentDevice(*out));
}

nrd_error *nrd_cuda_set_current_device(int device) {
  return wrap(cuda::setCurrentDevice(device));
}

nrd_error *nrd_cuda_device_properties(int device, char **json) {
  llvm::json::Object object;
  if (ErrorPtr error = cuda::properties(device, object))
    return wrap(std::move(error));
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  *json = strdup(text.c_str());
  return nullptr;
}

int nrd_cuda_device_of(const void *address) {
  return cuda::deviceOfAddress(address);
}

nrd_error *nrd_cuda_synchronize(int device) {
  return wrap(cuda::synchronize(device));
}

void nrd_set_stream_provider(nrd_stream_provider provider) {
  cuda::setStreamProvider(provider);
}

// The C ABI: CUDA devices.
#include "runtime/c_api.h"
#include "runtime/devices/cuda.h"

#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace nereid;
using namespace nereid::runtime;

int nrd_cuda_device_count(void) try { return cuda::deviceCount(); }
NRD_CATCH_AND(return 0)

nrd_error *nrd_cuda_check(void) try { return wrap(cuda::check()); }
NRD_CATCH_ERROR

nrd_error *nrd_cuda_current_device(int *out) try {
  NRD_NEEDS(out);
  return wrap(cuda::currentDevice(*out));
}
NRD_CATCH_ERROR

nrd_error *nrd_cuda_set_current_device(int device) try {
  return wrap(cuda::setCurrentDevice(device));
}
NRD_CATCH_ERROR

nrd_error *nrd_cuda_device_properties(int device, char **json) try {
  NRD_NEEDS(json);
  llvm::json::Object object;
  if (ErrorPtr error = cuda::properties(device, object))
    return wrap(std::move(error));
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(object));
  *json = strdup(text.c_str());
  return nullptr;
}
NRD_CATCH_ERROR

int nrd_cuda_device_of(const void *address) try { return cuda::deviceOfAddress(address); }
NRD_CATCH_AND(return 0)

nrd_error *nrd_cuda_synchronize(int device) try { return wrap(cuda::synchronize(device)); }
NRD_CATCH_ERROR

void nrd_set_stream_provider(nrd_stream_provider provider) try {
  cuda::setStreamProvider(provider);
}
NRD_CATCH

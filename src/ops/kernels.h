// Compiled kernels by what calls need, and their launches.
//
// Entries of a table are written once, the key before the kernel, and a table that has become too
// small lives on beside its successor (together they are smaller than it). So calls look a kernel
// up without a lock.
#pragma once

#include "fork.h"
#include "operands.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

namespace nereid::ops {

/// The functions of libnereid that the router calls.
struct Library {
  decltype(&nrd_kernel_launch) launch = nullptr;
  decltype(&nrd_error_message) message = nullptr;
  decltype(&nrd_error_free) free = nullptr;
  OpsPrepare prepare = nullptr;
  /// aoti_torch_get_current_cuda_stream of a PyTorch with CUDA, else null.
  int32_t (*currentStream)(int32_t device, void **stream) = nullptr;
};
extern Library library;

class Kernels {
public:
  /// Raises c10::Error where the kernel cannot be compiled.
  nrd_kernel *find(const OpsKey &key) {
    const Table *table = current.load(std::memory_order_acquire);
    if (table)
      for (size_t i = hash(key) & table->mask;; i = (i + 1) & table->mask) {
        const Entry &entry = table->entries[i];
        nrd_kernel *kernel = entry.kernel.load(std::memory_order_acquire);
        if (!kernel)
          break;
        if (!std::memcmp(&entry.key, &key, sizeof key))
          return kernel;
      }
    return make(key);
  }

private:
  struct Entry {
    OpsKey key;
    std::atomic<nrd_kernel *> kernel = nullptr;
  };
  struct Table {
    explicit Table(size_t size) : mask(size - 1), entries(std::make_unique<Entry[]>(size)) {}
    void insert(const OpsKey &key, nrd_kernel *kernel);

    size_t mask, used = 0;
    std::unique_ptr<Entry[]> entries;
  };
  static size_t hash(const OpsKey &key) {
    static_assert(sizeof(OpsKey) % 8 == 0);
    uint64_t words[sizeof(OpsKey) / 8], mixed = 0;
    std::memcpy(words, &key, sizeof key);
    for (uint64_t word : words)
      mixed = (mixed ^ word) * 0x9e3779b97f4a7c15u ^ mixed >> 29;
    return size_t(mixed ^ mixed >> 32);
  }
  nrd_kernel *make(const OpsKey &key);
  void add(const OpsKey &key, nrd_kernel *kernel);

  std::atomic<Table *> current = nullptr;
  ForkMutex<std::mutex> mutex;
};

/// Launches a kernel on a device, there on the current stream. Raises c10::Error where it fails.
void start(nrd_kernel *kernel, const nrd_arg *args, size_t count, const uint32_t (&grid)[3],
           c10::Device device);

/// The arguments of a launch, in order.
class Launch {
public:
  explicit Launch(c10::Device device) : device(device) {}

  void pointer(const void *address, Code code) {
    nrd_arg &arg = next(NRD_ARG_POINTER);
    arg.dtype = elementTypes[code];
    arg.memory =
        device.is_cuda() ? uint8_t(NRD_MEMORY_CUDA + device.index()) : uint8_t(NRD_MEMORY_UNKNOWN);
    arg.p = const_cast<void *>(address);
  }
  void number(const Number &number) {
    if (number.isFloat)
      next(NRD_ARG_FLOAT).f = number.real;
    else
      integer(number.integer);
  }
  void integer(int64_t value) { next(NRD_ARG_INT).i = value; }
  /// As `start`.
  void run(nrd_kernel *kernel, uint32_t programs) const {
    start(kernel, args, count, {programs, 1, 1}, device);
  }

private:
  nrd_arg &next(uint8_t kind) {
    TORCH_INTERNAL_ASSERT(count < sizeof args / sizeof *args);
    nrd_arg &arg = args[count++];
    std::memset(&arg, 0, sizeof arg);
    arg.kind = kind;
    return arg;
  }

  c10::Device device;
  size_t count = 0;
  nrd_arg args[(OPS_MAX_OUTPUTS + OPS_MAX_OPERANDS) * (OPS_MAX_RANK + 1) + OPS_MAX_OPERANDS +
               OPS_MAX_RANK + 1];
};

/// A new tensor in torch's memory, as at::empty_strided without the dispatcher.
at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                    c10::Device device);

} // namespace nereid::ops

#include "kernels.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>

namespace nereid::ops {

Library library;

std::optional<Number> numberOf(const c10::IValue &value) {
  if (value.isDouble())
    return Number::of(value.toDouble());
  if (value.isInt())
    return Number::of(value.toInt());
  if (value.isBool()) {
    Number number = Number::of(int64_t(value.toBool()));
    number.kind = 0;
    return number;
  }
  return std::nullopt;
}

std::optional<Number> numberOf(const at::Tensor &tensor) {
  const void *data = tensor.const_data_ptr();
  switch (codeOf(tensor.scalar_type())) {
  case Bool: {
    Number number = Number::of(int64_t(*static_cast<const uint8_t *>(data) != 0));
    number.kind = 0;
    return number;
  }
  case U8:
    return Number::of(int64_t(*static_cast<const uint8_t *>(data)));
  case I8:
    return Number::of(int64_t(*static_cast<const int8_t *>(data)));
  case I16:
    return Number::of(int64_t(*static_cast<const int16_t *>(data)));
  case I32:
    return Number::of(int64_t(*static_cast<const int32_t *>(data)));
  case I64:
    return Number::of(*static_cast<const int64_t *>(data));
  case F16:
    return Number::of(double(float(*static_cast<const at::Half *>(data))));
  case BF16:
    return Number::of(double(float(*static_cast<const at::BFloat16 *>(data))));
  case F32:
    return Number::of(double(*static_cast<const float *>(data)));
  case F64:
    return Number::of(*static_cast<const double *>(data));
  default:
    return std::nullopt;
  }
}

nrd_kernel *Kernels::make(const OpsKey &key) {
  char error[4096] = "";
  auto *kernel = static_cast<nrd_kernel *>(library.prepare(&key, error, sizeof error));
  TORCH_CHECK(kernel, "nereid.ops: ", error);
  add(key, kernel);
  return kernel;
}

void Kernels::Table::insert(const OpsKey &key, nrd_kernel *kernel) {
  size_t i = hash(key) & mask;
  for (; entries[i].kernel.load(std::memory_order_relaxed); i = (i + 1) & mask)
    if (!std::memcmp(&entries[i].key, &key, sizeof key))
      return; // another thread made it, too
  entries[i].key = key;
  entries[i].kernel.store(kernel, std::memory_order_release);
  ++used;
}

void Kernels::add(const OpsKey &key, nrd_kernel *kernel) {
  std::lock_guard lock(mutex);
  Table *table = current.load(std::memory_order_relaxed);
  if (!table || table->used * 2 > table->mask) {
    auto *larger = new Table(table ? 2 * (table->mask + 1) : 16);
    for (size_t i = 0; table && i <= table->mask; ++i)
      if (nrd_kernel *its = table->entries[i].kernel.load(std::memory_order_relaxed))
        larger->insert(table->entries[i].key, its);
    current.store(larger, std::memory_order_release);
    table = larger;
  }
  table->insert(key, kernel);
}

void start(nrd_kernel *kernel, const nrd_arg *args, size_t count, const uint32_t (&grid)[3],
           c10::Device device) {
  nrd_launch launch{};
  std::copy(std::begin(grid), std::end(grid), launch.grid);
  if (device.is_cuda()) {
    launch.device = uint8_t(device.index() + 1);
    launch.with_stream = 1;
    TORCH_CHECK(!library.currentStream(device.index(), &launch.stream),
                "nereid.ops: no current stream");
  }
  if (nrd_error *error = library.launch(kernel, args, count, &launch)) [[unlikely]] {
    std::string text = library.message(error);
    library.free(error);
    TORCH_CHECK(false, text);
  }
}

at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                    c10::Device device) {
  if (device.is_cpu())
    return at::detail::empty_strided_cpu(sizes, strides, type);
  c10::Allocator *allocator = c10::GetAllocator(c10::DeviceType::CUDA);
  return at::detail::empty_strided_generic(sizes, strides, allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA), type);
}

} // namespace nereid::ops

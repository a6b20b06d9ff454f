// Embedded kernels: every kind of argument, the choice of variants, and what goes wrong. Runs on
// the GPU instead with the argument `cuda`.
#include "add.h"
#include "check.h"
#include "checked.h"
#include "choice.h"
#include "count.h"
#include "elsewhere.h"
#include "nothing.h"
#include "scale.h"
#include "special.h"
#include "together.h"
#include "transpose.h"

#include <cmath>
#include <cstdlib>
#include <new>
#include <numeric>
#include <thread>

/// How many allocations of the program succeed before one fails; negative: all.
static thread_local int allocationsLeft = -1;

// Not inlined: GCC then sees `malloc` meet `delete` and warns.
[[gnu::noinline]] void *operator new(size_t bytes) {
  if (allocationsLeft == 0)
    throw std::bad_alloc();
  if (allocationsLeft > 0)
    --allocationsLeft;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}

namespace {

nereid::Device device;

template <typename T> nereid::Buffer<T> onDevice(const std::vector<T> &values) {
  auto buffer = nereid::Buffer<T>::allocate(device, values.size());
  buffer.copyFrom(values);
  return buffer;
}

template <typename T> std::vector<T> onHost(const nereid::Buffer<T> &buffer) {
  std::vector<T> values(buffer.size());
  buffer.copyTo(values);
  return values;
}

std::vector<float> sequence(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

void addition(nereid::Stream &stream) {
  static_assert(kernels::scale_kernel::BLOCK == 128);
  for (int n : {1024, 5000, 1, 4096}) {
    auto x = onDevice(sequence(n)), y = onDevice(sequence(n)), out = onDevice(sequence(n));
    kernels::add({(n + 1023) / 1024}, stream, x, y, out, n);
    stream.synchronize();
    std::vector<float> sum = onHost(out);
    for (int i = 0; i < n; ++i)
      if (sum[i] != 2.0f * i) {
        CHECK(sum[i] == 2.0f * i);
        break;
      }
  }
  // Addresses that are not aligned take the other variant.
  auto x = onDevice(sequence(2049)), out = onDevice(sequence(2049));
  kernels::add({2}, stream, x.view().part(1), x.view().part(1), out.view().part(1), 2048);
  stream.synchronize();
  std::vector<float> sum = onHost(out);
  CHECK(sum[0] == 0 && sum[1] == 2 && sum[2048] == 4096);

  // 16-bit floats.
  std::vector<nereid::half> small;
  for (int i = 0; i < 100; ++i)
    small.push_back(nereid::half::from(i * 0.5f));
  auto a = onDevice(small), b = onDevice(small);
  kernels::add({1}, stream, a, a, b, 100);
  stream.synchronize();
  CHECK(onHost(b)[99].toFloat() == 99.0f);

  kernels::nothing({3}, stream);
  auto counter = onDevice(std::vector<int32_t>{0}), numbers = onDevice(std::vector<int32_t>(16));
  kernels::together({16}, stream, counter, numbers);
  stream.synchronize();
  CHECK(onHost(counter)[0] == 16 && onHost(numbers)[15] == 15);

  // Empty grids run nothing.
  kernels::add({0}, stream, x, x, out, 2048);
  kernels::add.prepare({{1}, stream}, x, x, out, 2048);
}

void choosing(nereid::Stream &stream) {
  auto out = onDevice(std::vector<int32_t>(300, 0));
  for (int block : {64, 256}) {
    deep::inside::choice({300 / block + 1}, stream, out, 300, block);
    stream.synchronize();
    std::vector<int32_t> values = onHost(out);
    CHECK(values[0] == block && values[299] == block);
  }
  nereid::Status status = deep::inside::choice.tryLaunch({{1}, stream}, out, 300, 128);
  CHECK(!status && status.error().name() == "NoVariant");
  CHECK(std::strstr(status.error().what(), "no variant of kernel `choice` for "));
  CHECK(std::strstr(status.error().what(),
                    " fits the arguments: `BLOCK` must be 64, is 128, or `BLOCK` must be 256, is "
                    "128"));

  auto number = onDevice(std::vector<int64_t>{0});
  for (int64_t start : {int64_t(1), int64_t(7), int64_t(-1), int64_t(1) << 40}) {
    kernels::count({1}, stream, number, start);
    stream.synchronize();
    CHECK(onHost(number)[0] == start + 1);
  }
  status = kernels::count.tryLaunch({{1}, stream}, number, uint64_t(1) << 63);
  CHECK(!status && status.error().kind() == nereid::ErrorKind::Argument);
  CHECK_TEXT(status.error().what(),
             "the number given for `start` of kernel `count` does not fit its type");
}

void options(nereid::Stream &stream) {
  auto x = onDevice(sequence(200)), bias = onDevice(sequence(200)), out = onDevice(sequence(200));
  auto run = [&](auto biasOrNull, bool twice, bool negative) {
    kernels::scale({2}, stream, x, biasOrNull, out, 200, 0.5, twice, negative);
    stream.synchronize();
    return onHost(out)[100];
  };
  CHECK(run(nullptr, true, false) == 100);
  CHECK(run(bias.view(), true, false) == 300);
  CHECK(run(bias.view(), false, true) == -150);
  nereid::Status status =
      kernels::scale.tryLaunch({{2}, stream}, x, nullptr, out, 200, 0.5f, false, false);
  CHECK(!status && std::strstr(status.error().what(), "`bias_ptr` must not be null"));
}

void descriptors(nereid::Stream &stream) {
  const int rows = 70, columns = 100;
  auto x = onDevice(sequence(rows * columns)), out = onDevice(sequence(rows * columns));
  nereid::Descriptor<const float, 2> source(x, {rows, columns});
  kernels::transpose({3, 4}, stream, source, out, rows, columns);
  stream.synchronize();
  std::vector<float> values = onHost(out);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      if (values[j * rows + i] != float(i * columns + j)) {
        CHECK(values[j * rows + i] == float(i * columns + j));
        return;
      }
}

/// What runs on the CPU alone.
void onCpu() {
  std::vector<float> x = sequence(3000), out(3000);
  kernels::add({3}, x, x, out, 3000); // without a stream: where the memory is
  CHECK(out[2999] == 5998);
  std::span<const float> view = x;
  kernels::add(nereid::Launch({3}).withThreads(1), view, view.data(), out, 3000);
  CHECK(out[2999] == 5998);

  std::vector<double> z = {0.0, 0.5, -0.25}, result(3);
  kernels::special({1}, z, result, 3);
  CHECK(std::fabs(result[1] - (0.4769362762044699 + 1.0634833707413236)) < 1e-12);

  // Prints go to standard output; a failing assertion names place, text and program.
  std::vector<int32_t> numbers = {0, 1, 2, 3, 4, 5, 6, 7};
  kernels::checked({1}, numbers, 8);
  std::fflush(stdout);
  nereid::Status status = kernels::checked.tryLaunch({1}, numbers, 5);
  CHECK(!status && status.error().name() == "Failed");
  CHECK(std::strstr(status.error().what(),
                    ": run-time error: assertion failed: x is below the limit\n"
                    "note: in program (0, 0, 0) of kernel `checked`"));
  CHECK(std::strstr(status.error().what(), "kernels.py:"));

  // Several threads at once.
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> outs(4, std::vector<float>(3000));
  for (auto &mine : outs)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        kernels::add({3}, x, x, mine, 3000);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (auto &mine : outs)
    CHECK(mine[2999] == 5998);

  status = kernels::add.tryLaunch({-1}, x, x, out, 3000);
  CHECK_TEXT(status.error().what(), "axis 0 of the grid of `add` is -1, expected 0 to 2147483647");
  status = kernels::elsewhere.tryLaunch({{1}, nereid::Device::cpu()}, x, x, out, 3000);
  CHECK_TEXT(
      status.error().what(),
      "kernel `elsewhere` was not compiled for this processor: it has code for PTX of sm_120a");
}

/// Where there is no GPU, or none of that number.
void missingDevices() {
  std::vector<float> x = sequence(10), out(10);
  nereid::Device missing = nereid::Device::cuda(nereid::Device::cudaCount());
  nereid::Status status = kernels::add.tryLaunch({{1}, missing}, x, x, out, 10);
  CHECK(!status && status.error().name() == "NoDevice");
  CHECK(status.error().kind() == nereid::ErrorKind::Runtime);
  CHECK(!nereid::Buffer<float>::tryAllocate(missing, 10));
  CHECK(!nereid::Stream::tryCreate(missing));
  CHECK(!missing.tryInfo());
  if (nereid::Device::cudaCount() == 0) {
    status = kernels::elsewhere.tryLaunch({1}, x, x, out, 10);
    CHECK(!status && status.error().name() == "NoDevice");
    CHECK(std::strstr(status.error().what(), "there is no CUDA driver: ") ||
          std::strstr(status.error().what(), "no GPU can be used: "));
  }
}

/// Tables that are not what was embedded.
void damage() {
  nrd_embedded_launch how{};
  how.size = sizeof how;
  how.grid[0] = how.grid[1] = how.grid[2] = 1;
  how.has_stream = 1;
  how.stream.device = device.number();
  uint64_t slots[4] = {};
  nrd_embedded_kernel older = nereid_kernels_add_0;
  older.version = 0;
  CHECK(nrd_embedded_run(&older, &how, slots) == NRD_STATUS_DAMAGED);
  CHECK_TEXT(nrd_status_message(),
             "kernel `add` was embedded in form 0, and this program is linked "
             "with a run time for form 2: embed it again");
  nrd_embedded_kernel empty{};
  CHECK(nrd_embedded_run(&empty, &how, slots) == NRD_STATUS_DAMAGED);
  how.size = 8;
  CHECK(nrd_embedded_run(&nereid_kernels_add_0, &how, slots) == NRD_STATUS_ARGUMENT);
  how.size = sizeof how;

  // Parts that are null.
  auto refused = [&](const nrd_embedded_kernel &kernel, const char *part) {
    CHECK(nrd_embedded_run(&kernel, &how, slots) == NRD_STATUS_DAMAGED);
    CHECK(std::strstr(nrd_status_message(), part));
    CHECK(nrd_embedded_prepare(&kernel, &how, slots) == NRD_STATUS_DAMAGED);
  };
  nrd_embedded_kernel without = nereid_kernels_add_0;
  without.params = nullptr;
  refused(without, "its `params` is null");
  CHECK(nrd_embedded_does_not_fit(&without, 0) == NRD_STATUS_DAMAGED);
  without = nereid_kernels_add_0;
  without.variants = nullptr;
  refused(without, "its `variants` is null");
  without = nereid_kernels_add_0;
  without.states = nullptr;
  refused(without, "its `states` is null");
  std::vector<nrd_embedded_variant> variants(nereid_kernels_add_0.variants,
                                             nereid_kernels_add_0.variants +
                                                 nereid_kernels_add_0.variant_count);
  without = nereid_kernels_add_0;
  without.variants = variants.data();
  nrd_embedded_variant last = variants.back();
  variants.back().facts = nullptr;
  refused(without, "its `facts` is null");
  variants.back() = {last.facts, nullptr, nullptr};
  refused(without, "its `code` is null");
  nrd_embedded_cpu code{};
  variants.back() = {last.facts, &code, nullptr};
  refused(without, "its `entry` is null");
  code.entry = [](const void *, void *, int64_t, int64_t, void *) {};
  code.site_count = 1;
  refused(without, "its `sites` is null");
  nrd_embedded_cuda image{};
  variants.back() = {last.facts, nullptr, &image};
  refused(without, "its `image` is null");
  CHECK(nrd_embedded_run(&nereid_kernels_add_0, nullptr, slots) == NRD_STATUS_ARGUMENT);
  CHECK(nrd_embedded_run(&nereid_kernels_add_0, &how, nullptr) == NRD_STATUS_ARGUMENT);
  CHECK(nrd_embedded_run(nullptr, &how, slots) == NRD_STATUS_DAMAGED);
  if (device.isCpu())
    return;
  // A bit of the machine code.
  const nrd_embedded_kernel &good = nereid_kernels_add_0;
  for (uint64_t i = 0; i < good.variant_count; ++i) {
    if (!good.variants[i].cuda)
      continue;
    nrd_embedded_cuda code = *good.variants[i].cuda;
    std::vector<unsigned char> image(static_cast<const unsigned char *>(code.image),
                                     static_cast<const unsigned char *>(code.image) +
                                         code.image_bytes);
    image[image.size() / 2] ^= 4;
    code.image = image.data();
    nrd_embedded_fact none[4] = {};
    nrd_embedded_variant variant = {none, nullptr, &code};
    nrd_embedded_state state = {};
    nrd_embedded_kernel bad = good;
    bad.variants = &variant;
    bad.variant_count = 1;
    bad.states = &state;
    nrd_status status = nrd_embedded_run(&bad, &how, slots);
    CHECK(status == NRD_STATUS_DAMAGED || status == NRD_STATUS_NO_VARIANT);
    if (status == NRD_STATUS_DAMAGED)
      CHECK_TEXT(nrd_status_message(), "the machine code of kernel `add` is damaged");
  }
}

/// Every allocation of a launch fails once: a status, never an exception, and the kernel runs
/// afterwards.
void withoutMemory() {
  nrd_embedded_launch how{};
  how.size = sizeof how;
  how.grid[0] = how.grid[1] = how.grid[2] = 1;
  how.has_stream = 1;
  how.stream.device = device.number();
  uint64_t limit = 4, slots[2] = {0, limit};
  unsigned failed = 0;
  nrd_status status = NRD_STATUS_FAILED;
  // The first launch of a kernel that asserts and prints makes tables for what it says.
  for (int allowed = 0; allowed < 100 && status != NRD_OK; ++allowed) {
    allocationsLeft = allowed;
    status = nrd_embedded_prepare(&nereid_kernels_checked_0, &how, slots);
    allocationsLeft = -1;
    if (status == NRD_OK)
      break;
    CHECK(status == NRD_STATUS_RESOURCES);
    CHECK_TEXT(nrd_status_message(), "`nrd_embedded_prepare`: out of memory");
    ++failed;
  }
  CHECK(status == NRD_OK && failed > 0);
}

void numbers() {
  using nereid::bfloat16, nereid::half;
  CHECK(half::from(1.0f).bits == 0x3c00 && half::from(65504.0f).bits == 0x7bff);
  CHECK(half::from(65520.0f).bits == 0x7c00 && half::from(-0.0f).bits == 0x8000);
  CHECK(half::from(5.9604645e-8f).bits == 1 && half::from(2.9802322e-8f).bits == 0);
  CHECK(half::from(6.1035156e-5f).bits == 0x0400 && half::from(6.0975552e-5f).bits == 0x03ff);
  CHECK(half::from(1.00048828125f).bits == 0x3c00 && half::from(1.00146484375f).bits == 0x3c02);
  CHECK((half::from(NAN).bits & 0x7fff) > 0x7c00 && half::from(INFINITY).bits == 0x7c00);
  CHECK(bfloat16::from(1.0f).bits == 0x3f80 && bfloat16::from(3.4e38f).bits == 0x7f80);
  CHECK(bfloat16::from(1e-40f).bits == 0x0001 && (bfloat16::from(NAN).bits & 0x7fff) > 0x7f80);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    half number{uint16_t(bits)};
    bool isNan = (bits & 0x7fff) > 0x7c00;
    if (!isNan && half::from(number.toFloat()).bits != bits) {
      CHECK(half::from(number.toFloat()).bits == bits);
      break;
    }
  }
}

struct DeviceType {
  int device_type, device_id;
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct Tensor { // DLPack's DLTensor
  void *data;
  DeviceType device;
  int32_t ndim;
  DataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

void views() {
  std::vector<float> x = sequence(24);
  int64_t shape[] = {2, 3, 4}, strides[] = {12, 4, 1}, transposed[] = {1, 2, 6};
  Tensor tensor{x.data(), {1, 0}, 3, {2, 32, 1}, shape, strides, 4};
  auto view = nereid::View<float>::fromDLPack(tensor);
  CHECK(view.data() == x.data() + 1 && view.size() == 24 && view.device().isCpu());
  tensor.strides = nullptr;
  CHECK(nereid::View<const float>::tryFromDLPack(tensor).ok());
  tensor.strides = transposed;
  CHECK_TEXT(nereid::View<float>::tryFromDLPack(tensor).error().what(),
             "a DLPack tensor has elements that do not lie next to each other");
  CHECK_TEXT(nereid::View<int>::tryFromDLPack(tensor).error().what(),
             "a DLPack tensor has another element type than the view");
  tensor.strides = strides;
  tensor.device.device_type = 10;
  CHECK(!nereid::View<float>::tryFromDLPack(tensor));
  tensor.device = {2, 1};
  CHECK(nereid::View<float>::fromDLPack(tensor).device() == nereid::Device::cuda(1));

  auto buffer = nereid::Buffer<float>::allocate(nereid::Device::cpu(), 24);
  CHECK(!buffer.tryCopyFrom(sequence(25), nereid::Stream()));
  CHECK(!nereid::Buffer<double>::tryAllocate(nereid::Device::cpu(), size_t(-1) / 4));
  buffer.clear(nereid::Stream());
  CHECK(buffer.data()[23] == 0);
  nereid::Buffer<float> moved = std::move(buffer);
  CHECK(moved.size() == 24 && buffer.size() == 0);
  CHECK(nereid::Device::cpu().info().cores > 0);
}

} // namespace

int main(int argc, char **argv) {
  bool isGpu = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
  device = isGpu ? nereid::Device::cuda() : nereid::Device::cpu();
  try {
    std::printf("on %s\n", device.info().name);
    nereid::Stream stream = nereid::Stream::create(device);
    if (!isGpu)
      withoutMemory();
    addition(stream);
    choosing(stream);
    options(stream);
    descriptors(stream);
    if (!isGpu)
      onCpu();
    missingDevices();
    damage();
    numbers();
    views();
  } catch (const nereid::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return failures();
}

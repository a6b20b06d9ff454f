#include "replay.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <tuple>

namespace nereid::ops {

namespace {

/// Tags: the kind of the item that follows in a signature.
namespace tag {
enum Tag : int64_t { Nothing, Tensor, Wrapped, Int, Double, Bool, String, List, Device };
}

/// Modes of PyTorch that influence operators, as part of the signature.
int64_t modes() {
  at::Context &context = at::globalContext();
  return int64_t(c10::get_default_dtype_as_scalartype()) |
         int64_t(context.deterministicAlgorithms()) << 8 | int64_t(context.allowTF32CuBLAS()) << 9 |
         int64_t(context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV) ==
                 at::Float32Precision::TF32)
             << 10 |
         int64_t(context.userEnabledCuDNN()) << 11 | int64_t(context.userEnabledMkldnn()) << 12;
}

uint64_t mixed(at::ArrayRef<int64_t> words) {
  uint64_t hash = words.size();
  for (int64_t word : words) {
    hash = (hash ^ uint64_t(word)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

int64_t bitsOf(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

} // namespace

Replay::Replay(const c10::FunctionSchema &schema, bool isCuda, bool isRandom)
    : argumentCount(schema.arguments().size()),
      returnsList(schema.returns().size() == 1 &&
                  schema.returns()[0].type()->kind() == c10::TypeKind::ListType),
      isCuda(isCuda), isRandom(isRandom) {
  for (const c10::Argument &argument : schema.arguments())
    isWritten.push_back(argument.alias_info() && argument.alias_info()->isWrite());
  for (size_t i = 0; i < argumentCount; ++i)
    if (schema.arguments()[i].name() == "dropout_p")
      dropout = i;
}

bool Replay::sign(const c10::IValue &value, bool written, Signature &signature) const {
  auto &words = signature.words;
  if (value.isTensor()) {
    const at::Tensor &tensor = value.toTensor();
    if (!tensor.defined()) {
      words.push_back(tag::Nothing);
      return true;
    }
    if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_neg() ||
        tensor.is_conj() || !tensor.has_storage() || tensor._is_zerotensor())
      return false;
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) { // Python gets it as a number
      std::optional<Number> number = tensor.is_cpu() ? numberOf(tensor) : std::nullopt;
      signature.isNumberOnDevice |= !tensor.is_cpu();
      if (!number)
        return false;
      words.push_back(tag::Wrapped | int64_t(tensor.scalar_type()) << 8);
      words.push_back(number->isFloat ? bitsOf(number->real) : number->integer);
      return true;
    }
    bool isHere = tensor.device().type() == (isCuda ? c10::kCUDA : c10::kCPU);
    if (isHere && isCuda)
      signature.device = tensor.device();
    int64_t alignment = int64_t(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) & 15);
    words.push_back(
        tag::Tensor | int64_t(tensor.scalar_type()) << 8 | int64_t(tensor.device().type()) << 16 |
        int64_t(uint8_t(tensor.device().index())) << 24 | alignment << 32 | tensor.dim() << 40);
    words.append(tensor.sizes().begin(), tensor.sizes().end());
    words.append(tensor.strides().begin(), tensor.strides().end());
    signature.tensors.push_back(&tensor);
    signature.written.push_back(written);
    return true;
  }
  if (value.isNone()) {
    words.push_back(tag::Nothing);
  } else if (value.isInt()) {
    words.append({tag::Int, value.toInt()});
  } else if (value.isDouble()) {
    words.append({tag::Double, bitsOf(value.toDouble())});
  } else if (value.isBool()) {
    words.append({tag::Bool, int64_t(value.toBool())});
  } else if (value.isString()) {
    const std::string &text = value.toStringRef();
    words.push_back(tag::String | int64_t(text.size()) << 8);
    words.append(text.begin(), text.end());
  } else if (value.isDevice()) {
    c10::Device device = value.toDevice();
    if (isCuda && device.is_cuda()) {
      if (!device.has_index())
        device = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice();
      signature.device = device;
    }
    words.append({tag::Device, int64_t(device.type()) << 8 | int64_t(uint8_t(device.index()))});
  } else if (value.isList()) {
    at::ArrayRef<c10::IValue> items = value.toListRef();
    words.push_back(tag::List | int64_t(items.size()) << 8);
    for (const c10::IValue &item : items)
      if (!sign(item, written, signature))
        return false;
  } else {
    return false;
  }
  return true;
}

bool Replay::sign(const c10::IValue *arguments, Signature &signature) const {
  for (size_t i = 0; i < argumentCount; ++i)
    if (!sign(arguments[i], isWritten[i], signature))
      return false;
  signature.words.push_back(modes());
  signature.hash = mixed(signature.words);
  return true;
}

std::shared_ptr<const Recorded> Replay::find(const Signature &signature) const {
  std::shared_lock lock(mutex);
  auto it = records.find(signature.hash);
  if (it == records.end() ||
      at::ArrayRef<int64_t>(it->second->words) != at::ArrayRef<int64_t>(signature.words))
    return nullptr;
  return it->second;
}

static c10::SmallVector<int64_t, 5> copied(const int64_t *numbers, int count) {
  return {numbers, numbers + count};
}

void Replay::add(const Signature &signature, const OpsRecord &record) {
  auto made = std::make_shared<Recorded>();
  made->words.assign(signature.words.begin(), signature.words.end());
  made->route = record.route;
  made->reason = record.reason;
  for (const OpsAllocation &its : at::ArrayRef(record.allocations, record.allocation_count))
    made->allocations.push_back(
        {at::ScalarType(its.dtype), copied(its.sizes, its.rank), copied(its.strides, its.rank)});
  uint8_t memory =
      isCuda ? uint8_t(NRD_MEMORY_CUDA + signature.device.index()) : uint8_t(NRD_MEMORY_UNKNOWN);
  for (const OpsStep &its : at::ArrayRef(record.steps, record.step_count)) {
    Recorded::Step step{
        static_cast<nrd_kernel *>(its.kernel), {its.grid[0], its.grid[1], its.grid[2]}, {}, {}};
    for (uint32_t i = 0; i < its.argument_count; ++i) {
      const OpsArgument &argument = its.arguments[i];
      nrd_arg &arg = step.arguments.emplace_back();
      std::memset(&arg, 0, sizeof arg);
      switch (argument.kind) {
      case OPS_ARGUMENT_INT:
        arg.kind = NRD_ARG_INT;
        arg.i = argument.integer;
        break;
      case OPS_ARGUMENT_FLOAT:
        arg.kind = NRD_ARG_FLOAT;
        arg.f = argument.real;
        break;
      default:
        arg.kind = NRD_ARG_POINTER;
        arg.dtype = elementTypes[argument.code];
        arg.memory = memory;
        step.patches.push_back(
            {i, argument.kind == OPS_ARGUMENT_ALLOCATION, argument.index, argument.integer});
      }
    }
    made->steps.push_back(std::move(step));
  }
  for (const OpsResult &its : at::ArrayRef(record.results, record.result_count))
    made->results.push_back({its.kind, its.index, its.offset, copied(its.sizes, its.rank),
                             copied(its.strides, its.rank)});
  std::unique_lock lock(mutex);
  if (records.size() >= mostRecords)
    records.clear();
  records[signature.hash] = std::move(made);
}

void Replay::route(bool routed) {
  isRouted = routed;
  score = 0;
  isScoreHigh = false;
  std::unique_lock lock(mutex);
  records.clear();
  passed.clear();
}

bool Replay::isUnsteady(const Signature &signature, const c10::IValue *arguments) {
  bool drawsNumbers = isRandom && !(dropout && arguments[*dropout].isDouble() &&
                                    arguments[*dropout].toDouble() == 0);
  if (!isRouted.load(std::memory_order_relaxed) || drawsNumbers ||
      at::globalContext().deterministicAlgorithms())
    return false;
  int64_t bytes = 0;
  for (const at::Tensor *tensor : signature.tensors)
    bytes += int64_t(tensor->nbytes());
  if (bytes > (isCuda ? smallOnGpu : smallOnCpu))
    return false;
  // Threads may lose a count to each other, which changes only when a score is reached.
  int now = score.load(std::memory_order_relaxed);
  if (!isScoreHigh.load(std::memory_order_relaxed)) {
    score.store(now + callInPython, std::memory_order_relaxed);
    isScoreHigh.store(now + callInPython >= highScore, std::memory_order_relaxed);
    return false;
  }
  std::unique_lock lock(mutex);
  if (passed.size() >= mostRecords)
    passed.clear();
  bool isRepeated = !passed.insert(signature.hash).second;
  // What runs in Python each time would not get faster by being repeated.
  isRepeated &= records.find(signature.hash) == records.end();
  now = std::clamp(now + (isRepeated ? -1 : callInPython), 0, highScore);
  score.store(now, std::memory_order_relaxed);
  isScoreHigh.store(now > 0, std::memory_order_relaxed);
  return true;
}

/// Another view of a tensor's storage. offset: in elements, from the tensor's first one.
static at::Tensor viewOf(const at::Tensor &tensor, const Recorded::Result &result) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(tensor.storage()),
                                                             tensor.key_set(), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes, result.strides,
                                                    tensor.storage_offset() + result.offset);
  return view;
}

/// The bytes of a storage that a tensor's elements are in: from the first to behind the last.
static std::pair<int64_t, int64_t> rangeOf(const at::Tensor &tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (!tensor.size(i))
      return {0, 0};
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  auto width = int64_t(tensor.itemsize());
  return {tensor.storage_offset() * width, (tensor.storage_offset() + last + 1) * width};
}

/// Whether a tensor that is written may share elements with another one. Parts of one storage, as
/// in a buffer of many parameters, need not. Ranges are sorted, since lists have up to a thousand
/// tensors: in order of their first bytes, a range shares elements with an earlier one exactly if
/// it begins before the greatest end of these.
static bool mayOverlap(const Signature &signature) {
  struct Range {
    const c10::StorageImpl *storage;
    int64_t first, end;
    bool isWritten;
  };
  c10::SmallVector<Range, 16> ranges;
  bool isAnyWritten = false;
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const at::Tensor &tensor = *signature.tensors[i];
    isAnyWritten |= signature.written[i];
    ranges.push_back({tensor.storage().unsafeGetStorageImpl(), 0, 0, signature.written[i]});
  }
  if (!isAnyWritten)
    return false;
  for (size_t i = 0; i < ranges.size(); ++i)
    std::tie(ranges[i].first, ranges[i].end) = rangeOf(*signature.tensors[i]);
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) {
    return std::tie(a.storage, a.first) < std::tie(b.storage, b.first);
  });
  const c10::StorageImpl *storage = nullptr;
  int64_t end = 0, endOfWritten = 0; // of the ranges so far in this storage
  for (const Range &range : ranges) {
    if (range.first == range.end)
      continue;
    if (range.storage != storage) {
      storage = range.storage;
      end = endOfWritten = INT64_MIN;
    }
    if (range.first < (range.isWritten ? end : endOfWritten))
      return true;
    end = std::max(end, range.end);
    if (range.isWritten)
      endOfWritten = std::max(endOfWritten, range.end);
  }
  return false;
}

bool Replay::run(const Recorded &recorded, const Signature &signature,
                 torch::jit::Stack &stack) const {
  if (mayOverlap(signature))
    return false;
  if (int now = score.load(std::memory_order_relaxed)) {
    score.store(now - 1, std::memory_order_relaxed);
    if (now == 1)
      isScoreHigh.store(false, std::memory_order_relaxed);
  }
  c10::OptionalDeviceGuard guard;
  if (isCuda)
    guard.reset_device(signature.device);
  c10::SmallVector<at::Tensor, 6> made;
  for (const Recorded::Allocation &its : recorded.allocations)
    made.push_back(allocate(its.sizes, its.strides, its.type, signature.device));
  for (const Recorded::Step &step : recorded.steps) {
    c10::SmallVector<nrd_arg, 48> arguments(step.arguments.begin(), step.arguments.end());
    for (const Recorded::Patch &patch : step.patches) {
      const at::Tensor &tensor =
          patch.isAllocation ? made[patch.index] : *signature.tensors[patch.index];
      bool written = patch.isAllocation || signature.written[patch.index];
      void *address =
          written ? tensor.mutable_data_ptr() : const_cast<void *>(tensor.const_data_ptr());
      arguments[patch.argument].p = static_cast<char *>(address) + patch.offset;
    }
    if (step.kernel)
      start(step.kernel, arguments.data(), arguments.size(), step.grid, signature.device);
    else if (*static_cast<const uint8_t *>(arguments[0].p) != step.grid[0])
      return false;
  }
  c10::SmallVector<c10::IValue, 4> results;
  for (const Recorded::Result &its : recorded.results)
    switch (its.kind) {
    case OPS_RESULT_ALLOCATION:
      results.push_back(made[its.index]);
      break;
    case OPS_RESULT_VIEW:
      results.push_back(viewOf(made[its.index], its));
      break;
    case OPS_RESULT_ARGUMENT:
      results.push_back(*signature.tensors[its.index]);
      break;
    case OPS_RESULT_NOTHING:
      results.push_back(at::Tensor());
      break;
    case OPS_RESULT_NUMBER:
      results.push_back(its.offset);
    }
  torch::jit::drop(stack, argumentCount);
  if (returnsList) {
    c10::List<at::Tensor> list;
    for (const c10::IValue &result : results)
      list.push_back(result.toTensor());
    stack.emplace_back(std::move(list));
    return true;
  }
  for (c10::IValue &result : results)
    stack.emplace_back(std::move(result));
  return true;
}

} // namespace nereid::ops

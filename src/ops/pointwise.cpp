#include "pointwise.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/strides.h>

#include <cmath>
#include <limits>

namespace nereid::ops {

constexpr int64_t largest = std::numeric_limits<int32_t>::max();

struct Pointwise::Call {
  const Rule *rule = nullptr;
  c10::Device device = c10::kCPU;
  bool hasDevice = false;
  bool anyDimensions = false; ///< of an input
  Operand inputs[OPS_MAX_OPERANDS];
  std::optional<Number> scalars[OPS_MAX_OPERANDS];
  const at::Tensor *given[OPS_MAX_OUTPUTS]; ///< unless the overload is functional
  at::Tensor made[OPS_MAX_OUTPUTS];
  Code common = NoCode, result = NoCode;
  OpsKey key{};

  // Strided kernels: innermost first, in elements; outputs, then inputs that are tensors.
  int rank = 0;
  int64_t sizes[OPS_MAX_RANK];
  int64_t strides[OPS_MAX_OUTPUTS + OPS_MAX_OPERANDS][OPS_MAX_RANK];
};

Pointwise::Pointwise(const OpsOverload &overload) : plan(overload) {
  for (uint32_t i = 0; i < plan.rule_count; ++i) {
    Rule rule{plan.rules[i], plan.rules[i].choice_text ? plan.rules[i].choice_text : ""};
    rules.push_back(std::move(rule));
  }
  plan.rules = nullptr;
}

const Pointwise::Rule *Pointwise::choose(const c10::IValue *arguments) const {
  if (plan.choice < 0 && rules.size() == 1)
    return rules.data();
  const c10::IValue *value = plan.choice < 0 ? nullptr : &arguments[plan.choice];
  auto isChosenBy = [&](const Rule &rule) {
    switch (rule.choice_kind) {
    case OPS_CHOICE_NONE:
      return !value || value->isNone();
    case OPS_CHOICE_TEXT:
      return value && value->isString() && value->toStringRef() == rule.text;
    case OPS_CHOICE_NUMBER:
      if (!value)
        return false;
      if (value->isDouble())
        return value->toDouble() == double(rule.choice_number);
      return (value->isInt() && value->toInt() == rule.choice_number) ||
             (value->isBool() && int64_t(value->toBool()) == rule.choice_number);
    default:
      return false;
    }
  };
  for (const Rule &rule : rules)
    if (isChosenBy(rule))
      return &rule;
  for (const Rule &rule : rules)
    if (rule.choice_kind == OPS_CHOICE_OTHERS)
      return &rule;
  return nullptr;
}

/// Named dimensions, which PyTorch has up to 2.12.
template <typename T> static bool hasNames(const T &tensor) {
  if constexpr (requires { tensor.has_names(); })
    return tensor.has_names();
  return false;
}

/// Whether kernels can work on the memory of a tensor as it is.
static bool isPlain(const at::Tensor &tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_quantized() && !hasNames(tensor) &&
         tensor.dim() <= OPS_MAX_RANK;
}

OpsReason Pointwise::collect(const c10::IValue *arguments, Call &call) const {
  c10::DeviceType type = plan.is_cuda ? c10::kCUDA : c10::kCPU;
  auto meet = [&](const at::Tensor &tensor) {
    if (tensor.device().type() != type)
      return tensor.dim() == 0 && tensor.is_cpu();
    if (!call.hasDevice) {
      call.device = tensor.device();
      call.hasDevice = true;
    }
    return tensor.device() == call.device;
  };
  for (int i = 0; i < plan.output_count && plan.kind != OPS_FUNCTIONAL; ++i) {
    const at::Tensor &tensor = arguments[plan.outputs[i]].toTensor();
    if (!tensor.defined() || !isPlain(tensor))
      return OPS_LAYOUT;
    if (tensor.device().type() != type || !meet(tensor))
      return OPS_DEVICES;
    if (codeOf(tensor.scalar_type()) == NoCode)
      return OPS_DTYPE;
    call.given[i] = &tensor;
  }
  bool anyTensor = false, anyHere = false; // among the inputs
  for (int i = 0; i < plan.input_count; ++i) {
    const c10::IValue &value = arguments[plan.inputs[i]];
    Operand &operand = call.inputs[i];
    if (value.isTensor()) {
      const at::Tensor &tensor = value.toTensor();
      if (!tensor.defined())
        continue;
      if (!isPlain(tensor))
        return OPS_LAYOUT;
      operand.kind = Operand::Tensor;
      operand.tensor = &tensor;
      operand.code = codeOf(tensor.scalar_type());
      if (operand.code == NoCode)
        return OPS_DTYPE;
      call.anyDimensions |= tensor.dim() > 0;
      anyTensor = true;
      anyHere |= tensor.device().type() == type;
      if (!meet(tensor))
        return OPS_DEVICES;
    } else if (!value.isNone()) {
      auto number = numberOf(value);
      if (!number || (rules[0].raw >> i & 1))
        return OPS_NUMBER;
      operand.kind = Operand::Value;
      operand.number = *number;
    }
  }
  // Of a GPU's output and tensors of the host alone, ATen copies, or complains.
  return call.hasDevice && (anyHere || !anyTensor) ? OPS_OURS : OPS_DEVICES;
}

OpsReason Pointwise::promote(Call &call) const {
  const Rule &rule = *call.rule;
  // Tensors with dimensions decide; the others count where they are of a higher kind.
  Code first = NoCode;
  int others = -1;
  bool simple = true, alike = true;
  Code seen = NoCode;
  for (int i = 0; i < plan.input_count; ++i) {
    const Operand &operand = call.inputs[i];
    if (operand.kind == Operand::Nothing || (rule.raw >> i & 1))
      continue;
    if (operand.kind == Operand::Value) {
      others = std::max(others, operand.number.kind);
      continue;
    }
    alike &= seen == NoCode || seen == operand.code;
    seen = operand.code;
    if (operand.tensor->dim() == 0)
      others = std::max(others, category(operand.code));
    else if (first == NoCode)
      first = operand.code;
    else
      simple &= first == operand.code;
  }
  if (rule.same && !alike)
    return OPS_DTYPES_DIFFER;
  if (seen == NoCode && others < 0) { // nothing is read, or only what is not promoted
    for (int i = 0; i < plan.input_count && first == NoCode; ++i)
      first = call.inputs[i].code;
    if (first == NoCode && plan.kind != OPS_FUNCTIONAL)
      first = codeOf(call.given[0]->scalar_type());
  }
  if (simple && first != NoCode && others <= category(first)) {
    call.common = first;
  } else {
    at::native::ResultTypeState state;
    for (int i = 0; i < plan.input_count; ++i) {
      const Operand &operand = call.inputs[i];
      if (operand.kind == Operand::Nothing || (rule.raw >> i & 1))
        continue;
      if (operand.kind == Operand::Tensor) {
        state = at::native::update_result_type_state(*operand.tensor, state);
      } else {
        const Number &number = operand.number;
        at::Scalar scalar = number.isFloat     ? at::Scalar(number.real)
                            : number.kind == 0 ? at::Scalar(number.integer != 0)
                                               : at::Scalar(number.integer);
        state = at::native::update_result_type_state(scalar, state);
      }
    }
    call.common = codeOf(at::native::result_type(state));
  }
  if (rule.promotion == OPS_INT_TO_FLOAT && !isFloat(call.common))
    call.common = codeOf(c10::get_default_dtype_as_scalartype());
  else if (rule.promotion == OPS_BOOL_TO_LONG && call.common == Bool)
    call.common = I64;
  if (call.common == NoCode || !(rule.dtypes >> call.common & 1))
    return OPS_DTYPE;
  call.result = rule.promotion == OPS_ALWAYS_BOOL ? Bool : call.common;
  return OPS_OURS;
}

/// A number among the inputs as kernels get it: a float, rounded to `common` if that is wanted, or
/// an integer.
static Number placed(const Number &number, Code common, bool rounds) {
  if (!isFloat(common))
    return Number::of(number.isFloat ? int64_t(number.real) : number.integer);
  double value = number.asDouble();
  if (rounds && common == F32)
    value = float(value);
  else if (rounds && common == F16)
    value = float(at::Half(float(value)));
  else if (rounds && common == BF16)
    value = float(at::BFloat16(float(value)));
  return Number::of(value);
}

struct Limits {
  double low, high; ///< of floats
  int64_t min, max; ///< of integers
};
static Limits limitsOf(Code code) {
  switch (code) {
  case Bool:
    return {0, 0, 0, 1};
  case U8:
    return {0, 0, 0, 255};
  case I8:
    return {0, 0, -128, 127};
  case I16:
    return {0, 0, -32768, 32767};
  case I32:
    return {0, 0, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  case I64:
    return {0, 0, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  case F16:
    return {-65504, 65504, 0, 0};
  case BF16: {
    double high = float(std::numeric_limits<at::BFloat16>::max());
    return {-high, high, 0, 0};
  }
  case F32:
    return {-double(std::numeric_limits<float>::max()), std::numeric_limits<float>::max(), 0, 0};
  default:
    return {-std::numeric_limits<double>::max(), std::numeric_limits<double>::max(), 0, 0};
  }
}

OpsReason Pointwise::scalars(const c10::IValue *arguments, Call &call) const {
  bool isReal = isFloat(call.common);
  Limits limits = limitsOf(call.common);
  for (int i = 0; i < plan.scalar_count; ++i) {
    std::optional<Number> &scalar = call.scalars[i];
    int8_t at = plan.scalars[i];
    if (at < 0 || arguments[at].isNone()) {
      bool high = plan.fills[i] == OPS_FILL_MAX;
      if (plan.fills[i] == OPS_FILL_ABSENT)
        continue;
      if (plan.fills[i] == OPS_FILL_NUMBER)
        scalar =
            isReal ? Number::of(plan.fill_numbers[i]) : Number::of(int64_t(plan.fill_numbers[i]));
      else
        scalar = isReal ? Number::of(high ? limits.high : limits.low)
                        : Number::of(high ? limits.max : limits.min);
      continue;
    }
    if (arguments[at].isTensor()) {
      const at::Tensor &tensor = arguments[at].toTensor();
      if (!tensor.defined() || tensor.dim() || !tensor.is_cpu() || tensor.layout() != at::kStrided)
        return OPS_SCALAR;
      scalar = numberOf(tensor);
    } else {
      scalar = numberOf(arguments[at]);
    }
    if (!scalar)
      return OPS_SCALAR;
    if (isReal) {
      double value = scalar->asDouble();
      if (std::abs(value) > limits.high && !std::isinf(value))
        return OPS_SCALAR;
      scalar = Number::of(value);
    } else if (scalar->isFloat || (call.common != Bool && (scalar->integer < limits.min ||
                                                           scalar->integer > limits.max))) {
      return OPS_SCALAR;
    }
  }
  return OPS_OURS;
}

/// Whether elements may be read and written in the order of memory, one after the other.
static bool isDense(const at::Tensor &tensor) {
  return tensor.is_contiguous() || tensor.is_non_overlapping_and_dense();
}

/// Whether two tensors share memory otherwise than element by element. Both are dense.
static bool conflict(const at::Tensor &output, const at::Tensor &other) {
  auto begin = reinterpret_cast<uintptr_t>(output.const_data_ptr());
  auto otherBegin = reinterpret_cast<uintptr_t>(other.const_data_ptr());
  if (begin == otherBegin && output.itemsize() == other.itemsize())
    return false;
  return begin < otherBegin + other.nbytes() && otherBegin < begin + output.nbytes();
}

/// The common case: all tensors have one shape and are dense in the same order. One of them, else
/// null.
const at::Tensor *Pointwise::sameLayout(const Call &call) const {
  const at::Tensor *model = plan.kind == OPS_FUNCTIONAL ? nullptr : call.given[0];
  bool contiguous = true;
  auto fits = [&](const at::Tensor &tensor) {
    if (!model)
      model = &tensor;
    else if (&tensor != model && tensor.sizes() != model->sizes())
      return false;
    contiguous &= tensor.is_contiguous();
    return true;
  };
  for (int i = 0; i < plan.output_count && plan.kind != OPS_FUNCTIONAL; ++i)
    if (!fits(*call.given[i]))
      return nullptr;
  for (int i = 0; i < plan.input_count; ++i)
    if (call.inputs[i].kind == Operand::Tensor && !fits(*call.inputs[i].tensor))
      return nullptr;
  if (!contiguous) {
    if (plan.contiguous && plan.kind == OPS_FUNCTIONAL)
      return nullptr;
    auto same = [&](const at::Tensor &tensor) { return tensor.strides() == model->strides(); };
    if (!isDense(*model))
      return nullptr;
    for (int i = 0; i < plan.output_count && plan.kind != OPS_FUNCTIONAL; ++i)
      if (!same(*call.given[i]))
        return nullptr;
    for (int i = 0; i < plan.input_count; ++i)
      if (call.inputs[i].kind == Operand::Tensor && !same(*call.inputs[i].tensor))
        return nullptr;
  }
  if (plan.kind == OPS_FUNCTIONAL)
    return model;
  for (int i = 0; i < plan.output_count; ++i) {
    for (int j = 0; j < plan.input_count; ++j)
      if (call.inputs[j].kind == Operand::Tensor &&
          conflict(*call.given[i], *call.inputs[j].tensor))
        return nullptr;
    for (int j = 0; j < i; ++j)
      if (call.given[i] != call.given[j] &&
          (call.given[i]->const_data_ptr() == call.given[j]->const_data_ptr() ||
           conflict(*call.given[i], *call.given[j])))
        return nullptr;
  }
  return model;
}

OpsReason Pointwise::shape(Call &call) {
  if (plan.kind != OPS_FUNCTIONAL)
    for (int i = 0; i < plan.output_count; ++i)
      if (at::ScalarType type = call.given[i]->scalar_type();
          type != scalarTypes[call.result] &&
          (plan.kind == OPS_OUT ||
           (!call.rule->casts && !at::canCast(scalarTypes[call.result], type))))
        return OPS_OUTPUT_DTYPE; // of `out=` ATen knows which ones an operator takes
  // Tensors of the host without dimensions are numbers, unless nothing has dimensions there;
  // tensors of `copy` are an exception: ATen copies between devices, because it manages the
  // lifetime of the memory.
  for (int i = 0; i < plan.input_count; ++i) {
    Operand &operand = call.inputs[i];
    if (operand.kind == Operand::Tensor && operand.tensor->dim() == 0 && operand.tensor->is_cpu() &&
        (plan.is_cuda || call.anyDimensions) && !(call.rule->raw >> i & 1) && !call.rule->casts) {
      operand.number = *numberOf(*operand.tensor);
      operand.kind = Operand::Value;
    } else if (operand.kind == Operand::Tensor && operand.tensor->device() != call.device) {
      return OPS_DEVICES;
    }
    if (operand.kind == Operand::Value)
      operand.number = placed(operand.number, call.common, !call.rule->computes);
  }
  const at::Tensor *model = sameLayout(call);
  if (!model)
    return shapeByIterator(call);
  int64_t elements = model->numel();
  if (elements > largest * 1024) // more programs than a grid has
    return OPS_SIZE;
  if (isRouted(OPS_FLAT, call.common, elements))
    return OPS_ROUTED;
  for (int i = 0; i < plan.output_count && plan.kind == OPS_FUNCTIONAL; ++i)
    call.made[i] =
        allocate(model->sizes(), model->strides(), scalarTypes[call.result], call.device);
  return elements ? launchFlat(call, elements, 0) : OPS_OURS;
}

void Pointwise::route(const uint64_t *sizes) {
  for (auto &kernel : routed)
    for (std::atomic<uint64_t> &word : kernel)
      word.store(*sizes++, std::memory_order_relaxed);
}

/// Whether calls of this many elements are ATen's.
bool Pointwise::isRouted(OpsKernel kernel, Code common, int64_t elements) const {
  uint64_t sizes = routed[kernel][common].load(std::memory_order_relaxed);
  return sizes && elements && sizes >> (63 - __builtin_clzll(uint64_t(elements))) & 1;
}

/// Whether `shape` is what the inputs are broadcast to.
static bool isBroadcast(at::IntArrayRef shape, const Operand *inputs, int count) {
  size_t rank = 0;
  for (int i = 0; i < count; ++i)
    if (inputs[i].kind == Operand::Tensor)
      rank = std::max(rank, size_t(inputs[i].tensor->dim()));
  if (rank != shape.size())
    return false;
  for (size_t d = 0; d < rank; ++d) {
    int64_t size = 1;
    for (int i = 0; i < count; ++i)
      if (inputs[i].kind == Operand::Tensor && size_t(inputs[i].tensor->dim()) >= rank - d)
        if (int64_t its = inputs[i].tensor->sizes()[inputs[i].tensor->dim() - (rank - d)]; its != 1)
          size = its;
    if (size != shape[d])
      return false;
  }
  return true;
}

/// Allocates contiguous outputs of the shape that the inputs are broadcast to.
OpsReason Pointwise::makeContiguous(Call &call) const {
  std::vector<int64_t> shape;
  try {
    for (int i = 0; i < plan.input_count; ++i)
      if (call.inputs[i].kind == Operand::Tensor)
        shape = at::infer_size(shape, call.inputs[i].tensor->sizes());
  } catch (const c10::Error &) { // ATen's kernel says it in its own words
    return OPS_SHAPES;
  }
  for (int i = 0; i < plan.output_count; ++i)
    call.made[i] =
        allocate(shape, c10::contiguous_strides(shape), scalarTypes[call.result], call.device);
  return OPS_OURS;
}

OpsReason Pointwise::shapeByIterator(Call &call) {
  if (plan.kind == OPS_OUT)
    for (int i = 0; i < plan.output_count; ++i)
      if (!isBroadcast(call.given[i]->sizes(), call.inputs, plan.input_count))
        return OPS_OUTPUT_SHAPE;
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(true).check_all_same_dtype(false).resize_outputs(false);
  if (plan.kind == OPS_FUNCTIONAL && plan.contiguous) {
    if (OpsReason reason = makeContiguous(call))
      return reason;
  } else if (plan.kind == OPS_FUNCTIONAL) {
    config.declare_static_dtype_and_device(scalarTypes[call.result], call.device);
  }
  for (int i = 0; i < plan.output_count; ++i)
    config.add_output(plan.kind == OPS_FUNCTIONAL ? call.made[i] : *call.given[i]);
  for (int i = 0; i < plan.input_count; ++i)
    if (call.inputs[i].kind == Operand::Tensor)
      config.add_const_input(*call.inputs[i].tensor);
  std::optional<at::TensorIterator> iterator;
  try {
    iterator.emplace(config.build());
  } catch (const c10::Error &) { // ATen's kernel says it in its own words, or resizes
    return OPS_SHAPES;
  }
  if (plan.kind == OPS_FUNCTIONAL)
    for (int i = 0; i < plan.output_count; ++i)
      call.made[i] = iterator->output(i);
  if (iterator->numel() == 0)
    return OPS_OURS;
  call.rank = iterator->ndim();
  if (call.rank > OPS_MAX_RANK)
    return OPS_SIZE;
  for (int d = 0; d < call.rank; ++d)
    call.sizes[d] = iterator->shape()[d];
  for (int operand = 0; operand < iterator->ntensors(); ++operand) {
    int64_t size = iterator->tensor_base(operand).itemsize();
    for (int d = 0; d < call.rank; ++d)
      call.strides[operand][d] = iterator->strides(operand)[d] / size;
  }
  if (call.rank == 0) {
    call.rank = 1;
    call.sizes[0] = 1;
    for (int operand = 0; operand < iterator->ntensors(); ++operand)
      call.strides[operand][0] = 0;
  }
  return launchStrided(call);
}

/// The least power of two that is at least `size`, but not above `most`.
static int64_t powerOfTwo(int64_t size, int64_t most) {
  int64_t power = 1;
  while (power < size && power < most)
    power *= 2;
  return power;
}

/// How many elements a program of `flat` and `strided` takes.
static uint16_t blockFor(bool isCuda, int64_t elements) {
  return isCuda ? 1024 : elements <= 64 ? 64 : elements <= 512 ? 512 : 4096;
}

/// Fills in what all kernels have in common, and the arguments that come first.
template <typename OutputAt>
static void begin(const OpsOverload &plan, OpsKey &key, Launch &launch, OpsKernel kernel,
                  uint32_t rule, Code common, c10::Device device, OutputAt outputAt,
                  const Operand *inputs, const std::optional<Number> *scalars) {
  key.rule = rule;
  key.kernel = kernel;
  key.is_cuda = plan.is_cuda;
  key.device = plan.is_cuda ? uint8_t(device.index()) : 0;
  key.common = common;
  key.input_count = plan.input_count;
  key.scalar_count = plan.scalar_count;
  key.output_count = plan.output_count;
  uintptr_t addresses = 0;
  for (int i = 0; i < plan.output_count; ++i) {
    const at::Tensor &tensor = outputAt(i);
    Code code = codeOf(tensor.scalar_type());
    key.outputs[i] = code;
    void *data = tensor.mutable_data_ptr();
    addresses |= reinterpret_cast<uintptr_t>(data);
    launch.pointer(data, code);
  }
  for (int i = 0; i < plan.input_count; ++i) {
    const Operand &operand = inputs[i];
    if (operand.kind == Operand::Tensor) {
      key.inputs[i] = operand.code;
      const void *data = operand.tensor->const_data_ptr();
      addresses |= reinterpret_cast<uintptr_t>(data);
      launch.pointer(data, operand.code);
    } else if (operand.kind == Operand::Value) {
      key.inputs[i] = operand.number.tag();
      launch.number(operand.number);
    } else {
      key.inputs[i] = OPS_NONE;
    }
  }
  for (int i = 0; i < plan.scalar_count; ++i) {
    key.scalars[i] = scalars[i] ? scalars[i]->tag() : uint8_t(OPS_NONE);
    if (scalars[i])
      launch.number(*scalars[i]);
  }
  key.flags = addresses % 16 == 0;
}

OpsReason Pointwise::launchFlat(Call &call, int64_t elements, uint16_t fixed) {
  Launch launch(call.device);
  OpsKey &key = call.key;
  begin(
      plan, key, launch, OPS_FLAT, call.rule->id, call.common, call.device,
      [&](int i) -> const at::Tensor & {
        return plan.kind == OPS_FUNCTIONAL ? call.made[i] : *call.given[i];
      },
      call.inputs, call.scalars);
  key.mask = fixed;
  key.block = blockFor(plan.is_cuda, elements);
  launch.integer(elements);
  launch.run(kernels.find(key), uint32_t((elements + key.block - 1) / key.block));
  return OPS_OURS;
}

/// For CPUs: whether the innermost dimension has 2 to 4 elements, and those of the one before it
/// are as far apart as whole registers move (or one element): lanes then run along the latter.
/// `count`: of operands that are tensors.
bool Pointwise::isInterleaved(const Call &call, int count) {
  if (call.rank < 2 || call.sizes[0] > OPS_LARGEST_STRIDE || call.sizes[1] < 16)
    return false;
  for (int row = 0; row < count; ++row)
    if (int64_t stride = call.strides[row][1]; stride < -1 || stride > OPS_LARGEST_STRIDE)
      return false;
  return true;
}

OpsReason Pointwise::launchStrided(Call &call) {
  int rank = call.rank, outputs = plan.output_count;
  int64_t elements = 1;
  for (int d = 0; d < rank; ++d)
    elements *= call.sizes[d];
  // The row of `strides` of each operand; -1 for one that is no tensor.
  int rows[OPS_MAX_OUTPUTS + OPS_MAX_OPERANDS], count = 0, operands = outputs + plan.input_count;
  for (int i = 0; i < operands; ++i)
    rows[i] = i < outputs || call.inputs[i - outputs].kind == Operand::Tensor ? count++ : -1;

  if (rank == 1) {
    bool flat = true;
    uint16_t fixed = 0;
    for (int i = 0; i < operands; ++i) {
      if (rows[i] < 0)
        continue;
      int64_t stride = call.strides[rows[i]][0];
      flat &= stride == 1 || (stride == 0 && (i >= outputs || elements == 1));
      if (i >= outputs && stride == 0)
        fixed |= uint16_t(1 << (i - outputs));
    }
    if (flat && elements <= largest * 1024)
      return isRouted(OPS_FLAT, call.common, elements) ? OPS_ROUTED
                                                       : launchFlat(call, elements, fixed);
  }

  // A dimension along which some operand is contiguous that is not so along the innermost one.
  int across = 0;
  for (int d = 1; d < rank && !across; ++d)
    for (int row = 0; row < count && !across; ++row)
      if (call.strides[row][d] == 1 && call.strides[row][0] > 1)
        across = d;
  bool transposed = across > 0;
  auto swapInto = [&](int64_t *items) { // dimension `across` becomes the second
    int64_t item = items[across];
    for (int d = across; d > 1; --d)
      items[d] = items[d - 1];
    items[1] = item;
  };
  if (transposed) {
    swapInto(call.sizes);
    for (int row = 0; row < count; ++row)
      swapInto(call.strides[row]);
  }

  bool interleaved = !plan.is_cuda && isInterleaved(call, count);
  if (interleaved) {
    transposed = false;
    std::swap(call.sizes[0], call.sizes[1]);
    for (int row = 0; row < count; ++row)
      std::swap(call.strides[row][0], call.strides[row][1]);
  }

  OpsKey &key = call.key;
  Launch launch(call.device);
  uint16_t block = blockFor(plan.is_cuda, elements);
  bool wide = elements > largest - 2 * 4096;
  for (int row = 0; row < count; ++row) {
    int64_t reach = 0;
    for (int d = 0; d < rank; ++d)
      reach += call.strides[row][d] * (call.sizes[d] - 1);
    wide |= reach > largest - 2 * 4096;
  }
  int64_t columns = 0, tileRows = 0, programs = 0;
  bool tiled = rank > 1 && (transposed || !plan.is_cuda || call.sizes[0] >= 16);
  if (tiled) {
    int64_t full = plan.is_cuda ? 1024 : 4096;
    if (transposed) {
      columns = tileRows = 32;
      // A square; on GPUs a longer tile where one dimension has fewer than 32 elements.
      int64_t column = powerOfTwo(call.sizes[0], 32), row = powerOfTwo(call.sizes[1], 32);
      if (plan.is_cuda && column < row) {
        columns = column;
        tileRows = powerOfTwo(call.sizes[1], full / column);
      } else if (plan.is_cuda && row < column) {
        tileRows = row;
        columns = powerOfTwo(call.sizes[0], full / row);
      }
    } else {
      columns = std::max<int64_t>(plan.is_cuda ? 64 : 4, powerOfTwo(call.sizes[0], full));
      tileRows = full / columns;
      if (interleaved)
        tileRows = std::min(tileRows, powerOfTwo(call.sizes[1], 4));
    }
    programs = ((call.sizes[0] + columns - 1) / columns) *
               ((call.sizes[1] + tileRows - 1) / tileRows) *
               (elements / (call.sizes[0] * call.sizes[1]));
    tiled = programs <= largest;
  }
  if (!tiled)
    programs = (elements + block - 1) / block;
  if (programs > largest)
    return OPS_SIZE;
  OpsKernel kernel = tiled ? OPS_TILED : OPS_STRIDED;
  if (isRouted(kernel, call.common, elements))
    return OPS_ROUTED;

  begin(
      plan, key, launch, kernel, call.rule->id, call.common, call.device,
      [&](int i) -> const at::Tensor & {
        return plan.kind == OPS_FUNCTIONAL ? call.made[i] : *call.given[i];
      },
      call.inputs, call.scalars);
  key.rank = uint8_t(rank);
  key.flags |= wide ? 2 : 0;
  bool even = tiled && call.sizes[0] % 16 == 0;
  for (int i = 0; i < operands; ++i) {
    if (rows[i] < 0)
      continue;
    int64_t last = call.strides[rows[i]][0];
    bool unit = last == 1;
    if (!plan.is_cuda && (last == -1 || (last > 0 && last <= OPS_LARGEST_STRIDE)))
      key.steps |= uint64_t(last == -1 ? OPS_REVERSED : last) << (4 * i);
    if (unit)
      key.mask |= uint16_t(1 << i);
    if (tiled && !unit && call.strides[rows[i]][1] == 1)
      key.row_mask |= uint16_t(1 << i);
    if (tiled && !plan.is_cuda && i >= outputs && call.strides[rows[i]][0] == 0)
      key.fixed |= uint16_t(1 << (i - outputs));
    for (int d = 0; d < rank; ++d) {
      int64_t stride = call.strides[rows[i]][d];
      even &= stride % 16 == 0 || (stride == 1 && d < 2);
    }
  }
  key.flags |= even ? 4 : 0;
  key.block = tiled ? uint16_t(tileRows) : block;
  key.columns = uint16_t(columns);
  for (int d = rank - 1; d >= 0; --d)
    launch.integer(call.sizes[d]);
  for (int i = 0; i < operands; ++i)
    for (int d = rank - 1; d >= 0 && rows[i] >= 0; --d)
      launch.integer(call.strides[rows[i]][d]);
  if (!tiled)
    launch.integer(elements);
  launch.run(kernels.find(key), uint32_t(programs));
  return OPS_OURS;
}

/// Whether an integer input has a zero, or may have one.
static bool hasZero(const Operand &operand) {
  if (operand.kind == Operand::Value)
    return operand.number.integer == 0;
  if (operand.kind != Operand::Tensor || !isDense(*operand.tensor))
    return true;
  auto any = [&]<typename T>(T) {
    const T *data = static_cast<const T *>(operand.tensor->const_data_ptr());
    bool found = false;
    for (int64_t i = 0, count = operand.tensor->numel(); i < count; ++i)
      found |= data[i] == 0;
    return found;
  };
  switch (operand.tensor->itemsize()) {
  case 1:
    return any(int8_t());
  case 2:
    return any(int16_t());
  case 4:
    return any(int32_t());
  default:
    return any(int64_t());
  }
}

OpsReason Pointwise::call(torch::jit::Stack &stack) {
  const c10::IValue *arguments = stack.data() + stack.size() - plan.argument_count;
  Call call;
  call.rule = choose(arguments);
  if (!call.rule)
    return OPS_VARIANT;
  if (OpsReason reason = collect(arguments, call))
    return reason;
  if (OpsReason reason = promote(call))
    return reason;
  const Operand &guarded = call.inputs[plan.guard_input];
  switch (plan.guard) {
  case OPS_GUARD_BOOL:
    if (guarded.code != Bool)
      return OPS_DTYPE;
    break;
  case OPS_GUARD_DIVISOR:
    if (!plan.is_cuda && !isFloat(call.common) && hasZero(guarded))
      return OPS_ERROR_DUE;
    break;
  case OPS_GUARD_LIMIT: {
    bool any = false;
    for (int i = plan.guard_input; i < plan.input_count; ++i)
      any |= call.inputs[i].kind != Operand::Nothing;
    if (!any)
      return OPS_ERROR_DUE;
    break;
  }
  case OPS_GUARD_NEGATIVE_INT:
    if (guarded.kind == Operand::Value && !guarded.number.isFloat && guarded.number.integer < 0)
      return OPS_ERROR_DUE;
    break;
  case OPS_GUARD_FLOAT:
    if (plan.scalars[0] >= 0 && !isFloat(call.common))
      return OPS_DTYPE;
    break;
  case OPS_GUARD_NO_BOOL:
    for (int i = 0; i < plan.input_count; ++i)
      if (call.inputs[i].kind == Operand::Tensor ? call.inputs[i].code == Bool
                                                 : call.inputs[i].number.kind == 0)
        return OPS_ERROR_DUE;
    break;
  default:
    break;
  }
  if (OpsReason reason = scalars(arguments, call))
    return reason;
  c10::OptionalDeviceGuard guard;
  if (plan.is_cuda)
    guard.reset_device(call.device);
  if (OpsReason reason = shape(call))
    return reason;
  if (plan.kind == OPS_FUNCTIONAL) {
    torch::jit::drop(stack, plan.argument_count);
    for (int i = 0; i < plan.output_count; ++i)
      stack.emplace_back(std::move(call.made[i]));
    return OPS_OURS;
  }
  at::Tensor results[OPS_MAX_OUTPUTS];
  for (int i = 0; i < plan.output_count; ++i)
    results[i] = *call.given[i];
  torch::jit::drop(stack, plan.argument_count);
  for (int i = 0; i < plan.output_count; ++i)
    stack.emplace_back(std::move(results[i]));
  return OPS_OURS;
}

} // namespace nereid::ops

// Calls of the C ABI with arguments made of any bytes: pointers that are null, texts and numbers of
// any kind, arguments of launches that the kernel was not compiled for. Each call comes back, with
// a result or with an error of the caller's; the address sanitizer watches what it reads.
//
//   cmake --preset fuzz && cmake --build --preset fuzz --target c_abi_fuzzer
//   build/fuzz/tests/fuzz/c_abi_fuzzer -max_total_time=3600 -max_len=400 -rss_limit_mb=4096 CORPUS
//
// What the launched kernels do is not the subject: grids of at least one program run in checked
// mode, which refuses accesses outside of the memory given.
#include "nereid/measure.h"
#include "nereid/nereid.h"
#include "nereid/tuner.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <string>
#include <vector>

namespace {

constexpr const char *kKernels = R"(
import triton
import triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask), mask)

@triton.jit
def scale(x_ptr, factor, bias=None, FLAG: tl.constexpr = True):
    if FLAG:
        tl.store(x_ptr, tl.load(x_ptr) * factor)
    if bias is not None:
        tl.store(x_ptr, bias)

@triton.jit
def block(source, row):
    source.store([row, 0], source.load([row, 0]))
)";

/// Takes choices out of the bytes; zeros when they are used up.
class Choices {
public:
  Choices(const uint8_t *data, size_t size) : data(data), left(size) {}
  bool isEmpty() const { return left == 0; }
  unsigned below(unsigned count) {
    if (left == 0)
      return 0;
    --left;
    return *data++ % count;
  }
  bool oneIn(unsigned count) { return below(count) == count - 1; }
  /// Up to `most` bytes as they are.
  std::string bytes(unsigned most) {
    size_t size = std::min<size_t>(below(most + 1), left);
    std::string text(reinterpret_cast<const char *>(data), size);
    data += size;
    left -= size;
    return text;
  }
  template <typename T, size_t N> T of(const T (&list)[N]) { return list[below(N)]; }

private:
  const uint8_t *data;
  size_t left;
};

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::abort();
}

/// An error that says what it is; ours are no answer to what a caller does.
void look(nrd_error *error, const char *function) {
  if (!error)
    return;
  int kind = nrd_error_get_kind(error);
  std::string message = nrd_error_message(error), name = nrd_error_name(error);
  if (kind < 1 || kind > 7 || message.empty() || name.empty())
    fail(std::string(function) + ": an error without a kind, a name or a text");
  if (kind == NRD_ERROR_INTERNAL)
    fail(std::string(function) + ": " + message);
  nrd_error_summary(error);
  nrd_error_triton_text(error);
  nrd_error_triton_summary(error);
  nrd_error_python_class(error);
  int64_t required, limit;
  nrd_error_resource(error, &required, &limit);
  nrd_error_free(error);
}

/// The calls that one input makes.
class Calls {
public:
  Calls(const uint8_t *data, size_t size) : choices(data, size) {
    look(nrd_module_parse(kKernels, std::strlen(kKernels), "fuzz.py", 1, &module), "parse");
    for (const char *name : {"add", "scale", "block"}) {
      nrd_function *function = nullptr;
      look(nrd_function_create(module, name, nullptr, nullptr, &function), "create");
      functions.push_back(function);
    }
    options = nrd_options_new();
    tuner = nrd_tuner_new(functions[0]);
  }
  ~Calls() {
    for (nrd_value *value : values)
      nrd_value_free(value);
    for (nrd_kernel *kernel : kernels)
      nrd_kernel_free(kernel);
    nrd_tuner_free(tuner);
    nrd_options_free(options);
    for (nrd_function *function : functions)
      nrd_function_free(function);
    nrd_module_free(module);
  }

  void run() {
    for (unsigned count = 0; count < 24 && !choices.isEmpty(); ++count)
      call();
  }

private:
  // Arguments. What they point to lives as long as the object.
  const char *text() {
    static const char *const known[] = {"",
                                        "*fp32",
                                        "*fp32:16",
                                        "i32",
                                        "i64",
                                        "u8:16",
                                        "1024",
                                        "None",
                                        "(((",
                                        "fp16",
                                        "num_warps",
                                        "target",
                                        "cuda:90",
                                        "cpu",
                                        "checked",
                                        "debug",
                                        "strict",
                                        "asm",
                                        "tile",
                                        "obj",
                                        "llir",
                                        "BLOCK",
                                        "add",
                                        "FLAG",
                                        "\xff",
                                        "%s%n",
                                        "True",
                                        "x",
                                        "features",
                                        "avx2",
                                        "num_stages",
                                        "math.exp",
                                        "tensordesc<fp16[16, 16]>",
                                        "tensordesc<fp32[3, 64], 1>:16",
                                        "(i32, *fp16)",
                                        "1 << 99"};
    if (choices.oneIn(12))
      return nullptr;
    if (!choices.oneIn(3))
      return choices.of(known);
    texts.push_back(choices.oneIn(8) ? std::string(5000, char('a' + choices.below(26)))
                                     : choices.bytes(24));
    return texts.back().c_str();
  }
  int64_t number() {
    static const int64_t known[] = {0,         1,   2,         7,         16,        64,
                                    255,       -1,  INT32_MAX, INT32_MIN, 1ll << 31, 1ll << 32,
                                    1ll << 40, 128, INT64_MAX, INT64_MIN};
    return choices.of(known);
  }
  size_t index() { return choices.oneIn(4) ? size_t(number()) : choices.below(6); }
  nrd_function *function() {
    return choices.oneIn(16) ? nullptr : functions[choices.below(unsigned(functions.size()))];
  }
  nrd_kernel *kernel() {
    return kernels.empty() || choices.oneIn(16) ? nullptr
                                                : kernels[choices.below(unsigned(kernels.size()))];
  }
  nrd_options *someOptions() { return choices.oneIn(8) ? nullptr : options; }
  nrd_value *value() {
    return values.empty() || choices.oneIn(12) ? nullptr
                                               : values[choices.below(unsigned(values.size()))];
  }
  void keep(nrd_value *made) {
    if (made)
      values.push_back(made);
  }
  /// An array of texts; more are never announced than there are.
  const char *const *textArray(size_t count) {
    arrays.emplace_back();
    for (size_t i = 0; i < count; ++i)
      arrays.back().push_back(text());
    return choices.oneIn(12) ? nullptr : arrays.back().data();
  }
  nrd_value *const *valueArray(size_t count) {
    valueArrays.emplace_back();
    for (size_t i = 0; i < count; ++i)
      valueArrays.back().push_back(value());
    return choices.oneIn(12) ? nullptr : valueArrays.back().data();
  }

  nrd_arg argument(unsigned depth) {
    nrd_arg arg = {};
    arg.kind = uint8_t(choices.oneIn(16) ? choices.below(256) : choices.below(11));
    arg.dtype = uint8_t(choices.oneIn(16) ? choices.below(256) : choices.below(19));
    arg.read_only = choices.oneIn(8);
    arg.divisibility = choices.oneIn(2) ? 16 : 0;
    arg.i = choices.oneIn(2) ? int64_t(choices.below(256)) : number();
    switch (arg.kind) {
    case NRD_ARG_FLOAT:
      arg.f = double(arg.i) / 3;
      break;
    case NRD_ARG_POINTER:
    case NRD_ARG_DESCRIPTOR:
      arg.p = choices.oneIn(8) ? nullptr : memory + choices.below(3) * 16;
      if (!choices.oneIn(8)) {
        arg.low = memory;
        arg.high = memory + sizeof memory;
      }
      arg.memory = uint8_t(choices.oneIn(2) ? NRD_MEMORY_HOST : choices.below(4));
      if (arg.kind == NRD_ARG_DESCRIPTOR && !choices.oneIn(6))
        arg.descriptor = descriptor();
      break;
    case NRD_ARG_VALUE:
    case NRD_ARG_TYPE:
      arg.v = value();
      break;
    case NRD_ARG_TUPLE:
    case NRD_ARG_AGGREGATE:
      arg.tuple = depth == 0 || choices.oneIn(6) ? nullptr : tuple(depth);
      break;
    default:
      break;
    }
    return arg;
  }
  const nrd_descriptor *descriptor() {
    nrd_descriptor made = {};
    made.rank = uint8_t(choices.oneIn(6) ? choices.below(256) : 1 + choices.below(2));
    made.pads_nan = choices.oneIn(2);
    for (unsigned i = 0; i < NRD_DESCRIPTOR_MAX_RANK; ++i) {
      made.shape[i] = 4;
      made.strides[i] = i + 1 == made.rank ? 1 : 8;
      made.block[i] = 4;
    }
    // One or two wrong numbers: with more, the first check refuses them all.
    for (unsigned count = choices.below(3); count; --count) {
      int64_t *const fields[] = {made.shape, made.strides, made.block};
      choices.of(fields)[choices.below(NRD_DESCRIPTOR_MAX_RANK)] = number();
    }
    descriptors.push_back(made);
    return &descriptors.back();
  }
  const nrd_tuple *tuple(unsigned depth) {
    nrd_tuple made = {};
    made.count = choices.below(4);
    made.items = arguments(made.count, depth - 1);
    made.fields = choices.oneIn(3) ? textArray(made.count) : nullptr;
    made.class_name = choices.oneIn(3) ? text() : nullptr;
    tuples.push_back(made);
    return &tuples.back();
  }
  const nrd_arg *arguments(size_t count, unsigned depth) {
    std::vector<nrd_arg> made;
    for (size_t i = 0; i < count; ++i)
      made.push_back(argument(depth));
    argumentArrays.push_back(std::move(made));
    return choices.oneIn(16) ? nullptr : argumentArrays.back().data();
  }
  /// What `add` takes, one of them wrong now and then.
  const nrd_arg *arguments(size_t &count) {
    if (choices.oneIn(2)) {
      count = choices.below(8);
      return arguments(count, 2);
    }
    std::vector<nrd_arg> made(5);
    for (unsigned i = 0; i < 3; ++i) {
      made[i].kind = NRD_ARG_POINTER;
      made[i].dtype = NRD_FP32;
      made[i].p = memory;
      made[i].low = memory;
      made[i].high = memory + sizeof memory;
    }
    made[3].i = choices.below(70);
    made[4].i = 64;
    if (choices.oneIn(2))
      made[choices.below(5)] = argument(2);
    count = choices.oneIn(6) ? choices.below(6) : 5;
    argumentArrays.push_back(std::move(made));
    return argumentArrays.back().data();
  }
  const nrd_launch *launch() {
    if (choices.oneIn(12))
      return nullptr;
    how = {};
    bool runs = choices.oneIn(2);
    for (uint32_t &size : how.grid)
      size = runs ? 1 + choices.below(2) : choices.oneIn(2) ? uint32_t(number()) : 0;
    if (!runs)
      how.grid[choices.below(3)] = 0;
    how.checked = 2;
    how.num_threads = choices.below(2);
    how.reserved = choices.oneIn(8);
    how.device = choices.oneIn(8) ? uint8_t(choices.below(256)) : 0;
    return &how;
  }

  // Calls by families.
  void call() {
    switch (choices.below(9)) {
    case 0:
      return makeValue();
    case 1:
      return readValue();
    case 2:
      return parse();
    case 3:
      return askFunction();
    case 4:
      return setOptions();
    case 5:
      return compile();
    case 6:
      return askKernel();
    case 7:
      return launchSomething();
    default:
      return tune();
    }
  }
  void makeValue() {
    switch (choices.below(12)) {
    case 0:
      return keep(nrd_value_int(number()));
    case 1:
      return keep(nrd_value_float(double(number()) / 7));
    case 2:
      return keep(nrd_value_bool(int(number())));
    case 3:
      return keep(nrd_value_big_int(text()));
    case 4: {
      texts.push_back(choices.bytes(40));
      return keep(nrd_value_str(texts.back().data(), texts.back().size()));
    }
    case 5: {
      int64_t shape[4] = {number(), number(), number(), number()};
      return keep(nrd_value_type(text(), choices.oneIn(8) ? nullptr : shape, choices.below(5)));
    }
    case 6: {
      size_t count = choices.below(4);
      nrd_value *const *items = valueArray(count);
      return keep(nrd_value_tuple(items, count, choices.oneIn(2) ? textArray(count) : nullptr, 0));
    }
    case 7: {
      size_t count = choices.below(4);
      nrd_value *const *items = valueArray(count);
      return keep(nrd_value_aggregate(items, count, textArray(count), 0, text()));
    }
    case 8:
      return keep(nrd_value_function(function()));
    case 9:
      return keep(choices.oneIn(2) ? nrd_value_builtin(text()) : nrd_value_module(text()));
    case 10: {
      nrd_value *start = value(), *stop = value();
      return keep(nrd_value_slice(start, stop, value()));
    }
    default:
      return keep(choices.oneIn(2) ? nrd_value_copy(value())
                                   : nrd_value_object(uint64_t(number()), text(), text()));
    }
  }
  void readValue() {
    nrd_value *of = value();
    int64_t number64 = 0;
    const int64_t *shape = nullptr;
    size_t rank = 0;
    nrd_value_get_kind(of);
    nrd_value_get_bool(of);
    nrd_value_get_int(of, choices.oneIn(6) ? nullptr : &number64);
    nrd_value_get_text(of);
    nrd_value_get_float(of);
    nrd_value_get_count(of);
    nrd_value_get_field(of, index());
    nrd_value_get_handle(of);
    nrd_value_get_type(of, choices.oneIn(6) ? nullptr : &shape, choices.oneIn(6) ? nullptr : &rank);
    keep(nrd_value_get_item(of, index()));
  }
  void parse() {
    nrd_module *made = nullptr;
    std::string source = choices.bytes(200);
    const char *name = text();
    look(nrd_module_parse(choices.oneIn(16) ? nullptr : source.data(), source.size(), name,
                          uint32_t(number()), choices.oneIn(16) ? nullptr : &made),
         "nrd_module_parse");
    size_t count = nrd_module_function_count(made);
    nrd_module_function_name(made, index());
    nrd_function *found = nullptr;
    if (made && count < 100)
      look(nrd_function_create(made, choices.oneIn(3) ? text() : nullptr, nullptr, nullptr, &found),
           "nrd_function_create");
    nrd_module_free(made);
    if (found)
      functions.push_back(found);
  }
  void askFunction() {
    nrd_function *of = function();
    size_t at = index();
    nrd_function_name(of);
    nrd_function_param_count(of);
    nrd_function_param_name(of, at);
    nrd_string_free(nrd_function_param_type(of, at));
    nrd_function_param_is_constexpr(of, at);
    nrd_function_param_has_default(of, at);
    switch (choices.below(6)) {
    case 4: {
      const nrd_tangent tangents[] = {{text(), nullptr, uint32_t(number())},
                                      {text(), text(), uint32_t(number())}};
      size_t count = choices.below(3);
      if (choices.oneIn(2))
        return look(nrd_function_set_gradients(of, tangents, count), "nrd_function_set_gradients");
      if (choices.oneIn(2))
        return look(nrd_function_set_outputs_and_gradients(of, tangents, count),
                    "nrd_function_set_outputs_and_gradients");
      return look(nrd_function_set_tangents(of, tangents, count), "nrd_function_set_tangents");
    }
    case 0:
      return nrd_function_set_param_policy(of, at, uint32_t(number()));
    case 1:
      return look(nrd_function_set_param_type(of, at, text()), "nrd_function_set_param_type");
    case 2:
      return nrd_function_set_noinline(of, int(number()));
    case 3:
      return nrd_function_set_must_use_result(of, text());
    default:
      return nrd_function_clear_cache(of);
    }
  }
  void setOptions() {
    if (choices.oneIn(4)) {
      nrd_options *copy = nrd_options_copy(someOptions());
      nrd_options_set_kernel_name(copy, text());
      return nrd_options_free(copy);
    }
    const char *name = text();
    look(nrd_options_set(someOptions(), name, value()), "nrd_options_set");
  }
  void compile() {
    static const char *const right[] = {"*fp32", "*fp32", "*fp32", "i32", "64"};
    std::vector<const char *> signature(std::begin(right), std::end(right));
    size_t count = choices.oneIn(3) ? choices.below(7) : 5;
    signature.resize(std::max<size_t>(count, 5), "i32");
    unsigned changes = choices.below(3);
    for (unsigned i = 0; i < changes; ++i)
      signature[choices.below(unsigned(signature.size()))] = text();
    if (choices.oneIn(20))
      count = size_t(-1) - choices.below(3);
    nrd_kernel *made = nullptr;
    nrd_function *of = choices.oneIn(2) ? function() : functions[0];
    look(
        nrd_compile(of, signature.data(), count, choices.oneIn(2) ? someOptions() : nullptr, &made),
        "nrd_compile");
    if (made)
      kernels.push_back(made);
  }
  void askKernel() {
    nrd_kernel *of = kernel();
    size_t at = index(), size = 0;
    const void *data = nullptr;
    double time = 0;
    nrd_kernel_name(of);
    nrd_kernel_metadata(of);
    nrd_kernel_layout(of);
    nrd_kernel_stage_count(of);
    nrd_kernel_stage_name(of, at);
    nrd_kernel_time_count(of);
    nrd_kernel_time(of, at, choices.oneIn(4) ? nullptr : &time);
    nrd_kernel_stage(of, text(), choices.oneIn(4) ? nullptr : &size);
    look(nrd_kernel_read_stage(of, text(), choices.oneIn(8) ? nullptr : &data, &size),
         "nrd_kernel_read_stage");
    keep(nrd_kernel_constant(of, at));
  }
  void launchSomething() {
    size_t count = 0;
    const nrd_arg *args = arguments(count);
    const nrd_launch *settings = launch();
    switch (choices.below(5)) {
    case 0:
    case 1: {
      nrd_function *of = choices.oneIn(3) ? function() : functions[0];
      nrd_kernel *lent = nullptr;
      look(nrd_dispatch(of, args, count, choices.oneIn(3) ? someOptions() : nullptr, settings,
                        choices.oneIn(2) ? nullptr : &lent),
           "nrd_dispatch");
      return;
    }
    case 2: {
      nrd_kernel *lent = nullptr;
      return look(
          nrd_find(function(), args, count, nullptr, settings, choices.oneIn(8) ? nullptr : &lent),
          "nrd_find");
    }
    case 3: {
      char *target = nullptr;
      int device = 0;
      look(nrd_target_of_arguments(args, count, someOptions(), choices.oneIn(8) ? nullptr : &target,
                                   &device),
           "nrd_target_of_arguments");
      return nrd_string_free(target);
    }
    default:
      return look(nrd_kernel_launch(kernel(), args, count, settings), "nrd_kernel_launch");
    }
  }
  void tune() {
    switch (choices.below(6)) {
    case 0: {
      size_t count = choices.below(3);
      const char *const *names = textArray(count);
      const nrd_value *const *chosen = valueArray(count);
      return look(nrd_tuner_add(tuner, names, chosen, count), "nrd_tuner_add");
    }
    case 1: {
      size_t count = choices.below(3);
      return look(nrd_tuner_set_key(tuner, textArray(count), count), "nrd_tuner_set_key");
    }
    case 2: {
      size_t count = choices.below(3);
      return look(nrd_tuner_set_resets(tuner, textArray(count), count), "nrd_tuner_set_resets");
    }
    case 3: {
      size_t at = index();
      nrd_tuner_value(tuner, at, text());
      nrd_tuner_text(tuner, at);
      double times[3];
      nrd_tuner_timing(tuner, at, choices.oneIn(4) ? nullptr : times);
      return nrd_string_free(nrd_tuner_report(tuner));
    }
    case 4:
      return nrd_tuner_set_budget(tuner, double(number()));
    default: {
      // The bytes of an object file, most of them zeros.
      std::string image = "\x7f"
                          "ELF\x02\x01\x01" +
                          std::string(57, '\0') + choices.bytes(120);
      for (unsigned i = choices.below(8); i > 0; --i)
        image[8 + choices.below(56)] = char(choices.below(256));
      char *out = nullptr;
      look(nrd_disassemble(image.data(), image.size(), text(), &out), "nrd_disassemble");
      return nrd_string_free(out);
    }
    }
  }

  Choices choices;
  nrd_module *module = nullptr;
  std::vector<nrd_function *> functions;
  std::vector<nrd_kernel *> kernels;
  std::vector<nrd_value *> values;
  nrd_options *options = nullptr;
  nrd_tuner *tuner = nullptr;
  nrd_launch how = {};
  // Deques, whose elements stay where they are.
  std::deque<std::string> texts;
  std::deque<std::vector<const char *>> arrays;
  std::deque<std::vector<nrd_value *>> valueArrays;
  std::deque<std::vector<nrd_arg>> argumentArrays;
  std::deque<nrd_descriptor> descriptors;
  std::deque<nrd_tuple> tuples;
  alignas(64) char memory[4096] = {};
};

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  // Nothing on disk, one thread, and no GPU: the same calls give the same answers.
  static const char *const settings[] = {"NEREID_CACHE=0", "NEREID_CPU_THREADS=1",
                                         "NEREID_TARGET=cpu"};
  nrd_string_free(nrd_set_settings(settings, std::size(settings)));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Calls(data, size).run();
  return 0;
}

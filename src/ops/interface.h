// The interface of the Python package and the router: plain structs and C functions, read on
// the Python side by ctypes (python/nereid/ops/_router.py, which declares the same fields in the
// same order). `version` guards against a router that was built from another state of the sources.
#pragma once

#include <cstdint>

extern "C" {

enum { NEREID_OPS_INTERFACE = 7 };

enum { OPS_MAX_OPERANDS = 8, OPS_MAX_OUTPUTS = 4, OPS_MAX_RANK = 16, OPS_CODES = 10 };

/// How the dtype of the inputs becomes that of the results: as nereid.ops._promotion.KINDS.
enum OpsPromotion : uint8_t {
  OPS_DEFAULT,
  OPS_INT_TO_FLOAT,
  OPS_ALWAYS_BOOL,
  OPS_BOOL_TO_LONG,
  OPS_NO_OPMATH
};

/// A scalar function and how it is applied (nereid.ops.pointwise.Rule).
struct OpsRule {
  uint32_t id;         ///< what `prepare` is told
  uint16_t dtypes;     ///< promoted dtypes that are served: bits by Code
  uint8_t promotion;   ///< OpsPromotion
  uint8_t raw;         ///< inputs that are not promoted: bits
  uint8_t same;        ///< inputs must have one dtype, numbers aside
  uint8_t computes;    ///< numbers among the inputs are not rounded to the promoted dtype
  uint8_t casts;       ///< results are converted to the dtype of any output
  uint8_t choice_kind; ///< OpsChoice: the value of the choosing argument that selects the rule
  int64_t choice_number;
  const char *choice_text;
};

/// OPS_CHOICE_OTHERS: all values for which there is no other rule.
enum OpsChoice : uint8_t { OPS_CHOICE_NONE, OPS_CHOICE_NUMBER, OPS_CHOICE_TEXT, OPS_CHOICE_OTHERS };

/// The meaning of a scalar that is not given.
enum OpsFill : uint8_t { OPS_FILL_ABSENT, OPS_FILL_NUMBER, OPS_FILL_MAX, OPS_FILL_MIN };

/// When ATen has to decide: nereid.ops._guards.Guard.
enum OpsGuard : uint8_t {
  OPS_GUARD_NOTHING,
  OPS_GUARD_BOOL,         ///< unless input `guard_input` is a bool tensor
  OPS_GUARD_DIVISOR,      ///< integers on the CPU, input `guard_input` has a zero: an error is due
  OPS_GUARD_LIMIT,        ///< unless input `guard_input` or one behind it is there
  OPS_GUARD_NEGATIVE_INT, ///< input `guard_input` is a negative integer
  OPS_GUARD_NO_BOOL,      ///< an input is bool
  OPS_GUARD_FLOAT         ///< unless the first scalar is no argument, or the promoted dtype a float
};

enum OpsKind : uint8_t { OPS_FUNCTIONAL, OPS_INPLACE, OPS_OUT };

/// One overload: where its arguments are on the dispatcher's stack, counted from the first.
struct OpsOverload {
  const OpsRule *rules;
  uint32_t rule_count;
  uint8_t is_cuda; ///< the key: CUDA, else CPU
  uint8_t kind;    ///< OpsKind
  uint8_t argument_count;
  uint8_t input_count, scalar_count, output_count;
  int8_t inputs[OPS_MAX_OPERANDS];
  int8_t scalars[OPS_MAX_OPERANDS]; ///< -1: not an argument of this overload
  int8_t outputs[OPS_MAX_OUTPUTS];  ///< of OPS_OUT; for OPS_INPLACE the first argument
  int8_t choice;                    ///< -1: none
  uint8_t contiguous;               ///< new outputs are contiguous, whatever the inputs are
  uint8_t guard, guard_input;       ///< OpsGuard
  uint8_t fills[OPS_MAX_OPERANDS];  ///< OpsFill, by scalar
  double fill_numbers[OPS_MAX_OPERANDS];
};

enum OpsKernel : uint8_t { OPS_FLAT, OPS_STRIDED, OPS_TILED, OPS_KERNELS };

/// Which kernel a call needs. All bytes count: unused ones are 0.
struct OpsKey {
  uint32_t rule;
  uint8_t kernel; ///< OpsKernel
  uint8_t rank;   ///< strided, tiled: how many sizes
  uint8_t flags;  ///< 1: pointers are multiples of 16; 2: 64-bit offsets; 4: EVEN of a tiled kernel
  uint8_t device; ///< number of the GPU
  uint8_t common; ///< the promoted dtype: Code
  uint8_t input_count, scalar_count, output_count;
  uint8_t outputs[OPS_MAX_OUTPUTS];  ///< Code
  uint8_t inputs[OPS_MAX_OPERANDS];  ///< Code of a tensor, or OpsNumber
  uint8_t scalars[OPS_MAX_OPERANDS]; ///< OpsNumber
  uint16_t mask;                     ///< flat: inputs of one element; else operands of unit stride
  uint16_t row_mask;                 ///< tiled: operands whose stride before the last is 1
  uint16_t block, columns;           ///< flat, strided: elements; tiled: rows and columns
  uint32_t is_cuda;
  uint16_t fixed;    ///< tiled, on the CPU: inputs whose last stride is 0
  uint16_t reserved; ///< 0
  uint64_t steps;    ///< on the CPU: OpsLastStride of the operands, outputs first, 4 bits each
};

/// The last stride of an operand where kernels have it as a constant.
enum OpsLastStride : uint8_t {
  OPS_ANY_STRIDE,
  OPS_LARGEST_STRIDE = 4, ///< strides of 1 to 4 are themselves
  OPS_REVERSED = 15       ///< -1
};

enum OpsNumber : uint8_t { OPS_INT = 0x40, OPS_FLOAT = 0x41, OPS_NONE = 0x42 };

/// Makes the kernel of a key: the address of an nrd_kernel, or null with a message in `error`
/// (`size` bytes). Takes Python's lock by itself.
typedef void *(*OpsPrepare)(const OpsKey *key, char *error, uint64_t size);

/// Why ATen's kernel ran; the names are in _router.REASONS, where recorded calls add theirs.
enum OpsReason : uint8_t {
  OPS_OURS,
  OPS_VARIANT,
  OPS_DTYPE,
  OPS_DTYPES_DIFFER,
  OPS_DEVICES,
  OPS_SCALAR,
  OPS_NUMBER,
  OPS_SHAPES,
  OPS_OUTPUT_SHAPE,
  OPS_OUTPUT_DTYPE,
  OPS_OVERLAP,
  OPS_LAYOUT,
  OPS_SIZE,
  OPS_ERROR_DUE,
  OPS_ROUTED,   ///< the routing data say that ATen's kernel is faster
  OPS_UNSTEADY, ///< small calls that would run in Python again and again (Replay::isUnsteady)
  OPS_REASON_COUNT = 96
};

/// How calls of one signature run: again in Python, by ATen's kernel, or as recorded.
enum OpsRoute : uint8_t { OPS_ROUTE_PYTHON, OPS_ROUTE_NATIVE, OPS_ROUTE_RECORDED };

struct OpsAllocation {
  int32_t dtype; ///< c10::ScalarType
  int32_t rank;
  const int64_t *sizes, *strides;
};

enum OpsArgumentKind : uint8_t {
  OPS_ARGUMENT_TENSOR, ///< `integer` bytes behind the first element of tensor `index` of the call
  OPS_ARGUMENT_ALLOCATION, ///< the same of an allocation
  OPS_ARGUMENT_INT,
  OPS_ARGUMENT_FLOAT
};
struct OpsArgument {
  uint8_t kind; ///< OpsArgumentKind
  uint8_t code; ///< of a tensor: Code
  uint16_t index;
  uint32_t reserved;
  int64_t integer;
  double real;
};

/// A launch, or a condition.
struct OpsStep {
  void *kernel; ///< nrd_kernel; null: a condition, the byte at the one argument must be `grid[0]`
  uint32_t grid[3];
  uint32_t argument_count;
  const OpsArgument *arguments;
};

enum OpsResultKind : uint8_t {
  OPS_RESULT_ALLOCATION,
  OPS_RESULT_VIEW, ///< of allocation `index`, from `offset` elements on
  OPS_RESULT_ARGUMENT,
  OPS_RESULT_NOTHING,
  OPS_RESULT_NUMBER ///< the integer `offset`
};
struct OpsResult {
  OpsResultKind kind;
  uint8_t reserved;
  uint16_t index;
  int32_t rank; ///< of a view
  int64_t offset;
  const int64_t *sizes, *strides;
};

/// Record of the current call, in the order of execution.
struct OpsRecord {
  OpsRoute route;
  uint8_t reason; ///< OPS_ROUTE_NATIVE
  uint16_t reserved;
  uint32_t allocation_count, step_count, result_count;
  const OpsAllocation *allocations;
  const OpsStep *steps;
  const OpsResult *results;
};

/// Both are called once, before anything else. `library`: the path of libnereid. Null, or what is
/// wrong, in a text that lives on.
__attribute__((visibility("default"))) const char *ops_start(uint32_t version, const char *library,
                                                             OpsPrepare prepare);
/// Saves the kernel that an overload has now, before others take its place: a number, or -1 with
/// the reason in `error`. Numbers are good for the life of the process.
__attribute__((visibility("default"))) int64_t ops_save(const char *name, const char *overload,
                                                        uint8_t is_cuda, char *error,
                                                        uint64_t size);
/// Makes the functor of an overload whose kernel was saved, once: by a plan, or, where it is null,
/// one that records what Python's kernel does. 0, or -1 with the reason in `error`.
__attribute__((visibility("default"))) int32_t ops_make(int64_t number, const OpsOverload *overload,
                                                        char *error, uint64_t size);
/// Puts the functor into the dispatcher, or takes it out, after which the kernel that was there
/// before is in force. Of one that records, the kernel in force becomes its Python kernel.
__attribute__((visibility("default"))) int32_t ops_enter(int64_t number, char *error,
                                                         uint64_t size);
__attribute__((visibility("default"))) void ops_leave(int64_t number);
/// Called from Python's kernel with the record of the current call of this thread. Ignored unless a
/// caller waits for it.
__attribute__((visibility("default"))) void ops_record(int64_t number, const OpsRecord *record);
/// Whether `ops_record` is waited for.
__attribute__((visibility("default"))) int32_t ops_wants_record(int64_t number);
/// Which calls are ATen's because its kernel is faster. `sizes`: OPS_KERNELS * OPS_CODES words, by
/// OpsKernel and Code of the promoted dtype: bit b stands for 2^b to 2^(b+1)-1 elements. Of an
/// overload that records, Python decides, and what was recorded is forgotten. `routed`: 0 where all
/// calls that can be ours have to be.
__attribute__((visibility("default"))) void ops_route(int64_t number, const uint64_t *sizes,
                                                      int32_t routed);
/// How often it went which way: OPS_REASON_COUNT numbers, which begin again at 0 with `clear`.
__attribute__((visibility("default"))) void ops_counts(int64_t number, uint64_t *counts,
                                                       int32_t clear);
}

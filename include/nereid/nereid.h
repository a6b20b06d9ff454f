/** @file
 * @brief Nereid's C ABI: everything the faces (C++, Python, the command line) and other languages
 * need.
 *
 * Conventions
 *   - A function that can fail returns `nrd_error *`: null is success; otherwise the caller owns
 * the error and frees it with nrd_error_free. No exception and no C++ type crosses this boundary.
 *   - `nrd_X_free` drops a reference; objects handed out through `out` parameters belong to the
 * caller. Handles are thread-safe to share; a single handle is not to be freed while in use.
 *   - Pointers marked NRD_OPTIONAL may be null, arrays where their number of elements is 0; no
 * other argument may. Where one is null all the same, a function that can fail returns an error of
 * kind NRD_ERROR_ARGUMENT that names the function and the argument (NullArgument), and any other
 * answers null or 0, or does nothing. Out of memory is an error of kind NRD_ERROR_RESOURCES
 * (OutOfMemory).
 *   - Strings are UTF-8; `const char *` results live as long as the object they were asked of.
 *   - Launches are synchronous on the CPU target and ordered by the stream on GPUs.
 *   - Structs that the caller fills begin as all zeros (`= {0}`): what is reserved must be 0.
 *   - Stable: programs built against one version run with all later ones of the same soname
 * (libnereid.so.1). Functions are added, none is removed, no struct and no number changes.
 */
#ifndef NEREID_NEREID_H
#define NEREID_NEREID_H

#include "nereid/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The ABI that this header describes. Within one ABI version nothing is removed and no struct
 * changes; a new one comes with a new soname. */
#define NRD_ABI_VERSION 1

/** The library's version, "0.1.0": NRD_VERSION where header and library are of one release. */
NRD_API const char *nrd_version(void);
/** NRD_ABI_VERSION of the library. */
NRD_API uint32_t nrd_abi_version(void);

/* ---- errors
 * ---------------------------------------------------------------------------------------------- */

/** What went wrong: texts, owned by the caller. */
typedef struct nrd_error nrd_error;

/** Whose mistake an error is. */
typedef enum nrd_error_kind {
  NRD_ERROR_COMPILE = 1,       /**< the kernel's text is wrong: CompilationError */
  NRD_ERROR_STATIC_ASSERT = 2, /**< static_assert failed: CompileTimeAssertionFailure */
  NRD_ERROR_UNSUPPORTED = 3, /**< a construct outside the language: UnsupportedLanguageConstruct */
  NRD_ERROR_ARGUMENT =
      4, /**< a wrong argument of a launch or of this API: TypeError, ValueError... */
  NRD_ERROR_RUNTIME =
      5, /**< found while running: device_assert, a bad access in checked mode, no device */
  NRD_ERROR_RESOURCES = 6, /**< out of memory of some kind, disk full */
  NRD_ERROR_INTERNAL = 7   /**< our own mistake */
} nrd_error_kind;

/** Whose mistake it is. */
NRD_API nrd_error_kind nrd_error_get_kind(const nrd_error *error);
/** The diagnostic's name in the registry, "UnknownName"; of the first when there are several. */
NRD_API const char *nrd_error_name(const nrd_error *error);
/** The whole text: every diagnostic with file, line, column, source line and caret. */
NRD_API const char *nrd_error_message(const nrd_error *error);
/** The first diagnostic's message alone. */
NRD_API const char *nrd_error_summary(const nrd_error *error);
/** The first diagnostic's text in Triton's form ("at 3:8: ..."). */
NRD_API const char *nrd_error_triton_text(const nrd_error *error);
/** The message in that text: Triton's sentence for the first diagnostic where it is known, else our
 * own. */
NRD_API const char *nrd_error_triton_summary(const nrd_error *error);
/** Python's class for an argument error: "TypeError", "ValueError", "KeyError", "OverflowError".
 * For an error of a compilation the classes of its causes in Triton, outermost first, with blanks
 * between them: one for each call that led there ("CompilationError"; the last of an assertion
 * during the compilation "CompileTimeAssertionFailure", of syntax that is not part of the language
 * "UnsupportedLanguageConstruct"), then that of a refused function of the language ("ValueError").
 * "" otherwise. */
NRD_API const char *nrd_error_python_class(const nrd_error *error);
/** Of an error about a resource that is too small: its name ("shared memory"), and how much is
 * needed and there; null for other errors. */
NRD_API const char *nrd_error_resource(const nrd_error *error, int64_t *NRD_OPTIONAL required,
                                       int64_t *NRD_OPTIONAL limit);
/** The host's handle of the exception that caused it, or 0. */
NRD_API uint64_t nrd_error_cause(const nrd_error *error);
/** Frees an error; null is fine. */
NRD_API void nrd_error_free(nrd_error *NRD_OPTIONAL error);

/* ---- values known at compile time, and the host
 * ------------------------------------------------------------ */

/** A value that is known when a kernel is compiled; it never changes. */
typedef struct nrd_value nrd_value;
/** A function of a module, with the kernels compiled from it. */
typedef struct nrd_function nrd_function;
/** A parsed file. */
typedef struct nrd_module nrd_module;
typedef struct nrd_semantic
    nrd_semantic; /**< a running compilation, lent to the host during a call */

/** What a value is. */
typedef enum nrd_value_kind {
  NRD_VALUE_NONE,
  NRD_VALUE_BOOL,
  NRD_VALUE_INT,
  NRD_VALUE_FLOAT,
  NRD_VALUE_STR,
  NRD_VALUE_TYPE,
  NRD_VALUE_TUPLE,
  NRD_VALUE_TENSOR,
  NRD_VALUE_FUNCTION,
  NRD_VALUE_BUILTIN,
  NRD_VALUE_MODULE,
  NRD_VALUE_OBJECT,
  NRD_VALUE_OTHER,
  NRD_VALUE_AGGREGATE
} nrd_value_kind;

/** None. */
NRD_API nrd_value *nrd_value_none(void);
/** A bool. */
NRD_API nrd_value *nrd_value_bool(int value);
/** An integer. */
NRD_API nrd_value *nrd_value_int(int64_t value);
/** An integer of any size, in decimal. Null when the text is not one. */
NRD_API nrd_value *nrd_value_big_int(const char *decimal);
/** A float. */
NRD_API nrd_value *nrd_value_float(double value);
/** A text of `size` bytes of UTF-8. */
NRD_API nrd_value *nrd_value_str(const char *text, size_t size);
/** A type by its signature text: "fp32", "*fp32", "*kfp16", "i64", "u1"; `shape` for a block. Null
 * when unknown. */
NRD_API nrd_value *nrd_value_type(const char *signature, const int64_t *shape, size_t rank);
/** A tuple; `fields` (may be null) are a named tuple's, `host_class` the handle of its class. Takes
 * no ownership. */
NRD_API nrd_value *nrd_value_tuple(nrd_value *const *items, size_t count,
                                   const char *const *NRD_OPTIONAL fields, uint64_t host_class);
/** A value of a class with fields (`@triton.aggregate`): `host_class` is the handle of the class,
 * which nrd_host.get_member answers for; 0 for a class of the language's own library, by name. Null
 * when there is no such class. */
NRD_API nrd_value *nrd_value_aggregate(nrd_value *const *items, size_t count,
                                       const char *const *fields, uint64_t host_class,
                                       const char *class_name);
/** A function, to be called or passed on. */
NRD_API nrd_value *nrd_value_function(nrd_function *function);
/** A builtin or prelude function of the language by name ("load", "math.exp"). Null when unknown.
 */
NRD_API nrd_value *nrd_value_builtin(const char *name);
/** The same without asking the compiler, for an answer of a callback between NRD_PROBE_BEGIN and
 * its end, where names are only compared: a process that finds its kernels on disk is spared it. It
 * must be a name that nrd_value_builtin knows. */
NRD_API nrd_value *nrd_value_named(const char *name);
/** A module of ours: "triton", "triton.language", "triton.language.math", ... Null when unknown. */
NRD_API nrd_value *nrd_value_module(const char *name);
/** A subscript `start:stop:step`; null for what is absent. Takes no ownership. */
NRD_API nrd_value *nrd_value_slice(const nrd_value *NRD_OPTIONAL start,
                                   const nrd_value *NRD_OPTIONAL stop,
                                   const nrd_value *NRD_OPTIONAL step);
/** An object of the host. `key` identifies its value across processes (it becomes part of cache
 * keys). */
NRD_API nrd_value *nrd_value_object(uint64_t handle, const char *type_name,
                                    const char *NRD_OPTIONAL key);
/** The same value, to be freed by itself. */
NRD_API nrd_value *nrd_value_copy(const nrd_value *value);
/** Frees a value; null is fine. */
NRD_API void nrd_value_free(nrd_value *NRD_OPTIONAL value);

/** What the value is. */
NRD_API nrd_value_kind nrd_value_get_kind(const nrd_value *value);
/** A bool, or 0. */
NRD_API int nrd_value_get_bool(const nrd_value *value);
NRD_API int nrd_value_get_int(const nrd_value *value, int64_t *out); /**< 0 when it does not fit */
NRD_API const char *
nrd_value_get_text(const nrd_value *value); /**< str; decimal int; type; names */
/** A float, or an integer as one. */
NRD_API double nrd_value_get_float(const nrd_value *value);
NRD_API size_t nrd_value_get_count(const nrd_value *value); /**< tuple, aggregate */
/** An item of a tuple or aggregate, owned by the caller. */
NRD_API nrd_value *nrd_value_get_item(const nrd_value *value, size_t index);
/** The name of an item of a named tuple or aggregate; null when it has none. */
NRD_API const char *nrd_value_get_field(const nrd_value *value, size_t index);
/** Of an object, or the class of a tuple or aggregate: the host's handle. Of a function: its
 * function_data. */
NRD_API uint64_t nrd_value_get_handle(const nrd_value *value);
/** Type of a tensor or type value: signature text of the element, and its shape. */
NRD_API const char *nrd_value_get_type(const nrd_value *value, const int64_t **NRD_OPTIONAL shape,
                                       size_t *NRD_OPTIONAL rank);

/** The host answers what names mean. Every callback returns 1 and sets *out (owned by the caller),
 * 0 when there is no such thing, or -1 after calling nrd_host_error. Callbacks come on the thread
 * that compiles. */
typedef struct nrd_host {
  /** Comes back in every callback. */
  void *self;
  /** What a name means in a function. `NAME=` asks for the value that the parameter NAME has when
   * it is not given, where its expression is no literal: 0 means what the expression means now. */
  int (*lookup)(void *self, void *function_data, const char *name, nrd_value **out);
  /** An attribute of an object. */
  int (*get_attribute)(void *self, uint64_t object, const char *name, nrd_value **out);
  /** An item of an object. */
  int (*get_item)(void *self, uint64_t object, const nrd_value *index, nrd_value **out);
  /** Calls an object. */
  int (*call)(void *self, uint64_t callee, const nrd_value *const *args, size_t arg_count,
              const char *const *keyword_names, const nrd_value *const *keyword_values,
              size_t keyword_count, nrd_semantic *semantic, nrd_value **out);
  /** Whether an object counts as true: 1 or 0. */
  int (*truth)(void *self, uint64_t object);
  /** Whether two objects are one: 1 or 0. */
  int (*identical)(void *self, uint64_t a, uint64_t b);
  /** Prints what `static_print` prints. */
  void (*print)(void *self, const char *text);
  /** A member, no field, of a class whose values are aggregates; *kind is one of NRD_MEMBER_*. May
   * be null where there are no such classes. */
  int (*get_member)(void *self, uint64_t host_class, const char *name, int *kind, nrd_value **out);
  /** For the cache on disk, one of NRD_DESCRIBED_*: what tells whether an object that the kernel
   * calls still does what it did. *text is made with malloc. May be null: kernels that call objects
   * of the host are then not kept. */
  int (*describe)(void *self, uint64_t object, char **text);
  /** Around questions that only compare with a kernel on disk (NRD_PROBE_*): whoever notes what a
   * kernel depends on forgets it again when the kernel is rejected. May be null. */
  void (*probe)(void *self, int stage);
} nrd_host;

/** By nothing, so that nothing is kept; by its text, which holds all that its result depends on; by
 * calling it again, which needs no nrd_semantic. */
enum { NRD_DESCRIBED_NOT, NRD_DESCRIBED_BY_TEXT, NRD_DESCRIBED_BY_CALL };
enum { NRD_PROBE_BEGIN, NRD_PROBE_ACCEPT, NRD_PROBE_REJECT };

/** How a member is read from a value: as it is, bound to the value, or called with it. */
enum { NRD_MEMBER_PLAIN, NRD_MEMBER_METHOD, NRD_MEMBER_PROPERTY };

/** From inside a callback: what went wrong, and the host's handle of the exception (0 if none). */
NRD_API void nrd_host_error(const char *NRD_OPTIONAL message, uint64_t exception);

/** From inside nrd_host.call: enters the builtin table, as `tl.name(..., _semantic=...)` from
 * foreign code does. Operators are builtins of their names ("add", "mul", "eq", "getitem"...). */
NRD_API nrd_error *nrd_call_builtin(nrd_semantic *semantic, const char *name,
                                    const nrd_value *const *args, size_t arg_count,
                                    const char *const *keyword_names,
                                    const nrd_value *const *keyword_values, size_t keyword_count,
                                    nrd_value **out);
/** From inside nrd_host.call: calls a function of the language. */
NRD_API nrd_error *nrd_call_function(nrd_semantic *semantic, nrd_function *function,
                                     const nrd_value *const *args, size_t arg_count,
                                     nrd_value **out);

/* ---- source
 * ------------------------------------------------------------------------------------------------
 */

/** Parses a text; `first_line` is the line number of its first line in the file called `name`. */
NRD_API nrd_error *nrd_module_parse(const char *text, size_t size, const char *name,
                                    uint32_t first_line, nrd_module **out);
/** The same from tile IR (the text of the stage "tile"): its kernels are functions whose parameters
 * have types already, so that nrd_compile needs no signature. */
NRD_API nrd_error *nrd_module_parse_tile(const char *text, size_t size, const char *name,
                                         nrd_module **out);
/** Reads a file: of tile IR when its name ends in `.tile`, `.ttir` or `.mlir`. */
NRD_API nrd_error *nrd_module_load(const char *path, nrd_module **out);
/** Frees a module; its functions live on. */
NRD_API void nrd_module_free(nrd_module *NRD_OPTIONAL module);
/** How many functions the file has at its top level. */
NRD_API size_t nrd_module_function_count(const nrd_module *module);
/** The name of one of them; null beyond the last. */
NRD_API const char *nrd_module_function_name(const nrd_module *module, size_t index);

/** The function called `name` (the first one when null). `host` may be null: names are then
 * answered from the module itself. `function_data` comes back in nrd_host.lookup. */
NRD_API nrd_error *nrd_function_create(nrd_module *module, const char *NRD_OPTIONAL name,
                                       const nrd_host *NRD_OPTIONAL host,
                                       void *NRD_OPTIONAL function_data, nrd_function **out);
/** Frees a function and the kernels that it keeps. */
NRD_API void nrd_function_free(nrd_function *NRD_OPTIONAL function);
/** Its name. */
NRD_API const char *nrd_function_name(const nrd_function *function);
/** How many parameters it has. */
NRD_API size_t nrd_function_param_count(const nrd_function *function);
/** The name of a parameter; null beyond the last. */
NRD_API const char *nrd_function_param_name(const nrd_function *function, size_t index);
/** The type that a parameter must have, as signatures write it; null when any will do. Freed by
 * nrd_string_free. */
NRD_API char *nrd_function_param_type(const nrd_function *function, size_t index);
/** Whether a parameter is a constexpr. */
NRD_API int nrd_function_param_is_constexpr(const nrd_function *function, size_t index);
/** Whether a parameter has a default. */
NRD_API int nrd_function_param_has_default(const nrd_function *function, size_t index);

/** Per-parameter specialisation policy (do_not_specialize and its kin); bits of NRD_PARAM_*. */
enum { NRD_PARAM_NO_SPECIALIZE = 1, NRD_PARAM_NO_ALIGNMENT = 2, NRD_PARAM_CONST = 4 };
/** Sets the policy of a parameter. */
NRD_API void nrd_function_set_param_policy(nrd_function *function, size_t index, uint32_t bits);
/** Forces a parameter's type by signature text ("i64", "fp32", "*fp16"); null text removes it. */
NRD_API nrd_error *nrd_function_set_param_type(nrd_function *function, size_t index,
                                               const char *NRD_OPTIONAL signature);

/** What decorators outside of the text say: `@jit(noinline=True)`; `@must_use_result` with the text
 * that ends the error about a dropped result ("" for none). */
NRD_API void nrd_function_set_noinline(nrd_function *function, int noinline_);
/** `@must_use_result` with the text that ends the error about a dropped result ("" for none). */
NRD_API void nrd_function_set_must_use_result(nrd_function *function, const char *hint);

/** Roles of a parameter in a derivative: what it holds is an input, an output, or both. */
enum {
  NRD_TANGENT_INPUT = 1,
  NRD_TANGENT_OUTPUT = 2,
  /** Of the gradient of an input: it is given as partial sums, see nrd_function_set_gradients. */
  NRD_TANGENT_PARTIAL = 4,
  /** A further parameter of a gradient, which belongs to none of the function's (`parameter` is
   * ignored): a pointer to memory for what its first step saves for the second. */
  NRD_TANGENT_SAVED = 8,
  /** Another one: the number of the step, an int32. */
  NRD_TANGENT_STEP = 16
};
/** The tangent of one parameter: its name is that of a further parameter of the function. */
typedef struct nrd_tangent {
  const char *parameter;         /**< the name of the parameter */
  const char *NRD_OPTIONAL name; /**< null: "d" and the parameter's name */
  uint32_t roles;                /**< NRD_TANGENT_* */
} nrd_tangent;
/** From now on the function computes, beside what it computed, the tangents of its outputs from
 * those of its inputs (docs/differentiation.md). It has one parameter more for each of `tangents`,
 * in their order after its own: a pointer, descriptor, number or tuple of the same type, or None
 * for no tangent. Before the function is compiled. A second call differentiates what the first one
 * has made of the function, whose tangents or gradients are parameters as the others are; gradients
 * with partial sums are not differentiated again. */
NRD_API nrd_error *nrd_function_set_tangents(nrd_function *function, const nrd_tangent *tangents,
                                             size_t count);
/** The same for gradients: from now on the function adds to the gradients of its inputs what
 * follows from those of its outputs, and stores nothing else. The gradient of a number is a pointer
 * to one element; that of a tensor of 16-bit floats may have elements of fp32. No parameter is an
 * input and an output.
 *
 * The gradient of an input with the role NRD_TANGENT_PARTIAL is a matrix of zeros, with a row for
 * each program that is launched; the gradient is the sum of the rows, which the caller computes.
 * The function then has further parameters after the gradients: for each of these the number of
 * elements of a row (int64, the gradient's name and "_row"), and how many programs the kernel has
 * along each axis (int32, "programs_0" to "programs_2"). It is launched with at most as many
 * programs as this, along axis 0 only, each of which computes several of the kernel's. Which
 * gradients gain by it, the metadata of the gradient without partial sums tells: "shared_axes" of
 * a parameter is a set of axes, bit 0 for axis 0, whose programs add to the same elements.
 *
 * With parameters for NRD_TANGENT_SAVED and NRD_TANGENT_STEP, which no function with partial sums
 * has, a kernel that stores through the former has two steps: it is launched with the step 0, then
 * with the step 1, with the same grid and arguments. The memory is aligned to 16 bytes; with the
 * step -1 the kernel stores at its beginning, as an int64_t, how many bytes it needs for each
 * program, and does nothing else. A kernel with one step is launched once, with any step. */
NRD_API nrd_error *nrd_function_set_gradients(nrd_function *function, const nrd_tangent *gradients,
                                              size_t count);
/** The same, but the function also writes everything that it wrote before, its outputs among them:
 * in one launch, where a program often finds in a cache what it reads for both. Of a function with
 * two steps the first one writes. What `tl.save` stores is stored, and not read. */
NRD_API nrd_error *nrd_function_set_outputs_and_gradients(nrd_function *function,
                                                          const nrd_tangent *gradients,
                                                          size_t count);

/* ---- compiling
 * -----------------------------------------------------------------------------------------------
 */

/** A compiled kernel. */
typedef struct nrd_kernel nrd_kernel;
/** Options of a compilation. */
typedef struct nrd_options nrd_options;

/** Options by name, as launch keywords give them: "num_warps", "debug", "enable_fp_fusion",
 * "checked", "features", "target" ("cpu", "cuda", "cuda:90"), "strict", "num_threads"... Unknown
 * names are an argument error naming the nearest. */
NRD_API nrd_options *nrd_options_new(void);
/** Sets an option; an unknown name or a value of a wrong kind is an argument error. */
NRD_API nrd_error *nrd_options_set(nrd_options *options, const char *name, const nrd_value *value);
/** The same options, to be freed by themselves. */
NRD_API nrd_options *nrd_options_copy(const nrd_options *options);
/** The name of a kernel compiled with these options, in place of its function's; kernels are not
 * told apart by it. */
NRD_API void nrd_options_set_kernel_name(nrd_options *options, const char *NRD_OPTIONAL name);
/** Frees options; null is fine. */
NRD_API void nrd_options_free(nrd_options *NRD_OPTIONAL options);

/** Compiles from a signature: one text per parameter, as Triton's ahead-of-time tool takes them:
 * "*fp32:16", "i32", "i32:16", "i32:1", "tensordesc<fp16[128, 64]>" (":16" after it: the last size
 * is a multiple of 16), a Python literal for a constexpr parameter ("1024", "True", "'tf32'",
 * "None"). */
NRD_API nrd_error *nrd_compile(nrd_function *function, const char *const *signature, size_t count,
                               const nrd_options *NRD_OPTIONAL options, nrd_kernel **out);
/** Frees a kernel of nrd_compile; not one that nrd_dispatch lends. */
NRD_API void nrd_kernel_free(nrd_kernel *NRD_OPTIONAL kernel);
/** Its name. */
NRD_API const char *nrd_kernel_name(const nrd_kernel *kernel);
/** Stages "tile", "loops", "llir", "asm", "obj" of the CPU target, "tile", "gpu", "llir", "ptx",
 * "cubin" of NVIDIA's; binary ones with their size. Null when there is no such stage. */
NRD_API const void *nrd_kernel_stage(const nrd_kernel *kernel, const char *stage,
                                     size_t *NRD_OPTIONAL size);
/** The same, with the reason for a stage that could not be made: machine code without an assembler,
 * "sass" without a disassembler. *data is null when there is no such stage. */
NRD_API nrd_error *nrd_kernel_read_stage(const nrd_kernel *kernel, const char *stage,
                                         const void **data, size_t *size);
/** How many stages there are. */
NRD_API size_t nrd_kernel_stage_count(const nrd_kernel *kernel);
/** The name of a stage; null beyond the last. */
NRD_API const char *nrd_kernel_stage_name(const nrd_kernel *kernel, size_t index);
/** Time of the stages of its compilation, in milliseconds. */
NRD_API size_t nrd_kernel_time_count(const nrd_kernel *kernel);
/** The name of a stage and the time it took; null beyond the last. */
NRD_API const char *nrd_kernel_time(const nrd_kernel *kernel, size_t index,
                                    double *NRD_OPTIONAL milliseconds);
/** A JSON object: name, target, features, parameters, options, hash. */
NRD_API const char *nrd_kernel_metadata(const nrd_kernel *kernel);

/* ---- launching
 * ------------------------------------------------------------------------------------------------
 */

/** What an argument is. */
typedef enum nrd_arg_kind {
  NRD_ARG_INT,
  NRD_ARG_UINT,
  NRD_ARG_BOOL,
  NRD_ARG_FLOAT,
  NRD_ARG_POINTER,
  NRD_ARG_NONE,
  NRD_ARG_VALUE,
  NRD_ARG_DESCRIPTOR, /**< a tensor in blocks: `p` points to its first element, and `descriptor` */
  NRD_ARG_TUPLE,      /**< several arguments as one: `tuple` */
  NRD_ARG_TYPE,     /**< to compile only: a value of the type `v` (nrd_value_type), a multiple of 16
                       when `divisibility` is */
  NRD_ARG_AGGREGATE /**< a value of a class with fields: `tuple`, whose `fields`, `host_class` and
                       `class_name` are given; integers that are 1 are no constants in it */
} nrd_arg_kind;

/** Element types of pointer arguments; the same order as src/frontend/dtypes.def. */
typedef enum nrd_dtype {
  NRD_VOID,
  NRD_INT1,
  NRD_INT8,
  NRD_INT16,
  NRD_INT32,
  NRD_INT64,
  NRD_UINT8,
  NRD_UINT16,
  NRD_UINT32,
  NRD_UINT64,
  NRD_FP8E5,
  NRD_FP8E5B16,
  NRD_FP8E4NV,
  NRD_FP8E4B8,
  NRD_FP8E4B15,
  NRD_FP16,
  NRD_BF16,
  NRD_FP32,
  NRD_FP64
} nrd_dtype;

/** Where a pointer points to. It decides, when no target was asked for, what a kernel runs on: CUDA
 * memory means that GPU, an array the CPU. Of tensors of the host and of unknown addresses the
 * driver is asked: pinned memory goes along with either, alone to the GPU; other memory of the host
 * means the CPU (in strict mode a tensor of the host goes to the GPU where there is one, which
 * refuses it, as in Triton). A launch with memory of both is an error. */
typedef enum nrd_memory {
  NRD_MEMORY_UNKNOWN = 0,
  NRD_MEMORY_HOST = 1,        /**< an array that is always on the host */
  NRD_MEMORY_HOST_TENSOR = 2, /**< a tensor of a library that also has tensors on GPUs */
  NRD_MEMORY_UNPROVEN = 3,    /**< as unknown, but a GPU's launch asks, too, if it can reach it */
  NRD_MEMORY_CUDA = 8         /**< plus the number of the device */
} nrd_memory;

enum { NRD_DESCRIPTOR_MAX_RANK = 5 };

/** A tensor as blocks of one size (tl.make_tensor_descriptor, made on the host). The address of its
 * first element and all strides but the last are multiples of 16 bytes, the last stride is 1, sizes
 * are positive and fit 32 bits. Dimensions from the outermost on. */
typedef struct nrd_descriptor {
  uint8_t rank;     /**< 1..NRD_DESCRIPTOR_MAX_RANK */
  uint8_t pads_nan; /**< what is read outside: 0 or, for floats, NaN */
  /** of fp32: whether loads round to TF32, to the nearest, ties to even; infinities and NaN stay */
  uint8_t rounds_tf32;
  /** 0 */
  uint8_t reserved[5];
  /** in elements */
  int64_t shape[NRD_DESCRIPTOR_MAX_RANK];
  int64_t strides[NRD_DESCRIPTOR_MAX_RANK]; /**< in elements */
  /** sizes of a block, in elements */
  int64_t block[NRD_DESCRIPTOR_MAX_RANK];
} nrd_descriptor;

struct nrd_arg;

/** A tuple of arguments, each specialised as if it were one by itself; tuples may nest. `fields`
 * (may be null) are a named tuple's, `host_class` the handle of its class. Everything is borrowed.
 */
typedef struct nrd_tuple {
  /** the arguments */
  const struct nrd_arg *items;
  /** how many */
  size_t count;
  /** their names, or null */
  const char *const *fields;
  /** the handle of the class of a named tuple, or 0 */
  uint64_t host_class;
  /** NRD_ARG_AGGREGATE: the name of the class (not read for a tuple) */
  const char *class_name;
} nrd_tuple;

/** One argument of a launch. A number or None given for a constexpr parameter is its value; other
 * constants go by NRD_ARG_VALUE (borrowed). */
typedef struct nrd_arg {
  uint8_t kind;      /**< nrd_arg_kind */
  uint8_t dtype;     /**< of what a pointer points to: nrd_dtype */
  uint8_t read_only; /**< launching a kernel that may store through it is refused (ValueError) */
  uint8_t memory;    /**< where a pointer points to: nrd_memory */
  uint32_t divisibility; /**< NRD_ARG_TYPE: 16 when the value is a multiple of it, else 0 or 1 */
  union {
    int64_t i; /**< NRD_ARG_INT; NRD_ARG_BOOL: 0 or 1 */
    uint64_t u;
    double f;
    void *p;
    const nrd_value *v;
    const nrd_tuple *tuple;
  };
  /** The bytes that may be touched through a pointer, [low, high); both null when unknown (checked
   * mode then says so). */
  const void *low;
  const void *high;                 /**< behind the last of them */
  const nrd_descriptor *descriptor; /**< NRD_ARG_DESCRIPTOR (borrowed) */
} nrd_arg;

/** How to run: begin with all zeros. */
typedef struct nrd_launch {
  /** programs along each axis; none run when one is 0 */
  uint32_t grid[3];
  uint32_t num_threads; /**< 0: the setting NEREID_CPU_THREADS, or all */
  uint8_t checked;      /**< 0: the setting NEREID_CHECKED, 1: off, 2: on */
  uint8_t device;       /**< GPU: 0 for that of the pointers, else of the current context; else 1 +
                           its number */
  uint8_t with_stream;  /**< GPU: 1 to use `stream` even when it is null (the default stream) */
  /** 0 */
  uint8_t reserved;
  void *stream; /**< GPU: a CUstream; null for the current one (nrd_set_stream_provider) */
} nrd_launch;

/** The dispatcher: specialises on the arguments, finds or compiles the kernel, launches it. One
 * argument per parameter, in order. With a null `launch` it only compiles (warmup). *out (may be
 * null) is borrowed from the function's cache and lives as long as the function. A grid with a zero
 * launches nothing. */
NRD_API nrd_error *nrd_dispatch(nrd_function *function, const nrd_arg *args, size_t count,
                                const nrd_options *NRD_OPTIONAL options,
                                const nrd_launch *NRD_OPTIONAL launch,
                                nrd_kernel **NRD_OPTIONAL out);
/** Like nrd_dispatch with a null launch, but without compiling: *out is null when the kernel is not
 * there yet. `launch` (may be null) only says what the launch would. */
NRD_API nrd_error *nrd_find(nrd_function *function, const nrd_arg *args, size_t count,
                            const nrd_options *NRD_OPTIONAL options,
                            const nrd_launch *NRD_OPTIONAL launch, nrd_kernel **out);
/** How the parameters of the function reach the kernel, a character each: 'p' for one that is
 * passed, 'c' for one that is folded into the code, brackets around the items of a tuple. */
NRD_API const char *nrd_kernel_layout(const nrd_kernel *kernel);
/** The value of a 'c' of the layout, counting all 'p' and 'c' before it; null for a 'p'. */
NRD_API nrd_value *nrd_kernel_constant(const nrd_kernel *kernel, size_t index);
/** Launches a compiled kernel, with one argument per parameter, or with only those that are not
 * constants. Arguments must be what the kernel was compiled for: a pointer to the same element type
 * (or to NRD_VOID, an address without a type), an integer that fits, a multiple of 16 where the
 * signature says so, the same constant. Of a function with a host the host's rules hold: an integer
 * may be an address, a pointer may point to anything, constants are ignored. `launch->checked` of 2
 * runs the same kernel with checked accesses, which is compiled when it is first asked for. */
NRD_API nrd_error *nrd_kernel_launch(nrd_kernel *kernel, const nrd_arg *args, size_t count,
                                     const nrd_launch *launch);
/** What a compiled kernel needs on a GPU, by number; it is loaded there. Zeros on the CPU. */
typedef struct nrd_kernel_properties {
  int32_t registers;   /**< of a thread */
  int32_t spills;      /**< 32-bit words of local memory of a thread */
  int32_t max_threads; /**< that a block may have */
  /** 0 */
  int32_t reserved;
  int64_t shared_bytes; /**< of a block, static and dynamic */
  void *function;       /**< CUfunction */
  void *module;         /**< CUmodule */
} nrd_kernel_properties;
/** Fills *out for device number `device`. */
NRD_API nrd_error *nrd_kernel_get_properties(nrd_kernel *kernel, int device,
                                             nrd_kernel_properties *out);
/** Forgets every compiled kernel of the function. */
NRD_API void nrd_function_clear_cache(nrd_function *function);

/* ---- forking
 * ------------------------------------------------------------------------------------------------
 */

/** fork() waits by itself until no other thread compiles. A caller that forks while it holds a lock
 * which its callbacks (nrd_host) take calls these before: the first, without the lock, waits until
 * nobody compiles; the second, with it, answers 1 when that is still so, and then keeps
 * compilations waiting until this thread has forked. */
NRD_API void nrd_await_quiet(void);
/** The second of the two calls before a fork. */
NRD_API int nrd_close_for_fork(void);

/* ---- devices
 * ----------------------------------------------------------------------------------------------
 */

/** What kernels run on when no option says, before NEREID_TARGET and wherever their arguments are:
 * "cpu", "cuda", "cuda:90"; null or "" to go by the setting and the arguments again. */
NRD_API nrd_error *nrd_set_default_target(const char *NRD_OPTIONAL target);
/** What kernels run on when neither an option nor NEREID_TARGET nor their arguments say, by default
 * a GPU where there is one. Takes the place of nrd_set_default_target; null or "" for neither. */
NRD_API nrd_error *nrd_set_fallback_target(const char *NRD_OPTIONAL target);
/** Where a launch with these arguments would run: "cpu", "cuda:90" (free with nrd_string_free), and
 * the number of the device, -1 for the CPU. */
NRD_API nrd_error *nrd_target_of_arguments(const nrd_arg *arguments, size_t count,
                                           const nrd_options *NRD_OPTIONAL options, char **target,
                                           int *device);
/** 1 for an address in memory of the host that GPUs reach, 0 for another one, and until somebody
 * has used CUDA in the process; -1 without a driver, where nothing ever is pinned. Does not
 * initialise CUDA. */
NRD_API int nrd_cuda_is_pinned(const void *NRD_OPTIONAL address);
/** The target of a launch without pointers: "cpu", or "cuda:90" where a GPU is usable. Free with
 * nrd_string_free. */
NRD_API char *nrd_default_target(void);
/** Says which CUstream a launch on a device takes when it names none; null for the default stream.
 * Called on the launching thread. */
typedef void *(*nrd_stream_provider)(int device);
/** Sets the provider; null removes it. */
NRD_API void nrd_set_stream_provider(nrd_stream_provider NRD_OPTIONAL provider);

/** Number of usable CUDA devices; 0 without a driver. */
NRD_API int nrd_cuda_device_count(void);
/** An error says which part is missing: the driver, or a device. */
NRD_API nrd_error *nrd_cuda_check(void);
/** The device of the current context, else 0. */
NRD_API nrd_error *nrd_cuda_current_device(int *out);
/** Makes the device's primary context the calling thread's. */
NRD_API nrd_error *nrd_cuda_set_current_device(int device);
/** Properties as a JSON object: name, arch, multiprocessor_count, max_shared_mem, warpSize...; free
 * with nrd_string_free. */
NRD_API nrd_error *nrd_cuda_device_properties(int device, char **json);
/** The number of the device whose memory this is; -1 for other addresses and without a driver. */
NRD_API int nrd_cuda_device_of(const void *NRD_OPTIONAL address);
/** Waits for the device; reports what failed on it, with the names of the last kernels. */
NRD_API nrd_error *nrd_cuda_synchronize(int device);

/** Folders of packages (Python's sys.path) in which the assembler and the libraries of NVIDIA's pip
 * packages are looked for. */
NRD_API void nrd_set_package_folders(const char *const *folders, size_t count);

/* ---- about this machine
 * ----------------------------------------------------------------------------------------- */

/** The settings, as a JSON array of {"field", "type" ("Bool", "Int", "String"), "variable",
 * "alias", "default", "value", "help"}. Free with nrd_string_free. */
NRD_API char *nrd_settings_json(void);
/** "NAME=value" texts that go before the environment from now on, in place of those of an earlier
 * call; the environment is read again, too. Problems come back as text, one line each, to be freed
 * with nrd_string_free; NULL when there are none. */
NRD_API char *nrd_set_settings(const char *const *entries, size_t count);
/** The environment is read again when a kernel is about to be compiled: guard(read, data) must call
 * read(data) while nobody writes the environment. */
NRD_API void nrd_set_environment_guard(void (*NRD_OPTIONAL guard)(void (*read)(void *data),
                                                                  void *data));

/** What is kept on disk: a JSON object {"folder", "state" ("usable", "missing", "not ours", "no
 * folder", "off"), "writable" (whether entries can be kept), "limit", "bytes", "temporary",
 * "entries": [{"kind", "path", "bytes", "age", and of kernels "kernel", "function", "target",
 * "features", "signature", "version"}], "damaged": [paths]}. `folder` null for that of the
 * settings. Every file is read and checked. Free with nrd_string_free. */
NRD_API char *nrd_cache_json(const char *NRD_OPTIONAL folder);
/** Entries are written by a thread; kernels are found in the same process meanwhile, and a process
 * that exits waits for its entries up to five seconds. Waits until all are on the disk; 0 when that
 * takes longer, else 1. For programs that end without exit(). */
NRD_API int nrd_cache_flush(uint64_t milliseconds);
/** From now on a compilation ends when its entry is on the disk. Forked children always do so. */
NRD_API void nrd_cache_write_at_once(void);
/** Removes everything kept there; returns how many entries. */
NRD_API size_t nrd_cache_clear(const char *NRD_OPTIONAL folder);

/** Identifies this build of the compiler: equal builds give equal code. */
NRD_API const char *nrd_build_identity(void);
/** The instructions of an ELF image as text: of a cubin (takes NVIDIA's nvdisasm or cuobjdump), of
 * an object file for x86-64. Lines of the source stand in comments where the image has them:
 * `//## File "kernels.py", line 12`. `name`: what messages call it. Free with nrd_string_free. */
NRD_API nrd_error *nrd_disassemble(const void *image, size_t size, const char *name, char **text);
/** What `nereid opt` does: passes by name over IR in text form, with the arguments of mlir-opt. For
 * work on the compiler, once a process; what the passes are called changes with the compiler.
 * `status`: of the program. */
NRD_API nrd_error *nrd_opt(int argc, char **argv, int *status);

/** What `nereid doctor` prints: a JSON object. Free with nrd_string_free. */
NRD_API char *nrd_doctor(void);
/** All builtins and prelude functions as JSON: name, signature, docstring, category. */
NRD_API char *nrd_language_json(void);
/** Frees a text that a function gave. */
NRD_API void nrd_string_free(char *NRD_OPTIONAL text);

#ifdef __cplusplus
}
#endif
#endif

/** @file
 * @brief What `python/nereid/jax` and the library of handlers agree on. Plain C layout,
 * little-endian machines of 64 bits; the same structs stand in `python/nereid/jax/_library.py`.
 */
#pragma once

#include <stdint.h>

/// Raised when a struct or function below changes.
#define NEREID_JAX_INTERFACE 1

/// Where an argument of the kernel comes from.
enum JaxSource : uint8_t {
  JAX_NUMBER = 0,  ///< `bits`, as the member of `nrd_arg` that `kind` selects
  JAX_OPERAND = 1, ///< the memory of operand `index` of the custom call
  JAX_RESULT = 2   ///< the memory of result `index`
};

/// One argument of the kernel, in the order of the parameters that are passed to it.
struct JaxArgument {
  uint8_t source;   ///< JaxSource
  uint8_t kind;     ///< nrd_arg_kind of a number
  uint8_t dtype;    ///< nrd_dtype of what memory holds
  uint8_t aligned;  ///< 1: the kernel was compiled for an address that is a multiple of 16
  uint32_t index;   ///< of an operand or a result
  uint64_t bits;    ///< of a number
  const char *name; ///< of the parameter, for messages; copied
};

/// A call: the kernel and everything about its launch that is known when JAX traces.
struct JaxCall {
  uint64_t id;        ///< made from the contents of the call; the attribute `id` of the custom call
  const char *name;   ///< of the kernel, for messages; copied
  void *kernel;       ///< nrd_kernel, which lives as long as the process
  uint32_t grid[3];   ///< programs along each axis
  uint32_t threads;   ///< 0: the setting, or all
  uint32_t operands;  ///< of the custom call
  uint32_t results;   ///< of the custom call
  uint64_t arguments; ///< how many
  const struct JaxArgument *argument;
};

/** Finds the functions of libnereid, which the process has loaded as `library`. Null, or what is
 * wrong, as a text that is never freed. `version`: NEREID_JAX_INTERFACE of the caller. */
extern "C" const char *nereid_jax_start(uint32_t version, const char *library);

/** Adds a call, for the life of the process; where there is one of this id already, that stays.
 * Null, or what is wrong, as a text that is never freed. */
extern "C" const char *nereid_jax_add(const struct JaxCall *call);

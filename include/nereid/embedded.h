/** @file
 * @brief Kernels that were compiled when the program was built: their tables, and their launch.
 *
 * `nereid embed` (and nereid_add_kernels() of the CMake package) writes a C file with a table, an
 * object file for each CPU variant and a typed header, which is what programs include; this header
 * is what those files are made of. Neither the compiler nor LLVM nor Python takes part when the
 * program runs: link libnereid_embedded.a.
 *
 * A kernel has variants: for several architectures, and for several facts about its arguments. A
 * launch takes the one that fits the device and the arguments and promises the most.
 */
#ifndef NEREID_EMBEDDED_H
#define NEREID_EMBEDDED_H

#include "nereid/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The form of the tables and calls below. Generated files, the code that calls them and the run
 * time must agree on it: files that `nereid embed` made for another form do not compile, objects
 * that were compiled for another one are refused by the launch. */
#define NRD_EMBEDDED_VERSION 2

/** Instruction sets of a CPU that code is compiled for. */
enum {
  NRD_CPU_BASELINE = 1,        /**< any x86-64 */
  NRD_CPU_AVX2 = 2,            /**< x86-64-v3 */
  NRD_CPU_AVX512 = 4,          /**< x86-64-v4 */
  NRD_CPU_AARCH64 = 8,         /**< any AArch64 */
  NRD_CPU_AVX512BF16 = 16,     /**< x86-64-v4 with AVX512-VNNI and AVX512-BF16 */
  NRD_CPU_SAPPHIRERAPIDS = 32, /**< and AMX-TILE, AMX-BF16, AMX-INT8; Linux lets the process use the
                                    tile registers */
  NRD_CPU_GRANITERAPIDS = 64,  /**< and AMX-FP16 */
  NRD_CPU_NEOVERSE_N1 = 128,   /**< AArch64 with FEAT_LSE, FEAT_FP16 and FEAT_DotProd */
  NRD_CPU_NEOVERSE_V1 = 256    /**< and FEAT_BF16, FEAT_I8MM */
};

/** In what order the programs of a launch start. */
enum {
  NRD_PROGRAMS_IN_ORDER = 0,   /**< of their numbers: one may wait for a lower one */
  NRD_PROGRAMS_TOGETHER = 1,   /**< all run at the same time */
  NRD_PROGRAMS_INDEPENDENT = 2 /**< any: none waits for another */
};

/** What a variant assumes of an argument, as bits. */
enum {
  NRD_FACT_MULTIPLE_OF_16 = 1, /**< a number or an address; of a descriptor its address and its
                                  last size */
  NRD_FACT_EQUALS = 2,         /**< a number that is folded into the code: it is not passed */
  NRD_FACT_SIGNED = 4,         /**< a number that fits a signed integer of `value` bits */
  NRD_FACT_UNSIGNED = 8,       /**< a number that fits an unsigned integer of `value` bits */
  NRD_FACT_NOT_NULL = 16       /**< an address, where another variant is for None */
};

/** The facts about one parameter. */
typedef struct nrd_embedded_fact {
  uint32_t kinds;    /**< NRD_FACT_... */
  uint32_t reserved; /**< 0 */
  int64_t value;     /**< of a fact that has one */
} nrd_embedded_fact;

/** A parameter of the launch. */
typedef struct nrd_embedded_param {
  const char *name;   /**< in messages */
  uint8_t is_pointer; /**< its first slot is an address */
  uint8_t slots; /**< of 8 bytes; 2*rank for a descriptor: address, sizes, strides but the last */
  uint8_t reserved[6]; /**< 0 */
} nrd_embedded_param;

/** What a kernel prints: the type of an operand is a number of the compiler's. */
typedef struct nrd_embedded_operand {
  uint32_t kind;    /**< element type */
  uint32_t rank;    /**< 0 for a scalar */
  int64_t shape[5]; /**< in elements */
} nrd_embedded_operand;

/** A place in the kernel's source that an assertion or print of the CPU refers to. */
typedef struct nrd_embedded_site {
  const char *file;                     /**< of the kernel */
  const char *text;                     /**< the assertion's message, the print's prefix */
  int32_t line;                         /**< from 1 on */
  int32_t column;                       /**< from 1 on */
  uint32_t hex;                         /**< prints in hexadecimal */
  uint32_t operand_count;               /**< of a print */
  const nrd_embedded_operand *operands; /**< of a print */
} nrd_embedded_site;

/** The entry of a CPU variant: runs the programs [begin, end). */
typedef void (*nrd_embedded_entry)(const void *slots, void *launch, int64_t begin, int64_t end,
                                   void *scratch);

/** Machine code of a CPU. */
typedef struct nrd_embedded_cpu {
  uint32_t features;              /**< one of NRD_CPU_... */
  uint32_t order;                 /**< one of NRD_PROGRAMS_... */
  nrd_embedded_entry entry;       /**< the code */
  uint64_t scratch_bytes;         /**< memory of a thread */
  const nrd_embedded_site *sites; /**< of assertions and prints */
  uint64_t site_count;            /**< how many */
} nrd_embedded_cpu;

/** A step of a computation over the slots of a launch, on a stack. */
typedef struct nrd_embedded_step {
  uint32_t op; /**< argument, constant, sign-extend, zero-extend, add, subtract, multiply, shift */
  uint32_t reserved; /**< 0 */
  int64_t value;     /**< of the operation */
} nrd_embedded_step;

/** A number computed from the arguments. */
typedef struct nrd_embedded_number {
  const nrd_embedded_step *steps; /**< in order */
  uint64_t count;                 /**< how many */
} nrd_embedded_number;

/** What the copy engine of a GPU must know of a tensor. Dimensions from the outermost on. */
typedef struct nrd_embedded_map {
  const char *name;               /**< of the tensor, in messages */
  uint32_t element;               /**< the driver's CUtensorMapDataType */
  uint32_t element_bytes;         /**< of an element */
  uint32_t swizzle_bytes;         /**< 0, 32, 64 or 128 */
  uint32_t pads_nan;              /**< what is read outside: 0 or NaN */
  uint32_t optional;              /**< zeros are passed where it cannot be made */
  uint32_t rank;                  /**< number of dimensions */
  uint32_t box[5];                /**< elements that one copy moves */
  nrd_embedded_number base;       /**< address */
  nrd_embedded_number shape[5];   /**< in elements */
  nrd_embedded_number strides[5]; /**< in elements, without the last */
} nrd_embedded_map;

/** Machine code (or PTX, a text that the driver compiles) of a GPU. */
typedef struct nrd_embedded_cuda {
  int32_t arch;                 /**< 90 for sm_90 */
  uint32_t arch_specific;       /**< sm_90a: runs on this architecture alone */
  uint32_t is_ptx;              /**< runs on this architecture and all later ones */
  uint32_t num_warps;           /**< of a program */
  uint32_t num_ctas;            /**< blocks of a cluster */
  uint32_t cooperative;         /**< all programs run at the same time */
  uint32_t pdl;                 /**< programs may start before the launch before has ended */
  uint32_t reserved;            /**< 0 */
  uint64_t shared_bytes;        /**< dynamic, of a block */
  uint64_t scratch_bytes;       /**< global memory of a program */
  const char *entry;            /**< the kernel's name in the image */
  const void *image;            /**< a cubin, or PTX with a zero at its end */
  uint64_t image_bytes;         /**< its size */
  uint64_t checksum;            /**< FNV-1a of the image */
  const nrd_embedded_map *maps; /**< tensor maps, parameters behind all others */
  uint64_t map_count;           /**< how many */
} nrd_embedded_cuda;

/** One compilation of a kernel. */
typedef struct nrd_embedded_variant {
  const nrd_embedded_fact *facts; /**< one a parameter */
  const nrd_embedded_cpu *cpu;    /**< one of the two is there */
  const nrd_embedded_cuda *cuda;  /**< see `cpu` */
} nrd_embedded_variant;

/** What the run time keeps with a variant: zeros before the first launch. */
typedef struct nrd_embedded_state {
  void *loaded; /**< the run time's own */
} nrd_embedded_state;

/** A kernel with all its variants. */
typedef struct nrd_embedded_kernel {
  uint32_t version;                     /**< NRD_EMBEDDED_VERSION; first in every form */
  uint32_t size;                        /**< sizeof(nrd_embedded_kernel) */
  const char *name;                     /**< in messages */
  const nrd_embedded_param *params;     /**< of a launch */
  uint64_t param_count;                 /**< how many */
  const nrd_embedded_variant *variants; /**< to choose from */
  uint64_t variant_count;               /**< how many */
  nrd_embedded_state *states;           /**< one a variant */
} nrd_embedded_kernel;

/** How to run: begin with all zeros and `size`. */
typedef struct nrd_embedded_launch {
  size_t size;         /**< sizeof(nrd_embedded_launch) */
  uint32_t grid[3];    /**< programs along each axis; none run when one is 0 */
  uint32_t threads;    /**< on the CPU at most; 0: NEREID_CPU_THREADS, or all cores */
  uint32_t has_stream; /**< 0: on the device of the first pointer that is not null */
  uint32_t reserved;   /**< 0 */
  nrd_stream stream;   /**< where to run, with `has_stream` */
} nrd_embedded_launch;

/** Runs the variant that fits. `slots`: the arguments in order, 8 bytes a slot, integers extended
 * by their sign to 64 bits, a narrow float in the first bytes. Done when it returns on the CPU,
 * queued on a GPU. May be called from several threads at once. */
NRD_API nrd_status nrd_embedded_run(const nrd_embedded_kernel *kernel,
                                    const nrd_embedded_launch *how, const uint64_t *slots);

/** Finds and loads the variant that a launch with these arguments would run, and runs nothing. */
NRD_API nrd_status nrd_embedded_prepare(const nrd_embedded_kernel *kernel,
                                        const nrd_embedded_launch *how, const uint64_t *slots);

/** For typed headers: refuses a call that was compiled for another form, `version`, than the
 * kernel's table. */
NRD_API nrd_status nrd_embedded_other_version(const nrd_embedded_kernel *kernel, uint32_t version);

/** For typed headers: refuses a number that does not fit its parameter. */
NRD_API nrd_status nrd_embedded_does_not_fit(const nrd_embedded_kernel *kernel, uint64_t param);

#ifdef __cplusplus
}
#endif
#endif

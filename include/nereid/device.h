/** @file
 * @brief Devices, streams and memory, in C: what a program needs beside kernels.
 *
 * These functions are in the library with the compiler (libnereid.so) and in the small run time of
 * embedded kernels (libnereid_embedded.a), the same in both. They need no compiler; the CUDA driver
 * is opened when the first GPU is asked for.
 *
 * A function that can fail returns an ::nrd_status, NRD_STATUS_ARGUMENT for a pointer that is null
 * without being marked NRD_OPTIONAL; the text of the calling thread's last failure
 * is nrd_status_message(). Structs that the caller fills begin with their size, so that they can
 * grow.
 */
#ifndef NEREID_DEVICE_H
#define NEREID_DEVICE_H

#include <stddef.h>
#include <stdint.h>

/** The version of these headers, semantic: a program that uses what they declare needs a library of
 * the same major version (while that is 0: of the same minor version), and no older one.
 * nrd_version() is the library's. */
#define NRD_VERSION "0.1.0"
#define NRD_VERSION_MAJOR 0 /**< of NRD_VERSION */
#define NRD_VERSION_MINOR 1 /**< of NRD_VERSION */
#define NRD_VERSION_PATCH 0 /**< of NRD_VERSION */

/** Marks what the library exports. */
#if defined(_WIN32)
#define NRD_API __declspec(dllexport)
#else
#define NRD_API __attribute__((visibility("default")))
#endif

/** Marks a pointer argument that may be null. All others must point to something, but for arrays
 * whose number of elements is 0. */
#define NRD_OPTIONAL

#ifdef __cplusplus
extern "C" {
#endif

/** What became of a call. */
typedef enum nrd_status {
  NRD_OK = 0,
  NRD_STATUS_ARGUMENT = 1,   /**< a wrong argument: a negative grid, a number that does not fit */
  NRD_STATUS_NO_VARIANT = 2, /**< the kernel was not compiled for these arguments or this device */
  NRD_STATUS_NO_DEVICE = 3,  /**< no driver, no GPU, or none of this number */
  NRD_STATUS_DAMAGED = 4,    /**< the embedded data are not what was embedded */
  NRD_STATUS_RESOURCES = 5,  /**< out of memory, threads or shared memory */
  NRD_STATUS_FAILED = 6      /**< the driver refused, or a kernel failed while running */
} nrd_status;

/** What went wrong in the last call on this thread that failed: UTF-8, valid until the next call
 * that fails; "" before the first. */
NRD_API const char *nrd_status_message(void);

/** The number of the CPU, where GPUs are 0, 1, 2... */
enum { NRD_DEVICE_CPU = -1 };

/** An order of work on a device. All zeros is the default stream of GPU 0. */
typedef struct nrd_stream {
  int32_t device;    /**< NRD_DEVICE_CPU: everything is done when the call returns */
  uint32_t reserved; /**< 0 */
  void *handle;      /**< a CUstream (a cudaStream_t is one); null is the device's default stream */
} nrd_stream;

/** What a device is. */
typedef struct nrd_device_info {
  size_t size;       /**< in: sizeof(nrd_device_info) */
  char name[96];     /**< "NVIDIA H200" */
  int32_t arch;      /**< of a GPU: 90 for compute capability 9.0; 0 on the CPU */
  int32_t cores;     /**< multiprocessors, or cores this process may use */
  int64_t memory;    /**< bytes of memory of the device */
  uint32_t features; /**< of the CPU: the NRD_CPU_ levels it runs, as bits (embedded.h) */
  uint32_t reserved; /**< 0 */
} nrd_device_info;

/** Number of usable GPUs; 0 without a driver. */
NRD_API int32_t nrd_gpu_count(void);
/** Fills *out for the CPU or a GPU. */
NRD_API nrd_status nrd_device_get_info(int32_t device, nrd_device_info *out);
/** The device that an address belongs to: a GPU for memory of its own, else NRD_DEVICE_CPU. */
NRD_API int32_t nrd_device_of(const void *NRD_OPTIONAL address);

/** Reserves `bytes` of memory, aligned to 64 bytes at least; *out is null for 0 bytes. */
NRD_API nrd_status nrd_memory_allocate(int32_t device, size_t bytes, void **out);
/** Gives memory of nrd_memory_allocate() back; null is fine. Waits for the GPU's work. */
NRD_API nrd_status nrd_memory_free(int32_t device, void *NRD_OPTIONAL memory);
/** Copies between any two places; on a GPU's stream the copy is queued, and may be done only when
 * the stream has got there. Both places must be of the stream's device or of the host. */
NRD_API nrd_status nrd_memory_copy(nrd_stream stream, void *to, const void *from, size_t bytes);
/** Sets every byte. */
NRD_API nrd_status nrd_memory_fill(nrd_stream stream, void *to, uint8_t value, size_t bytes);

/** A new stream, which does not wait for the default stream. On the CPU there is nothing to make.
 */
NRD_API nrd_status nrd_stream_create(int32_t device, nrd_stream *out);
/** Gives a stream of nrd_stream_create() back. */
NRD_API nrd_status nrd_stream_destroy(nrd_stream stream);
/** Waits for everything queued on the stream; reports what failed there. */
NRD_API nrd_status nrd_stream_synchronize(nrd_stream stream);

#ifdef __cplusplus
}
#endif
#endif

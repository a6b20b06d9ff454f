/* The kernel `add_kernel` of seed.py, compiled by Nereid: made by `nereid embed`. */
#define NEREID_EMBEDDED_TABLES
#include "add_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

static const nrd_embedded_param nereid_kernels_add_kernel_0_params[] = {
    {"x_ptr", 1, 1, {0}},
    {"y_ptr", 1, 1, {0}},
    {"output_ptr", 1, 1, {0}},
    {"n_elements", 0, 1, {0}},
};
static const nrd_embedded_fact nereid_kernels_add_kernel_0_0_facts[] = {
    {1, 0, INT64_C(0)},
    {1, 0, INT64_C(0)},
    {1, 0, INT64_C(0)},
    {0, 0, INT64_C(0)},
};
extern void nereid_kernels_add_kernel_cpu_0_baseline(const void *, void *, int64_t, int64_t,
                                                     void *);
static const nrd_embedded_cpu nereid_kernels_add_kernel_0_0_cpu = {
    NRD_CPU_BASELINE, 0, nereid_kernels_add_kernel_cpu_0_baseline, 8192, 0, 0};
static const nrd_embedded_fact nereid_kernels_add_kernel_0_1_facts[] = {
    {1, 0, INT64_C(0)},
    {1, 0, INT64_C(0)},
    {1, 0, INT64_C(0)},
    {0, 0, INT64_C(0)},
};
extern void nereid_kernels_add_kernel_cpu_0_avx2(const void *, void *, int64_t, int64_t, void *);
static const nrd_embedded_cpu nereid_kernels_add_kernel_0_1_cpu = {
    NRD_CPU_AVX2, 0, nereid_kernels_add_kernel_cpu_0_avx2, 8192, 0, 0};
static const nrd_embedded_fact nereid_kernels_add_kernel_0_2_facts[] = {
    {1, 0, INT64_C(0)},
    {1, 0, INT64_C(0)},
    {1, 0, INT64_C(0)},
    {0, 0, INT64_C(0)},
};
extern void nereid_kernels_add_kernel_cpu_0_avx512(const void *, void *, int64_t, int64_t, void *);
static const nrd_embedded_cpu nereid_kernels_add_kernel_0_2_cpu = {
    NRD_CPU_AVX512, 0, nereid_kernels_add_kernel_cpu_0_avx512, 8192, 0, 0};
static const nrd_embedded_variant nereid_kernels_add_kernel_0_variants[] = {
    {nereid_kernels_add_kernel_0_0_facts, &nereid_kernels_add_kernel_0_0_cpu, 0},
    {nereid_kernels_add_kernel_0_1_facts, &nereid_kernels_add_kernel_0_1_cpu, 0},
    {nereid_kernels_add_kernel_0_2_facts, &nereid_kernels_add_kernel_0_2_cpu, 0},
};
static nrd_embedded_state nereid_kernels_add_kernel_0_states[3];
const nrd_embedded_kernel nereid_kernels_add_kernel_0 = {NRD_EMBEDDED_VERSION,
                                                         sizeof(nrd_embedded_kernel),
                                                         "add_kernel",
                                                         nereid_kernels_add_kernel_0_params,
                                                         4,
                                                         nereid_kernels_add_kernel_0_variants,
                                                         3,
                                                         nereid_kernels_add_kernel_0_states};

#ifdef __cplusplus
}
#endif

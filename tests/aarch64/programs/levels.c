/* Prints which of the instruction sets of AArch64 a launch of embedded code chooses on this
 * processor. */
#include "nereid/embedded.h"

#include <stdio.h>

static const char *chosen;
#define ENTRY(level)                                                                               \
  static void level(const void *slots, void *launch, int64_t begin, int64_t end, void *scratch) {  \
    (void)slots, (void)launch, (void)begin, (void)end, (void)scratch;                              \
    chosen = #level;                                                                               \
  }
ENTRY(aarch64)
ENTRY(neoverse_n1)
ENTRY(neoverse_v1)

int main(void) {
  static const nrd_embedded_cpu code[] = {
      {NRD_CPU_NEOVERSE_V1, NRD_PROGRAMS_IN_ORDER, neoverse_v1, 0, NULL, 0},
      {NRD_CPU_AARCH64, NRD_PROGRAMS_IN_ORDER, aarch64, 0, NULL, 0},
      {NRD_CPU_NEOVERSE_N1, NRD_PROGRAMS_IN_ORDER, neoverse_n1, 0, NULL, 0}};
  static const nrd_embedded_variant variants[] = {
      {NULL, &code[0], NULL}, {NULL, &code[1], NULL}, {NULL, &code[2], NULL}};
  static nrd_embedded_state states[3];
  static const nrd_embedded_kernel kernel = {
      NRD_EMBEDDED_VERSION, sizeof kernel, "levels", NULL, 0, variants, 3, states};
  nrd_embedded_launch how = {.size = sizeof how, .grid = {1, 1, 1}};
  if (nrd_embedded_run(&kernel, &how, NULL) != NRD_OK) {
    fprintf(stderr, "%s\n", nrd_status_message());
    return 1;
  }
  puts(chosen);
  return 0;
}

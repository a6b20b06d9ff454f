/* Embedded kernels from C. */
#include "add.h"

#include <stdio.h>

int main(void) {
  static float x[3000], y[3000], z[3000];
  for (int i = 0; i < 3000; ++i) {
    x[i] = (float)i;
    y[i] = 2 * (float)i;
  }
  nrd_embedded_launch how = {.size = sizeof how, .grid = {3, 1, 1}};
  if (kernels_add_launch(&how, x, y, z, 2999) != NRD_OK) {
    fprintf(stderr, "%s\n", nrd_status_message());
    return 1;
  }
  for (int i = 0; i < 2999; ++i)
    if (z[i] != 3 * (float)i)
      return 2;
  how.stream.device = 1000;
  how.has_stream = 1;
  if (kernels_add_launch(&how, x, y, z, 2999) == NRD_OK || !*nrd_status_message())
    return 3;
  return z[2999] == 0 ? 0 : 4;
}

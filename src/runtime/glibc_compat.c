/* LLVM's archives ask for one function that is younger than glibc 2.34, the oldest the releases run
 * on. */
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

uint32_t arc4random(void);

uint32_t arc4random(void) {
  uint32_t number = 0;
  size_t have = 0;
  while (have < sizeof number) {
    ssize_t got = getrandom((char *)&number + have, sizeof number - have, 0);
    if (got > 0)
      have += (size_t)got;
  }
  return number;
}

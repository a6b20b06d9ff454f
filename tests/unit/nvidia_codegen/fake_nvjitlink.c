// A stand-in for NVIDIA's libnvJitLink. The variable FAKE_NVJITLINK says what becomes of any code:
// "fault" (it reads address 76, as the real one does in some releases), "crash" (the process ends
// by a signal in libc), "garbage" (bytes that are no machine code); else an ELF file's first bytes.
// A name of the code that begins with "fine" is fine in any case. FAKE_NVJITLINK_RELEASE is its
// release times ten, 130 without it. FAKE_NVJITLINK_REGISTERS "A B S C T U" is what its log says of
// the kernel `fine`: A registers, but B with S bytes of spills when two blocks are asked for, and C
// with T when three or more are; U bytes of spills (0 without a number) when none are.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *mode(void) {
  const char *mode = getenv("FAKE_NVJITLINK");
  return mode ? mode : "";
}

static const char *image(void) {
  return strcmp(mode(), "garbage") == 0 ? "nonsense" : "\177ELFfake";
}

static int blocksAskedFor;

int nvJitLinkVersion(unsigned *major, unsigned *minor) {
  const char *release = getenv("FAKE_NVJITLINK_RELEASE");
  int number = release ? atoi(release) : 130;
  *major = number / 10;
  *minor = number % 10;
  return 0;
}

int __nvJitLinkCreate_13_0(void **link, uint32_t count, const char *const *options) {
  static int one;
  *link = &one;
  blocksAskedFor = 0;
  for (uint32_t i = 0; i < count; ++i)
    sscanf(options[i], "-Xptxas=-minnctapersm=%d", &blocksAskedFor);
  return 0;
}

int __nvJitLinkDestroy_13_0(void **link) {
  *link = NULL;
  return 0;
}

__attribute__((no_sanitize("address", "undefined"))) int
__nvJitLinkAddData_13_0(void *link, int kind, const void *data, size_t size, const char *name) {
  (void)link, (void)kind, (void)data, (void)size;
  if (strcmp(mode(), "fault") == 0 && strncmp(name, "fine", 4) != 0)
    return *(volatile int *)76;
  return 0;
}

int __nvJitLinkComplete_13_0(void *link) {
  (void)link;
  if (strcmp(mode(), "crash") == 0) {
    signal(SIGSEGV, SIG_DFL); // sanitizers have handlers
    raise(SIGSEGV);
  }
  return 0;
}

int __nvJitLinkGetLinkedCubinSize_13_0(void *link, size_t *size) {
  (void)link;
  *size = strlen(image());
  return 0;
}

int __nvJitLinkGetLinkedCubin_13_0(void *link, void *cubin) {
  (void)link;
  memcpy(cubin, image(), strlen(image()));
  return 0;
}

static int noSize(void *link, size_t *size) {
  (void)link;
  *size = 0;
  return 0;
}
static int noLog(void *link, char *log) {
  (void)link, (void)log;
  return 0;
}
int __nvJitLinkGetErrorLogSize_13_0(void *link, size_t *size) {
  return noSize(link, size);
}
int __nvJitLinkGetErrorLog_13_0(void *link, char *log) {
  return noLog(link, log);
}
int __nvJitLinkGetInfoLogSize_13_0(void *link, size_t *size) {
  (void)link;
  *size = 200;
  return 0;
}
int __nvJitLinkGetInfoLog_13_0(void *link, char *log) {
  (void)link;
  int used[3] = {0, 0, 0}, spills[3] = {0, 0, 0};
  int which = blocksAskedFor < 2 ? 0 : blocksAskedFor == 2 ? 1 : 2;
  const char *registers = getenv("FAKE_NVJITLINK_REGISTERS");
  *log = 0;
  if (registers && sscanf(registers, "%d %d %d %d %d %d", &used[0], &used[1], &spills[1], &used[2],
                          &spills[2], &spills[0]) >= 3)
    snprintf(log, 200,
             "ptxas info : Compiling entry function 'fine' for 'sm_90a'\n"
             "    0 bytes stack frame, %d bytes spill stores, 0 bytes spill loads\n"
             "ptxas info : Used %d registers\n",
             spills[which], used[which]);
  return 0;
}

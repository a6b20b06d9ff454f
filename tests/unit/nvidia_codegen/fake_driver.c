// A stand-in for the part of NVIDIA's driver that assembles: CUDA 13.0, whose machine code is
// "\177ELFdriver".
#include <stddef.h>

#define API __attribute__((visibility("default")))

static int context;

API int cuInit(unsigned flags) {
  return (int)flags;
}
API int cuDriverGetVersion(int *version) {
  *version = 13000;
  return 0;
}
API int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
API int cuCtxGetCurrent(void **out) {
  *out = &context;
  return 0;
}
API int cuCtxPushCurrent_v2(void *given) {
  return given != &context;
}
API int cuCtxPopCurrent_v2(void **out) {
  *out = &context;
  return 0;
}
API int cuDevicePrimaryCtxRetain(void **out, int device) {
  *out = &context;
  return device;
}
API int cuDevicePrimaryCtxRelease_v2(int device) {
  return device;
}
API int cuLinkCreate_v2(unsigned count, int *names, void **values, void **link) {
  (void)count, (void)names, (void)values;
  *link = &context;
  return 0;
}
API int cuLinkAddData_v2(void *link, int kind, void *data, size_t size, const char *name,
                         unsigned count, int *names, void **values) {
  (void)link, (void)kind, (void)data, (void)size, (void)name, (void)count, (void)names;
  (void)values;
  return 0;
}
API int cuLinkComplete(void *link, void **image, size_t *size) {
  static char code[] = "\177ELFdriver";
  (void)link;
  *image = code;
  *size = sizeof(code) - 1;
  return 0;
}
API int cuLinkDestroy(void *link) {
  return link != &context;
}

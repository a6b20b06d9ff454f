// What the address sanitizer of a fuzzer does not look for. LLVM itself is not instrumented:
// containers that cross into it cannot be checked for overflow, and memory that its allocators hand
// out stays poisoned. libFuzzer looks for leaks itself, but LLVM keeps tables for the life of the
// process.
extern "C" const char *__asan_default_options() {
  return "allow_user_poisoning=0:detect_container_overflow=0:detect_leaks=0:detect_odr_violation=0";
}
extern "C" const char *__ubsan_default_options() {
  return "print_stacktrace=1:halt_on_error=1";
}

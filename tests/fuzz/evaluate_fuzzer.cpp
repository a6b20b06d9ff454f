// Any program at all: the front end answers within its budget, with tile IR or with diagnostics.
//
//   cmake --preset fuzz && cmake --build --preset fuzz --target evaluate_fuzzer
//   build/fuzz/tests/fuzz/evaluate_fuzzer -max_total_time=3600 -max_len=2000 -rss_limit_mb=2048
//   CORPUS
#include "Evaluate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nereid::fuzz::evaluate(nereid::fuzz::programOf(data, size), /*seconds=*/60);
  return 0;
}

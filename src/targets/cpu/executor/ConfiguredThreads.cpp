// The number of threads as a setting of the library.
#include "support/settings.h"
#include "targets/cpu/executor/Executor.h"

namespace nereid::cpu {

int64_t configuredThreads() {
  return Settings::current().cpuThreads;
}

} // namespace nereid::cpu

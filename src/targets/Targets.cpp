#include "targets/target.h"

namespace nereid::targets {

const Target *findTarget(llvm::StringRef backend) {
  if (backend == "cpu")
    return &cpuTarget();
#ifdef NEREID_WITH_NVIDIA
  if (backend == "cuda")
    return &nvidiaTarget();
#endif
  return nullptr;
}

} // namespace nereid::targets

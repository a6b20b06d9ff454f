#include "targets/target.h"

const nereid::targets::Target *nereid::targets::findTarget(llvm::StringRef backend) {
  if (backend == "cpu")
    return &cpuTarget();
#ifdef NEREID_WITH_NVIDIA
  if (backend == "cuda")
    return &nvidiaTarget();
#endif
  return nullptr;
}

// What a launch needs to know of a kernel, as bytes for the cache on disk.
#pragma once

#include "kernel_abi/nvidia.h"
#include "support/bytes.h"

namespace nereid::nvidia {

void saveLaunchInfo(const LaunchInfo &info, ByteWriter &out);
/// `in` fails when the bytes are none; also for plans of tensor maps that would compute nonsense.
void restoreLaunchInfo(LaunchInfo &info, ByteReader &in);

} // namespace nereid::nvidia

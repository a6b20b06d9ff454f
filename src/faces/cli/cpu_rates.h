// What this machine's processor reaches: the roof over a kernel on the CPU, measured when a report
// measures the kernel.
#pragma once
#include "explain/PeakRates.h"

#include "llvm/Support/JSON.h"

namespace nereid::cli {

/// Takes some hundredths of a second, more for large arrays, on as many threads as launches take.
/// `bandwidth` is that of `a = b + s * c` on arrays of `bytes` in all (64 KiB to 256 MiB), so that
/// of the caches where a launch's tensors fit there. The operations are fused multiply-adds in
/// registers of the width that `report` names; instructions of products that take groups of numbers
/// count as many times as much.
explain::PeakRates measuredCpuRates(const llvm::json::Object &report, double bytes);

} // namespace nereid::cli

// A loop of several products that need one another's results, as the backward pass of attention:
//
//     s = k q;  w = f(s);  dp = v g;  dv += w g;  ds = h(w, dp);  dk += ds q;  dq = ds k
//
// Each product starts as early as its operands allow and is waited for where its result is needed:
// dp runs under f, dv under h, dk under the copy of ds to shared memory.
#pragma once
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::gpu {

/// Issues the three or more wgmma products directly in the body of `loop` asynchronously and
/// inserts the waits; all have ended at the end of the body. Products end in the order in which
/// they are issued, so the wait for one leaves those in flight that are issued behind it.
///
/// Does nothing and returns false when the body stores to buffers that exist before it, or when
/// products are nested or of other units. Buffers that the body makes live until the product that
/// reads them has been waited for (AllocateShared.cpp). Runs on IR with layouts.
bool keepProductsInFlight(mlir::scf::ForOp loop);

} // namespace nereid::gpu

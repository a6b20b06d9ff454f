// A loop of several products that need one another's results, as the backward pass of attention:
//
//     s = k q;  w = f(s);  dp = v g;  dv += w g;  ds = h(w, dp);  dk += ds q;  dq = ds k
//
// Each product starts as early as its operands allow and is waited for where its result is needed:
// dp runs under f, dv under h, dk under the copy of ds to shared memory. The last one, where it
// only adds to an accumulator, ends in the next iteration: then dk also runs under the barrier at
// the border of two iterations.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::gpu {

struct ProductsInFlight {
  /// The product that is still in flight at the end of an iteration; null: all have ended.
  ngpu::WgmmaOp trailing;
  /// Behind this op of the body the trailing product of the iteration before has ended.
  mlir::Operation *landed = nullptr;
};

/// Issues the three or more wgmma products directly in the body of `loop` asynchronously and
/// inserts the waits. Products end in the order in which they are issued, so the wait for one
/// leaves those in flight that are issued behind it. `registers`: of a thread. A product whose
/// result would not fit beside the others in flight starts behind the last use of the result of one
/// of them.
///
/// Does nothing and returns nothing when the body stores to buffers that exist before it, or when
/// products are nested or of other units. Buffers that the body makes live until the product that
/// reads them has been waited for (AllocateShared.cpp). Runs on IR with layouts.
std::optional<ProductsInFlight> keepProductsInFlight(mlir::scf::ForOp loop, int64_t registers);

} // namespace nereid::gpu

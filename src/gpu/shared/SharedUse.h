// Accesses of threads to buffers in shared memory: how an op moves registers there, and what the
// report on a kernel says of it.
#pragma once
#include "gpu/Machine.h"
#include "gpu/shared/BufferUses.h"
#include "ir/ngpu/Dialect.h"
#include "layout/Conversion.h"

namespace nereid::explain {
struct Report;
} // namespace nereid::explain

namespace nereid::gpu {

/// How an op moves registers to or from shared memory.
struct SharedUse {
  layout::SharedAccess access;
  ngpu::BufferType buffer;
  mlir::Value value; ///< the buffer, where it is an operand
  const char *what;  ///< "write", "read", "copy"
};
/// Nothing for other ops, and for those that hardware lays out (copy engine, wgmma).
std::optional<SharedUse> sharedUseOf(mlir::Operation *op, bool matrixStores);
/// Op number `number` in the order of the buffers' lives.
void explainSharedAccess(mlir::Operation *op, unsigned number, const BufferUses &uses,
                         const Machine &machine, explain::Report &report);

} // namespace nereid::gpu

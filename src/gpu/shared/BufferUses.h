// Which bytes of shared memory a buffer value can name: the allocations behind views, loop-carried
// buffers and results of branches.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace nereid::gpu {

/// Some bytes of one allocation.
struct BufferPart {
  ngpu::LocalAllocOp root;
  int64_t offset = 0, bytes = 0;
  bool operator==(const BufferPart &other) const {
    return root == other.root && offset == other.offset && bytes == other.bytes;
  }
};

class BufferUses {
public:
  explicit BufferUses(mlir::func::FuncOp function);
  /// All parts that a value of buffer type can be; slots with a run-time index are all slots.
  llvm::ArrayRef<BufferPart> parts(mlir::Value buffer) const;

private:
  bool flow(mlir::Value from, mlir::Value to);
  bool visit(mlir::Operation *op);
  llvm::DenseMap<mlir::Value, llvm::SmallVector<BufferPart, 1>> known;
};

} // namespace nereid::gpu

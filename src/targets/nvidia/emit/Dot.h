// What the emitters of the three kinds of dots share.
#pragma once
#include "targets/nvidia/emit/Emitter.h"
#include "targets/nvidia/emit/WgmmaDescriptor.h"

namespace nereid::nvidia {

/// Which register of a thread holds an element, found by the part of the element's coordinates that
/// does not depend on lane and warp.
class RegisterMap {
public:
  explicit RegisterMap(mlir::RankedTensorType type);
  /// Of element [batch.., row, column]; `batch` is the row-major index of the leading dimensions.
  /// The thread must hold it.
  unsigned at(int64_t batch, int64_t row, int64_t column) const;
  /// The rows, columns and batches of registers, each once and increasing.
  llvm::ArrayRef<int64_t> rows() const { return allRows; }
  llvm::ArrayRef<int64_t> columns() const { return allColumns; }
  int64_t batches() const { return batchCount; }
  unsigned size() const { return count; }

private:
  llvm::DenseMap<std::pair<int64_t, int64_t>, unsigned> registers;
  llvm::SmallVector<int64_t> allRows, allColumns;
  int64_t batchCount = 1, rowCount;
  unsigned count;
};

/// The values of `elements` (together 32 bits, first lowest) as one i32.
llvm::Value *packWord(Emitter &e, llvm::ArrayRef<llvm::Value *> elements);

/// The name of an element type in matrix instructions; tf32 for f32. `isUnsigned`: of i8.
llvm::StringRef matrixType(mlir::Type element, bool isUnsigned = false);

/// Waits until at most `pending` groups of wgmma are in flight. `registers` pass through the wait:
/// what uses the result comes after it.
Values awaitProducts(Emitter &e, llvm::ArrayRef<llvm::Value *> registers, unsigned pending);

void emitMma(Emitter &e, ngpu::MmaOp op);
void emitWgmma(Emitter &e, ngpu::WgmmaOp op);
void emitWgmmaWait(Emitter &e, ngpu::WgmmaWaitOp op);
void emitFmaDot(Emitter &e, ngpu::FmaDotOp op);

} // namespace nereid::nvidia

// Where the elements of a dot's operands are: in which registers, and where in a buffer.
#pragma once
#include "ir/ngpu/Dialect.h"

#include "llvm/ADT/DenseMap.h"

namespace nereid::gpu {

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

/// Where the elements of a buffer are, in bytes from its start.
class BufferMap {
public:
  /// `shape`: with odd factors; `layout` maps offsets to its core.
  BufferMap(llvm::ArrayRef<int64_t> shape, const layout::LinearLayout &layout,
            unsigned elementBits);
  int64_t operator()(llvm::ArrayRef<int64_t> coords) const;
  /// Of a matrix.
  int64_t operator()(int64_t row, int64_t column) const {
    int64_t coords[] = {row, column};
    return (*this)(coords);
  }
  unsigned elementBits() const { return bits; }
  llvm::ArrayRef<int64_t> shape() const { return sizes; }

private:
  llvm::SmallVector<int64_t, 4> sizes, cores;
  layout::BitMatrix offsets; ///< row-major index of the core to offset
  int64_t coreElements;
  unsigned bits;
};

} // namespace nereid::gpu

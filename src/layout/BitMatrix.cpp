#include "layout/Echelon.h"
#include "layout/LinearLayout.h"

namespace nereid::layout {
namespace {

Echelon echelonOf(const BitMatrix &matrix) {
  Echelon echelon;
  for (unsigned i = 0; i < matrix.columns(); ++i)
    echelon.insert(matrix.column(i), i);
  return echelon;
}

} // namespace

BitMatrix::BitMatrix(unsigned rows, llvm::ArrayRef<uint64_t> columns)
    : rowCount(rows), cols(columns.begin(), columns.end()) {
  assert(rows <= 64 && columns.size() <= 64 && "a matrix is at most 64 x 64");
  for ([[maybe_unused]] uint64_t column : columns)
    assert((rows == 64 || column >> rows == 0) && "a column has a bit beyond the rows");
}

BitMatrix BitMatrix::identity(unsigned n) {
  llvm::SmallVector<uint64_t, 16> columns;
  for (unsigned i = 0; i < n; ++i)
    columns.push_back(uint64_t(1) << i);
  return BitMatrix(n, columns);
}

uint64_t BitMatrix::apply(uint64_t x) const {
  uint64_t y = 0;
  for (; x; x &= x - 1)
    y ^= cols[llvm::countr_zero(x)];
  return y;
}

BitMatrix BitMatrix::operator*(const BitMatrix &right) const {
  assert(columns() == right.rows() && "sizes of a product must fit");
  llvm::SmallVector<uint64_t, 16> product;
  for (uint64_t column : right.cols)
    product.push_back(apply(column));
  return BitMatrix(rowCount, product);
}

BitMatrix BitMatrix::stacked(const BitMatrix &below) const {
  assert(columns() == below.columns() && "stacked matrices have equally many columns");
  llvm::SmallVector<uint64_t, 16> both(cols);
  for (unsigned i = 0; i < both.size(); ++i)
    both[i] |= below.rows() ? below.column(i) << rowCount : 0;
  return BitMatrix(rowCount + below.rows(), both);
}

unsigned BitMatrix::rank() const {
  Echelon echelon;
  unsigned rank = 0;
  for (unsigned i = 0; i < columns(); ++i)
    rank += echelon.insert(cols[i], i);
  return rank;
}

llvm::SmallVector<uint64_t> BitMatrix::kernel() const {
  Echelon echelon;
  llvm::SmallVector<uint64_t> basis;
  for (unsigned i = 0; i < columns(); ++i)
    if (!echelon.insert(cols[i], i))
      basis.push_back(echelon.lastDependency());
  return basis;
}

uint64_t BitMatrix::redundantColumns() const {
  Echelon echelon;
  uint64_t redundant = 0;
  for (unsigned i = 0; i < columns(); ++i)
    if (!echelon.insert(cols[i], i))
      redundant |= uint64_t(1) << i;
  return redundant;
}

std::optional<uint64_t> BitMatrix::solve(uint64_t y) const {
  auto [rest, solution] = echelonOf(*this).reduce(y);
  if (rest)
    return std::nullopt;
  return solution;
}

std::optional<BitMatrix> BitMatrix::solve(const BitMatrix &right) const {
  assert(rowCount == right.rows() && "sizes must fit");
  Echelon echelon = echelonOf(*this);
  llvm::SmallVector<uint64_t, 16> solutions;
  for (uint64_t column : right.cols) {
    auto [rest, solution] = echelon.reduce(column);
    if (rest)
      return std::nullopt;
    solutions.push_back(solution);
  }
  return BitMatrix(columns(), solutions);
}

BitMatrix BitMatrix::pseudoInverse() const {
  Echelon echelon = echelonOf(*this);
  llvm::SmallVector<uint64_t, 16> result;
  for (unsigned i = 0; i < rowCount; ++i)
    result.push_back(echelon.reduce(uint64_t(1) << i).second);
  return BitMatrix(columns(), result);
}

std::optional<BitMatrix> BitMatrix::inverse() const {
  if (rowCount != columns())
    return std::nullopt;
  return solve(identity(rowCount));
}

} // namespace nereid::layout

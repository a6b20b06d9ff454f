#include "targets/cpu/emit/Packing.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace nereid::cpu {

/// The transpose of `size` vectors of `size` lanes. In each step the blocks of half the size off
/// the diagonal change places.
static void transposeSquare(Kernel &k, MutableArrayRef<Value> rows) {
  int64_t size = rows.size();
  for (int64_t half = size / 2; half; half /= 2)
    for (int64_t row = 0; row < size; ++row) {
      if (row & half)
        continue;
      Value upper = rows[row], lower = rows[row + half];
      SmallVector<int64_t> left, right;
      for (int64_t lane = 0; lane < size; ++lane) {
        left.push_back(lane & half ? size + lane - half : lane);
        right.push_back(lane & half ? size + lane : lane + half);
      }
      rows[row] = vector::ShuffleOp::create(k.b, k.e.loc, upper, lower, left);
      rows[row + half] = vector::ShuffleOp::create(k.b, k.e.loc, upper, lower, right);
    }
}

void emitTranspose(Kernel &k, Value source, Value target, int64_t rows, int64_t columns,
                   Type element) {
  int64_t bytes = tile::sizeInBytes(element),
          most = std::min<int64_t>(k.e.features.vectorBytes, 32) / bytes;
  // The square at (row, column), `size` wide.
  auto square = [&](Value row, Value column, int64_t size) {
    auto place = [&](Value base, Value first, int64_t width, Value second) {
      Value offset = k.e.add(k.e.mul(first, k.e.i64(width)), second);
      return k.e.advance(base, k.e.mul(offset, k.e.i64(bytes)));
    };
    Value from = place(source, row, columns, column), to = place(target, column, rows, row);
    SmallVector<Value> vectors;
    for (int64_t i = 0; i < size; ++i)
      vectors.push_back(k.e.load(element, k.e.advance(from, i * columns * bytes), size));
    if (size > 1)
      transposeSquare(k, vectors);
    for (int64_t i = 0; i < size; ++i)
      k.e.store(element, k.e.advance(to, i * rows * bytes), vectors[i]);
  };
  auto area = [&](int64_t firstRow, int64_t endRow, int64_t firstColumn, int64_t endColumn,
                  int64_t size) {
    if (firstRow == endRow || firstColumn == endColumn)
      return;
    auto loop = [&](int64_t first, int64_t end, function_ref<void(Value)> body) {
      auto loop = scf::ForOp::create(k.b, k.e.loc, k.e.i64(first), k.e.i64(end), k.e.i64(size));
      OpBuilder::InsertionGuard guard(k.b);
      k.b.setInsertionPoint(loop.getBody()->getTerminator());
      body(loop.getInductionVar());
    };
    loop(firstRow, endRow, [&](Value row) {
      loop(firstColumn, endColumn, [&](Value column) { square(row, column, size); });
    });
  };
  int64_t evenRows = rows / most * most, evenColumns = columns / most * most;
  area(0, evenRows, 0, evenColumns, most);
  area(0, evenRows, evenColumns, columns, 1);
  area(evenRows, rows, 0, columns, 1);
}

/// `body` for the first of each `size` elements in [0, count), then for the rest in powers of two.
static void forPieces(Kernel &k, int64_t count, int64_t size,
                      function_ref<void(Value first, int64_t width)> body) {
  int64_t whole = count / size * size;
  if (whole == size) {
    body(k.e.i64(0), size);
  } else if (whole) {
    auto loop = scf::ForOp::create(k.b, k.e.loc, k.e.i64(0), k.e.i64(whole), k.e.i64(size));
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPoint(loop.getBody()->getTerminator());
    body(loop.getInductionVar(), size);
  }
  for (int64_t width = size / 2; width; width /= 2)
    for (; count - whole >= width; whole += width)
      body(k.e.i64(whole), width);
}

void emitInterleave(Kernel &k, Value source, Value target, int64_t rows, int64_t columns,
                    Type element, int64_t group) {
  int64_t bytes = tile::sizeInBytes(element);
  Type bits = k.b.getIntegerType(unsigned(bytes * 8)), unit = k.b.getI32Type();
  // One row of units, of `count` rows of the matrix.
  auto units = [&](Value step, int64_t count) {
    Value from = k.e.advance(source, k.e.mul(step, k.e.i64(group * columns * bytes)));
    Value to = k.e.advance(target, k.e.mul(step, k.e.i64(columns * 4)));
    forPieces(k, columns, k.e.features.vectorBytes / 4, [&](Value first, int64_t width) {
      Type lanes = k.e.lanes(unit, width);
      Value all;
      for (int64_t row = 0; row < count; ++row) {
        Value place =
            k.e.advance(k.e.advance(from, k.e.mul(first, k.e.i64(bytes))), row * columns * bytes);
        Value part = arith::ExtUIOp::create(k.b, k.e.loc, lanes, k.e.load(bits, place, width));
        if (row == 0) {
          all = part;
          continue;
        }
        Value distance = k.e.splat(k.e.integer(unit, row * bytes * 8), width);
        part = arith::ShLIOp::create(k.b, k.e.loc, part, distance);
        all = arith::OrIOp::create(k.b, k.e.loc, all, part);
      }
      k.e.store(unit, k.e.advance(to, k.e.mul(first, k.e.i64(4))), all);
    });
  };
  if (int64_t whole = rows / group) {
    auto loop = scf::ForOp::create(k.b, k.e.loc, k.e.i64(0), k.e.i64(whole), k.e.i64(1));
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPoint(loop.getBody()->getTerminator());
    units(loop.getInductionVar(), group);
  }
  if (rows % group)
    units(k.e.i64(rows / group), rows % group);
}

void emitPaddedRows(Kernel &k, Value source, Value target, int64_t rows, int64_t columns,
                    int64_t padded, Type element) {
  int64_t bytes = tile::sizeInBytes(element);
  Type bits = k.b.getIntegerType(unsigned(bytes * 8));
  auto loop = scf::ForOp::create(k.b, k.e.loc, k.e.i64(0), k.e.i64(rows), k.e.i64(1));
  OpBuilder::InsertionGuard guard(k.b);
  k.b.setInsertionPoint(loop.getBody()->getTerminator());
  Value from = k.e.advance(source, k.e.mul(loop.getInductionVar(), k.e.i64(columns * bytes)));
  Value to = k.e.advance(target, k.e.mul(loop.getInductionVar(), k.e.i64(padded * bytes)));
  forPieces(k, columns, k.e.features.vectorBytes / bytes, [&](Value first, int64_t width) {
    Value offset = k.e.mul(first, k.e.i64(bytes));
    k.e.store(bits, k.e.advance(to, offset), k.e.load(bits, k.e.advance(from, offset), width));
  });
  for (int64_t column = columns; column < padded; ++column)
    k.e.store(bits, k.e.advance(to, column * bytes), k.e.integer(bits, 0));
}

} // namespace nereid::cpu

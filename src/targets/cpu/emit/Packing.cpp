#include "targets/cpu/emit/Packing.h"
#include "targets/cpu/dot/Units.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace nereid::cpu {

static constexpr int64_t panelColumns = tileSize;

/// The transpose of a square of `size` x `size` elements at `from` to `to`, whose rows are
/// `fromRow` and `toRow` bytes apart. Registers consist of parts of 128 bits, and the instructions
/// that interleave two registers do so within each part. So a register gets a piece of one row in
/// each of its parts, `lanes` elements wide; interleaving the registers of a column of pieces
/// log2(lanes) times, those of the first half with those of the second, transposes every piece
/// where it is.
static void emitSquare(Emit &e, Value from, Value to, int64_t size, int64_t fromRow, int64_t toRow,
                       Type element) {
  int64_t bytes = tile::sizeInBytes(element), lanes = std::min<int64_t>(16 / bytes, size);
  for (int64_t column = 0; column < size; column += lanes) {
    auto piece = [&](int64_t row) {
      return e.load(element, e.advance(from, row * fromRow + column * bytes), lanes);
    };
    SmallVector<Value> registers;
    for (int64_t row = 0; row < lanes; ++row) {
      Value all = piece(row);
      for (int64_t next = lanes, width = lanes; next < size; next += lanes, width += lanes) {
        auto both = llvm::to_vector(llvm::seq<int64_t>(width + lanes));
        all = vector::ShuffleOp::create(e.b, e.loc, all, piece(row + next), both);
      }
      registers.push_back(all);
    }
    for (int64_t step = 1; step < lanes; step *= 2) {
      SmallVector<Value> before = registers;
      for (int64_t pair = 0; pair < lanes / 2; ++pair)
        for (int64_t half = 0; half < 2; ++half) {
          SmallVector<int64_t> mixed;
          for (int64_t lane = 0; lane < size; ++lane) {
            int64_t inPart = lane % lanes, first = lane - inPart + half * lanes / 2;
            mixed.push_back(first + inPart / 2 + inPart % 2 * size);
          }
          registers[2 * pair + half] =
              vector::ShuffleOp::create(e.b, e.loc, before[pair], before[pair + lanes / 2], mixed);
        }
    }
    for (auto [row, elements] : llvm::enumerate(registers))
      e.store(element, e.advance(to, (column + int64_t(row)) * toRow), elements);
  }
}

/// The loops over the squares of a matrix.
static void emitSquares(Emit &e, Value source, Value target, int64_t rows, int64_t columns,
                        Type element) {
  int64_t bytes = tile::sizeInBytes(element),
          most = std::min<int64_t>(e.features.vectorBytes, 32) / bytes;
  // The square at (row, column), `size` wide.
  auto square = [&](Value row, Value column, int64_t size) {
    auto place = [&](Value base, Value first, int64_t width, Value second) {
      Value offset = e.add(e.mul(first, e.i64(width)), second);
      return e.advance(base, e.mul(offset, e.i64(bytes)));
    };
    emitSquare(e, place(source, row, columns, column), place(target, column, rows, row), size,
               columns * bytes, rows * bytes, element);
  };
  auto area = [&](int64_t firstRow, int64_t endRow, int64_t firstColumn, int64_t endColumn,
                  int64_t size) {
    if (firstRow == endRow || firstColumn == endColumn)
      return;
    auto loop = [&](int64_t first, int64_t end, function_ref<void(Value)> body) {
      auto loop = scf::ForOp::create(e.b, e.loc, e.i64(first), e.i64(end), e.i64(size));
      OpBuilder::InsertionGuard guard(e.b);
      e.b.setInsertionPoint(loop.getBody()->getTerminator());
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

void emitTranspose(Kernel &k, Value source, Value target, int64_t rows, int64_t columns,
                   Type element) {
  std::string name =
      llvm::formatv("transpose_{0}_{1}x{2}", 8 * tile::sizeInBytes(element), rows, columns);
  auto module = k.entryAnchor->getParentOfType<ModuleOp>();
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!function) {
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPointToEnd(module.getBody());
    Type pointer = source.getType();
    auto type =
        LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(k.b.getContext()), {pointer, pointer});
    function = LLVM::LLVMFuncOp::create(k.b, k.e.loc, name, type, LLVM::Linkage::Internal);
    Block *entry = function.addEntryBlock(k.b);
    k.b.setInsertionPointToStart(entry);
    Emit inside(k.b, k.e.loc, k.e.features); // constants are made in the function that they are in
    inside.constantBlock = entry;
    emitSquares(inside, entry->getArgument(0), entry->getArgument(1), rows, columns, element);
    LLVM::ReturnOp::create(k.b, k.e.loc, ValueRange());
  }
  LLVM::CallOp::create(k.b, k.e.loc, function, ValueRange{source, target});
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

/// The first elements of all registers, then the second ones, and so on.
static Value interleaved(Kernel &k, ArrayRef<Value> registers) {
  if (registers.size() == 1)
    return registers[0];
  SmallVector<Value> even, odd;
  for (auto [i, each] : llvm::enumerate(registers))
    (i % 2 ? odd : even).push_back(each);
  Value x = interleaved(k, even), y = interleaved(k, odd);
  SmallVector<int64_t> lanes;
  int64_t width = cast<VectorType>(x.getType()).getNumElements();
  for (int64_t lane = 0; lane < width; ++lane)
    lanes.append({lane, width + lane});
  return vector::ShuffleOp::create(k.b, k.e.loc, x, y, lanes);
}

/// `width` units, of `group` elements each, at `to`, of the elements at `from` and below, `count`
/// rows of `rowBytes`; zeros for the other rows.
static void emitUnits(Kernel &k, Value from, Value to, int64_t count, int64_t rowBytes,
                      int64_t width, Type element, int64_t group) {
  int64_t bytes = tile::sizeInBytes(element);
  Type bits = k.b.getIntegerType(unsigned(bytes * 8));
  Type unit = k.b.getIntegerType(unsigned(bytes * group * 8));
  Type lanes = k.e.lanes(unit, width);
  if (k.e.features.isAArch64 && width > 1) { // zip1 and zip2
    SmallVector<Value> rows;
    for (int64_t row = 0; row < group; ++row)
      rows.push_back(row < count ? k.e.load(bits, k.e.advance(from, row * rowBytes), width)
                                 : k.e.zero(bits, width));
    k.e.store(bits, to, interleaved(k, rows));
    return;
  }
  Value all = count ? Value() : k.e.zero(unit, width);
  for (int64_t row = 0; row < count; ++row) {
    Value elements = k.e.load(bits, k.e.advance(from, row * rowBytes), width);
    Value part = arith::ExtUIOp::create(k.b, k.e.loc, lanes, elements);
    if (row == 0) {
      all = part;
      continue;
    }
    Value distance = k.e.splat(k.e.integer(unit, row * bytes * 8), width);
    part = arith::ShLIOp::create(k.b, k.e.loc, part, distance);
    all = arith::OrIOp::create(k.b, k.e.loc, all, part);
  }
  k.e.store(unit, to, all);
}

/// `body` for the groups of rows of a matrix: the number of each, and of how many rows it is. Then
/// for groups of no rows up to `steps`.
static void forGroups(Kernel &k, int64_t rows, int64_t group, int64_t steps,
                      function_ref<void(Value step, int64_t count)> body) {
  auto loop = [&](int64_t first, int64_t end, int64_t count) {
    if (first >= end)
      return;
    auto loop = scf::ForOp::create(k.b, k.e.loc, k.e.i64(first), k.e.i64(end), k.e.i64(1));
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPoint(loop.getBody()->getTerminator());
    body(loop.getInductionVar(), count);
  };
  int64_t whole = rows / group;
  loop(0, whole, group);
  if (rows % group)
    body(k.e.i64(whole), rows % group);
  loop((rows + group - 1) / group, steps, 0);
}

void emitInterleave(Kernel &k, Value source, Value target, int64_t rows, int64_t columns,
                    Type element, int64_t group) {
  int64_t rowBytes = columns * tile::sizeInBytes(element);
  forGroups(k, rows, group, 0, [&](Value step, int64_t count) {
    int64_t bytes = tile::sizeInBytes(element), wordBytes = group * bytes;
    // Registers of rows where they are interleaved, else of units.
    int64_t most = k.e.features.vectorBytes / (k.e.features.isAArch64 ? bytes : wordBytes);
    Value from = k.e.advance(source, k.e.mul(step, k.e.i64(group * rowBytes)));
    Value to = k.e.advance(target, k.e.mul(step, k.e.i64(columns * wordBytes)));
    forPieces(k, columns, most, [&](Value first, int64_t width) {
      emitUnits(k, k.e.advance(from, k.e.mul(first, k.e.i64(bytes))),
                k.e.advance(to, k.e.mul(first, k.e.i64(wordBytes))), count, rowBytes, width,
                element, group);
    });
  });
}

void emitTransposedPanels(Kernel &k, Value source, Value target, int64_t n, int64_t steps) {
  int64_t panels = (n + panelColumns - 1) / panelColumns, panelBytes = panelColumns * steps * 4;
  auto loop = scf::ForOp::create(k.b, k.e.loc, k.e.i64(0), k.e.i64(panels), k.e.i64(1));
  OpBuilder::InsertionGuard guard(k.b);
  k.b.setInsertionPoint(loop.getBody()->getTerminator());
  Value offset = k.e.mul(loop.getInductionVar(), k.e.i64(panelBytes));
  emitTranspose(k, k.e.advance(source, offset), k.e.advance(target, offset), panelColumns, steps,
                k.b.getI32Type());
}

void emitInterleavedPanels(Kernel &k, Value source, Value target, int64_t rows, int64_t columns,
                           int64_t steps, Type element, int64_t group) {
  int64_t bytes = tile::sizeInBytes(element), rowBytes = columns * bytes;
  // The columns of as many neighbouring panels as one cache line of a row holds are read together.
  int64_t together = std::max<int64_t>(panelColumns, 64 / bytes);
  auto panels = [&](Value first, int64_t count) {
    Value from = k.e.advance(source, k.e.mul(first, k.e.i64(bytes)));
    Value to = k.e.advance(target, k.e.mul(first, k.e.i64(steps * 4)));
    forGroups(k, rows, group, steps, [&](Value step, int64_t rowsHere) {
      Value row = k.e.advance(from, k.e.mul(step, k.e.i64(group * rowBytes)));
      Value place = k.e.advance(to, k.e.mul(step, k.e.i64(panelColumns * 4)));
      for (int64_t column = 0, width = panelColumns; width; width /= 2)
        for (; count - column >= width; column += width) {
          int64_t panel = column / panelColumns, inside = column % panelColumns;
          emitUnits(k, k.e.advance(row, column * bytes),
                    k.e.advance(place, (panel * panelColumns * steps + inside) * 4), rowsHere,
                    rowBytes, width, element, group);
        }
    });
  };
  int64_t whole = columns / together;
  if (whole) {
    auto loop =
        scf::ForOp::create(k.b, k.e.loc, k.e.i64(0), k.e.i64(whole * together), k.e.i64(together));
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPoint(loop.getBody()->getTerminator());
    panels(loop.getInductionVar(), together);
  }
  if (columns % together)
    panels(k.e.i64(whole * together), columns % together);
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

// Products of blocks (BFMMLA, SMMLA). An accumulator holds 2 x 2 elements of C: two neighbours of a
// row, then those of the row below. An operand is two groups of 64 bits, of two rows of A or of two
// columns of B. Interleaved groups are one load; groups in rows are two loads of half a register,
// so a left operand, and the transpose of a right one, are read where they are.
//
// C is in rows: two accumulators side by side and two rows of four elements are exchanged by two
// shuffles after all of K.
#include "targets/cpu/dot/Blocks.h"
#include "targets/cpu/dot/DotBuilder.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace nereid::cpu {
namespace {

using namespace mlir;

class BlockEmitter : DotBuilder {
public:
  BlockEmitter(OpBuilder &b, Location loc, const DotBlocking &plan, const DotOperands &operands)
      : DotBuilder(b, loc, plan, operands),
        accumulator(accumulatorType(b.getContext(), *plan.unit)), word(b.getI64Type()) {
    Type storage = storageType(b.getContext(), *plan.unit);
    operand = VectorType::get({128 / storage.getIntOrFloatBitWidth()}, storage);
  }

  void emit() {
    forRange(0, plan.panels, [&](Value panel) { emitPanel(panel, plan.panelWidth); });
    if (plan.tailWidth)
      emitPanel(index(plan.panels), plan.tailWidth);
  }

private:
  /// A block of C: so many rows and columns, the last pair of either may be a single one.
  struct Size {
    int64_t rows, columns;
    int64_t rowPairs() const { return (rows + 1) / 2; }
    int64_t columnPairs() const { return (columns + 1) / 2; }
  };

  void emitPanel(Value panel, int64_t width) {
    Value column = scaled(panel, plan.panelWidth);
    Value right = advance(operands.b, word, scaled(column, operands.bColStride));
    Value c = advance(operands.c, accumulator, column);
    auto block = [&](Value firstPair, int64_t rows) {
      Value row = scaled(firstPair, 2);
      emitBlock(advance(operands.a, word, scaled(row, operands.aRowStride)), right,
                advance(c, accumulator, scaled(row, operands.cRowStride)), {rows, width});
    };
    auto blocks = [&](int64_t first, int64_t count, int64_t pairs, bool hasLast) {
      bool isShort = hasLast && plan.m % 2;
      forRange(0, count - isShort, [&](Value number) {
        Value pair = arith::AddIOp::create(b, loc, scaled(number, pairs), index(first));
        block(pair, 2 * pairs);
      });
      if (isShort)
        block(index(first + (count - 1) * pairs), 2 * pairs - 1);
    };
    int64_t shortBlocks = plan.rowBlocks - plan.longBlocks;
    if (plan.longBlocks)
      blocks(0, plan.longBlocks, plan.rows + 1, shortBlocks == 0);
    if (shortBlocks)
      blocks(plan.longBlocks * (plan.rows + 1), shortBlocks, plan.rows, true);
  }

  void emitBlock(Value a, Value right, Value c, Size size) {
    auto steps = [&](Value first, int64_t count, Sums &sums) {
      Value aHere = advance(a, word, scaled(first, operands.aColStride));
      Value bHere = advance(right, word, scaled(first, operands.bRowStride));
      for (int64_t step = 0; step < count; ++step) {
        llvm::SmallVector<Value> columns;
        for (int64_t pair = 0; pair < size.columnPairs(); ++pair)
          columns.push_back(groups(bHere, step * operands.bRowStride, 2 * pair, operands.bColStride,
                                   2 * pair + 1 < size.columns));
        for (int64_t pair = 0; pair < size.rowPairs(); ++pair) {
          Value rows = groups(aHere, step * operands.aColStride, 2 * pair, operands.aRowStride,
                              2 * pair + 1 < size.rows);
          for (auto [i, column] : llvm::enumerate(columns)) {
            Value &sum = sums[pair * size.columnPairs() + int64_t(i)];
            sum = LLVM::CallIntrinsicOp::create(b, loc, sum.getType(),
                                                b.getStringAttr(plan.unit->intrinsics[0]),
                                                ValueRange{sum, rows, column})
                      .getResults();
          }
        }
      }
    };

    Sums sums(size.rowPairs() * size.columnPairs(), zero(4));
    sumOverK(sums, steps);
    asFresh([&](bool isFresh) { storeAll(sums, c, size, isFresh); });
  }

  /// The groups of two rows or columns; of a single one twice the same, and half of the product is
  /// not used.
  Value groups(Value base, int64_t offset, int64_t first, int64_t stride, bool hasBoth) {
    Type both = VectorType::get({2}, word);
    int64_t place = offset + first * stride;
    Value pair;
    if (hasBoth && stride == 1) {
      pair = LLVM::LoadOp::create(b, loc, both, at(base, word, place), 8);
    } else {
      pair = vector::BroadcastOp::create(b, loc, both, load(base, word, place, 1));
      if (hasBoth)
        pair = vector::InsertOp::create(b, loc, load(base, word, place + stride, 1), pair, 1);
    }
    return LLVM::BitcastOp::create(b, loc, operand, pair);
  }

  // Four columns (two accumulators) of a row of C at a time, then what is left of them.
  void storeAll(llvm::ArrayRef<Value> sums, Value c, Size size, bool isFresh) {
    for (int64_t pair = 0; pair < size.rowPairs(); ++pair)
      for (int64_t column = 0; column < size.columns; column += 4) {
        int64_t width = std::min<int64_t>(4, size.columns - column);
        const Value *both = &sums[pair * size.columnPairs() + column / 2];
        Value left = both[0], right = width > 2 ? both[1] : left;
        int64_t place = 2 * pair * operands.cRowStride + column;
        putFirst(mixed(left, right, {0, 1, 4, 5}), c, place, width, isFresh);
        if (2 * pair + 1 < size.rows)
          putFirst(mixed(left, right, {2, 3, 6, 7}), c, place + operands.cRowStride, width,
                   isFresh);
      }
  }

  /// The first `width` (1 to 4) of four elements.
  void putFirst(Value all, Value c, int64_t offset, int64_t width, bool isFresh) {
    if (width == 4)
      return put(all, c, accumulator, offset, 4, isFresh);
    if (width >= 2)
      put(mixed(all, {}, {0, 1}), c, accumulator, offset, 2, isFresh);
    if (width % 2)
      put(vector::ExtractOp::create(b, loc, all, width - 1), c, accumulator, offset + width - 1, 1,
          isFresh);
  }
  Value mixed(Value x, Value y, llvm::ArrayRef<int64_t> lanes) {
    return vector::ShuffleOp::create(b, loc, x, y ? y : x, lanes);
  }
  Value zero(int64_t width) {
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(VectorType::get({width}, accumulator)));
  }
  Type accumulator, word, operand;
};

} // namespace

void emitBlockDot(OpBuilder &builder, Location loc, const DotBlocking &plan,
                  const DotOperands &operands) {
  BlockEmitter(builder, loc, plan, operands).emit();
}

} // namespace nereid::cpu

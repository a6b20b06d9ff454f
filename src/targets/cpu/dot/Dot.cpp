// Emits the loops of a dot: panels of columns, blocks of rows, steps of K.
#include "targets/cpu/dot/Dot.h"
#include "targets/cpu/dot/Blocks.h"
#include "targets/cpu/dot/DotBuilder.h"
#include "targets/cpu/dot/Tiles.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace nereid::cpu {
namespace {

using namespace mlir;

// The vectors that cover a panel's columns: at which column, and how wide.
struct Piece {
  int64_t column, width;
};
llvm::SmallVector<Piece> piecesOf(int64_t width, int64_t lanes) {
  llvm::SmallVector<Piece> pieces;
  int64_t column = 0;
  for (int64_t size = lanes; size > 0; size /= 2)
    for (; width - column >= size; column += size)
      pieces.push_back({column, size});
  return pieces;
}

class DotEmitter : DotBuilder {
public:
  DotEmitter(OpBuilder &b, Location loc, const DotBlocking &plan, const DotOperands &operands,
             const Features &features)
      : DotBuilder(b, loc, plan, operands), unit(*plan.unit), features(features) {
    accumulator = accumulatorType(b.getContext(), unit);
    input = unit.group > 1 ? b.getI32Type() : storageType(b.getContext(), unit);
  }

  void emit() {
    forRange(0, plan.panels, [&](Value panel) {
      Value column = scaled(panel, plan.panelWidth);
      Value bPanel = operands.bPacked
                         ? advance(operands.b, input, scaled(panel, plan.panelWidth * plan.k))
                         : advance(operands.b, input, column);
      emitPanel(bPanel, advance(operands.c, accumulator, column), biasAt(column), plan.panelWidth);
    });
    if (plan.tailWidth) {
      int64_t column = plan.panels * plan.panelWidth;
      Value bPanel = advance(operands.b, input, index(operands.bPacked ? column * plan.k : column));
      emitPanel(bPanel, advance(operands.c, accumulator, index(column)), biasAt(index(column)),
                plan.tailWidth);
    }
  }

  // 128 for each element of A, times B, summed up: B's rows are read once.
  void emitSums() {
    auto piece = [&](Value column, int64_t width) {
      Value ones = arith::ConstantOp::create(
          b, loc,
          DenseElementsAttr::get(llvm::cast<ShapedType>(wide(input, std::max<int64_t>(width, 4))),
                                 b.getI32IntegerAttr(int32_t(0x80808080))));
      if (width < 4)
        ones = narrowed(ones, width);
      Value first = advance(operands.b, input, column);
      auto loop = scf::ForOp::create(b, loc, index(0), index(plan.k), index(1), zero(width));
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(loop.getBody());
        Value row = advance(first, input, scaled(loop.getInductionVar(), operands.bRowStride));
        Value sum = multiplyAdd(ones, load(row, input, 0, width), loop.getRegionIterArgs()[0]);
        scf::YieldOp::create(b, loc, sum);
      }
      store(loop.getResult(0), advance(operands.bias, accumulator, column), accumulator, 0);
    };
    int64_t whole = plan.n / plan.lanes;
    forRange(0, whole, [&](Value i) { piece(scaled(i, plan.lanes), plan.lanes); });
    for (Piece rest : piecesOf(plan.n % plan.lanes, plan.lanes))
      piece(index(whole * plan.lanes + rest.column), rest.width);
  }

private:
  Value biasAt(Value column) {
    return unit.biased ? advance(operands.bias, accumulator, column) : Value();
  }

  void emitPanel(Value bPanel, Value cPanel, Value bias, int64_t width) {
    auto blocks = [&](int64_t firstRow, int64_t count, int64_t rows) {
      forRange(0, count, [&](Value block) {
        Value row = arith::AddIOp::create(b, loc, scaled(block, rows), index(firstRow));
        emitBlock(advance(operands.a, input, scaled(row, operands.aRowStride)), bPanel,
                  advance(cPanel, accumulator, scaled(row, operands.cRowStride)), bias, rows,
                  width);
      });
    };
    blocks(0, plan.longBlocks, plan.rows + 1);
    blocks(plan.longBlocks * (plan.rows + 1), plan.rowBlocks - plan.longBlocks, plan.rows);
  }

  void emitBlock(Value a, Value bPanel, Value c, Value bias, int64_t rows, int64_t width) {
    auto pieces = piecesOf(width, plan.lanes);
    int64_t bStride = operands.bPacked ? width : operands.bRowStride;
    Sums sums;
    for (int64_t row = 0; row < rows; ++row)
      for (Piece piece : pieces)
        sums.push_back(zero(piece.width));
    if (bias)
      for (auto [i, piece] : llvm::enumerate(pieces)) {
        Value share = load(bias, accumulator, piece.column, piece.width);
        for (int64_t row = 0; row < rows; ++row) {
          Value &sum = sums[row * pieces.size() + i];
          sum = arith::SubIOp::create(b, loc, sum, share);
        }
      }

    auto steps = [&](Value first, int64_t count, Sums &sums) {
      Value aHere = advance(a, input, scaled(first, operands.aColStride));
      Value bHere = advance(bPanel, input, scaled(first, bStride));
      for (int64_t step = 0; step < count; ++step) {
        llvm::SmallVector<Value> bVectors;
        for (Piece piece : pieces)
          bVectors.push_back(
              widened(load(bHere, input, step * bStride + piece.column, piece.width), piece.width));
        for (int64_t row = 0; row < rows; ++row) {
          Value scalar = widened(
              load(aHere, input, row * operands.aRowStride + step * operands.aColStride, 1), 1);
          for (auto [i, piece] : llvm::enumerate(pieces)) {
            Value &sum = sums[row * pieces.size() + i];
            sum = multiplyAdd(broadcast(scalar, piece.width), bVectors[i], sum);
          }
        }
      }
    };

    sumOverK(sums, steps);
    asFresh([&](bool isFresh) {
      for (int64_t row = 0; row < rows; ++row)
        for (auto [i, piece] : llvm::enumerate(pieces))
          put(sums[row * pieces.size() + i], c, accumulator,
              row * operands.cRowStride + piece.column, piece.width, isFresh);
    });
  }

  Value widened(Value value, int64_t width) {
    if (input == accumulator || unit.group > 1)
      return value;
    return arith::ExtSIOp::create(b, loc, wide(accumulator, width), value);
  }
  Value broadcast(Value scalar, int64_t width) {
    if (width == 1)
      return scalar;
    return vector::BroadcastOp::create(b, loc, VectorType::get({width}, scalar.getType()), scalar);
  }
  Value zero(int64_t width) {
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(wide(accumulator, width)));
  }
  // Lanes as the first of four, which is what the smallest instruction takes, and back.
  Value filled(Value value, int64_t width) {
    if (width == 1)
      return vector::BroadcastOp::create(b, loc, VectorType::get({4}, value.getType()), value);
    return vector::ShuffleOp::create(b, loc, value, value, llvm::ArrayRef<int64_t>{0, 1, 0, 1});
  }
  Value narrowed(Value value, int64_t width) {
    if (width == 1)
      return vector::ExtractOp::create(b, loc, value, 0);
    return vector::ShuffleOp::create(b, loc, value, value, llvm::ArrayRef<int64_t>{0, 1});
  }
  Value groupProduct(Value x, Value y, Value sum) {
    auto lanes = llvm::dyn_cast<VectorType>(sum.getType());
    int64_t width = lanes ? lanes.getNumElements() : 1;
    if (width < 4)
      return narrowed(groupProduct(filled(x, width), filled(y, width), filled(sum, width)), width);
    Type operand = VectorType::get({width * unit.group}, storageType(b.getContext(), unit));
    llvm::SmallVector<Value> arguments;
    if (unit.accumulates)
      arguments.push_back(sum);
    arguments.push_back(LLVM::BitcastOp::create(b, loc, operand, x));
    arguments.push_back(LLVM::BitcastOp::create(b, loc, operand, y));
    auto name = b.getStringAttr(unit.intrinsics[width == 4 ? 0 : width == 8 ? 1 : 2]);
    Value result =
        LLVM::CallIntrinsicOp::create(b, loc, sum.getType(), name, arguments).getResults();
    return unit.accumulates ? result : arith::AddIOp::create(b, loc, result, sum);
  }
  Value multiplyAdd(Value x, Value y, Value sum) {
    if (unit.group > 1)
      return groupProduct(x, y, sum);
    if (unit.type == DotType::I8)
      return arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, x, y), sum);
    if (features.fma)
      return math::FmaOp::create(b, loc, x, y, sum);
    return arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, x, y), sum);
  }

  const DotUnit &unit;
  const Features &features;
  Type input, accumulator;
};

} // namespace

void emitDot(OpBuilder &builder, Location loc, const DotBlocking &plan, const DotOperands &operands,
             const Features &features) {
  if (plan.unit->tiles)
    return emitTileDot(builder, loc, plan, operands);
  if (plan.unit->blocks)
    return emitBlockDot(builder, loc, plan, operands);
  DotEmitter(builder, loc, plan, operands, features).emit();
}

void emitColumnSums(OpBuilder &builder, Location loc, const DotBlocking &plan,
                    const DotOperands &operands, const Features &features) {
  DotEmitter(builder, loc, plan, operands, features).emitSums();
}

} // namespace nereid::cpu

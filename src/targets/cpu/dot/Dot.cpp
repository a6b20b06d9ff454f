// Emits the loops of a dot: panels of columns, blocks of rows, steps of K.
#include "targets/cpu/dot/Dot.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
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

class DotEmitter {
public:
  DotEmitter(OpBuilder &b, Location loc, const DotBlocking &plan, const DotOperands &operands,
             const Features &features)
      : b(b), loc(loc), plan(plan), operands(operands), features(features) {
    switch (plan.type) {
    case DotType::F32:
      input = accumulator = b.getF32Type();
      break;
    case DotType::F64:
      input = accumulator = b.getF64Type();
      break;
    case DotType::I8:
      input = b.getI8Type();
      accumulator = b.getI32Type();
      break;
    }
  }

  void emit() {
    forRange(plan.panels, [&](Value panel) {
      Value column = scaled(panel, plan.panelWidth);
      Value bPanel = operands.bPacked
                         ? advance(operands.b, input, scaled(panel, plan.panelWidth * plan.k))
                         : advance(operands.b, input, column);
      emitPanel(bPanel, advance(operands.c, accumulator, column), plan.panelWidth);
    });
    if (plan.tailWidth) {
      int64_t column = plan.panels * plan.panelWidth;
      Value bPanel = advance(operands.b, input, index(operands.bPacked ? column * plan.k : column));
      emitPanel(bPanel, advance(operands.c, accumulator, index(column)), plan.tailWidth);
    }
  }

private:
  void emitPanel(Value bPanel, Value cPanel, int64_t width) {
    auto blocks = [&](int64_t firstRow, int64_t count, int64_t rows) {
      forRange(count, [&](Value block) {
        Value row = arith::AddIOp::create(b, loc, scaled(block, rows), index(firstRow));
        emitBlock(advance(operands.a, input, scaled(row, operands.aRowStride)), bPanel,
                  advance(cPanel, accumulator, scaled(row, operands.cRowStride)), rows, width);
      });
    };
    blocks(0, plan.longBlocks, plan.rows + 1);
    blocks(plan.longBlocks * (plan.rows + 1), plan.rowBlocks - plan.longBlocks, plan.rows);
  }

  void emitBlock(Value a, Value bPanel, Value c, int64_t rows, int64_t width) {
    auto pieces = piecesOf(width, plan.lanes);
    int64_t bStride = operands.bPacked ? width : operands.bRowStride;
    llvm::SmallVector<Value> sums = initial(c, rows, pieces);

    auto steps = [&](Value first, int64_t count, llvm::SmallVector<Value> &sums) {
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

    int64_t whole = plan.k / plan.unroll * plan.unroll;
    if (plan.k <= 2 * plan.unroll)
      whole = 0; // a loop of two turns is not worth its branch
    if (whole) {
      auto loop = scf::ForOp::create(b, loc, index(0), index(whole), index(plan.unroll), sums);
      {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(loop.getBody());
        llvm::SmallVector<Value> carried(loop.getRegionIterArgs());
        steps(loop.getInductionVar(), plan.unroll, carried);
        scf::YieldOp::create(b, loc, carried);
      }
      sums.assign(loop.getResults().begin(), loop.getResults().end());
    }
    if (whole < plan.k)
      steps(index(whole), plan.k - whole, sums);
    storeAll(sums, c, rows, pieces);
  }

  // What the accumulators start from: zeros, or C's old contents.
  llvm::SmallVector<Value> initial(Value c, int64_t rows, llvm::ArrayRef<Piece> pieces) {
    auto all = [&](bool zeros) {
      llvm::SmallVector<Value> sums;
      for (int64_t row = 0; row < rows; ++row)
        for (Piece piece : pieces)
          sums.push_back(
              zeros ? zero(piece.width)
                    : load(c, accumulator, row * operands.cRowStride + piece.column, piece.width));
      return sums;
    };
    if (!operands.fresh)
      return all(operands.zeroC);
    auto yield = [&](bool zeros) {
      return [&, zeros](OpBuilder &, Location) { scf::YieldOp::create(b, loc, all(zeros)); };
    };
    return scf::IfOp::create(b, loc, operands.fresh, yield(true), yield(false)).getResults();
  }

  void storeAll(llvm::ArrayRef<Value> sums, Value c, int64_t rows, llvm::ArrayRef<Piece> pieces) {
    for (int64_t row = 0; row < rows; ++row)
      for (auto [i, piece] : llvm::enumerate(pieces))
        LLVM::StoreOp::create(b, loc, sums[row * pieces.size() + i],
                              at(c, accumulator, row * operands.cRowStride + piece.column),
                              bytes(accumulator));
  }

  // `body` for 0 ... count - 1: nothing, straight code or a loop.
  template <typename Body> void forRange(int64_t count, Body body) {
    if (count == 0)
      return;
    if (count == 1)
      return body(index(0));
    auto loop = scf::ForOp::create(b, loc, index(0), index(count), index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }

  Value index(int64_t value) { return arith::ConstantIntOp::create(b, loc, b.getI64Type(), value); }
  Value scaled(Value value, int64_t factor) {
    return arith::MulIOp::create(b, loc, value, index(factor));
  }
  Value advance(Value pointer, Type element, Value count) {
    return LLVM::GEPOp::create(b, loc, pointer.getType(), element, pointer,
                               llvm::ArrayRef<LLVM::GEPArg>{count});
  }
  Value at(Value pointer, Type element, int64_t offset) {
    if (offset == 0)
      return pointer;
    return LLVM::GEPOp::create(b, loc, pointer.getType(), element, pointer,
                               llvm::ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  }
  static unsigned bytes(Type element) { return element.getIntOrFloatBitWidth() / 8; }
  static Type wide(Type element, int64_t width) {
    return width == 1 ? element : Type(VectorType::get({width}, element));
  }

  Value load(Value pointer, Type element, int64_t offset, int64_t width) {
    return LLVM::LoadOp::create(b, loc, wide(element, width), at(pointer, element, offset),
                                bytes(element));
  }
  Value widened(Value value, int64_t width) {
    if (input == accumulator)
      return value;
    return arith::ExtSIOp::create(b, loc, wide(accumulator, width), value);
  }
  Value broadcast(Value scalar, int64_t width) {
    if (width == 1)
      return scalar;
    return vector::BroadcastOp::create(b, loc, VectorType::get({width}, accumulator), scalar);
  }
  Value zero(int64_t width) {
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(wide(accumulator, width)));
  }
  Value multiplyAdd(Value x, Value y, Value sum) {
    if (plan.type == DotType::I8)
      return arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, x, y), sum);
    if (features.fma)
      return math::FmaOp::create(b, loc, x, y, sum);
    return arith::AddFOp::create(b, loc, arith::MulFOp::create(b, loc, x, y), sum);
  }

  OpBuilder &b;
  Location loc;
  const DotBlocking &plan;
  const DotOperands &operands;
  const Features &features;
  Type input, accumulator;
};

} // namespace

void emitDot(OpBuilder &builder, Location loc, const DotBlocking &plan, const DotOperands &operands,
             const Features &features) {
  DotEmitter(builder, loc, plan, operands, features).emit();
}

} // namespace nereid::cpu

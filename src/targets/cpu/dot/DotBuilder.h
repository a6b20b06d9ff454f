// What the micro-kernels of vectors (Dot.cpp) and of blocks (Blocks.cpp) have in common: addresses,
// loops, and sums over all of K.
//
// Accumulators start from zero and are added to C at the end, which takes as long as to start from
// C, and keeps errors small: of a product in a loop over K, sums of a block of K are added up, not
// all products one after the other.
#pragma once
#include "targets/cpu/dot/Dot.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace nereid::cpu {

class DotBuilder {
protected:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using Sums = llvm::SmallVector<Value>;

  DotBuilder(mlir::OpBuilder &b, mlir::Location loc, const DotBlocking &plan,
             const DotOperands &operands)
      : b(b), loc(loc), plan(plan), operands(operands) {}

  /// `body` for first ... end - 1: nothing, straight code or a loop.
  template <typename Body> void forRange(int64_t first, int64_t end, Body body) {
    if (first >= end)
      return;
    if (first + 1 == end)
      return body(index(first));
    auto loop = mlir::scf::ForOp::create(b, loc, index(first), index(end), index(1));
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }

  /// `body(false)` where C's old contents count, `body(true)` where C is fresh.
  template <typename Body> void asFresh(Body body) {
    if (!operands.fresh)
      return body(operands.zeroC);
    auto part = [&](bool isFresh) {
      return [&, isFresh](mlir::OpBuilder &, mlir::Location) {
        body(isFresh);
        mlir::scf::YieldOp::create(b, loc);
      };
    };
    mlir::scf::IfOp::create(b, loc, operands.fresh, part(true), part(false));
  }
  /// Stores the sum, beside what is in C, or alone.
  void put(Value sum, Value c, Type element, int64_t offset, int64_t width, bool alone) {
    if (!alone) {
      Value old = load(c, element, offset, width);
      sum = llvm::isa<mlir::IntegerType>(element)
                ? Value(mlir::arith::AddIOp::create(b, loc, sum, old))
                : Value(mlir::arith::AddFOp::create(b, loc, sum, old));
    }
    store(sum, c, element, offset);
  }

  /// `steps(first, count, sums)`, which adds the products of `count` steps, for all of K.
  template <typename Steps> void sumOverK(Sums &sums, Steps steps) {
    int64_t whole = plan.k / plan.unroll * plan.unroll;
    if (plan.k <= 2 * plan.unroll)
      whole = 0; // a loop of two turns is not worth its branch
    if (whole) {
      auto loop =
          mlir::scf::ForOp::create(b, loc, index(0), index(whole), index(plan.unroll), sums);
      {
        mlir::OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(loop.getBody());
        Sums carried(loop.getRegionIterArgs());
        steps(loop.getInductionVar(), plan.unroll, carried);
        mlir::scf::YieldOp::create(b, loc, carried);
      }
      sums.assign(loop.getResults().begin(), loop.getResults().end());
    }
    if (whole < plan.k)
      steps(index(whole), plan.k - whole, sums);
  }

  Value index(int64_t value) {
    return mlir::arith::ConstantIntOp::create(b, loc, b.getI64Type(), value);
  }
  Value scaled(Value value, int64_t factor) {
    return mlir::arith::MulIOp::create(b, loc, value, index(factor));
  }
  /// `count` (i64) elements behind the pointer.
  Value advance(Value pointer, Type element, Value count) {
    return mlir::LLVM::GEPOp::create(b, loc, pointer.getType(), element, pointer,
                                     llvm::ArrayRef<mlir::LLVM::GEPArg>{count});
  }
  Value at(Value pointer, Type element, int64_t offset) {
    if (offset == 0)
      return pointer;
    return mlir::LLVM::GEPOp::create(b, loc, pointer.getType(), element, pointer,
                                     llvm::ArrayRef<mlir::LLVM::GEPArg>{int32_t(offset)});
  }
  /// `width` elements, or a single one, `offset` elements behind the pointer.
  Value load(Value pointer, Type element, int64_t offset, int64_t width) {
    return mlir::LLVM::LoadOp::create(b, loc, wide(element, width), at(pointer, element, offset),
                                      bytes(element));
  }
  void store(Value value, Value pointer, Type element, int64_t offset) {
    mlir::LLVM::StoreOp::create(b, loc, value, at(pointer, element, offset), bytes(element));
  }
  static unsigned bytes(Type element) { return element.getIntOrFloatBitWidth() / 8; }
  static Type wide(Type element, int64_t width) {
    return width == 1 ? element : Type(mlir::VectorType::get({width}, element));
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  const DotBlocking &plan;
  const DotOperands &operands;
};

} // namespace nereid::cpu

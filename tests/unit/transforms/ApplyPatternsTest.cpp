// What applying patterns does to operations, and how often it visits what is around them.
#include "transforms/ApplyPatterns.h"

#include "ir/tile/Dialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace nereid;

namespace {

struct SumToProduct : OpRewritePattern<arith::AddIOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddIOp op, PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<arith::MulIOp>(op, op.getLhs(), op.getRhs());
    return success();
  }
};

struct CountLoops : OpRewritePattern<scf::ForOp> {
  CountLoops(MLIRContext *context, unsigned &visits) : OpRewritePattern(context), visits(visits) {}
  LogicalResult matchAndRewrite(scf::ForOp, PatternRewriter &) const override {
    ++visits;
    return failure();
  }
  unsigned &visits;
};

/// A loop without results, of sums that a function gets.
std::string loopOfSums(unsigned count) {
  std::string text = "func.func private @use(i32)\n"
                     "func.func @f(%x: i32, %n: i32) {\n"
                     "  %c0 = arith.constant 0 : i32\n"
                     "  %c1 = arith.constant 1 : i32\n"
                     "  scf.for %i = %c0 to %n step %c1 : i32 {\n";
  for (unsigned i = 0; i < count; ++i) {
    std::string number = std::to_string(i);
    text += "    %k" + number + " = arith.constant 7 : i32\n    %s" + number +
            " = arith.addi %x, %k" + number + " : i32\n    func.call @use(%s" + number +
            ") : (i32) -> ()\n";
  }
  return text + "    %dead = arith.subi %x, %i : i32\n  }\n  return\n}\n";
}

template <typename Op> unsigned count(ModuleOp module) {
  unsigned found = 0;
  module.walk([&](Op) { ++found; });
  return found;
}

TEST(ApplyPatterns, VisitsALoopOncePerRoundHoweverMuchChangesInIt) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  tile::loadDialects(context);
  auto module = parseSourceString<ModuleOp>(loopOfSums(100), &context);
  ASSERT_TRUE(module);
  unsigned visits = 0;
  RewritePatternSet patterns(&context);
  patterns.add<SumToProduct>(&context);
  patterns.add<CountLoops>(&context, visits);
  ASSERT_TRUE(succeeded(transforms::applyPatterns(*module, std::move(patterns))));
  EXPECT_EQ(count<arith::AddIOp>(*module), 0u);
  EXPECT_EQ(count<arith::MulIOp>(*module), 100u);
  EXPECT_EQ(count<arith::SubIOp>(*module), 0u);
  EXPECT_EQ(count<arith::ConstantOp>(*module), 3u);
  // The first round changes everything, the second one finds nothing.
  EXPECT_EQ(visits, 2u);
}

/// Takes one from a number in each round: what it makes is not visited before the next one.
struct CountDown : OpRewritePattern<scf::ForOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(scf::ForOp loop, PatternRewriter &) const override {
    auto left = loop->getAttrOfType<IntegerAttr>("left");
    if (!left || left.getInt() == 0)
      return failure();
    loop->setAttr("left", Builder(loop.getContext()).getI64IntegerAttr(left.getInt() - 1));
    return success();
  }
};

TEST(ApplyPatterns, SaysWhenTenRoundsWereNotEnough) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  tile::loadDialects(context);
  for (int rounds : {9, 10}) {
    auto module = parseSourceString<ModuleOp>(loopOfSums(1), &context);
    ASSERT_TRUE(module);
    module->walk([&](scf::ForOp loop) {
      loop->setAttr("left", Builder(&context).getI64IntegerAttr(rounds));
    });
    RewritePatternSet patterns(&context);
    patterns.add<CountDown>(&context);
    EXPECT_EQ(succeeded(transforms::applyPatterns(*module, std::move(patterns))), rounds == 9);
  }
}

} // namespace

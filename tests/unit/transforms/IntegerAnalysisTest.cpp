// Every claim of the integer analysis is checked against computed values: random expressions, with
// loops, of narrow and wide integers are built, analysed, and evaluated element by element for many
// arguments.
#include "transforms/IntegerAnalysis.h"

#include "RandomExpressions.h"
#include "transforms/RunArithmetic.h"

#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace nereid;
using namespace nereid::transforms;
using namespace nereid::random_expressions;

namespace {

/// Compares the claims about a value with its elements.
struct Checker {
  const IntegerAnalysis &analysis;
  int64_t &checked;

  void operator()(Value value, const Elements &elements) {
    auto *info = analysis.lookup(value);
    ASSERT_TRUE(info) << "no facts of a computed value";
    unsigned width = bits(value);
    auto complain = [&](const std::string &what) {
      std::string text;
      llvm::raw_string_ostream os(text);
      value.getParentRegion()->getParentOfType<func::FuncOp>()->print(os);
      os << "\nof " << value << "\nclaimed: ";
      info->print(os);
      os << "\nelements:";
      for (const APInt &element : elements)
        os << " " << element;
      return what + "\n" + text;
    };
    for (const APInt &x : elements) {
      auto &range = info->range();
      ASSERT_TRUE(x.sge(range.smin()) && x.sle(range.smax()) && x.uge(range.umin()) &&
                  x.ule(range.umax()))
          << complain("a value outside of the range");
      ASSERT_TRUE(divides(info->divisibilityOfAll(), x)) << complain("an element not divisible");
    }
    auto shape = tile::shapeOf(value.getType());
    int64_t inner = count(value.getType());
    for (unsigned d = 0; d < shape.size(); ++d) {
      inner /= shape[d];
      Run run = info->run(d);
      ASSERT_TRUE(run.length >= 1 && run.length <= shape[d]);
      bool keeps = analysis.signExtensionKeepsRuns(value, d);
      for (int64_t i = 0; i < int64_t(elements.size()); ++i) {
        int64_t at = i / inner % shape[d];
        if (at % run.length == 0) {
          ASSERT_TRUE(divides(run.divisibility, elements[i]))
              << complain("the beginning of a run not divisible");
          continue;
        }
        APInt step(width, uint64_t(run.step), true, true);
        ASSERT_EQ(elements[i], elements[i - inner] + step) << complain("a wrong step");
        if (keeps)
          ASSERT_EQ(elements[i].getSExtValue(), elements[i - inner].getSExtValue() + run.step)
              << complain("a run that wraps");
      }
    }
    ++checked;
  }

  static bool divides(int64_t divisor, const APInt &x) {
    return unsigned(llvm::countr_zero(uint64_t(divisor))) <= x.countr_zero() || x.isZero();
  }
};

TEST(IntegerAnalysis, ClaimsHoldForRandomExpressions) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  tile::loadDialects(context);
  int functions = functionsToTry(100);
  int64_t checked = 0;
  for (int seed = 0; seed < functions && !HasFatalFailure(); ++seed) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
    auto function = Generator(context, seed).function(*module);
    ASSERT_TRUE(succeeded(verify(*module)));
    IntegerAnalysis analysis(*module);
    std::mt19937 random(seed);
    for (int trial = 0; trial < 12 && !HasFatalFailure(); ++trial) {
      Interpreter interpreter(Checker{analysis, checked});
      defineArguments(interpreter, function, random);
      interpreter.run(function.front());
    }
  }
  EXPECT_GT(checked, functions * 50);
}

TEST(IntegerAnalysis, MovedAnalysisKeepsItsAnswers) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  tile::loadDialects(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  OpBuilder builder(module->getBodyRegion());
  auto type = RankedTensorType::get({64}, builder.getI32Type());
  Value range = tile::RangeOp::create(builder, builder.getUnknownLoc(), type, 32, 96);
  IntegerAnalysis first(*module);
  IntegerAnalysis second = std::move(first);
  EXPECT_EQ(second.contiguity(range, 0), 64);
  EXPECT_EQ(second.constancy(range, 0), 1);
  EXPECT_EQ(second.divisibility(range, 0), 32);
  EXPECT_TRUE(second.signExtensionKeepsRuns(range, 0));
  EXPECT_EQ(second.lookup(range)->range().smax().getSExtValue(), 95);
}

} // namespace

// The tile pipeline keeps what functions compute: random expressions, with loops and pointers, are
// evaluated before and after it.
#include "transforms/Pipeline.h"

#include "RandomExpressions.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace nereid;
using namespace nereid::random_expressions;

namespace {

TEST(TilePipeline, KeepsTheResultsOfRandomExpressions) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  tile::loadDialects(context);
  int functions = functionsToTry(100), compared = 0;
  for (int seed = 0; seed < functions && !HasFailure(); ++seed) {
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
    auto before = Generator(context, seed).function(*module);
    OwningOpRef<ModuleOp> optimised = module->clone();
    PassManager passes(&context);
    transforms::buildTilePipeline(passes);
    ASSERT_TRUE(succeeded(passes.run(*optimised)));
    auto after = *optimised->getOps<func::FuncOp>().begin();

    std::mt19937 random(seed);
    for (int trial = 0; trial < 12 && !HasFailure(); ++trial) {
      Interpreter first, second;
      std::mt19937 same = random;
      defineArguments(first, before, random);
      defineArguments(second, after, same);
      if (!first.run(before.front()))
        continue; // Undefined: whatever comes out is right.
      ASSERT_TRUE(second.run(after.front())) << "an operation without a value was added";
      auto expected = before.front().getTerminator()->getOperands();
      auto found = after.front().getTerminator()->getOperands();
      for (auto [i, wanted] : llvm::enumerate(expected)) {
        std::string text;
        llvm::raw_string_ostream os(text);
        if (first.valueOf(wanted) != second.valueOf(found[i]))
          os << "result " << i << ", seed " << seed << "\n" << *module << "\n" << *optimised;
        ASSERT_TRUE(text.empty()) << text;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, functions);
}

} // namespace

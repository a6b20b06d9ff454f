// What combiners compute: kinds, orders, neutral elements, and the traits of ops.
#include "ir/tile/Combiner.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace nereid::tile;

namespace {

class CombinerTest : public testing::Test {
protected:
  CombinerTest() { loadDialects(context); }

  /// The combiner `body` of a reduction of one operand of `element`.
  Region &reduce(const std::string &element, const std::string &body, bool anyOrder = false) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(%x: tensor<8x" + element + ">) -> " + element + " {\n" +
            "  %r = tile.reduce(%x) axis 0 " + (anyOrder ? "any_order " : "") +
            "{\n  ^bb0(%a: " + element + ", %b: " + element + "):\n" + body +
            "\n    tile.yield %c : " + element + "\n  } : (tensor<8x" + element + ">) -> " +
            element + "\n  return %r : " + element + "\n}\n",
        &context);
    ReduceOp found;
    if (module)
      module->walk([&](ReduceOp op) { found = op; });
    if (!found)
      llvm::report_fatal_error("the text of the test cannot be parsed");
    return found.getCombine();
  }

  /// What the combiner's one op gives for two constants.
  Attribute combined(Region &combiner, Attribute left, Attribute right) {
    SmallVector<OpFoldResult> results;
    Operation &op = combiner.front().front();
    if (failed(op.fold({left, right}, results)) || results.size() != 1)
      return {};
    if (auto attr = dyn_cast<Attribute>(results[0]))
      return attr;
    Value value = cast<Value>(results[0]); // an operand
    return value == op.getOperand(0) ? left : right;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(CombinerTest, NeutralElementsAreNeutral) {
  const std::pair<const char *, CombinerKind> integers[] = {
      {"addi", CombinerKind::AddI},  {"muli", CombinerKind::MulI},  {"andi", CombinerKind::And},
      {"ori", CombinerKind::Or},     {"xori", CombinerKind::Xor},   {"maxsi", CombinerKind::MaxS},
      {"minsi", CombinerKind::MinS}, {"maxui", CombinerKind::MaxU}, {"minui", CombinerKind::MinU}};
  for (const char *type : {"i1", "i8", "i32", "i64"})
    for (auto [name, kind] : integers) {
      Region &region = reduce(type, std::string("    %c = arith.") + name + " %b, %a : " + type);
      EXPECT_EQ(combinerKind(region), kind) << name;
      EXPECT_TRUE(commutes(region));
      Type element = region.front().getArgument(0).getType();
      TypedAttr neutral = neutralElement(kind, element);
      Builder b(&context);
      for (int64_t number : {0, 1, -1, 5, -128})
        for (bool first : {false, true}) {
          Attribute x = b.getIntegerAttr(element, APInt(element.getIntOrFloatBitWidth(), number,
                                                        /*isSigned=*/true, /*implicitTrunc=*/true));
          EXPECT_EQ(combined(region, first ? x : neutral, first ? neutral : x), x)
              << name << " of " << number << ": " << type;
        }
    }
  const std::pair<const char *, CombinerKind> floats[] = {
      {"addf", CombinerKind::AddF},        {"mulf", CombinerKind::MulF},
      {"maxnumf", CombinerKind::MaxNum},   {"minnumf", CombinerKind::MinNum},
      {"maximumf", CombinerKind::Maximum}, {"minimumf", CombinerKind::Minimum}};
  for (const char *type : {"f16", "bf16", "f32", "f64"})
    for (auto [name, kind] : floats) {
      Region &region = reduce(type, std::string("    %c = arith.") + name + " %a, %b : " + type);
      EXPECT_EQ(combinerKind(region), kind) << name;
      auto element = cast<FloatType>(region.front().getArgument(0).getType());
      TypedAttr neutral = neutralElement(kind, element);
      for (double number : {0.0, -0.0, 1.5, -2.0, double(INFINITY), -double(INFINITY)})
        for (bool first : {false, true}) {
          Attribute x = FloatAttr::get(element, number);
          EXPECT_EQ(combined(region, first ? x : neutral, first ? neutral : x), x)
              << name << " of " << number << ": " << type;
        }
    }
}

TEST_F(CombinerTest, OtherCombiners) {
  // Not the two sides, not one op, not commutative.
  EXPECT_EQ(combinerKind(reduce("f32", "    %c = arith.addf %a, %a : f32")), CombinerKind::Other);
  EXPECT_EQ(combinerKind(reduce("f32", "    %c = arith.subf %a, %b : f32")), CombinerKind::Other);
  Region &two = reduce("f32", "    %n = arith.negf %a : f32\n    %c = arith.addf %a, %b : f32");
  EXPECT_EQ(combinerKind(two), CombinerKind::Other);
  EXPECT_EQ(resultKind(two, 0), CombinerKind::AddF); // whatever else it computes
  EXPECT_TRUE(commutes(two));
  EXPECT_FALSE(neutralElement(CombinerKind::Other, Float32Type::get(&context)));

  const char *first = "    %c = arith.subf %a, %b : f32";
  EXPECT_FALSE(commutes(reduce("f32", first)));
  EXPECT_FALSE(declaresAnyOrder(reduce("f32", first)));
  EXPECT_TRUE(commutes(reduce("f32", first, /*anyOrder=*/true)));
  EXPECT_TRUE(declaresAnyOrder(reduce("f32", first, /*anyOrder=*/true)));
}

TEST_F(CombinerTest, SelectionsAreOneOfTheSides) {
  EXPECT_TRUE(isSelection(CombinerKind::MaxU));
  EXPECT_TRUE(isSelection(CombinerKind::Minimum));
  EXPECT_FALSE(isSelection(CombinerKind::Or));
  EXPECT_FALSE(isSelection(CombinerKind::Other));
}

TEST_F(CombinerTest, TraitsOfOps) {
  auto parsed = parseSourceString<ModuleOp>(R"(
    func.func @f(%x: tensor<8x4xf32>, %p: tensor<8x4x!tile.ptr<f32>>, %i: tensor<8x4xi32>) {
      %elementwise0 = tile.addptr %p, %i : tensor<8x4x!tile.ptr<f32>>, tensor<8x4xi32>
      %elementwise1 = tile.fp_cast %x : tensor<8x4xf32> -> tensor<8x4xf8E5M2>
      %elementwise2 = arith.addf %x, %x : tensor<8x4xf32>
      %view0 = tile.trans %x [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
      %view1 = tile.reshape %x : tensor<8x4xf32> -> tensor<32xf32>
      %view2 = tile.expand_dims %view1 0 : tensor<32xf32> -> tensor<1x32xf32>
      %view3 = tile.broadcast %view2 : tensor<1x32xf32> -> tensor<2x32xf32>
      %other0 = tile.slice %x [0, 0] step [1, 1] : tensor<8x4xf32> -> tensor<2x4xf32>
      return
    })",
                                            &context);
  ASSERT_TRUE(parsed);
  unsigned elementwise = 0, views = 0, all = 0;
  parsed->walk([&](Operation *op) {
    elementwise += isElementwise(op);
    views += isView(op);
    all += op->getNumResults();
  });
  EXPECT_EQ(elementwise, 3u);
  EXPECT_EQ(views, 4u);
  EXPECT_EQ(all, 8u);
  Builder b(&context);
  EXPECT_TRUE(isFloat8(Float8E5M2Type::get(&context)));
  EXPECT_TRUE(isFloat8(Float8E4M3FNType::get(&context)));
  EXPECT_FALSE(isFloat8(b.getF16Type()));
  EXPECT_FALSE(isFloat8(b.getI8Type()));
}

} // namespace

// The prelude as a table: what is in it, and how its names are found. What it computes is tested on
// targets.
#include "Fixture.h"

#include "frontend/inventory.h"
#include "frontend/prelude.h"

namespace nereid::frontend::test {
namespace {

TEST(Prelude, EveryPublicFunctionIsDocumented) {
  ASSERT_GT(allPreludeFunctions().size(), 20u);
  for (const PreludeFunction &function : allPreludeFunctions()) {
    EXPECT_EQ(findPrelude(function.name), &function);
    EXPECT_TRUE(function.function->isPrelude) << function.name;
    if (!llvm::StringRef(function.name).starts_with("_"))
      EXPECT_FALSE(function.doc.empty()) << function.name;
  }
}

TEST(Prelude, NoFunctionHidesABuiltin) {
  for (const PreludeFunction &function : allPreludeFunctions())
    EXPECT_EQ(findBuiltin(function.name), nullptr) << function.name;
}

TEST(Prelude, DocstringsLoseTheirIndentation) {
  const std::string &doc = findPrelude("sum")->doc;
  EXPECT_EQ(doc.find("The sum of the elements"), 0u);
  EXPECT_NE(doc.find("\n:param axis: "), std::string::npos);
}

TEST(Prelude, NamesInsideMeanThePreludeThenTheLanguageThenPython) {
  EXPECT_TRUE(lookupInPrelude("_add")->is<FunctionValue>());
  EXPECT_TRUE(lookupInPrelude("max")->is<FunctionValue>()); // not Python's
  EXPECT_TRUE(lookupInPrelude("reduce")->is<BuiltinValue>());
  EXPECT_TRUE(lookupInPrelude("float32")->is<TypeValue>());
  EXPECT_TRUE(lookupInPrelude("len")->is<BuiltinValue>());
  EXPECT_TRUE(lookupInPrelude("tl")->is<ModuleValue>());
  EXPECT_FALSE(lookupInPrelude("nothing").has_value());
}

TEST(Language, MembersOfModules) {
  EXPECT_TRUE(languageMember("triton.language", "sum")->is<FunctionValue>());
  EXPECT_TRUE(languageMember("nereid.language", "load")->is<BuiltinValue>());
  EXPECT_TRUE(languageMember("triton.language", "math")->is<ModuleValue>());
  EXPECT_TRUE(languageMember("triton.language.math", "exp")->is<BuiltinValue>());
  EXPECT_TRUE(languageMember("triton", "cdiv")->is<FunctionValue>());
  EXPECT_EQ(languageMember("triton.language.PropagateNan", "ALL")->repr(), "65535");
  EXPECT_FALSE(languageMember("triton.language", "to").has_value()); // a member of tensors only
  EXPECT_FALSE(languageMember("triton.language", "python.len").has_value());
  EXPECT_FALSE(languageMember("triton.language.math", "load").has_value());
}

TEST(Inventory, SignaturesAreTheSourcesText) {
  for (const InventoryEntry &entry : inventory()) {
    if (entry.name == "load") {
      EXPECT_EQ(entry.signature("_semantic=None"),
                "(pointer, mask=None, other=None, boundary_check=(), padding_option=\"\", "
                "cache_modifier=\"\", "
                "eviction_policy=\"\", volatile=False, _semantic=None)");
      EXPECT_FALSE(entry.isMethod);
    }
    if (entry.name == "sum")
      EXPECT_EQ(
          entry.signature(),
          "(input, axis: constexpr = None, keep_dims: constexpr = False, dtype: constexpr = None)");
    EXPECT_FALSE(entry.category.empty()) << entry.name;
    EXPECT_FALSE(entry.doc.empty()) << entry.name;
  }
}

class Attributes : public Fixture {};

TEST_F(Attributes, OfTensors) {
  Value block = argument(DType::Float16, {4, 8});
  auto text = [&](const char *name) {
    auto value = getAttribute(block, name, {});
    return failed(value) ? std::string("none") : value->repr();
  };
  EXPECT_EQ(text("shape"), "(4, 8)");
  EXPECT_EQ(text("dtype"), "fp16");
  EXPECT_EQ(text("type"), "<['4', '8'], fp16>");
  EXPECT_EQ(text("numel"), "32");
  EXPECT_EQ(text("T"), "fp16[constexpr[8], constexpr[4]]");
  EXPECT_EQ(text("nothing"), "none");
  EXPECT_TRUE(getAttribute(block, "sum", {})->is<FunctionValue>());
  EXPECT_TRUE(getAttribute(block, "to", {})->is<BuiltinValue>());
  EXPECT_EQ(text("arange"), "none"); // not a member function
  EXPECT_EQ(
      getAttribute(*getAttribute(pointer(DType::Int8), "dtype", {}), "element_ty", {})->repr(),
      "int8");
}

TEST_F(Attributes, ErrorsNameTheChainOfCalls) {
  auto source = SourceFile::create("kernel.py", "y = f(x)\n");
  semantic->enterCall({*source, {4, 8}});
  EXPECT_TRUE(failed(callNamed("program_id", {integer(7)})));
  semantic->leaveCall();
  ASSERT_EQ(diagnostics.diagnostics().back().notes().size(), 1u);
  EXPECT_EQ(diagnostics.diagnostics().back().notes()[0].message, "called from here");
  diagnostics.clear();
}

TEST(Types, NamesAndMangling) {
  Type block = Type::of(DType::Float32, {16, 32});
  EXPECT_EQ(block.str(), "<['16', '32'], fp32>");
  EXPECT_EQ(block.mangle(), "fp32S16_32S");
  EXPECT_EQ(Type::pointerTo(DType::Int8, true).str(), "const_pointer<int8>");
  EXPECT_NE(Type::pointerTo(DType::Int8, true).mangle(), Type::pointerTo(DType::Int8).mangle());
  EXPECT_EQ(parseSignatureType("*kfp16")->str(), "const_pointer<fp16>");
  EXPECT_EQ(parseSignatureType("u1")->str(), "int1");
  EXPECT_FALSE(parseSignatureType("float7").has_value());
  EXPECT_EQ(dtypeByName("half"), DType::Float16);
  EXPECT_EQ(dtypeByName("float8_e4m3fn"), DType::Float8E4NV);
}

} // namespace
} // namespace nereid::frontend::test

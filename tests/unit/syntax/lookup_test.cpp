#include "parse.h"

using namespace nereid;
using namespace nereid::syntax;

static const char text[] = "import triton\n" // 1
                           "\n"
                           "@triton.jit\n" // 3
                           "@other\n"
                           "def first(x):\n" // 5
                           "    pass\n"
                           "\n"
                           "if FLAG:\n"
                           "    def chosen(): pass\n" // 9
                           "else:\n"
                           "    def chosen(): return\n" // 11
                           "\n"
                           "try:\n"
                           "    def tried(): pass\n" // 14
                           "except E:\n"
                           "    pass\n"
                           "\n"
                           "class Outer:\n"
                           "    @staticmethod\n"
                           "    def method(self): pass\n" // 20
                           "\n"
                           "def make():\n"
                           "    def kernel(): pass\n" // 23
                           "    return kernel\n";

static uint32_t lineOf(const ModulePtr &module, const FunctionDef *function) {
  return function ? module->source().position(function->range.begin).line : 0;
}

TEST(Lookup, FindsFunctionsByName) {
  ModulePtr module = parseValid(text);
  auto line = [&](std::string_view name) { return lineOf(module, module->findFunction(name)); };
  EXPECT_EQ(line("first"), 5u);
  EXPECT_EQ(line("chosen"), 11u); // the last one wins
  EXPECT_EQ(line("tried"), 14u);
  EXPECT_EQ(line("Outer.method"), 20u);
  EXPECT_EQ(line("make.<locals>.kernel"), 23u);
  EXPECT_EQ(line("make.kernel"), 23u);
  EXPECT_EQ(line("method"), 0u);
  EXPECT_EQ(line("Outer"), 0u); // a class
  EXPECT_EQ(line("nothing"), 0u);
  EXPECT_EQ(line(""), 0u);
}

TEST(Lookup, FindsFunctionsByLine) {
  ModulePtr module = parseValid(text);
  auto name = [&](uint32_t line) {
    const FunctionDef *function = module->functionAtLine(line);
    return function ? function->name : std::string_view("none");
  };
  EXPECT_EQ(name(3), "first"); // its first decorator, as co_firstlineno says
  EXPECT_EQ(name(5), "first");
  EXPECT_EQ(name(6), "none");
  EXPECT_EQ(name(9), "chosen");
  EXPECT_EQ(name(19), "method");
  EXPECT_EQ(name(23), "kernel");
  EXPECT_EQ(name(0), "none");
  EXPECT_EQ(name(1000), "none");
}

TEST(Lookup, CountsLinesOfTheOriginalFile) {
  ModulePtr module = parseValid("@jit\ndef f(): pass\n", {.firstLine = 100, .columnShift = 4});
  ASSERT_TRUE(module->functionAtLine(101));
  EXPECT_EQ(module->functionAtLine(101)->name, "f");
  EXPECT_EQ(module->functionAtLine(100), module->functionAtLine(101));
  EXPECT_FALSE(module->functionAtLine(2));
}

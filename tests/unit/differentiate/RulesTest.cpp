// The table of rules is complete: every operation of the dialects and every function of the device
// library has a row, and no row is of an operation that does not exist.
#include "differentiate/Rules.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/StringSet.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace nereid::differentiate;

namespace {

constexpr const char *named[] = {
#define RULE(Name, Function) Name,
#define MOVES(Name) Name,
#define WALKED(Name) Name,
#define COMPARES(Name) Name,
#define INACTIVE(Name, Why) Name,
#define REFUSED(Name, Why) Name,
#include "differentiate/Rules.def"
};

TEST(Rules, EveryOperationHasARow) {
  MLIRContext context;
  nereid::tile::loadDialects(context);
  unsigned count = 0;
  for (RegisteredOperationName op : context.getRegisteredOperations()) {
    if (!llvm::is_contained({"tile", "arith", "math", "scf", "ub"}, op.getDialectNamespace()))
      continue;
    ++count;
    EXPECT_TRUE(findRow(op.getStringRef()))
        << op.getStringRef().str() << " has no row in Rules.def";
  }
  EXPECT_GT(count, 150u);
}

TEST(Rules, EveryRowIsOfAnOperation) {
  MLIRContext context;
  nereid::tile::loadDialects(context);
  llvm::StringSet<> seen;
  for (const char *name : named) {
    EXPECT_TRUE(RegisteredOperationName::lookup(name, &context)) << name;
    EXPECT_TRUE(seen.insert(name).second) << name << " has two rows";
  }
}

TEST(Rules, WhatIsRefusedSaysWhy) {
  for (const char *name : named)
    if (const Row *row = findRow(name); row->kind == Row::Kind::Refused)
      EXPECT_NE(std::string(row->why).find("; "), std::string::npos) << name;
}

struct Overload {
  const char *name, *arguments, *result, *symbol;
};
constexpr Overload overloads[] = {
#define OVERLOAD(Name, Arguments, Result, Symbol) {#Name, Arguments, Result, Symbol},
#define FLOATS(Name, Count)                                                                        \
  {#Name, "fp32", "fp32", "__nv_" #Name "f"}, {#Name, "fp64", "fp64", "__nv_" #Name},
#include "frontend/builtins/libdevice.def"
#undef FLOATS
#undef OVERLOAD
};

TEST(Rules, EveryFunctionOfTheDeviceLibraryFromFloatsToFloatsHasARow) {
  for (const Overload &each : overloads)
    if (llvm::StringRef(each.arguments).contains("fp") &&
        llvm::StringRef(each.result).contains("fp"))
      EXPECT_TRUE(findDeviceRow(each.symbol)) << each.symbol << " has no row in Rules.def";
}

} // namespace

#include "explain/Report.h"
#include "layout/Constructors.h"

#include <gtest/gtest.h>

using namespace nereid;
using namespace nereid::explain;

namespace {

TEST(Report, LayoutsSurviveJson) {
  for (const layout::LinearLayout &map :
       {layout::striped({64, 32}, 4, 32, 4, {1, 0}), layout::mmaAccumulator({32, 32}, {2, 2}, 32),
        layout::sharedSwizzled({64, 64}, {1, 0}, 16, 128)}) {
    auto back = layoutFromJson(layoutJson(map));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, map) << map.str();
  }
  EXPECT_FALSE(layoutFromJson(llvm::json::Object{}));
  EXPECT_FALSE(layoutFromJson(llvm::json::Object{
      {"shape", llvm::json::Array{4}},
      {"lane", llvm::json::Array{llvm::json::Array{1, 2}}}})); // a coordinate too many
}

TEST(Report, EmptyOneHasEveryPart) {
  llvm::json::Object object = Report().json();
  for (const char *part :
       {"layouts", "accesses", "conversions", "products", "loops", "work", "hints"})
    EXPECT_TRUE(object.getArray(part)) << part;
  for (const char *part : {"shared", "resources", "lines"})
    EXPECT_TRUE(object.getObject(part)) << part;
  EXPECT_EQ(object.getInteger("schema"), 1);
  EXPECT_FALSE(object.get("occupancy"));
}

} // namespace

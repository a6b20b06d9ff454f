#include "explain/Report.h"

#include <gtest/gtest.h>

using namespace nereid::explain;

namespace {

TEST(Hints, FactsAreFilledIn) {
  Hint hint = makeHint(HintKind::Uncoalesced, {"a.py", 3, 1}, {"load", "16 bytes", "16", "4"});
  EXPECT_EQ(hint.what, "this load is not coalesced because neighbouring lanes are 16 bytes apart: "
                       "a warp touches 16 sectors of 32 bytes where 4 would hold as many elements");
  EXPECT_EQ(hint.name(), "Uncoalesced");
  EXPECT_EQ(hint.severity(), Severity::Cost);
}

TEST(Hints, OnceForAPlace) {
  Report report;
  report.hint(HintKind::Spills, {}, {"4"});
  report.hint(HintKind::Spills, {}, {"8"});
  report.hint(HintKind::BankConflicts, {"a.py", 1, 1}, {"read", "2"});
  report.hint(HintKind::BankConflicts, {"a.py", 2, 1}, {"read", "2"});
  EXPECT_EQ(report.hints.size(), 3u);
}

TEST(Hints, Occupancy) {
  Report report;
  report.sm = 90;
  report.resources.threads = 128;
  report.resources.registers = 200;
  adviseOccupancy(report);
  ASSERT_EQ(report.hints.size(), 1u);
  EXPECT_EQ(report.hints[0].what,
            "8 of 64 warps are resident on a multiprocessor, limited by registers");
  EXPECT_EQ(report.hints[0].remedy,
            "`maxnreg=168` would admit one block more, if that does not spill; or a smaller block");

  Report good;
  good.sm = 90;
  good.resources.threads = 128;
  good.resources.registers = 32;
  adviseOccupancy(good);
  EXPECT_TRUE(good.hints.empty());

  Report spills = good;
  spills.resources.spillBytes = 64;
  adviseOccupancy(spills);
  ASSERT_EQ(spills.hints.size(), 1u);
  EXPECT_EQ(spills.hints[0].name(), "Spills");
}

} // namespace

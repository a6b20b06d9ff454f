// Results of tuning as bytes.
#include "runtime/tuner/results.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace nereid::runtime;

namespace {

TuningResult someResult() {
  TuningResult result;
  result.kernel = "matmul";
  result.best = 2;
  result.cutShortAfter = 1.5;
  result.times = {Timing(), std::nullopt, Timing{0.5, 0.25, 1.0}};
  return result;
}

TEST(TuningResults, ComeBackAsTheyWere) {
  std::optional<TuningResult> back = decodeTuningResult(encodeTuningResult(someResult()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kernel, "matmul");
  EXPECT_EQ(back->best, 2u);
  EXPECT_EQ(back->cutShortAfter, 1.5);
  ASSERT_EQ(back->times.size(), 3u);
  EXPECT_TRUE(std::isinf(back->times[0]->median));
  EXPECT_FALSE(back->times[1]);
  EXPECT_EQ(back->times[2]->low, 0.25);
}

TEST(TuningResults, NothingIsReadOfWhatIsNone) {
  std::string whole = encodeTuningResult(someResult());
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decodeTuningResult(whole.substr(0, size))) << size;
  EXPECT_FALSE(decodeTuningResult(whole + "x"));
  TuningResult result = someResult();
  for (size_t best : {0, 1, 3}) { // failed, not measured, not there
    result.best = best;
    EXPECT_FALSE(decodeTuningResult(encodeTuningResult(result))) << best;
  }
}

TEST(TuningResults, AnyBytesAreHarmless) {
  std::string whole = encodeTuningResult(someResult());
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = whole;
      other[at] = char(other[at] ^ (1 << bit));
      if (auto result = decodeTuningResult(other)) {
        ASSERT_LT(result->best, result->times.size());
        EXPECT_TRUE(std::isfinite(result->times[result->best]->median));
      }
    }
}

TEST(TuningResults, TheMachineIsTheSameTwice) {
  EXPECT_EQ(tuningMachine(-1), tuningMachine(-1));
  EXPECT_NE(tuningMachine(-1).find(";threads="), std::string::npos);
}

} // namespace

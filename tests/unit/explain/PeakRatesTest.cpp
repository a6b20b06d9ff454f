#include "explain/PeakRates.h"

#include <gtest/gtest.h>

using namespace nereid::explain;

namespace {

TEST(PeakRates, KnownDevices) {
  auto h200 = peakRatesOf(90);
  ASSERT_TRUE(h200);
  EXPECT_EQ(h200->name, "NVIDIA H200");
  EXPECT_NEAR(h200->rate("fp16 product") / 1e12, 989, 5); // the data sheet's figure
  EXPECT_NEAR(h200->rate("fp8 product") / 1e12, 1979, 5);
  EXPECT_NEAR(h200->rate("fp32") / 1e12, 67, 6);
  EXPECT_NEAR(h200->bandwidth / 1e12, 4.8, 0.01);
  EXPECT_NEAR(peakRatesOf(80)->rate("fp16 product") / 1e12, 312, 1);
  EXPECT_EQ(h200->rate("poetry"), 0);
  EXPECT_FALSE(peakRatesOf(75));
}

TEST(PeakRates, ADeviceThatIsThere) {
  DeviceFigures figures{"my GPU", 66, 1000e3, 2000e3, 1024};
  auto machine = peakRatesOf(90, &figures);
  EXPECT_EQ(machine->name, "my GPU");
  EXPECT_NEAR(machine->rate("fp16 product"), 66 * 1e9 * 4096, 1);
  EXPECT_NEAR(machine->bandwidth, 2 * 2e9 * 128, 1);
}

} // namespace

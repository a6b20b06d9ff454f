// Measuring on CUDA devices, against a stand-in for the driver (fake_cuda.c): what is asked of it.
#include "runtime/measure/measure.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>

using namespace nereid;
using namespace nereid::runtime;

namespace {

class CudaMeter : public ::testing::Test {
protected:
  void SetUp() override {
    setenv("NEREID_LIBCUDA", FAKE_CUDA_PATH, 1);
    library = dlopen(FAKE_CUDA_PATH, RTLD_NOW);
    call<void (*)()>("fake_reset")();
    call<void (*)()>("fake_leave_contexts")();
  }
  template <typename Function> Function call(const char *name) {
    return reinterpret_cast<Function>(dlsym(library, name));
  }
  std::string record() {
    std::string text = call<const char *(*)()>("fake_record")();
    call<void (*)()>("fake_reset")();
    // Which device's context a call makes current is looked at elsewhere.
    size_t entered = text.rfind("set current ", 0) == 0 || text.rfind("retain ", 0) == 0
                         ? text.find('\n', text.find("set current ")) + 1
                         : 0;
    return text.substr(entered);
  }
  void *library = nullptr;
  void *stream = reinterpret_cast<void *>(0x77);
};

TEST_F(CudaMeter, TimesBetweenEventsWithAColdCache) {
  std::unique_ptr<Meter> meter;
  ASSERT_FALSE(cudaMeter(1, stream, meter));
  meter->setCold(true);
  for (int run = 0; run < 2; ++run) {
    ASSERT_FALSE(meter->begin());
    ASSERT_FALSE(meter->end());
  }
  std::string flush = "set abc000 268435456 to 0\n", event = "event on 0x77\n";
  EXPECT_EQ(record(), "allocate 268435456\n" + flush + event + event + flush + event + event);
  std::vector<double> times;
  ASSERT_FALSE(meter->collect(times));
  EXPECT_EQ(times, (std::vector<double>{1, 1}));
  EXPECT_EQ(record(), "wait for 0x77\n");
  ASSERT_FALSE(meter->collect(times)); // each time is given once
  EXPECT_TRUE(times.empty());
}

TEST_F(CudaMeter, ArraysAreSetAndCopiedOnTheStream) {
  std::unique_ptr<Meter> meter;
  ASSERT_FALSE(cudaMeter(0, stream, meter));
  record();
  void *array = reinterpret_cast<void *>(0x5000);
  std::unique_ptr<Saved> saved;
  ASSERT_FALSE(meter->zero(array, 64));
  ASSERT_FALSE(meter->save(array, 64, saved));
  ASSERT_FALSE(meter->restore(array, 64, *saved));
  saved.reset();
  EXPECT_EQ(record(), "set 5000 64 to 0\nallocate 64\ncopy 5000 to abc000 64\n"
                      "copy abc000 to 5000 64\nfree\n");
}

TEST_F(CudaMeter, WhatTheDriverRefuses) {
  std::unique_ptr<Meter> meter;
  auto fail = call<void (*)(const char *, int)>("fake_fail");
  ASSERT_FALSE(cudaMeter(0, stream, meter));
  meter->setCold(true);
  fail("cuMemAllocAsync", 2);
  ErrorPtr error = meter->begin();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, NRD_ERROR_RESOURCES);
  EXPECT_NE(error->summary.find("measure a kernel"), std::string::npos) << error->summary;
  fail("", 0);
  ASSERT_FALSE(cudaMeter(0, stream, meter));
  fail("cuStreamSynchronize", 700);
  ASSERT_FALSE(meter->begin());
  ASSERT_FALSE(meter->end());
  std::vector<double> times;
  error = meter->collect(times);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, NRD_ERROR_RUNTIME);
}

TEST_F(CudaMeter, HostMemoryIsCopied) {
  float values[8] = {};
  nrd_arg args[2] = {};
  args[0].kind = NRD_ARG_POINTER;
  args[0].memory = NRD_MEMORY_HOST;
  args[0].p = values + 2;
  args[0].low = values;
  args[0].high = values + 8;
  args[1].kind = NRD_ARG_INT;
  {
    cuda::HostCopies copies;
    ASSERT_FALSE(copies.make(args, 1));
    EXPECT_EQ(args[0].p, reinterpret_cast<void *>(0xdef000 + 8));
    EXPECT_EQ(args[0].high, reinterpret_cast<void *>(0xdef000 + 32));
    EXPECT_EQ(args[0].memory, NRD_MEMORY_CUDA + 1);
    std::string done = record();
    EXPECT_NE(done.find("allocate 32 at once\ncopy "), std::string::npos) << done;
    EXPECT_NE(done.find("to def000 32\nwait for "), std::string::npos) << done;
  }
  EXPECT_NE(record().find("free at once"), std::string::npos);
  auto fail = call<void (*)(const char *, int)>("fake_fail");
  fail("cuMemcpyAsync", 1);
  args[0].memory = NRD_MEMORY_HOST;
  cuda::HostCopies copies;
  ErrorPtr error = copies.make(args, 1);
  ASSERT_TRUE(error);
  EXPECT_NE(error->summary.find("copy to the GPU"), std::string::npos) << error->summary;
}

/// A device whose runs take a known time, on a clock of its own.
class Scripted final : public Meter {
public:
  explicit Scripted(double each, double resolution) : each(each), tells(resolution) {}
  ErrorPtr begin() override {
    began = now;
    now += cold ? 0.5 : 0;
    timed += 1;
    coldRuns += cold;
    start = now;
    return nullptr;
  }
  ErrorPtr end() override {
    times.push_back(now - start);
    return nullptr;
  }
  ErrorPtr collect(std::vector<double> &out) override {
    ++waits;
    out = std::exchange(times, {});
    return nullptr;
  }
  double resolution() const override { return tells; }
  ErrorPtr zero(void *, size_t) override { return nullptr; }
  ErrorPtr save(const void *, size_t, std::unique_ptr<Saved> &) override { return nullptr; }
  ErrorPtr restore(void *, size_t, const Saved &) override { return nullptr; }

  std::vector<double> run(nrd_measure_plan plan, size_t capacity = 1000) {
    std::vector<double> all;
    auto launch = [&]() -> ErrorPtr {
      now += each * (launches++ < 2 ? 10 : 1);
      return nullptr;
    };
    EXPECT_FALSE(measure(*this, launch, plan, capacity, all, [this] { return now / 1000; }));
    return all;
  }

  double each, tells, now = 0, began = 0, start = 0;
  unsigned launches = 0, timed = 0, coldRuns = 0, waits = 0;
  std::vector<double> times;
};

nrd_measure_plan planOf(double warmup, double duration, unsigned least, unsigned most, bool cold) {
  return {sizeof(nrd_measure_plan), warmup, duration, least, most, cold, {}};
}

TEST(Measure, AsLongAsThePlanSays) {
  Scripted device(/*each=*/1, /*resolution=*/0);
  std::vector<double> times = device.run(planOf(50, 20, 3, 0, false));
  EXPECT_EQ(times.size(), 20u);
  EXPECT_NEAR(times.front(), 1, 1e-9);               // the slow first runs are no part of it
  EXPECT_EQ(device.launches, 2 + 30 + times.size()); // two of 10 ms, thirty of 1 ms
}

TEST(Measure, AtLeastAndAtMost) {
  EXPECT_EQ(Scripted(10, 0).run(planOf(0, 1, 7, 0, false)).size(), 7u);
  EXPECT_EQ(Scripted(1, 0).run(planOf(0, 100, 1, 9, false)).size(), 9u);
  EXPECT_EQ(Scripted(1, 0).run(planOf(0, 100, 50, 0, false), /*capacity=*/4).size(), 4u);
  Scripted idle(0, 0.2); // a clock that tells nothing still comes to an end
  EXPECT_EQ(idle.run(planOf(0.01, 100, 1, 5, false)).size(), 5u);
}

TEST(Measure, QuickKernelsAreTimedInARow) {
  Scripted quick(/*each=*/0.01, /*resolution=*/0.2);
  std::vector<double> times = quick.run(planOf(1, 4, 3, 0, false));
  EXPECT_NEAR(times.front(), 0.01, 1e-9);
  EXPECT_GE(times.size(), 20u); // of twenty launches each
  EXPECT_LE(times.size(), 25u);
  EXPECT_LT(quick.waits, 20u); // and several of those before one wait
}

TEST(Measure, ColdCachesOneByOne) {
  Scripted device(/*each=*/0.01, /*resolution=*/0.2);
  std::vector<double> times = device.run(planOf(1, 10, 3, 0, true));
  EXPECT_EQ(device.coldRuns, times.size()); // warming up does not empty them
  EXPECT_NEAR(times.front(), 0.01, 1e-9);
  EXPECT_LT(device.now, 10 * 6 + 20); // emptying them takes long, and counts
  EXPECT_GT(times.size(), 50u);
}

TEST(Measure, WhatFails) {
  Scripted device(1, 0);
  std::vector<double> times;
  unsigned launches = 0;
  auto launch = [&]() -> ErrorPtr {
    return ++launches == 6 ? makeError(NRD_ERROR_RUNTIME, "", diag::TunerGridFailed, "f") : nullptr;
  };
  EXPECT_TRUE(measure(device, launch, planOf(0, 10, 100, 0, false), 100, times));
  EXPECT_EQ(launches, 6u);
}

} // namespace

// Measuring on CUDA devices, against a stand-in for the driver (fake_cuda.c): what is asked of it.
#include "runtime/tuner/measure.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>

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
    return text;
  }
  void *library = nullptr;
  void *stream = reinterpret_cast<void *>(0x77);
};

TEST_F(CudaMeter, TimesBetweenEventsWithAColdCache) {
  std::unique_ptr<Meter> meter;
  ASSERT_FALSE(cudaMeter(1, stream, meter));
  EXPECT_NE(record().find("allocate 268435456"), std::string::npos);
  for (int run = 0; run < 2; ++run) {
    ASSERT_FALSE(meter->begin());
    ASSERT_FALSE(meter->end());
  }
  std::string flush = "set abc000 268435456 to 0\n", event = "event on 0x77\n";
  EXPECT_EQ(record(), flush + event + event + flush + event + event);
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
  fail("cuMemAllocAsync", 2);
  ErrorPtr error = cudaMeter(0, stream, meter);
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

} // namespace

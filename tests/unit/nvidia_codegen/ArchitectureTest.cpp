#include "targets/nvidia/codegen/Architecture.h"

#include <gtest/gtest.h>

using namespace nereid::nvidia;

namespace {

Architecture read(int sm) {
  return llvm::cantFail(architectureFor(sm));
}

TEST(Architecture, Names) {
  EXPECT_EQ(read(80).name(), "sm_80");
  EXPECT_EQ(read(89).name(), "sm_89");
  EXPECT_EQ(read(90).name(), "sm_90a");
  EXPECT_EQ(read(100).name(), "sm_100a");
  EXPECT_EQ(read(120).name(), "sm_120a");
}

TEST(Architecture, Features) {
  EXPECT_TRUE(read(90).hasWgmma());
  EXPECT_TRUE(read(90).hasTma());
  EXPECT_FALSE(read(89).hasTma());
  EXPECT_TRUE(read(89).hasFp8Mma());
  EXPECT_FALSE(read(86).hasFp8Mma());
  EXPECT_FALSE(read(100).hasWgmma());
  EXPECT_TRUE(read(80).hasCpAsync());
  EXPECT_FALSE(read(120).hasRegisterReallocation());
}

TEST(Architecture, SharedMemory) {
  EXPECT_EQ(read(80).maxSharedPerBlock(), 163 * 1024);
  EXPECT_EQ(read(86).maxSharedPerBlock(), 99 * 1024);
  EXPECT_EQ(read(89).maxSharedPerBlock(), 99 * 1024);
  EXPECT_EQ(read(90).maxSharedPerBlock(), 232448);
  EXPECT_EQ(read(100).maxSharedPerBlock(), 232448);
  EXPECT_EQ(read(120).maxSharedPerBlock(), 99 * 1024);
  EXPECT_EQ(read(90).sharedPerMultiprocessor(), 228 * 1024);
  EXPECT_EQ(read(89).maxThreadsPerMultiprocessor(), 1536);
}

TEST(Architecture, Unknown) {
  auto arch = architectureFor(75);
  ASSERT_FALSE(bool(arch));
  EXPECT_EQ(llvm::toString(arch.takeError()),
            "unknown GPU architecture `cuda:75`: expected one of `cuda:80`, `cuda:86`, `cuda:87`, "
            "`cuda:89`, `cuda:90`, `cuda:100`, `cuda:103`, `cuda:120`, `cuda:121`");
}

TEST(Architecture, PtxVersion) {
  EXPECT_EQ(ptxVersionFor(read(90), std::nullopt), 80);
  EXPECT_EQ(ptxVersionFor(read(90), 87), 87);
  EXPECT_EQ(ptxVersionFor(read(120), 84), 87); // the assembler will say that it is too old
  EXPECT_EQ(ptxVersionFor(read(90), 95), newestPtxVersion);
}

} // namespace

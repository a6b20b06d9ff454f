// Options by name, and the texts of errors that need a broken machine to happen.
#include "runtime/options.h"
#include "runtime/specialise.h"

#include <gtest/gtest.h>

using namespace nereid;
using namespace nereid::runtime;

static std::string set(Options &options, std::string_view name, frontend::Value value) {
  ErrorPtr error = options.set(name, nrd_value{std::move(value), "", {}, {}});
  return error ? error->pythonClass + ": " + error->summary : "";
}

TEST(Options, IdentifySets) {
  Options a, b, none;
  EXPECT_EQ(none.id(), 0u);
  EXPECT_EQ(set(a, "num_warps", frontend::Value::integer(8)), "");
  EXPECT_EQ(set(b, "num_warps", frontend::Value::integer(8)), "");
  EXPECT_EQ(a.id(), b.id());
  EXPECT_EQ(set(b, "debug", true), "");
  EXPECT_NE(a.id(), b.id());
  EXPECT_EQ(b.text(), "debug=1;num_warps=8;");
  // What concerns GPUs makes no other kernel of the CPU.
  EXPECT_EQ(b.text(Backend::Cpu), "debug=1;");
  EXPECT_EQ(a.id(Backend::Cpu), 0u);
  // The number of threads does not make another kernel.
  EXPECT_EQ(set(a, "num_threads", frontend::Value::integer(3)), "");
  EXPECT_EQ(a.text(), "num_warps=8;");
  EXPECT_EQ(a.threads(), 3u);
}

TEST(Options, UnknownOption) { // UnknownOptionNear
  Options options;
  EXPECT_EQ(set(options, "num_warp", frontend::Value::integer(4)),
            "KeyError: unknown option `num_warp`, did you mean `num_warps`?");
  EXPECT_EQ(set(options, "zzz", frontend::Value::integer(4)), "KeyError: unknown option `zzz`");
}

TEST(Options, BadOptionValue) {
  Options options;
  EXPECT_EQ(set(options, "num_warps", frontend::Value::integer(3)),
            "AssertionError: num_warps must be a power of 2, found 3"); // WarpsNotPowerOfTwo
  EXPECT_EQ(set(options, "num_ctas", frontend::Value::integer(3)),
            "ValueError: option `num_ctas` expects 1, 2, 4, 8 or 16, found `3`");
  EXPECT_EQ(set(options, "num_ctas", frontend::Value::integer(16)), "");
  EXPECT_EQ(set(options, "debug", 1.5),
            "ValueError: option `debug` expects True or False, found `1.5`");
  EXPECT_EQ(set(options, "features", true),
            "ValueError: option `features` expects a string, found `True`");
  EXPECT_EQ(set(options, "num_threads", frontend::Value::integer(-1)),
            "ValueError: option `num_threads` expects an integer from 0 to 2147483647, found `-1`");
  EXPECT_EQ(set(options, "num_threads", frontend::Value::integer(int64_t(1) << 33)),
            "ValueError: option `num_threads` expects an integer from 0 to 2147483647, found "
            "`8589934592`");
  EXPECT_EQ(set(options, "triton_version", frontend::Value::integer(3)),
            "ValueError: option `triton_version` expects a release of Triton such as `3.8`, as a "
            "string, found `3`");
}

TEST(Options, UnknownTarget) {
  Options options;
  EXPECT_EQ(set(options, "target", std::string("hip")),
            "ValueError: unknown target `hip`: expected `cpu`, `cuda` or an architecture such as "
            "`cuda:90`");
  for (const char *text : {"cpu", "cuda", "cuda:90", "cuda:90:32", "sm_90", "cuda:sm_90a"})
    EXPECT_EQ(set(options, "target", std::string(text)), "") << text;
  for (const char *text : {"", "cuda:", "cuda:9", "cuda:abc", "sm", "gpu"})
    EXPECT_NE(set(options, "target", std::string(text)), "") << text;
}

TEST(Options, TargetNames) {
  EXPECT_EQ(TargetName::parse("cuda:90:32")->text(), "cuda:90");
  EXPECT_EQ(TargetName::parse("sm_90a")->text(), "cuda:90");
  EXPECT_EQ(TargetName::parse("cuda")->text(), "cuda");
  EXPECT_EQ(TargetName::parse("cpu")->text(), "cpu");
  EXPECT_NE(TargetName::parse("cuda:80")->code(), TargetName::parse("cuda:90")->code());
  EXPECT_NE(TargetName::parse("cuda")->code(), TargetName::parse("cpu")->code());
}

TEST(Errors, OfABrokenMachine) {
  EXPECT_EQ(makeError(NRD_ERROR_RESOURCES, "", diag::NoThreads)->summary,
            "the system refuses to start threads");
  EXPECT_EQ(
      makeError(NRD_ERROR_RESOURCES, "", diag::NoScratchMemory, 64)->message,
      "run-time error: out of memory: the kernel needs 64 bytes of working memory for each thread");
  EXPECT_EQ(makeError(NRD_ERROR_COMPILE, "", diag::TargetRefuses, "why")->summary,
            "the target cannot compile this kernel: why");
  EXPECT_EQ(makeError(NRD_ERROR_RUNTIME, "", diag::AtPlace, "f.py", 3)->kind, NRD_ERROR_INTERNAL)
      << "a note alone is no error";
}

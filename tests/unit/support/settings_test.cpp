#include "support/settings.h"

#include "support/bad_settings.h"
#include "support/diagnostics.h"
#include "support/first_use.h"
#include "support/packages.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace nereid;

static Settings read(std::vector<std::string_view> environment, DiagnosticEngine &diagnostics) {
  return Settings::read(environment, diagnostics);
}

TEST(Settings, HaveDefaults) {
  DiagnosticEngine diagnostics;
  Settings settings = read({"PATH=/bin", "HOME=/root"}, diagnostics);
  EXPECT_FALSE(settings.strict);
  EXPECT_EQ(settings.cpuThreads, 0);
  EXPECT_EQ(settings.tritonVersion, "");
  EXPECT_TRUE(diagnostics.diagnostics().empty());
}

TEST(Settings, AreTyped) {
  DiagnosticEngine diagnostics;
  Settings settings = read({"NEREID_STRICT=1", "NEREID_CPU_THREADS=8", "NEREID_CACHE_DIR=/tmp/c",
                            "NEREID_CHECKED=on", "NEREID_DEBUG=no"},
                           diagnostics);
  EXPECT_TRUE(settings.strict);
  EXPECT_TRUE(settings.checked);
  EXPECT_FALSE(settings.debug);
  EXPECT_EQ(settings.cpuThreads, 8);
  EXPECT_EQ(settings.cacheDir, "/tmp/c");
  EXPECT_TRUE(diagnostics.diagnostics().empty());
}

TEST(Settings, HonourTritonsNamesAfterTheirOwn) {
  DiagnosticEngine diagnostics;
  EXPECT_TRUE(read({"TRITON_PRINT_AUTOTUNING=1"}, diagnostics).printAutotuning);
  EXPECT_FALSE(read({"TRITON_PRINT_AUTOTUNING=1", "NEREID_PRINT_AUTOTUNING=0"}, diagnostics)
                   .printAutotuning);
  EXPECT_TRUE(read({"TRITON_DEBUG=1"}, diagnostics).debug);
  EXPECT_TRUE(diagnostics.diagnostics().empty());
}

TEST(Settings, ReportBadValues) {
  DiagnosticEngine diagnostics;
  Settings settings = read({"NEREID_CPU_THREADS=many", "NEREID_STRICT=2"}, diagnostics);
  EXPECT_EQ(settings.cpuThreads, 0);
  ASSERT_EQ(diagnostics.errorCount(), 2u);
  EXPECT_EQ(diagnostics.diagnostics()[0].name(), "BadSettingValue");
  EXPECT_EQ(diagnostics.renderAll(),
            "error: setting `NEREID_STRICT` expects `0` or `1`, found `2`\n"
            "error: setting `NEREID_CPU_THREADS` expects an integer of at least 0, found `many`\n");
  diagnostics.clear();
  settings = read({"NEREID_OVERLAP_STORES=group", "NEREID_WARP_SPECIALIZE=always",
                   "NEREID_TENSOR_COPIES=1", "NEREID_SKIP_SCALING=1"},
                  diagnostics);
  EXPECT_EQ(settings.overlapStores, "");
  EXPECT_EQ(settings.warpSpecialise, "always");
  EXPECT_EQ(diagnostics.renderAll(),
            "error: setting `NEREID_OVERLAP_STORES` expects `groups` or `never`, found "
            "`group`\n"
            "error: setting `NEREID_SKIP_SCALING` expects `divided`, `always` or `never`, found "
            "`1`\n"
            "error: setting `NEREID_TENSOR_COPIES` expects `always`, `never` or `auto`, found "
            "`1`\n");
  diagnostics.clear();
  EXPECT_EQ(read({"NEREID_CPU_THREADS=4"}, diagnostics).cpuThreads, 4);
  EXPECT_FALSE(diagnostics.hasErrors());
}

TEST(Settings, KeepBadValuesOfTheProcess) {
  DiagnosticEngine ignored;
  EXPECT_TRUE(badSettings().empty());
  Settings::setOverrides({"NEREID_TUNING_BUDGET=-1", "NEREID_CACHE=maybe", "TRITON_F32_DEFAULT=fp8",
                          "NEREID_TRITON_VERSION=new", "NEREID_TIME=1"},
                         ignored);
  EXPECT_EQ(badSettings(),
            (std::vector<BadSetting>{
                {"NEREID_CACHE", "`0` or `1`", "maybe"},
                {"NEREID_TUNING_BUDGET", "an integer of at least 0", "-1"},
                {"NEREID_TRITON_VERSION", "a release of Triton such as `3.8`", "new"},
                {"TRITON_F32_DEFAULT", "`ieee`, `tf32`, `tf32x3`, `bf16x3` or `bf16x6`", "fp8"}}));
  EXPECT_TRUE(Settings::current().time);
  Settings::setOverrides({"NEREID_TIME=1", "NEREID_CACHE=no", "NEREID_ASSEMBLER=ptxas"}, ignored);
  EXPECT_TRUE(badSettings().empty());
  // Other values that are bad, the same settings: they are read again all the same.
  Settings::setOverrides({"NEREID_TIME=1", "NEREID_CACHE=0", "NEREID_ASSEMBLER=as"}, ignored);
  Settings::setOverrides({"NEREID_TIME=1", "NEREID_CACHE=0", "NEREID_ASSEMBLER=ld"}, ignored);
  ASSERT_EQ(badSettings().size(), 1u);
  EXPECT_EQ(badSettings()[0].value, "ld");
  Settings::setOverrides({}, ignored);
  EXPECT_TRUE(badSettings().empty());
}

TEST(Settings, ReportUnknownNames) {
  DiagnosticEngine diagnostics;
  read({"NEREID_STRIKT=1", "NEREID_COLOUR_OF_THE_SKY=blue", "OTHER_STRICT=1"}, diagnostics);
  ASSERT_EQ(diagnostics.diagnostics().size(), 2u);
  EXPECT_EQ(diagnostics.diagnostics()[0].name(), "UnknownSettingNear");
  EXPECT_EQ(diagnostics.diagnostics()[0].message(),
            "unknown setting `NEREID_STRIKT`, did you mean `NEREID_STRICT`?");
  EXPECT_EQ(diagnostics.diagnostics()[1].name(), "UnknownSetting");
  EXPECT_EQ(diagnostics.diagnostics()[1].message(), "unknown setting `NEREID_COLOUR_OF_THE_SKY`");
  EXPECT_FALSE(diagnostics.hasErrors()); // warnings
}

TEST(Settings, AreReadAgainOnRequest) {
  DiagnosticEngine diagnostics;
  const Settings &before = Settings::current();
  EXPECT_FALSE(before.time);
  setenv("NEREID_TIME", "1", 1);
  EXPECT_FALSE(Settings::current().time);
  EXPECT_TRUE(Settings::reload(diagnostics).time);
  EXPECT_TRUE(Settings::current().time);
  EXPECT_FALSE(before.time); // still valid
  unsetenv("NEREID_TIME");
  Settings::reload(diagnostics);
}

TEST(Settings, AreListedWithHelp) {
  for (const SettingInfo &info : allSettings()) {
    EXPECT_TRUE(info.variable.starts_with("NEREID_")) << info.variable;
    EXPECT_FALSE(info.help.empty()) << info.variable;
    EXPECT_FALSE(info.alias.starts_with("NEREID_")) << info.variable;
    EXPECT_FALSE(info.alias.starts_with('!') && info.type != SettingInfo::Type::Bool)
        << info.variable;
  }
}

TEST(Settings, HonourNamesOfTheOppositeMeaning) {
  DiagnosticEngine diagnostics;
  EXPECT_FALSE(read({"TRITON_DISABLE_LINE_INFO=1"}, diagnostics).lineInfo);
  EXPECT_TRUE(read({"TRITON_DISABLE_LINE_INFO=0"}, diagnostics).lineInfo);
  EXPECT_TRUE(read({"TRITON_DISABLE_LINE_INFO=1", "NEREID_LINE_INFO=1"}, diagnostics).lineInfo);
}

TEST(Settings, TakeWhatTritonTakesForFalse) {
  DiagnosticEngine diagnostics;
  EXPECT_FALSE(read({"TRITON_DEBUG=2"}, diagnostics).debug);
  EXPECT_TRUE(read({"TRITON_DEBUG=Yes"}, diagnostics).debug);
  EXPECT_TRUE(diagnostics.diagnostics().empty());
}

TEST(Settings, KnowWhatDecidesTheCode) {
  DiagnosticEngine diagnostics;
  EXPECT_EQ(read({"NEREID_TIME=1", "NEREID_FP_FUSION=1"}, diagnostics).codeIdentity, 0u);
  uint64_t without = read({"TRITON_DEFAULT_FP_FUSION=0"}, diagnostics).codeIdentity;
  EXPECT_NE(without, 0u);
  EXPECT_EQ(read({"NEREID_FP_FUSION=0"}, diagnostics).codeIdentity, without);
  EXPECT_NE(read({"PTXAS_OPTIONS=-v"}, diagnostics).codeIdentity, without);
}

TEST(Settings, OfAProgramGoBeforeTheEnvironment) {
  DiagnosticEngine diagnostics;
  setenv("TRITON_KERNEL_DUMP", "0", 1);
  EXPECT_TRUE(Settings::setOverrides({"NEREID_KERNEL_DUMP=1"}, diagnostics).kernelDump);
  EXPECT_TRUE(Settings::refresh().kernelDump);
  EXPECT_TRUE(diagnostics.diagnostics().empty());
  EXPECT_FALSE(Settings::setOverrides({}, diagnostics).kernelDump);
  Settings::setOverrides({"NEREID_CPU_THREADS=many"}, diagnostics);
  EXPECT_TRUE(diagnostics.hasErrors());
  Settings::setOverrides({}, diagnostics);
  unsetenv("TRITON_KERNEL_DUMP");
  EXPECT_EQ(&Settings::refresh(), &Settings::current());
}

#if !__has_feature(thread_sanitizer) // which does not follow what happens after a fork
/// Forks while another thread does `work` again and again; in the child, `work` must come to an
/// end.
static void forkDuring(void (*work)()) {
  std::atomic<bool> stop{false};
  std::atomic<int> done{0};
  std::thread other([&] {
    while (!stop) {
      work();
      ++done;
    }
  });
  while (!done) {
  }
  for (int round = 0; round < 10; ++round) {
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      work();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "round " << round;
    if (testing::Test::HasFailure())
      break;
  }
  stop = true;
  other.join();
}

TEST(Settings, MayBeReadWhileAnotherThreadForks) {
  nereid::DiagnosticEngine ignored;
  // So many that most of the time goes into reading these.
  nereid::Settings::setOverrides(
      std::vector<std::string>(20000, "A_VARIABLE_OF_WHICH_NOTHING_IS_KNOWN=a long value"),
      ignored);
  forkDuring([] {
    nereid::DiagnosticEngine diagnostics;
    nereid::Settings::readProcess(diagnostics);
  });
  nereid::Settings::setOverrides({}, ignored);
}

TEST(Packages, MayBeAskedForWhileAnotherThreadForks) {
  nereid::setPackageFolders(std::vector<std::string>(20000, "/a/folder/with/packages/in/it"));
  forkDuring([] { nereid::packageFolders(); });
  nereid::setPackageFolders({});
}

TEST(FirstUse, MayBeCaughtByAFork) {
  static constinit nereid::FirstUse<const int> value;
  static auto make = [] {
    usleep(200000);
    return 7;
  };
  std::thread other([] { value.get(make); });
  usleep(50000);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    _exit(value.get(make));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  other.join();
}
#endif

TEST(FirstUse, KeepsOneValue) {
  static constinit nereid::FirstUse<std::vector<int>> value;
  std::vector<std::thread> threads;
  std::atomic<std::vector<int> *> seen{nullptr};
  std::atomic<bool> same{true};
  std::atomic<int> ready{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < 4) {
      }
      auto *mine = &value.get([&] {
        usleep(10000);
        return std::vector<int>(1, t);
      });
      std::vector<int> *before = nullptr;
      if (!seen.compare_exchange_strong(before, mine))
        same = same && before == mine;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_TRUE(same);
  EXPECT_EQ(value.get().size(), 1u);
}

TEST(Settings, NameFoldersOfKernels) {
  DiagnosticEngine diagnostics;
  EXPECT_EQ(read({"TRITON_DUMP_DIR=/d"}, diagnostics).dumpFolder("AB"), "/d/AB");
  EXPECT_EQ(read({"TRITON_HOME=/h"}, diagnostics).overrideFolder("AB"), "/h/.triton/override/AB");
}

TEST(Settings, MayMeanOneKernel) {
  EXPECT_TRUE(Settings::concerns("1", "k") && Settings::concerns("k", "k"));
  EXPECT_FALSE(Settings::concerns("0", "k") || Settings::concerns("", "k") ||
               Settings::concerns("other", "k"));
}

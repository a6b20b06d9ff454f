#include "support/settings.h"

#include "support/diagnostics.h"

#include <gtest/gtest.h>

#include <cstdlib>

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
            "error: setting `NEREID_CPU_THREADS` expects an integer, found `many`\n");
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

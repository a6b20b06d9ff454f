// The registry as a whole. That every diagnostic is named by a test is checked by
// scripts/check_diagnostics.py, over all kinds of test.
#include "support/diagnostics.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>

using namespace nereid;

TEST(Registry, MessagesReadAsAgreed) {
  std::set<std::string_view> names, formats;
  for (const DiagInfo &info : allDiagnostics()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(formats.insert(info.format).second) << info.name << ": same text as another";
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(info.name[0]))) << info.name;
    EXPECT_FALSE(std::isupper(static_cast<unsigned char>(info.format[0]))) << info.name;
    EXPECT_FALSE(info.format.ends_with('.')) << info.name;
    size_t ticks = 0;
    for (char c : info.format)
      ticks += c == '`';
    EXPECT_EQ(ticks % 2, 0u) << info.name << ": unbalanced `";
  }
}

TEST(Registry, FormatsFillInParameters) {
  DiagArg args[] = {std::string_view("x"), int64_t(-3)};
  EXPECT_EQ(formatMessage("{1} of `{0}`, {{braces}", args), "-3 of `x`, {braces}");
}

TEST(Registry, KindsHaveNames) {
  EXPECT_EQ(kindName(DiagKind::Error), "error");
  EXPECT_EQ(kindName(DiagKind::Runtime), "run-time error");
  EXPECT_EQ(kindName(DiagKind::Bug), "internal error");
  EXPECT_EQ(kindName(DiagKind::Warning), "warning");
  EXPECT_EQ(kindName(DiagKind::Note), "note");
}

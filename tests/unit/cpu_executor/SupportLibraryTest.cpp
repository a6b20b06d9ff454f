// device_print's text for every element kind, and the symbol table.
#include "targets/cpu/support_library/SupportLibrary.h"

#include "targets/cpu/executor/Executor.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace nereid::cpu;

namespace {

const int32_t grid[3] = {2, 3, 4};

std::string printed(ElementKind kind, uint64_t bits, bool hex = false) {
  Site site;
  site.text = " x: ";
  site.hex = hex;
  site.operands = {{kind, {}}};
  std::string line = formatPrint(site, 0, grid, 0, &bits);
  EXPECT_EQ(line.substr(0, 23), "pid (0, 0, 0) idx () x:");
  return line.substr(24, line.size() - 25);
}

TEST(Print, OneLineAnElementWithPaddedIndices) {
  int32_t data[2 * 11];
  for (int i = 0; i < 22; ++i)
    data[i] = i - 1;
  Site site;
  site.text = " x: ";
  site.operands = {{ElementKind::I32, {2, 11}}};
  std::string text = formatPrint(site, 0, grid, 1 + 2 * (2 + 3 * 3), data);
  EXPECT_EQ(text.substr(0, 36), "pid (1, 2, 3) idx (0,  0) x: -1\npid ");
  EXPECT_NE(text.find("pid (1, 2, 3) idx (1, 10) x: 20\n"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 22);
}

TEST(Print, SeveralOperandsAreNumberedAndNoneIsALine) {
  Site site;
  site.text = " v: ";
  site.operands = {{ElementKind::F32, {}}, {ElementKind::I64, {}}};
  int64_t value = -9;
  EXPECT_EQ(formatPrint(site, 1, grid, 0, &value), "pid (0, 0, 0) idx () v: (operand 1) -9\n");
  site.operands.clear();
  site.text = " here";
  EXPECT_EQ(formatPrint(site, 0, grid, 0, nullptr), "pid (0, 0, 0) here\n");
}

TEST(Print, EveryKind) {
  EXPECT_EQ(printed(ElementKind::Bool, 1), "1");
  EXPECT_EQ(printed(ElementKind::I8, 0xff), "-1");
  EXPECT_EQ(printed(ElementKind::U8, 0xff), "255");
  EXPECT_EQ(printed(ElementKind::I16, 0x8000), "-32768");
  EXPECT_EQ(printed(ElementKind::U16, 0x8000), "32768");
  EXPECT_EQ(printed(ElementKind::U32, 0xffffffff), "4294967295");
  EXPECT_EQ(printed(ElementKind::I64, ~uint64_t(0)), "-1");
  EXPECT_EQ(printed(ElementKind::U64, ~uint64_t(0)), "18446744073709551615");
  EXPECT_EQ(printed(ElementKind::F32, 0x3fc00000), "1.500000");
  EXPECT_EQ(printed(ElementKind::F64, 0x3ff8000000000000), "1.500000");
  EXPECT_EQ(printed(ElementKind::F16, 0x3e00), "1.500000");
  EXPECT_EQ(printed(ElementKind::F16, 0x7c00), "inf");
  EXPECT_EQ(printed(ElementKind::BF16, 0xbfc0), "-1.500000");
  EXPECT_EQ(printed(ElementKind::F8E5M2, 0x7c), "inf");
  EXPECT_EQ(printed(ElementKind::F8E5M2, 0x01), "0.000015");
  EXPECT_EQ(printed(ElementKind::F8E4M3FN, 0x7e), "448.000000");
  EXPECT_EQ(printed(ElementKind::F8E4M3FN, 0x7f), "nan");
  EXPECT_EQ(printed(ElementKind::Pointer, 0x1234), "0x0000000000001234");
  EXPECT_EQ(printed(ElementKind::I16, 0x00ab, true), "0x00ab");
}

void printProgram(const void *, LaunchRecord *info, int64_t begin, int64_t end, void *) {
  for (int64_t p = begin; p < end; ++p) {
    int32_t value = int32_t(p) * 10;
    nereid_cpu_print(info, p, 0, 0, &value);
  }
}

TEST(Print, GoesToTheLaunchsSink) {
  SiteTable table;
  table.sites.resize(1);
  table.sites[0].text = " value: ";
  table.sites[0].operands = {{ElementKind::I32, {}}};
  std::string seen;
  LaunchOptions options;
  options.sites = &table;
  options.print = {[](void *user, const char *text, size_t length) {
                     static_cast<std::string *>(user)->append(text, length);
                   },
                   &seen};
  int32_t two[3] = {2, 1, 1};
  options.threads = 1;
  ASSERT_TRUE(run(printProgram, nullptr, two, options));
  EXPECT_EQ(seen, "pid (0, 0, 0) idx () value: 0\npid (1, 0, 0) idx () value: 10\n");
}

TEST(Symbols, AreThoseOfTheAbi) {
  bool sawFail = false;
  for (const Symbol &symbol : supportSymbols()) {
    EXPECT_NE(symbol.address, nullptr);
    sawFail |= symbol.address == reinterpret_cast<void *>(&nereid_cpu_fail);
  }
  EXPECT_TRUE(sawFail);
}

} // namespace

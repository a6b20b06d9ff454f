// device_print's text.
#include "targets/cpu/support_library/SupportLibrary.h"

#include "targets/cpu/executor/Executor.h"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace nereid::cpu {
namespace {

struct KindInfo {
  int bytes;
  bool isFloat, isSigned;
  int exponentBits, mantissaBits; // floats narrower than 32 bits
};

KindInfo infoOf(ElementKind kind) {
  switch (kind) {
  case ElementKind::Bool:
  case ElementKind::U8:
    return {1, false, false, 0, 0};
  case ElementKind::I8:
    return {1, false, true, 0, 0};
  case ElementKind::I16:
    return {2, false, true, 0, 0};
  case ElementKind::U16:
    return {2, false, false, 0, 0};
  case ElementKind::I32:
    return {4, false, true, 0, 0};
  case ElementKind::U32:
    return {4, false, false, 0, 0};
  case ElementKind::I64:
    return {8, false, true, 0, 0};
  case ElementKind::U64:
  case ElementKind::Pointer:
    return {8, false, false, 0, 0};
  case ElementKind::F16:
    return {2, true, true, 5, 10};
  case ElementKind::BF16:
    return {2, true, true, 8, 7};
  case ElementKind::F32:
    return {4, true, true, 8, 23};
  case ElementKind::F64:
    return {8, true, true, 11, 52};
  case ElementKind::F8E4M3FN:
    return {1, true, true, 4, 3};
  case ElementKind::F8E5M2:
    return {1, true, true, 5, 2};
  }
  __builtin_unreachable();
}

uint64_t loadBits(const void *data, int64_t index, int bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char *>(data) + index * bytes, bytes);
  return bits;
}

// Any of the float kinds as a double, exactly.
double toDouble(uint64_t bits, ElementKind kind, const KindInfo &info) {
  if (kind == ElementKind::F64) {
    double value;
    std::memcpy(&value, &bits, 8);
    return std::isnan(value) ? std::nan("") : value; // no `-nan`: its sign says nothing
  }
  int exponent = int(bits >> info.mantissaBits) & ((1 << info.exponentBits) - 1);
  uint64_t mantissa = bits & ((uint64_t(1) << info.mantissaBits) - 1);
  bool negative = bits >> (info.exponentBits + info.mantissaBits) & 1;
  int bias = (1 << (info.exponentBits - 1)) - 1;
  double value;
  bool top = exponent == (1 << info.exponentBits) - 1;
  if (kind == ElementKind::F8E4M3FN ? top && mantissa == 7 : top && mantissa != 0)
    value = std::nan("");
  else if (top && kind != ElementKind::F8E4M3FN)
    value = INFINITY;
  else if (exponent == 0)
    value = std::ldexp(double(mantissa), 1 - bias - info.mantissaBits);
  else
    value = std::ldexp(double(mantissa | uint64_t(1) << info.mantissaBits),
                       exponent - bias - info.mantissaBits);
  return negative && !std::isnan(value) ? -value : value;
}

void appendValue(std::string &out, const PrintOperand &operand, bool hex, const void *data,
                 int64_t index) {
  char text[400]; // %f of the largest double has 316 characters
  KindInfo info = infoOf(operand.kind);
  uint64_t bits = loadBits(data, index, info.bytes);
  if (hex || operand.kind == ElementKind::Pointer)
    std::snprintf(text, sizeof text, "0x%0*" PRIx64, info.bytes * 2, bits);
  else if (info.isFloat)
    std::snprintf(text, sizeof text, "%f", toDouble(bits, operand.kind, info));
  else if (info.isSigned)
    std::snprintf(text, sizeof text, "%" PRId64,
                  int64_t(bits << (64 - 8 * info.bytes)) >> (64 - 8 * info.bytes));
  else
    std::snprintf(text, sizeof text, "%" PRIu64, bits);
  out += text;
}

} // namespace

std::string formatPrint(const Site &site, int operand, const int32_t grid[3], int64_t program,
                        const void *data) {
  const PrintOperand *value =
      size_t(operand) < site.operands.size() ? &site.operands[operand] : nullptr;
  int64_t plane = int64_t(grid[0]) * grid[1];
  char text[96];
  std::snprintf(text, sizeof text, "pid (%" PRId64 ", %" PRId64 ", %" PRId64 ")", program % grid[0],
                program / grid[0] % grid[1], program / plane);
  std::string head = text, tail = ")" + site.text;
  if (!value)
    return head + site.text + "\n";
  head += " idx (";
  if (site.operands.size() > 1)
    tail += "(operand " + std::to_string(operand) + ") ";

  int64_t count = 1;
  std::vector<int> widths;
  for (int64_t size : value->shape) {
    count *= size;
    widths.push_back(int(std::to_string(size - 1).size()));
  }
  std::string out;
  for (int64_t i = 0; i < count; ++i) {
    out += head;
    int64_t stride = count;
    for (size_t d = 0; d < value->shape.size(); ++d) {
      stride /= value->shape[d];
      std::snprintf(text, sizeof text, "%s%*" PRId64, d ? ", " : "", widths[d],
                    i / stride % value->shape[d]);
      out += text;
    }
    out += tail;
    appendValue(out, *value, site.hex, data, i);
    out += '\n';
  }
  return out;
}

} // namespace nereid::cpu

extern "C" void nereid_cpu_print(nereid::cpu::LaunchRecord *info, int64_t program, int32_t site,
                                 int32_t operand, const void *data) {
  using namespace nereid::cpu;
  writeToPrintSink(info, formatPrint(info->sites->sites[site], operand, info->grid, program, data));
}

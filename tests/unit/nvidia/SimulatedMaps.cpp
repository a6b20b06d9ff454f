#include "SimulatedMaps.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

using namespace llvm;
using nereid::gpu::HostNumber;
using nereid::gpu::TensorMapElement;
using nereid::gpu::TensorMapPlan;

namespace nereid::test {

static bool isFloat(TensorMapElement element) {
  return element >= TensorMapElement::Float16;
}

uint8_t SimulatedMap::fill(unsigned index) const {
  if (!padsNaN)
    return 0;
  return index + 1 == strides[0] ? 0x7f : 0xff;
}

/// The rules of cuTensorMapEncodeTiled without interleaving.
static std::string refuse(const SimulatedMap &map) {
  if (map.rank < 1 || map.rank > 5)
    return "rank " + std::to_string(map.rank);
  if (map.base % 16 || !map.base)
    return "a misaligned base";
  for (unsigned d = 0; d < map.rank; ++d) {
    if (map.sizes[d] < 1 || map.sizes[d] > int64_t(UINT32_MAX) + 1)
      return "size " + std::to_string(map.sizes[d]);
    if (map.box[d] < 1 || map.box[d] > 256)
      return "a box of " + std::to_string(map.box[d]);
    if (d && (map.strides[d] < 16 || map.strides[d] % 16 || map.strides[d] >= int64_t(1) << 40))
      return "a stride of " + std::to_string(map.strides[d]) + " bytes";
  }
  int64_t row = map.box[0] * map.strides[0];
  if (row % 16)
    return "a box whose rows have " + std::to_string(row) + " bytes";
  if (map.swizzleBytes && row > map.swizzleBytes)
    return "a box whose rows are wider than the swizzle";
  if (map.padsNaN && !isFloat(map.element))
    return "integers filled with NaN";
  return "";
}

std::vector<SimulatedMap> makeMaps(const std::vector<TensorMapPlan> &plans, const uint64_t *slots,
                                   std::string &wrong) {
  std::vector<SimulatedMap> maps;
  for (const TensorMapPlan &plan : plans) {
    SimulatedMap map;
    map.rank = unsigned(plan.shape.size());
    map.swizzleBytes = plan.swizzleBytes;
    map.base = uint64_t(plan.base.evaluate(slots));
    map.element = plan.element;
    map.padsNaN = plan.padsNaN;
    for (unsigned d = 0; d < map.rank && d < 5; ++d) {
      unsigned from = map.rank - 1 - d;
      map.sizes[d] = plan.shape[from].evaluate(slots);
      map.box[d] = plan.box[from];
      map.strides[d] = plan.elementBytes * (d ? plan.strides[from].evaluate(slots) : 1);
    }
    if (std::string problem = refuse(map); !problem.empty()) {
      if (plan.optional)
        map = {};
      else
        wrong = "no tensor map can describe `" + plan.name + "`: " + problem;
    }
    maps.push_back(map);
  }
  return maps;
}

static bool readNumber(const json::Value *value, HostNumber &number) {
  const json::Array *steps = value ? value->getAsArray() : nullptr;
  if (!steps)
    return false;
  for (const json::Value &each : *steps) {
    const json::Array *step = each.getAsArray();
    if (!step || step->size() != 2 || !(*step)[0].getAsInteger() || !(*step)[1].getAsInteger())
      return false;
    number.steps.push_back(
        {HostNumber::Op(*(*step)[0].getAsInteger()), *(*step)[1].getAsInteger()});
  }
  return number.depth() >= 1 && number.depth() <= HostNumber::maxDepth;
}

static bool readNumbers(const json::Array *list, std::vector<HostNumber> &numbers) {
  return list && all_of(*list, [&](const json::Value &value) {
           return readNumber(&value, numbers.emplace_back());
         });
}

std::optional<std::vector<TensorMapPlan>> readPlans(const json::Value &value) {
  const json::Array *list = value.getAsArray();
  if (!list)
    return std::nullopt;
  std::vector<TensorMapPlan> plans;
  for (const json::Value &each : *list) {
    const json::Object *object = each.getAsObject();
    if (!object)
      return std::nullopt;
    TensorMapPlan &plan = plans.emplace_back();
    auto number = [&](StringRef name) { return object->getInteger(name).value_or(-1); };
    plan.name = object->getString("name").value_or("").str();
    plan.element = TensorMapElement(number("element"));
    plan.elementBytes = unsigned(number("element_bytes"));
    plan.swizzleBytes = unsigned(number("swizzle_bytes"));
    plan.padsNaN = object->getBoolean("pads_nan").value_or(false);
    plan.optional = object->getBoolean("optional").value_or(false);
    const json::Array *box = object->getArray("box");
    if (!box || !readNumber(object->get("base"), plan.base) ||
        !readNumbers(object->getArray("shape"), plan.shape) ||
        !readNumbers(object->getArray("strides"), plan.strides))
      return std::nullopt;
    for (const json::Value &size : *box)
      plan.box.push_back(uint32_t(size.getAsInteger().value_or(0)));
    if (plan.box.size() != plan.shape.size() || plan.strides.size() + 1 != plan.shape.size())
      return std::nullopt;
  }
  return plans;
}

static std::optional<uint64_t> reduceFloat(const fltSemantics &semantics, unsigned bits,
                                           StringRef operation, uint64_t old, uint64_t part) {
  APFloat a(semantics, APInt(bits, old)), b(semantics, APInt(bits, part));
  if (operation == "add")
    a.add(b, APFloat::rmNearestTiesToEven);
  else if (operation == "max")
    a = maxnum(a, b);
  else if (operation == "min")
    a = minnum(a, b);
  else
    return std::nullopt;
  return a.bitcastToAPInt().getZExtValue();
}

std::optional<uint64_t> reduceElement(TensorMapElement element, StringRef operation, uint64_t old,
                                      uint64_t part) {
  switch (element) {
  case TensorMapElement::Float16:
    return reduceFloat(APFloat::IEEEhalf(), 16, operation, old, part);
  case TensorMapElement::BFloat16:
    return reduceFloat(APFloat::BFloat(), 16, operation, old, part);
  case TensorMapElement::Float32: // adds only
    return operation == "add" ? reduceFloat(APFloat::IEEEsingle(), 32, operation, old, part)
                              : std::nullopt;
  case TensorMapElement::Float64:
    return operation == "add" ? reduceFloat(APFloat::IEEEdouble(), 64, operation, old, part)
                              : std::nullopt;
  case TensorMapElement::UInt8:
  case TensorMapElement::UInt16:
    return std::nullopt;
  default:
    break;
  }
  bool isSigned = element == TensorMapElement::Int32 || element == TensorMapElement::Int64;
  bool narrow = element == TensorMapElement::Int32 || element == TensorMapElement::UInt32;
  bool less = !isSigned ? old < part
              : narrow  ? int32_t(old) < int32_t(part)
                        : int64_t(old) < int64_t(part);
  auto result = StringSwitch<std::optional<uint64_t>>(operation)
                    .Case("add", old + part)
                    .Case("and", old & part)
                    .Case("or", old | part)
                    .Case("xor", old ^ part)
                    .Case("max", less ? part : old)
                    .Case("min", less ? old : part)
                    .Default(std::nullopt);
  return result && narrow ? std::optional<uint64_t>(uint32_t(*result)) : result;
}

} // namespace nereid::test

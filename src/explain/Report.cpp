#include "explain/Report.h"

#include "explain/Occupancy.h"

#include "llvm/ADT/STLExtras.h"

#include <climits>

namespace json = llvm::json;

namespace nereid::explain {
namespace {

json::Object at(const SourcePlace &place) {
  return json::Object{
      {"file", json::fixUTF8(place.file)}, {"line", place.line}, {"column", place.column}};
}

json::Object shapeJson(const Shape &shape) {
  std::string text;
  for (int64_t size : shape.sizes)
    text += std::to_string(size) + "x";
  return json::Object{{"sizes", json::Array(shape.sizes)},
                      {"element", shape.element},
                      {"bits", shape.bits},
                      {"text", text + shape.element}};
}

template <typename T, typename Each> json::Array list(const std::vector<T> &all, Each each) {
  json::Array array;
  for (const T &one : all)
    array.push_back(each(one));
  return array;
}

json::Value boundJson(int blocks) {
  return blocks == INT_MAX ? json::Value(nullptr) : json::Value(blocks);
}

json::Object occupancyJson(const Occupancy &o) {
  return json::Object{{"blocks", o.blocks},
                      {"warps", o.warps},
                      {"warps_most", o.warpsMost},
                      {"share", o.share()},
                      {"limit", std::string(o.limit())},
                      {"blocks_by_warps", o.blocksByWarps},
                      {"blocks_by_places", o.blocksByPlaces},
                      {"blocks_by_registers", boundJson(o.blocksByRegisters)},
                      {"blocks_by_shared", o.blocksByShared}};
}

} // namespace

json::Object layoutJson(const layout::LinearLayout &map) {
  json::Object object{{"shape", json::Array(map.shape())}};
  for (unsigned axis = 0; axis < layout::kAxes; ++axis) {
    json::Array columns;
    for (const layout::Coords &basis : map.bases(layout::Axis(axis)))
      columns.push_back(json::Array(basis));
    if (!columns.empty())
      object[layout::axisName(layout::Axis(axis))] = std::move(columns);
  }
  return object;
}

std::optional<layout::LinearLayout> layoutFromJson(const json::Object &object) {
  const json::Array *sizes = object.getArray("shape");
  if (!sizes)
    return std::nullopt;
  llvm::SmallVector<int64_t, 4> shape;
  for (const json::Value &size : *sizes)
    shape.push_back(size.getAsInteger().value_or(1));
  std::array<llvm::SmallVector<layout::Coords, 8>, layout::kAxes> bases;
  for (unsigned axis = 0; axis < layout::kAxes; ++axis)
    if (const json::Array *columns = object.getArray(layout::axisName(layout::Axis(axis))))
      for (const json::Value &column : *columns) {
        layout::Coords coords;
        if (const json::Array *parts = column.getAsArray())
          for (const json::Value &part : *parts)
            coords.push_back(int32_t(part.getAsInteger().value_or(0)));
        if (coords.size() != shape.size())
          return std::nullopt;
        bases[axis].push_back(std::move(coords));
      }
  return layout::LinearLayout(shape, bases);
}

std::string Report::parameterAt(const SourcePlace &place) const {
  std::string name;
  for (const WorkFact &fact : work)
    if (fact.place == place && !fact.parameter.empty())
      name = fact.parameter;
  return name;
}

void Report::hint(HintKind kind, const SourcePlace &place, const std::vector<std::string> &facts) {
  hint(makeHint(kind, place, facts));
}

void Report::hint(const Hint &hint) {
  for (const Hint &known : hints)
    if (known.kind == hint.kind && known.place == hint.place)
      return;
  hints.push_back(hint);
}

void adviseOccupancy(Report &report) {
  const Resources &used = report.resources;
  if (used.spillBytes > 0)
    report.hint(HintKind::Spills, {}, {std::to_string(used.spillBytes)});
  auto multiprocessor = multiprocessorOf(report.sm);
  if (!multiprocessor || used.threads == 0)
    return;
  Occupancy occupancy =
      occupancyOf(*multiprocessor, {used.threads, used.registers, int(used.sharedBytes)});
  // Products keep the matrix units busy with few warps: what they wait for is fetched ahead.
  bool product = !report.products.empty();
  if (occupancy.share() >= (product ? 0.12 : 0.5) || occupancy.limit() == "warps")
    return;
  std::string remedy = "a smaller block, or more warps for it";
  int registers = registersFor(*multiprocessor, used.threads, occupancy.blocks + 1);
  if (occupancy.limit() == "registers" && registers > 0)
    remedy = "`maxnreg=" + std::to_string(registers) +
             "` would admit one block more, if that does not spill; or a smaller block";
  else if (occupancy.limit() == "shared memory")
    remedy = "a smaller block, or fewer stages";
  else if (occupancy.limit() == "places for blocks")
    remedy = "more warps a program";
  report.hint(HintKind::LowOccupancy, {},
              {std::to_string(occupancy.warps), std::to_string(occupancy.warpsMost),
               std::string(occupancy.limit()), remedy});
}

json::Object Report::json() const {
  json::Object object{{"schema", 1}};
  object["layouts"] = list(layouts, [](const LayoutFact &fact) {
    return json::Object{{"what", fact.what},
                        {"place", at(fact.place)},
                        {"type", shapeJson(fact.type)},
                        {"layout", layoutJson(fact.layout)},
                        {"text", fact.layout.str()}};
  });
  std::vector<AccessFact> byLine = accesses; // targets walk in orders of their own
  llvm::stable_sort(byLine, [](auto &a, auto &b) { return a.place.line < b.place.line; });
  object["accesses"] = list(byLine, [](const AccessFact &fact) {
    json::Object one{{"what", fact.what},
                     {"parameter", fact.parameter},
                     {"place", at(fact.place)},
                     {"type", shapeJson(fact.type)},
                     {"route", fact.route},
                     {"bytes", fact.bytes},
                     {"possible_bytes", fact.possible},
                     {"masked", fact.masked},
                     {"lanes", fact.lanes},
                     {"sectors", fact.sectors},
                     {"least_sectors", fact.leastSectors}};
    one["lane_stride"] = fact.laneStride ? json::Value(*fact.laneStride) : json::Value(nullptr);
    return one;
  });
  json::Array numbered;
  for (auto [name, place] : llvm::zip_equal(ops, opPlaces))
    numbered.push_back(json::Object{{"name", name}, {"line", place.line}});
  object["shared"] = json::Object{
      {"bytes", resources.sharedBytes},
      {"limit", resources.sharedLimit},
      {"ops", std::move(numbered)},
      {"buffers", list(buffers,
                       [](const BufferFact &fact) {
                         return json::Object{{"what", fact.what},     {"place", at(fact.place)},
                                             {"offset", fact.offset}, {"bytes", fact.bytes},
                                             {"begin", fact.begin},   {"end", fact.end}};
                       })},
      {"accesses", list(sharedAccesses, [](const SharedAccessFact &fact) {
         return json::Object{
             {"what", fact.what},          {"place", at(fact.place)}, {"op", fact.op},
             {"offset", fact.offset},      {"bytes", fact.bytes},     {"matrices", fact.matrices},
             {"conflicts", fact.conflicts}};
       })}};
  object["conversions"] = list(conversions, [](const ConversionFact &fact) {
    return json::Object{{"place", at(fact.place)},
                        {"type", shapeJson(fact.type)},
                        {"how", fact.how},
                        {"bytes", fact.bytes},
                        {"cycles", fact.cycles}};
  });
  object["blocks"] = list(blocks, [](const BlockFact &fact) {
    return json::Object{
        {"place", at(fact.place)}, {"type", shapeJson(fact.type)}, {"why", fact.why}};
  });
  object["products"] = list(products, [](const ProductFact &fact) {
    return json::Object{{"place", at(fact.place)},
                        {"shape", json::Array(fact.shape)},
                        {"k", fact.k},
                        {"a", fact.a},
                        {"b", fact.b},
                        {"accumulator", fact.accumulator},
                        {"unit", fact.unit},
                        {"why", fact.why},
                        {"packing", fact.packing}};
  });
  object["loops"] = list(loops, [](const LoopFact &fact) {
    return json::Object{{"place", at(fact.place)},       {"parent", fact.parent},
                        {"lower", fact.lower.json()},    {"step", fact.step.json()},
                        {"trips", fact.trips.json()},    {"text", fact.trips.text()},
                        {"considered", fact.considered}, {"stages_asked", fact.stagesAsked},
                        {"stages", fact.stages},         {"why", fact.why}};
  });
  object["parts"] = list(parts, [](const PartFact &fact) {
    return json::Object{
        {"first_warp", fact.firstWarp}, {"warps", fact.warps}, {"registers", fact.registers}};
  });
  object["channels"] = list(channels, [](const ChannelFact &fact) {
    json::Array blocks;
    for (auto [shape, parameter] : llvm::zip_equal(fact.blocks, fact.parameters))
      blocks.push_back(json::Object{{"type", shapeJson(shape)}, {"parameter", parameter}});
    return json::Object{{"place", at(fact.place)},     {"part", fact.part},
                        {"slots", fact.slots},         {"bytes", fact.bytes},
                        {"blocks", std::move(blocks)}, {"products", fact.products}};
  });
  object["work"] = list(work, [](const WorkFact &fact) {
    return json::Object{{"what", fact.what},
                        {"parameter", fact.parameter},
                        {"place", at(fact.place)},
                        {"amount", fact.amount},
                        {"loop", fact.loop}};
  });
  object["hints"] = list(hints, [](const Hint &hint) {
    return json::Object{{"name", std::string(hint.name())},
                        {"severity", hint.severity() == Severity::Cost ? "cost" : "note"},
                        {"place", at(hint.place)},
                        {"what", hint.what},
                        {"remedy", hint.remedy}};
  });
  json::Object used{{"threads", resources.threads},
                    {"shared_bytes", resources.sharedBytes},
                    {"shared_limit", resources.sharedLimit},
                    {"scratch_bytes", resources.scratchBytes},
                    {"instructions", resources.instructions},
                    {"vector_bytes", resources.vectorBytes},
                    {"assembler", json::fixUTF8(resources.assembler)}};
  if (resources.registers) {
    used["registers"] = resources.registers;
    used["spill_bytes"] = resources.spillBytes;
    used["stack_bytes"] = resources.stackBytes;
  }
  object["resources"] = std::move(used);
  object["sm"] = sm;
  if (auto multiprocessor = multiprocessorOf(sm))
    object["occupancy"] = occupancyJson(occupancyOf(
        *multiprocessor, {resources.threads, resources.registers, int(resources.sharedBytes)}));
  json::Object tables;
  for (const auto &[stage, places] : lines)
    tables[stage] = list(places, [](const SourcePlace &place) { return place.line; });
  object["lines"] = std::move(tables);
  return object;
}

} // namespace nereid::explain

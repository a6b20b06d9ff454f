#include "faces/cli/schedule.h"

#include "faces/cli/json_fields.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace nereid::cli {
namespace {

namespace json = llvm::json;
using llvm::formatv;

constexpr int64_t Letters = 3;        ///< of a step
constexpr int64_t TurnsOfProgram = 4; ///< drawn, where a block runs several programs
constexpr int64_t Most = 12;          ///< turns that are drawn

std::vector<const json::Object *> objects(const json::Object &report, llvm::StringRef name) {
  std::vector<const json::Object *> all;
  if (const json::Array *array = report.getArray(name))
    for (const json::Value &value : *array)
      all.push_back(value.getAsObject());
  return all;
}

std::string warpsText(const json::Object &part) {
  int64_t first = numberOf(part, "first_warp"), count = numberOf(part, "warps");
  return count == 1 ? formatv("warp {0}", first).str()
                    : formatv("warps {0} to {1}", first, first + count - 1).str();
}

std::string blocksText(const json::Object &channel) {
  std::string text;
  for (const json::Object *block : objects(channel, "blocks")) {
    std::string parameter = textOf(*block, "parameter");
    text += (text.empty() ? "" : ", ") + typeOf(*block) +
            (parameter.empty() ? "" : " of `" + parameter + "`");
  }
  return text;
}

/// One row of the picture: what happens in which step.
class Row {
public:
  explicit Row(std::string name) : name(std::move(name)) {}
  void add(int64_t step, int64_t steps, std::string label) {
    label.resize(std::max<size_t>(label.size(), Letters * steps - 1), '-');
    text.resize(std::max<size_t>(text.size(), Letters * step), ' ');
    text += label + " ";
  }
  std::string line(size_t width) const {
    std::string left = name;
    left.resize(std::max(width, left.size()), ' ');
    std::string all = "  " + left + "  " + text;
    all.erase(all.find_last_not_of(' ') + 1);
    return all;
  }
  std::string name;

private:
  std::string text;
};

/// The turns of one loop: its channels are filled by one warp, in order, as slots become free.
class Picture {
public:
  Picture(const json::Object &report, std::vector<const json::Object *> channels)
      : report(report), channels(std::move(channels)) {
    const json::Object *metadata = report.getObject("metadata");
    severalPrograms = metadata && metadata->getBoolean("persistent").value_or(false);
  }

  std::string programsText() const {
    return severalPrograms ? formatv("; programs a, b, drawn with {0} each", TurnsOfProgram).str()
                           : "";
  }

  void draw(std::vector<std::string> &lines) {
    std::vector<const json::Object *> parts = objects(report, "parts");
    std::vector<Row> copies;
    int64_t slots = 1, products = 1;
    for (const json::Object *channel : channels) {
      copies.emplace_back(warpsText(*parts[numberOf(*channel, "part")]) + " copies " +
                          of(*channel));
      slots = std::max(slots, numberOf(*channel, "slots"));
      products = std::max(products, numberOf(*channel, "products"));
    }
    Row computes(warpsText(*parts.front()) + (severalPrograms ? " compute, store" : " compute"));
    std::vector<int64_t> ends; // of the turns
    int64_t copied = 0, ended = 0;
    for (int64_t turn = 0; turn < std::min(Most, slots + TurnsOfProgram); ++turn) {
      int64_t filled = 0;
      for (auto [channel, row] : llvm::zip_equal(channels, copies)) {
        int64_t own = numberOf(*channel, "slots");
        int64_t start = std::max(copied, turn < own ? 0 : ends[turn - own]);
        row.add(start, 1, label(turn));
        copied = filled = start + 1;
      }
      int64_t start = std::max(filled, ended);
      ended = start + 2 * products;
      computes.add(start, 2 * products, label(turn));
      ends.push_back(ended);
      if (severalPrograms && turn % TurnsOfProgram == TurnsOfProgram - 1) {
        computes.add(ended, 2, "store");
        ended += 2;
      }
    }
    size_t width = computes.name.size();
    for (const Row &row : copies)
      width = std::max(width, row.name.size());
    for (const Row &row : copies)
      lines.push_back("  " + row.line(width));
    lines.push_back("  " + computes.line(width));
  }

private:
  std::string of(const json::Object &channel) const {
    std::string text;
    for (const json::Object *block : objects(channel, "blocks"))
      if (std::string name = textOf(*block, "parameter"); !name.empty())
        text += (text.empty() ? "`" : ", `") + name + "`";
    return text;
  }
  /// Of a turn; of one of several programs with the program's letter.
  std::string label(int64_t turn) const {
    if (!severalPrograms)
      return std::to_string(turn);
    return std::string(1, char('a' + turn / TurnsOfProgram)) +
           std::to_string(turn % TurnsOfProgram);
  }

  const json::Object &report;
  std::vector<const json::Object *> channels;
  bool severalPrograms = false;
};

} // namespace

std::vector<std::string> scheduleLines(const json::Object &report) {
  std::vector<std::string> lines;
  std::vector<const json::Object *> parts = objects(report, "parts");
  std::vector<const json::Object *> channels = objects(report, "channels");
  for (auto [number, part] : llvm::enumerate(parts)) {
    std::string text = warpsText(*part) + (number ? ": copies" : ": compute");
    if (int64_t registers = numberOf(*part, "registers"))
      text += formatv(", {0} registers a thread", registers).str();
    lines.push_back("  " + text);
  }
  std::vector<int64_t> drawn;
  for (const json::Object *channel : channels) {
    int64_t slots = numberOf(*channel, "slots");
    lines.push_back(formatv("  line {0}: {1} {2} of {3} bytes, filled with {4}", lineOf(*channel),
                            slots, slots == 1 ? "slot" : "slots", numberOf(*channel, "bytes"),
                            blocksText(*channel))
                        .str());
  }
  for (const json::Object *channel : channels) {
    int64_t line = lineOf(*channel);
    if (!numberOf(*channel, "products") || llvm::is_contained(drawn, line))
      continue;
    drawn.push_back(line);
    std::vector<const json::Object *> ofLoop;
    llvm::copy_if(channels, std::back_inserter(ofLoop), [&](const json::Object *other) {
      return lineOf(*other) == line && numberOf(*other, "products");
    });
    Picture picture(report, std::move(ofLoop));
    lines.push_back(formatv("  turns of the loop of line {0}, in order and not in time{1}:", line,
                            picture.programsText())
                        .str());
    picture.draw(lines);
  }
  return lines;
}

} // namespace nereid::cli

#include "faces/cli/report.h"

#include "faces/cli/json_fields.h"
#include "faces/cli/lines.h"
#include "faces/cli/schedule.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace json = llvm::json;
using llvm::formatv;

namespace nereid::cli {

std::string timeText(double seconds) {
  if (seconds >= 1)
    return formatv("{0:F3} s", seconds);
  if (seconds >= 1e-3)
    return formatv("{0:F3} ms", seconds * 1e3);
  if (seconds >= 1e-6 || seconds <= 0)
    return formatv("{0:F2} us", seconds * 1e6);
  return formatv("{0:F1} ns", seconds * 1e9);
}

std::string memoryText(int64_t bytes) {
  if (bytes < 1024)
    return std::to_string(bytes) + " B";
  return formatv(bytes % 1024 ? "{0:F1} KiB" : "{0:F0} KiB", double(bytes) / 1024);
}

std::string amountText(double amount, std::string_view unit) {
  static constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t i = 0;
  for (; amount >= 999.5 && i + 1 < std::size(prefixes); ++i)
    amount /= 1000;
  int digits = i == 0 || amount >= 100 ? 0 : amount >= 10 ? 1 : 2;
  llvm::SmallString<32> text;
  llvm::raw_svector_ostream out(text);
  out << llvm::format("%.*f", digits, amount) << " " << prefixes[i] << unit;
  return text.str().str();
}

namespace {

class Writer {
public:
  explicit Writer(const ReportView &view) : view(view), report(view.report) {}
  std::string write() {
    head();
    accesses();
    blocks();
    products();
    loops();
    schedule();
    conversions();
    gradients();
    work();
    rates();
    hints();
    return out;
  }

private:
  void section(llvm::StringRef name) { out += "\n" + name.str() + "\n"; }
  void row(llvm::StringRef left, const std::string &right) {
    std::string name = "  " + left.str();
    name.resize(std::max<size_t>(name.size() + 1, 17), ' ');
    out += name + right + "\n";
  }
  template <typename Each> void each(llvm::StringRef list, llvm::StringRef title, Each print) {
    const json::Array *all = report.getArray(list);
    if (!all || all->empty())
      return;
    section(title);
    for (const json::Value &value : *all)
      print(*value.getAsObject());
  }
  std::string at(const json::Object &object) {
    int64_t line = lineOf(object);
    std::string text = line ? "line " + std::to_string(line) : "";
    text.resize(std::max<size_t>(text.size(), 9), ' ');
    return "  " + text + " ";
  }

  void head();
  void accesses();
  void blocks();
  void products();
  void loops();
  void schedule();
  void conversions();
  void gradients();
  void work();
  void rates();
  void hints();

  const ReportView &view;
  const json::Object &report;
  std::string out;
};

void Writer::head() {
  const json::Object &used = *report.getObject("resources");
  const json::Object *metadata = report.getObject("metadata");
  out += textOf(report, "kernel") + " for " + textOf(report, "target");
  if (metadata && numberOf(report, "sm")) {
    out += formatv(", {0} warps, {1} stages", numberOf(*metadata, "num_warps"),
                   numberOf(*metadata, "num_stages"));
  }
  out += "\n\n";
  if (numberOf(report, "sm")) {
    if (auto registers = used.getInteger("registers")) {
      std::string spilled = numberOf(used, "spill_bytes")
                                ? std::to_string(numberOf(used, "spill_bytes")) + " bytes spilled"
                                : "nothing spilled";
      row("registers",
          formatv("{0} a thread, {1} ({2})", *registers, spilled, textOf(used, "assembler")));
    } else {
      row("registers", "not known: " + textOf(used, "assembler"));
    }
    row("shared memory", formatv("{0} of {1} bytes", numberOf(used, "shared_bytes"),
                                 numberOf(used, "shared_limit")));
    if (const json::Object *occupancy = report.getObject("occupancy")) {
      auto bound = [&](llvm::StringRef name) {
        auto value = occupancy->getInteger(name);
        return value ? std::to_string(*value) : std::string("-");
      };
      row("occupancy",
          formatv("{0} of {1} warps of a multiprocessor ({2:F0} %), limited by {3}",
                  numberOf(*occupancy, "warps"), numberOf(*occupancy, "warps_most"),
                  100 * occupancy->getNumber("share").value_or(0), textOf(*occupancy, "limit")));
      row("",
          formatv("programs at once: {0}; by registers {1}, by shared memory {2}, by warps {3}, "
                  "by places {4}",
                  bound("blocks"), bound("blocks_by_registers"), bound("blocks_by_shared"),
                  bound("blocks_by_warps"), bound("blocks_by_places")));
    }
    if (int64_t most = metadata ? numberOf(*metadata, "most_splits") : 1; most > 1)
      row("cluster", formatv("up to {0} blocks share the iterations of a program's product, where "
                             "programs leave multiprocessors idle",
                             most));
    const json::Array *products = report.getArray("products");
    if (metadata && metadata->getBoolean("persistent").value_or(false))
      row("programs", products && !products->empty()
                          ? "a block runs several, and fetches the first blocks of the next one "
                            "while it writes results"
                          : "a block runs several, and fetches the rows of the next one ahead");
  } else {
    row("vectors", textOf(used, "instructions"));
    row("scratch memory", formatv("{0} bytes a thread", numberOf(used, "scratch_bytes")));
  }
  if (const json::Array *times = report.getArray("times")) {
    double sum = 0;
    std::string longest;
    double most = 0;
    for (const json::Value &value : *times) {
      double ms = value.getAsObject()->getNumber("ms").value_or(0);
      sum += ms;
      if (ms > most) {
        most = ms;
        longest = textOf(*value.getAsObject(), "stage");
      }
    }
    row("compiled in", formatv("{0:F1} ms, most of it: {1} {2:F1} ms", sum, longest, most));
  }
}

void Writer::accesses() {
  each("accesses", "accesses to memory", [&](const json::Object &access) {
    std::string where = textOf(access, "parameter");
    out += at(access) + formatv("{0} {1}{2}: ", textOf(access, "what"), typeOf(access),
                                where.empty() ? "" : " of `" + where + "`")
                            .str();
    if (textOf(access, "route") == "copy engine") {
      out += "by the copy engine\n";
      return;
    }
    if (!numberOf(report, "sm")) {
      out += textOf(access, "route");
      if (int64_t lanes = numberOf(access, "lanes"); lanes > 1)
        out += formatv(", {0} elements a round", lanes).str();
      out += "\n";
      return;
    }
    out += formatv("{0} bytes a thread", numberOf(access, "bytes")).str();
    if (textOf(access, "route") == "asynchronous copy")
      out += ", to shared memory";
    out += formatv(", {0} sectors a warp", numberOf(access, "sectors")).str();
    if (numberOf(access, "sectors") > numberOf(access, "least_sectors"))
      out += formatv(" where {0} would do", numberOf(access, "least_sectors")).str();
    out += "\n";
  });
}

void Writer::products() {
  each("products", "products", [&](const json::Object &product) {
    std::string sizes;
    if (const json::Array *shape = product.getArray("shape"))
      for (const json::Value &size : *shape)
        sizes += std::to_string(size.getAsInteger().value_or(0)) + "x";
    out += at(product) + formatv("{0}{1} {2} x {3} -> {4}: {5}", sizes, numberOf(product, "k"),
                                 textOf(product, "a"), textOf(product, "b"),
                                 textOf(product, "accumulator"), textOf(product, "unit"))
                             .str();
    out += textOf(product, "why").empty() ? "\n" : " (" + textOf(product, "why") + ")\n";
    if (std::string packing = textOf(product, "packing"); !packing.empty())
      row("", packing);
  });
}

void Writer::blocks() {
  each("blocks", "blocks through pointers", [&](const json::Object &block) {
    std::string why = textOf(block, "why");
    out += at(block) + typeOf(block) +
           (why.empty() ? ": copy engine, where the launch's arguments admit it\n"
                        : ": not through the copy engine: " + why + "\n");
  });
}

void Writer::loops() {
  each("loops", "loops", [&](const json::Object &loop) {
    out += at(loop) + textOf(loop, "text") + " times";
    if (numberOf(loop, "stages"))
      out += formatv(", loads fetched ahead, {0} stages", numberOf(loop, "stages")).str();
    else if (!textOf(loop, "why").empty())
      out += ", loads not fetched ahead: " + textOf(loop, "why");
    out += "\n";
  });
}

void Writer::schedule() {
  std::vector<std::string> lines = scheduleLines(report);
  if (lines.empty())
    return;
  section("divided warps");
  for (const std::string &line : lines)
    out += line + "\n";
}

void Writer::conversions() {
  const json::Object *shared = report.getObject("shared");
  const json::Array *buffers = shared ? shared->getArray("buffers") : nullptr;
  if (buffers && !buffers->empty()) {
    section("shared memory");
    for (const json::Value &value : *buffers) {
      const json::Object &buffer = *value.getAsObject();
      out += at(buffer) +
             formatv("bytes {0} to {1}: {2}", numberOf(buffer, "offset"),
                     numberOf(buffer, "offset") + numberOf(buffer, "bytes"), textOf(buffer, "what"))
                 .str() +
             "\n";
    }
    int64_t worst = 1, count = 0;
    if (const json::Array *all = shared->getArray("accesses"))
      for (const json::Value &value : *all) {
        worst = std::max(worst, numberOf(*value.getAsObject(), "conflicts"));
        ++count;
      }
    if (count)
      out += formatv("  {0} {1} by threads, {2}\n", count, count == 1 ? "access" : "accesses",
                     worst == 1 ? "none with bank conflicts"
                                : formatv("the worst with {0} turns", worst).str())
                 .str();
  }
  each("conversions", "changes of layout", [&](const json::Object &conversion) {
    out += at(conversion) + formatv("{0} through {1}, about {2:F0} cycles\n", typeOf(conversion),
                                    textOf(conversion, "how"),
                                    conversion.getNumber("cycles").value_or(0))
                                .str();
  });
}

void Writer::gradients() {
  each("gradients", "gradients",
       [&](const json::Object &gradient) { out += "  " + textOf(gradient, "text") + "\n"; });
}

void Writer::work() {
  std::vector<std::string> lines = workLines(report);
  if (lines.empty())
    return;
  section("work of one program");
  for (const std::string &line : lines)
    out += "  " + line + "\n";
}

void Writer::rates() {
  if (!view.estimate)
    return;
  const Estimate &estimate = *view.estimate;
  section("launch: " + view.launch);
  row("asks for", amountText(estimate.requested, "B") +
                      (estimate.complete ? "" : ", loops of unknown length counted once"));
  row("moves", "at least " + amountText(estimate.moved, "B"));
  for (const auto &[name, amount] : estimate.operations)
    row("computes", amountText(amount, name == "special" ? "special operations" : "FLOP ") +
                        (name == "special" ? "" : "(" + name + ")"));
  if (view.machine) {
    row("takes", formatv("at least {0} on {1}, bound by {2}", timeText(estimate.least()),
                         view.machine->name, estimate.bound));
    for (const auto &[name, seconds] : estimate.seconds)
      if (seconds > 0)
        row("", formatv("{0,-14} {1}", name, timeText(seconds)));
  }
  if (view.measured) {
    const Measured &measured = *view.measured;
    row("measured",
        formatv("{0} ({1} to {2}; {3} runs, {4} caches, {5})", timeText(measured.median),
                timeText(measured.low), timeText(measured.high), measured.runs,
                measured.cold ? "cold" : "warm", measured.device));
    std::string text = amountText(estimate.moved / measured.median, "B/s");
    if (view.machine)
      text += formatv(", {0:F0} % of the memory's peak",
                      100 * estimate.moved / measured.median / view.machine->bandwidth)
                  .str();
    row("", text);
    if (double flops = estimate.flops(); flops > 0) {
      std::string rate = amountText(flops / measured.median, "FLOP/s");
      if (view.machine && estimate.least() > 0)
        rate +=
            formatv("; {0:F0} % of what the bound allows", 100 * estimate.least() / measured.median)
                .str();
      row("", rate);
    }
  }
}

void Writer::hints() {
  const json::Array *all = report.getArray("hints");
  section("advice");
  if (!all || all->empty()) {
    out += "  nothing that the compiler knows of\n";
    return;
  }
  const json::Object *source = report.getObject("source");
  std::vector<std::string> lines = splitLines(source ? textOf(*source, "text") : "");
  int64_t first = source ? numberOf(*source, "first_line") : 1;
  std::string file = source ? textOf(*source, "file") : "";
  for (auto [number, value] : llvm::enumerate(*all)) {
    const json::Object &hint = *value.getAsObject();
    int64_t line = lineOf(hint);
    const json::Object *place = hint.getObject("place");
    if (line && place)
      out +=
          formatv("{0}:{1}:{2}: ", textOf(*place, "file"), line, numberOf(*place, "column")).str();
    out += textOf(hint, "severity") + ": " + textOf(hint, "what") + "\n";
    if (line >= first && line - first < int64_t(lines.size()) && place &&
        textOf(*place, "file") == file) {
      const std::string &text = lines[line - first];
      int64_t column = std::clamp<int64_t>(numberOf(*place, "column") - 1, 0, text.size());
      out += formatv("{0,6} | {1}\n", line, text).str();
      out += "       | " + std::string(column, ' ') + "^\n";
    }
    // The same advice for several lines is given once, below the last.
    const json::Object *next =
        number + 1 < all->size() ? (*all)[number + 1].getAsObject() : nullptr;
    if (!next || textOf(*next, "name") != textOf(hint, "name") ||
        textOf(*next, "remedy") != textOf(hint, "remedy"))
      out += "       = " + textOf(hint, "remedy") + "\n";
  }
}

} // namespace

std::string reportText(const ReportView &view) {
  return Writer(view).write();
}

} // namespace nereid::cli

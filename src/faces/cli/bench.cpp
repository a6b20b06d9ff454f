// nereid bench: times a kernel from the shell, in one or several configurations.
#include "faces/cli/commands.h"
#include "faces/cli/formula.h"
#include "faces/cli/timing.h"
#include "nereid/measure.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace nereid;
using namespace nereid::cli;
using llvm::formatv;
namespace json = llvm::json;

bool cli::readTimingPlan(const Arguments &parsed, bool gpu, TimingPlan &plan,
                         DiagnosticEngine &diagnostics) {
  plan.cold = gpu;
  for (auto [option, field] : {std::pair("--warmup", &TimingPlan::warmup),
                               std::pair("--duration", &TimingPlan::duration)}) {
    if (!parsed.has(option))
      continue;
    std::string text = parsed.get(option);
    char *end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end || !(value >= 0) || value > 1e7)
      diagnostics.report(diag::BadOptionValue, {}, option, "milliseconds", text);
    plan.*field = value;
  }
  if (parsed.has("--cache")) {
    std::string text = parsed.get("--cache");
    if (text != "cold" && text != "warm")
      diagnostics.report(diag::BadOptionValue, {}, "--cache", "`cold` or `warm`", text);
    plan.cold = text == "cold";
  }
  return !diagnostics.hasErrors();
}

std::optional<Measured> cli::measureKernel(nrd_kernel *kernel, const LaunchMemory &memory,
                                           const std::array<uint32_t, 3> &grid,
                                           const TimingPlan &plan, bool gpu, std::string *problem) {
  nrd_launch launch{};
  std::copy(grid.begin(), grid.end(), launch.grid);
  nrd_measure_plan how{};
  how.size = sizeof how;
  how.warmup = plan.warmup;
  how.duration = plan.duration;
  how.min_runs = 5;
  how.cold = plan.cold;
  std::vector<double> times(100'000);
  size_t runs = 0;
  if (nrd_error *error = nrd_kernel_measure(kernel, memory.args().data(), memory.args().size(),
                                            &launch, &how, times.data(), times.size(), &runs)) {
    if (problem) {
      *problem = nrd_error_summary(error);
      nrd_error_free(error);
    } else {
      failed(error);
    }
    return std::nullopt;
  }
  times.resize(runs);
  std::ranges::sort(times);
  auto at = [&](double share) {
    return times.empty() ? 0.0 : times[size_t(share * double(times.size() - 1))] / 1e3;
  };
  Measured measured;
  measured.median = at(0.5);
  measured.low = at(0.2);
  measured.high = at(0.8);
  measured.runs = unsigned(runs);
  measured.cold = plan.cold;
  measured.device = "the CPU";
  char *text = nullptr;
  if (nrd_error *error = gpu ? nrd_cuda_device_properties(0, &text) : nullptr)
    nrd_error_free(error);
  if (text) {
    if (auto parsed = json::parse(text))
      measured.device = parsed->getAsObject()->getString("name").value_or("GPU").str();
    else
      llvm::consumeError(parsed.takeError());
    nrd_string_free(text);
  }
  return measured;
}

namespace {

/// One row of the table.
struct Row {
  std::string configuration, problem;
  std::optional<Measured> measured;
  double bytes = 0, flops = 0;
  int64_t registers = 0, shared = 0, spills = 0;
};

/// What all configurations share, and the running of one.
class Bench {
public:
  Bench(const Command &command, const Arguments &parsed, Selection &selection)
      : command(command), parsed(parsed), selection(selection), gpu(targetsGpu(parsed)) {}

  int run();

private:
  int one(const std::string &configuration, Row &row);
  bool formula(const char *option, const ArgumentList &list, double &out);
  std::string table() const;
  std::string csv() const;
  std::string asJson() const;

  const Command &command;
  const Arguments &parsed;
  Selection &selection;
  bool gpu;
  TimingPlan plan;
  std::vector<Row> rows;
};

bool Bench::formula(const char *option, const ArgumentList &list, double &out) {
  if (!parsed.has(option))
    return true;
  DiagnosticEngine diagnostics;
  std::string text = parsed.get(option);
  auto parsedFormula = parseFormula(text, diagnostics);
  auto value = parsedFormula
                   ? evaluateFormula(
                         *parsedFormula, text,
                         [&](std::string_view name) { return list.integerOf(name); }, diagnostics)
                   : std::nullopt;
  if (!value) {
    usageError(diagnostics);
    return false;
  }
  out = double(*value);
  return true;
}

/// 0 when the row has a result or a problem of its own, else the exit status of a wrong command
/// line.
int Bench::one(const std::string &configuration, Row &row) {
  DiagnosticEngine diagnostics;
  row.configuration = configuration;
  OptionsHandle options;
  if (int status = readOptions(parsed, DefaultTarget::OfLaunches, options))
    return status;
  // A configuration is arguments and compile options in one.
  std::vector<std::string> texts = parsed.all("--arg");
  nrd_function *function = selection.function.get();
  for (const std::string &part : splitSignature(configuration)) {
    size_t equals = part.find('=');
    if (equals == std::string::npos) {
      diagnostics.report(diag::CliMissingValue, {}, "--config", "NAME=VALUE, ...");
      return usageError(diagnostics);
    }
    std::string name = part.substr(0, equals);
    bool parameter = false;
    for (size_t i = 0; i < nrd_function_param_count(function); ++i)
      parameter |= name == nrd_function_param_name(function, i);
    if (parameter) {
      texts.push_back(part);
    } else if (nrd_error *error = setOption(options.get(), name, part.substr(equals + 1))) {
      bool unknown = std::string_view(nrd_error_name(error)).starts_with("UnknownOption");
      row.problem = nrd_error_summary(error);
      nrd_error_free(error);
      if (!unknown)
        return 0;
      diagnostics.report(diag::CliBadConfiguration, {}, name, selection.kernel);
      return usageError(diagnostics);
    }
  }
  // An error in one configuration is shown in its row; the others are measured.
  auto wrong = [&] {
    if (configuration.empty())
      return usageError(diagnostics);
    row.problem = diagnostics.diagnostics().front().message();
    return 0;
  };
  ArgumentList list = readArguments(function, texts, diagnostics);
  if (diagnostics.hasErrors())
    return wrong();
  std::vector<std::string> signature = signatureOf(function, list, diagnostics);
  std::optional<std::array<uint32_t, 3>> grid;
  if (!diagnostics.hasErrors())
    grid = readGrid(parsed.get("--grid"), list, diagnostics);
  if (diagnostics.hasErrors())
    return wrong();

  KernelHandle kernel;
  if (nrd_error *error = compileKernel(function, signature, options.get(), kernel)) {
    row.problem = nrd_error_summary(error);
    nrd_error_free(error);
    return 0;
  }
  LaunchMemory memory;
  if (int status = memory.allocate(list))
    return status;
  nameMeasured(configuration.empty() ? "-" : configuration);
  row.measured = measureKernel(kernel.get(), memory, *grid, plan, gpu, &row.problem);
  std::string text;
  if (readStage(kernel.get(), "explain", text)) {
    if (auto report = json::parse(text)) {
      Estimate estimated = estimate(*report->getAsObject(), list, *grid, std::nullopt);
      row.bytes = estimated.moved;
      row.flops = estimated.flops();
      if (const json::Object *used = report->getAsObject()->getObject("resources")) {
        row.registers = used->getInteger("registers").value_or(0);
        row.spills = used->getInteger("spill_bytes").value_or(0);
        row.shared = used->getInteger("shared_bytes").value_or(0);
      }
    } else {
      llvm::consumeError(report.takeError());
    }
  }
  return formula("--bytes", list, row.bytes) && formula("--flops", list, row.flops) ? 0 : 2;
}

int Bench::run() {
  DiagnosticEngine diagnostics;
  readTimingPlan(parsed, gpu, plan, diagnostics);
  if (!parsed.has("--grid"))
    diagnostics.report(diag::CliNeedsGrid, {}, command.name);
  if (diagnostics.hasErrors())
    return usageError(diagnostics);
  if (gpu)
    if (nrd_error *error = nrd_cuda_check())
      return failed(error);
  std::vector<std::string> configurations = parsed.all("--config");
  if (configurations.empty())
    configurations.emplace_back();
  bool terminal = isatty(STDERR_FILENO) && configurations.size() > 1;
  for (size_t i = 0; i < configurations.size(); ++i) {
    if (terminal)
      std::fprintf(stderr, "\r%zu of %zu: %-60s", i + 1, configurations.size(),
                   configurations[i].substr(0, 60).c_str());
    Row row;
    if (int status = one(configurations[i], row))
      return status;
    rows.push_back(std::move(row));
  }
  if (terminal)
    std::fprintf(stderr, "\r%-78s\r", "");
  std::string out = parsed.has("--json") ? asJson() : parsed.has("--csv") ? csv() : table();
  if (!writeFile(parsed.get("-o", "-"), out.data(), out.size()))
    return 1;
  bool any = std::ranges::any_of(rows, [](const Row &row) { return row.measured.has_value(); });
  return any ? 0 : 1;
}

double rateOf(double amount, const Row &row) {
  return row.measured && row.measured->median > 0 ? amount / row.measured->median : 0;
}

std::string Bench::table() const {
  const Row *best = nullptr;
  size_t width = 13;
  std::string device;
  for (const Row &row : rows) {
    width = std::max(width, row.configuration.size());
    if (!row.measured)
      continue;
    device = row.measured->device;
    if (!best || row.measured->median < best->measured->median)
      best = &row;
  }
  std::string out = selection.kernel + (device.empty() ? "" : " on " + device) + ", " +
                    (plan.cold ? "cold" : "warm") + " caches\n";
  auto cell = [](const std::string &text, size_t size) {
    return std::string(size > text.size() ? size - text.size() : 1, ' ') + text;
  };
  std::string head = "configuration";
  head.resize(width + 2, ' ');
  out += head + cell("time", 12) + cell("20 %", 12) + cell("80 %", 12) + cell("bytes", 12) +
         cell("flops", 14) + cell("runs", 8) + (gpu ? cell("registers", 11) : "") + "\n";
  for (const Row &row : rows) {
    std::string line = row.configuration.empty() ? "-" : row.configuration;
    line.resize(width + 2, ' ');
    if (!row.measured) {
      out += line + "failed: " + row.problem + "\n";
      continue;
    }
    const Measured &m = *row.measured;
    line += cell(timeText(m.median), 12) + cell(timeText(m.low), 12) + cell(timeText(m.high), 12) +
            cell(row.bytes > 0 ? amountText(rateOf(row.bytes, row), "B/s") : "-", 12) +
            cell(row.flops > 0 ? amountText(rateOf(row.flops, row), "FLOP/s") : "-", 14) +
            cell(std::to_string(m.runs), 8);
    if (gpu)
      line += cell(std::to_string(row.registers) + (row.spills ? " spilling" : ""), 11);
    out += line + (&row == best && rows.size() > 1 ? "  fastest" : "") + "\n";
  }
  return out;
}

std::string Bench::csv() const {
  auto quoted = [](const std::string &text) {
    if (text.find_first_of(",\"\n") == std::string::npos)
      return text;
    std::string out = "\"";
    for (char c : text)
      out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
  };
  std::string out = "kernel,configuration,device,cache,median_ms,low_ms,high_ms,runs,bytes,"
                    "gb_per_s,flops,tflop_per_s,registers,spill_bytes,shared_bytes,problem\n";
  for (const Row &row : rows) {
    Measured m = row.measured.value_or(Measured());
    out +=
        formatv("{0},{1},{2},{3},{4:F6},{5:F6},{6:F6},{7},{8:F0},{9:F3},{10:F0},{11:F4},{12},"
                "{13},{14},{15}\n",
                quoted(selection.kernel), quoted(row.configuration), quoted(m.device),
                plan.cold ? "cold" : "warm", m.median * 1e3, m.low * 1e3, m.high * 1e3, m.runs,
                row.bytes, rateOf(row.bytes, row) / 1e9, row.flops, rateOf(row.flops, row) / 1e12,
                row.registers, row.spills, row.shared, quoted(row.problem))
            .str();
  }
  return out;
}

std::string Bench::asJson() const {
  json::Array all;
  for (const Row &row : rows) {
    json::Object one{{"kernel", selection.kernel},
                     {"configuration", json::fixUTF8(row.configuration)},
                     {"cache", plan.cold ? "cold" : "warm"},
                     {"bytes", row.bytes},
                     {"flops", row.flops},
                     {"registers", row.registers},
                     {"spill_bytes", row.spills},
                     {"shared_bytes", row.shared}};
    if (row.measured) {
      const Measured &m = *row.measured;
      one["device"] = json::fixUTF8(m.device);
      one["median_ms"] = m.median * 1e3;
      one["low_ms"] = m.low * 1e3;
      one["high_ms"] = m.high * 1e3;
      one["runs"] = m.runs;
      one["gb_per_s"] = rateOf(row.bytes, row) / 1e9;
      one["tflop_per_s"] = rateOf(row.flops, row) / 1e12;
    } else {
      one["problem"] = json::fixUTF8(row.problem);
    }
    all.push_back(std::move(one));
  }
  return formatv("{0:2}\n", json::Value(std::move(all)));
}

} // namespace

int cli::benchCommand(const Command &command, const Arguments &parsed) {
  return reportingFaults(!targetsGpu(parsed), [&] {
    Selection selection;
    if (int status = select(parsed, selection))
      return status;
    return Bench(command, parsed, selection).run();
  });
}

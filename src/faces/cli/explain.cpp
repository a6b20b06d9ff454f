// nereid explain: the compiler's report on a kernel, with advice on speed.
#include "faces/cli/commands.h"
#include "faces/cli/cpu_rates.h"
#include "faces/cli/formula.h"
#include "faces/cli/lines.h"
#include "faces/cli/report.h"
#include "faces/cli/timing.h"

#include "llvm/Support/FormatVariadic.h"

#include <cstdio>

using namespace nereid;
using namespace nereid::cli;
namespace json = llvm::json;

namespace {

/// The texts of a kernel's stages with the source line of each of their lines.
std::vector<StageText> stagesOf(nrd_kernel *kernel, const json::Object &report, bool gpu) {
  struct Row {
    const char *name, *title;
  };
  static constexpr Row gpuRows[] = {
      {"tile", "tile IR"}, {"gpu", "GPU IR"}, {"ptx", "PTX"}, {"sass", "SASS"}};
  static constexpr Row cpuRows[] = {{"tile", "tile IR"}, {"loops", "loops"}, {"asm", "assembly"}};
  const json::Object *source = report.getObject("source");
  std::string file = source ? source->getString("file").value_or("").str() : "";
  const json::Object *tables = report.getObject("lines");
  std::vector<StageText> stages;
  for (const Row &row : gpu ? llvm::ArrayRef<Row>(gpuRows) : llvm::ArrayRef<Row>(cpuRows)) {
    StageText stage{row.name, row.title, {}, {}, ""};
    std::string text;
    if (!readStage(kernel, row.name, text, &stage.missing) && stage.missing.empty())
      stage.missing = "there is no such stage";
    stage.lines = splitLines(text);
    if (const json::Array *table = tables ? tables->getArray(row.name) : nullptr) {
      for (const json::Value &line : *table)
        stage.places.push_back(unsigned(line.getAsInteger().value_or(0)));
      stage.places.resize(stage.lines.size(), 0);
    } else {
      stage.places = sourceLines(row.name, stage.lines, file);
      if (stage.name == "sass")
        tidyDisassembly(stage.lines, stage.places);
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

std::string launchText(const std::array<uint32_t, 3> &grid, const ArgumentList &list) {
  std::string text = llvm::formatv("grid {0} x {1} x {2}", grid[0], grid[1], grid[2]);
  for (size_t i = 0; i < list.names.size(); ++i)
    if (!list.values[i].text.empty())
      text += ", " + list.names[i] + "=" + list.values[i].text;
  return text;
}

/// Adds the facts about the launch to the report.
void addLaunch(ReportView &view) {
  if (!view.estimate)
    return;
  const Estimate &estimate = *view.estimate;
  json::Object operations, seconds;
  for (const auto &[name, amount] : estimate.operations)
    operations[name] = amount;
  for (const auto &[name, time] : estimate.seconds)
    seconds[name] = time;
  json::Object launch{{"text", json::fixUTF8(view.launch)},
                      {"complete", estimate.complete},
                      {"requested_bytes", estimate.requested},
                      {"moved_bytes", estimate.moved},
                      {"operations", std::move(operations)},
                      {"seconds", std::move(seconds)},
                      {"bound", estimate.bound}};
  if (view.machine)
    launch["peaks_of"] = json::fixUTF8(view.machine->name);
  if (view.measured)
    launch["measured"] = json::Object{{"device", json::fixUTF8(view.measured->device)},
                                      {"median", view.measured->median},
                                      {"low", view.measured->low},
                                      {"high", view.measured->high},
                                      {"runs", view.measured->runs},
                                      {"cold", view.measured->cold}};
  view.report["launch"] = std::move(launch);
}

} // namespace

static int explainOne(const Command &command, const Arguments &parsed) {
  DiagnosticEngine diagnostics;
  Selection selection;
  OptionsHandle options;
  if (int status = select(parsed, DefaultTarget::OfLaunches, selection, options))
    return status;
  ArgumentList list = readArguments(selection.function.get(), parsed.all("--arg"), diagnostics);
  if (diagnostics.hasErrors())
    return usageError(diagnostics);
  bool measure = parsed.has("--measure");
  std::vector<std::string> signature = splitSignature(parsed.get("--signature"));
  bool bySignature = parsed.has("--signature");
  if (!bySignature && parsed.all("--arg").empty() && !list.names.empty())
    diagnostics.report(diag::CliNeedsSignature, {}, command.name);
  else if (!bySignature || measure) {
    std::vector<std::string> own = signatureOf(selection.function.get(), list, diagnostics);
    if (!bySignature)
      signature = std::move(own);
  }
  std::optional<std::array<uint32_t, 3>> grid;
  if (parsed.has("--grid") && !diagnostics.hasErrors())
    grid = readGrid(parsed.get("--grid"), list, diagnostics);
  else if (measure && !diagnostics.hasErrors())
    diagnostics.report(diag::CliNeedsGrid, {}, "explain --measure");
  TimingPlan plan;
  readTimingPlan(parsed, targetsGpu(parsed), plan, diagnostics);
  if (diagnostics.hasErrors())
    return usageError(diagnostics);

  KernelHandle kernel;
  if (nrd_error *error = compileKernel(selection.function.get(), signature, options.get(), kernel))
    return failed(error);
  std::string text, why;
  if (!readStage(kernel.get(), "explain", text, &why))
    return 1;
  auto parsedReport = json::parse(text);
  if (!parsedReport) {
    llvm::consumeError(parsedReport.takeError());
    return 1;
  }
  ReportView view;
  view.report = std::move(*parsedReport->getAsObject());
  bool gpu = view.report.getInteger("sm").value_or(0) != 0;
  view.machine = peakRatesFor(view.report, gpu && nrd_cuda_device_count() > 0 ? 0 : -1);
  if (grid) {
    view.launch = launchText(*grid, list);
    view.estimate = estimate(view.report, list, *grid, view.machine);
  }
  if (measure && gpu)
    if (nrd_error *error = nrd_cuda_check())
      return failed(error);
  if (measure && !gpu) { // after the launch is known: the roof depends on the memory that it moves
    view.machine = measuredCpuRates(view.report, view.estimate->moved);
    view.estimate = estimate(view.report, list, *grid, view.machine);
  }
  if (measure) {
    LaunchMemory memory;
    if (int status = memory.allocate(list))
      return status;
    nameMeasured("-");
    view.measured = measureKernel(kernel.get(), memory, *grid, plan, gpu);
    if (!view.measured)
      return 1;
  }
  bool html = parsed.has("--html");
  if (html) {
    view.stages = stagesOf(kernel.get(), view.report, gpu);
    std::string page = reportPage(view);
    if (!writeFile(parsed.get("--html"), page.data(), page.size()))
      return 1;
  }
  std::string out;
  addLaunch(view);
  if (parsed.has("--json"))
    out = llvm::formatv("{0:2}\n", json::Value(std::move(view.report))).str();
  else if (!html || parsed.get("--html") != "-")
    out = reportText(view);
  return out.empty() || writeFile("-", out.data(), out.size()) ? 0 : 1;
}

int cli::explainCommand(const Command &command, const Arguments &parsed) {
  bool runs = parsed.has("--measure") && !targetsGpu(parsed);
  return reportingFaults(runs, [&] { return explainOne(command, parsed); });
}

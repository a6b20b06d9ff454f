// nereid doctor: what was found on this machine.
#include "faces/cli/commands.h"
#include "nereid/nereid.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdio>

using namespace nereid;
using namespace nereid::cli;
namespace json = llvm::json;

/// The first line a shell command prints.
static std::string firstLine(const std::string &command) {
  std::string line;
  // NOLINTNEXTLINE(bugprone-command-processor): the words are quoted
  if (FILE *pipe = popen((command + " 2>/dev/null").c_str(), "r")) {
    for (int c; (c = std::fgetc(pipe)) != EOF && c != '\n';)
      line += char(c);
    while (std::fgetc(pipe) != EOF)
      ;
    pclose(pipe);
  }
  return line;
}

static std::string quoted(const std::string &text) {
  std::string out = "'";
  for (char c : text)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// What the Python interpreter and its packages are; empty texts for what is missing.
static json::Object pythonReport(const std::string &python) {
  // Versions from the packages' metadata: importing torch takes seconds.
  std::string script = "import sys, importlib.metadata as m\n"
                       "def v(n):\n"
                       "    try: return m.version(n)\n"
                       "    except Exception: return '-'\n"
                       "print('.'.join(map(str, sys.version_info[:3])), sys.executable, *map(v, "
                       "['nereid', 'torch', 'triton', 'numpy']), sep='\\t')";
  std::string line = firstLine(quoted(python) + " -c " + quoted(script));
  llvm::SmallVector<llvm::StringRef> words;
  llvm::StringRef(line).split(words, '\t', -1, false);
  json::Object report{{"found", words.size() == 6}};
  static const char *const names[] = {"version", "path", "nereid", "torch", "triton", "numpy"};
  if (words.size() == 6)
    for (size_t i = 0; i < 6; ++i)
      if (words[i] != "-")
        report[names[i]] = words[i].str();
  if (auto children = json::parse(firstLine(quoted(python) + " -m nereid.tools.children")))
    report["triton_in_children"] = std::move(*children);
  else
    llvm::consumeError(children.takeError());
  return report;
}

/// What `import triton` is in a child process, in words.
static std::string tritonOfChildren(const json::Object &report) {
  if (auto error = report.getString("error"))
    return ("cannot be found out: " + *error).str();
  if (report.empty())
    return "not installed";
  return (report.getBoolean("nereid").value_or(false) ? "Nereid, as " : "Triton ") +
         report.getString("version").value_or("?").str() + ", in " +
         report.getString("path").value_or("?").str();
}

/// Prints what came of a trial of PyTorch's compiler (python/nereid/torch.py, `report`).
template <typename Row> static void printTorch(const json::Object &report, Row row) {
  llvm::StringRef name = "torch.compile";
  if (auto error = report.getString("error")) {
    row(name, "problem: " + *error);
    return;
  }
  row(name,
      "PyTorch " + report.getString("version").value_or("?") + " after nereid.torch.use(cpu=True)");
  for (auto [key, text] : {std::pair("triton", "`import triton`: "),
                           std::pair("worker", "the same in a compile worker: ")})
    if (const json::Object *found = report.getObject(key))
      row("", text + tritonOfChildren(*found));
  for (llvm::StringRef device : {"cpu", "cuda"})
    if (const json::Object *found = report.getObject(device)) {
      if (auto error = found->getString("error"))
        row("", "problem: kernels for " + device + ": " + *error);
      else
        row("", "kernels for " + device + ": " +
                    llvm::Twine(found->getInteger("kernels").value_or(0)) +
                    " compiled by Nereid, with the right result");
    }
}

int cli::doctorCommand(const Command &, const Arguments &parsed) {
  char *text = nrd_doctor();
  auto parsedReport = json::parse(text);
  nrd_string_free(text);
  if (!parsedReport) {
    llvm::consumeError(parsedReport.takeError());
    return 1;
  }
  json::Object report = std::move(*parsedReport->getAsObject());
  std::string interpreter = parsed.get("--python", "python3");
  report["python"] = pythonReport(interpreter);
  if (parsed.has("--torch")) {
    auto trial = json::parse(firstLine(quoted(interpreter) + " -m nereid.torch"));
    report["torch"] =
        trial ? std::move(*trial) : json::Value(json::Object{{"error", "the trial ended early"}});
    if (!trial)
      llvm::consumeError(trial.takeError());
  }
  llvm::raw_ostream &out = llvm::outs();
  if (parsed.has("--json")) {
    out << llvm::formatv("{0:2}\n", json::Value(std::move(report)));
    return 0;
  }

  auto row = [&](llvm::StringRef name, const llvm::Twine &value) {
    out << llvm::left_justify(name, 14) << value << "\n";
  };
  auto textOf = [](const json::Object &object, llvm::StringRef name, const char *otherwise) {
    return object.getString(name).value_or(otherwise).str();
  };
  row("nereid", textOf(report, "version", "?") + " on LLVM " + textOf(report, "llvm", "?"));
  const json::Object &cpu = *report.getObject("cpu");
  std::string features;
  for (const json::Value &feature : *cpu.getArray("features"))
    features += " " + feature.getAsString().value_or("").str();
  row("cpu", textOf(cpu, "name", "?") + ", " + textOf(cpu, "triple", "?"));
  row("", "instructions:" + features);
  const json::Object &tiles = *cpu.getObject("tiles");
  if (textOf(tiles, "state", "") == "granted")
    row("", "tile registers of AMX: granted by Linux");
  else if (textOf(tiles, "state", "") == "refused")
    row("", "problem: Linux refuses this process the tile registers of AMX (" +
                textOf(tiles, "reason", "?") + "); products do not use them");
  row("", llvm::Twine(cpu.getInteger("cores").value_or(0)) + " cores, " +
              llvm::Twine(cpu.getInteger("threads").value_or(0)) + " threads for launches");
  const json::Object &cuda = *report.getObject("cuda");
  if (cuda.getBoolean("driver").value_or(false))
    row("cuda", "driver " + textOf(cuda, "version", "?") + ", " +
                    llvm::Twine(cuda.getInteger("devices").value_or(0)) + " devices");
  else
    row("cuda", "no driver");
  if (const json::Array *devices = cuda.getArray("properties"))
    for (const json::Value &value : *devices)
      row("", textOf(*value.getAsObject(), "name", "?") + ", sm_" +
                  llvm::Twine(value.getAsObject()->getInteger("arch").value_or(0)));
  std::vector<std::string> names; // a JSON object has no order
  for (const auto &[name, tool] : *report.getObject("tools"))
    names.push_back(name.str());
  llvm::sort(names);
  for (const std::string &name : names) {
    const json::Object &tool = *report.getObject("tools")->getObject(name);
    std::string found = textOf(tool, "found", ""), problem = textOf(tool, "problem", "");
    row(name, found.empty() ? problem : found);
    if (!found.empty() && !problem.empty())
      row("", problem);
  }
  const json::Object &cache = *report.getObject("cache");
  std::string folder = textOf(cache, "folder", ""), state = textOf(cache, "state", "?");
  bool isWritable = cache.getBoolean("writable").value_or(true);
  row("kernel cache",
      state == "off"        ? "switched off (NEREID_CACHE=0)"
      : state == "no place" ? "none: neither NEREID_CACHE_DIR nor a home folder is set"
      : state == "usable"
          ? folder +
                (isWritable ? "" : " (kernels in it are used, none is kept: it cannot be written)")
      : state == "missing"
          ? folder + (isWritable ? " (made by the first kernel)"
                                 : " is not used: it cannot be made, its place cannot be written")
      : state == "not ours"
          ? folder + " is not used: it must belong to this user, with mode 0700 (try "
                     "`chmod 700`), because kernels in it are run"
          : folder + " is not used: it is no folder, or a link, or it cannot be opened");
  const json::Object &python = *report.getObject("python");
  if (python.getBoolean("found").value_or(false)) {
    row("python", textOf(python, "version", "?") + " (" + textOf(python, "path", "?") + ")");
    for (const char *package : {"nereid", "torch", "triton", "numpy"})
      row("", std::string(package) + " " + textOf(python, package, "not installed"));
    if (const json::Object *children = python.getObject("triton_in_children")) {
      const json::Object &plain = *children->getObject("plain"),
                         &alias = *children->getObject("with_alias");
      row("", "`import triton` in a child process: " + tritonOfChildren(plain));
      row("", "the same under `python -m nereid`:  " + tritonOfChildren(alias));
      if (!alias.getBoolean("nereid").value_or(false))
        row("", "problem: children of a process that uses the alias do not get it");
    }
  } else {
    row("python", "not found");
  }
  if (const json::Object *torch = report.getObject("torch"))
    printTorch(*torch, row);
  else if (python.getString("torch"))
    row("torch.compile", "uses Nereid after nereid.torch.use(); `nereid doctor --torch` tries it");
  const json::Object &settings = *report.getObject("settings");
  const json::Array &inForce = *settings.getArray("in_force");
  row("settings", inForce.empty() ? "none set" : "");
  for (const json::Value &value : inForce) {
    const json::Object &setting = *value.getAsObject();
    out << "  " << textOf(setting, "name", "") << "=" << textOf(setting, "value", "") << "  ("
        << textOf(setting, "help", "") << ")\n";
  }
  for (const json::Value &problem : *settings.getArray("problems"))
    out << "  problem: " << problem.getAsString().value_or("") << "\n";
  return 0;
}

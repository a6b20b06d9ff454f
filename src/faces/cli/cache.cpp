// nereid cache: shows, checks and clears the compiled kernels on disk.
#include "faces/cli/commands.h"
#include "faces/cli/json_fields.h"
#include "nereid/nereid.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace nereid;
using namespace nereid::cli;
namespace json = llvm::json;

static std::string sizeText(int64_t bytes) {
  if (bytes < 10240)
    return llvm::formatv("{0} B", bytes).str();
  if (bytes < (10 << 20))
    return llvm::formatv("{0:F1} KiB", double(bytes) / 1024).str();
  return llvm::formatv("{0:F1} MiB", double(bytes) / (1 << 20)).str();
}

static std::string ageText(int64_t seconds) {
  if (seconds < 120)
    return llvm::formatv("{0} s", seconds).str();
  if (seconds < 7200)
    return llvm::formatv("{0} min", seconds / 60).str();
  if (seconds < 172800)
    return llvm::formatv("{0} h", seconds / 3600).str();
  return llvm::formatv("{0} days", seconds / 86400).str();
}

static void showState(const json::Object &report, llvm::raw_ostream &out) {
  std::string folder = textOf(report, "folder"), state = textOf(report, "state");
  if (folder.empty())
    out << "there is no place for a cache: neither NEREID_CACHE_DIR nor a home folder\n";
  else
    out << folder << ": "
        << llvm::StringSwitch<llvm::StringRef>(state)
               .Case("usable", report.getBoolean("writable").value_or(true)
                                   ? "in use"
                                   : "in use, but nothing new is kept: it cannot be written")
               .Case("missing", report.getBoolean("writable").value_or(true)
                                    ? "made by the first kernel"
                                    : "not used: it cannot be made, its place cannot be written")
               .Case("not ours", "not used: it must belong to this user and have mode 0700")
               .Case("off", "switched off by NEREID_CACHE=0")
               .Default("not used: it is no folder, or a link, or it cannot be opened")
        << "\n";
}

static void show(const json::Object &report, llvm::raw_ostream &out) {
  showState(report, out);
  std::vector<const json::Object *> kernels;
  size_t others = 0, tuned = 0;
  for (const json::Value &value : *report.getArray("entries")) {
    const json::Object &row = *value.getAsObject();
    if (textOf(row, "kind") == "kernel")
      kernels.push_back(&row);
    else
      ++(textOf(row, "kind") == "tuning" ? tuned : others);
  }
  llvm::sort(kernels, [](const json::Object *a, const json::Object *b) {
    auto key = [](const json::Object *row) {
      return std::make_tuple(textOf(*row, "kernel"), textOf(*row, "target"),
                             textOf(*row, "signature"), textOf(*row, "path"));
    };
    return key(a) < key(b);
  });
  for (const json::Object *row : kernels)
    out << llvm::formatv("{0,-28} {1,-9} {2,10} {3,9}  {4}\n", textOf(*row, "kernel"),
                         textOf(*row, "target"), sizeText(*row->getInteger("bytes")),
                         ageText(*row->getInteger("age")), textOf(*row, "signature"));
  int64_t limit = *report.getInteger("limit");
  out << kernels.size() << (kernels.size() == 1 ? " kernel" : " kernels") << ", " << tuned
      << (tuned == 1 ? " result" : " results") << " of tuning, "
      << sizeText(*report.getInteger("bytes"))
      << (limit ? " of " + sizeText(limit) : std::string(" without a limit"));
  if (size_t damaged = report.getArray("damaged")->size())
    out << ", " << damaged << " damaged";
  out << "\n";
}

static int verify(const json::Object &report, llvm::raw_ostream &out) {
  showState(report, out);
  const json::Array &damaged = *report.getArray("damaged");
  for (const json::Value &path : damaged)
    out << "damaged, and not used: " << path.getAsString().value_or("") << "\n";
  out << report.getArray("entries")->size() << " entries are whole, " << damaged.size()
      << " are damaged, " << *report.getInteger("temporary") << " being written or left behind\n";
  return damaged.empty() ? 0 : 1;
}

/// Reports the files left after clearing: those in a folder that is read-only or of another user.
static int cleared(const json::Object &report, size_t removed, bool asJson,
                   llvm::raw_ostream &out) {
  size_t left = report.getArray("entries")->size() + report.getArray("damaged")->size();
  std::string state = textOf(report, "state");
  bool done = left == 0 && (state == "usable" || state == "missing" || state == "off");
  if (asJson) {
    out << json::Value(json::Object{{"removed", int64_t(removed)}, {"left", int64_t(left)}})
        << "\n";
    return done ? 0 : 1;
  }
  out << removed << (removed == 1 ? " entry" : " entries") << " removed\n";
  if (left)
    out << textOf(report, "folder") << ": " << left << (left == 1 ? " entry is" : " entries are")
        << " still there: the folder cannot be written, or is written by another process\n";
  else if (!done)
    showState(report, out);
  return done ? 0 : 1;
}

int cli::cacheCommand(const Command &command, const Arguments &parsed) {
  DiagnosticEngine diagnostics;
  std::string action = parsed.positional.empty() ? "show" : parsed.positional[0];
  if (!llvm::is_contained({"show", "verify", "clear", "path"}, llvm::StringRef(action)))
    diagnostics.report(diag::CliSurplusArgument, {}, command.name, action);
  if (diagnostics.hasErrors())
    return usageError(diagnostics);
  std::string given = parsed.get("--folder");
  const char *folder = given.empty() ? nullptr : given.c_str();
  llvm::raw_ostream &out = llvm::outs();
  bool asJson = parsed.has("--json");
  size_t removed = action == "clear" ? nrd_cache_clear(folder) : 0;
  char *text = nrd_cache_json(folder);
  auto report = json::parse(text);
  nrd_string_free(text);
  if (!report) {
    llvm::consumeError(report.takeError());
    return 1;
  }
  const json::Object &object = *report->getAsObject();
  if (action == "clear")
    return cleared(object, removed, asJson, out);
  if (asJson) {
    out << llvm::formatv("{0:2}\n", *report);
    return action == "verify" && !object.getArray("damaged")->empty() ? 1 : 0;
  }
  if (action == "verify")
    return verify(object, out);
  if (action == "path")
    out << textOf(object, "folder") << "\n";
  else
    show(object, out);
  return 0;
}

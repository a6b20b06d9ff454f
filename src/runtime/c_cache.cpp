// The C ABI: what is kept on disk.
#include "runtime/c_api.h"
#include "runtime/cache/kernels.h"
#include "runtime/cache/store.h"
#include "runtime/cache/writer.h"
#include "support/settings.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>
#include <ctime>

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cache;
namespace json = llvm::json;

static Store storeOf(const char *folder) {
  return Store(folder ? folder : Store::defaultFolder(),
               uint64_t(std::max<int64_t>(0, Settings::current().cacheSize)) << 20);
}

static const char *stateText(FolderState state) {
  switch (state) {
  case FolderState::Usable:
    return "usable";
  case FolderState::Missing:
    return "missing";
  case FolderState::NotOurs:
    return "not ours";
  case FolderState::NoFolder:
    return "no folder";
  }
  return "";
}

static json::Object describe(const Store &store, const EntryInfo &entry, bool &damaged) {
  json::Object row{{"path", json::fixUTF8(entry.path)},
                   {"bytes", int64_t(entry.bytes)},
                   {"age", std::max<int64_t>(0, int64_t(std::time(nullptr)) - entry.lastUse)}};
  EntryKind kind;
  std::optional<std::string> content = store.open(entry, kind);
  std::optional<KernelSummary> kernel;
  if (content && kind == EntryKind::Kernel && !(kernel = summaryOf(*content)))
    content.reset();
  damaged = !content;
  if (damaged)
    return row;
  row["kind"] = kind == EntryKind::Kernel   ? "kernel"
                : kind == EntryKind::Tuning ? "tuning"
                                            : "questions";
  if (kernel) {
    const std::pair<const char *, const std::string &> texts[] = {
        {"kernel", kernel->kernel},       {"function", kernel->function},
        {"target", kernel->target},       {"features", kernel->features},
        {"signature", kernel->signature}, {"version", kernel->version}};
    for (const auto &[name, text] : texts)
      row[name] = json::fixUTF8(text);
  }
  return row;
}

char *nrd_cache_json(const char *folder) try {
  Store store = storeOf(folder);
  json::Array entries, damaged;
  int64_t bytes = 0;
  FolderState state = store.state();
  if (state == FolderState::Usable)
    store.forEach([&](const EntryInfo &entry) {
      bool isDamaged;
      json::Object row = describe(store, entry, isDamaged);
      bytes += int64_t(entry.bytes);
      if (isDamaged)
        damaged.push_back(json::fixUTF8(entry.path));
      else
        entries.push_back(std::move(row));
    });
  json::Object report{{"folder", json::fixUTF8(store.folder())},
                      {"state", !folder && !Settings::current().cache ? "off" : stateText(state)},
                      {"writable", store.isWritable()},
                      {"limit", Settings::current().cacheSize << 20},
                      {"bytes", bytes},
                      {"temporary", int64_t(store.temporaryFiles())},
                      {"entries", std::move(entries)},
                      {"damaged", std::move(damaged)}};
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(report));
  return strdup(text.c_str());
}
NRD_CATCH_AND(return nullptr)

int nrd_cache_flush(uint64_t milliseconds) try {
  constexpr uint64_t longest = uint64_t(1) << 40; // what a clock can add
  return writer::flush(std::chrono::milliseconds(std::min(milliseconds, longest)));
}
NRD_CATCH_AND(return 0)

void nrd_cache_write_at_once(void) try { writer::writeAtOnce(); }
NRD_CATCH

size_t nrd_cache_clear(const char *folder) try { return storeOf(folder).clear(); }
NRD_CATCH_AND(return 0)

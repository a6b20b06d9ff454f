#include "runtime/cache/kernels.h"

#include "runtime/facts_only.h"
#include "runtime/function.h"
#include "support/file_identity.h"
#include "support/settings.h"

#include "llvm/ADT/BitVector.h"

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cache;

namespace {

/// No path of answers that we wrote is longer.
constexpr int longestPath = 64;

/// Settings that want to see a compilation, and what replaces a part of one.
bool wantsCompilation(const CompileRequest &request) {
  const Settings &settings = Settings::current();
  return settings.alwaysCompile || settings.timePasses || settings.printAfterChanged ||
         settings.printAssembler || settings.printPtx || !settings.printLlvm.empty() ||
         !settings.printBefore.empty() || !settings.dumpDir.empty() || settings.kernelDump ||
         request.options.verify;
}

bool takesPart(const CompileRequest &request) {
  return !request.keepStages && !request.explanation && request.options.irOverride.empty() &&
         !Settings::current().kernelOverride;
}

bool writeSpec(Entities &entities, const frontend::ParamSpec &spec, ByteWriter &out) {
  out.number(uint8_t(spec.kind));
  entities.writeType(spec.type, out);
  out.number(spec.divisibility);
  out.flag(spec.isLarge);
  if (!entities.write(spec.constant, out))
    return false;
  out.list(spec.fields, [&](const std::string &field) { out.text(field); });
  // A class of named tuples is an entity like an object.
  frontend::Value marker = spec.cls ? frontend::Value(frontend::Aggregate{spec.cls, {}})
                                    : frontend::Value(frontend::Tuple{{}, {}, spec.hostClass});
  if (!entities.write(marker, out))
    return false;
  out.count(spec.items.size());
  return llvm::all_of(
      spec.items, [&](const frontend::ParamSpec &item) { return writeSpec(entities, item, out); });
}

void writeOption(ByteWriter &out, bool value) {
  out.flag(value);
}
void writeOption(ByteWriter &out, int64_t value) {
  out.number(value);
}
void writeOption(ByteWriter &out, const std::string &value) {
  out.text(value);
}

} // namespace

std::optional<KernelSummary> cache::summaryOf(llvm::StringRef content) {
  ByteReader in(content);
  KernelSummary summary;
  for (std::string *field : {&summary.kernel, &summary.function, &summary.target, &summary.features,
                             &summary.signature, &summary.version})
    *field = in.text();
  summary.codeBytes = in.number<uint64_t>();
  return in.ok() ? std::optional(std::move(summary)) : std::nullopt;
}

Keeper::Keeper(const CompileRequest &request, const targets::Target &target,
               const targets::CompileOptions &options, CHost *host)
    : request(request), target(target), options(options), inner(host),
      dialogue(host, [&target](llvm::StringRef tool) { return target.fileOf(tool); }) {
  if (!takesPart(request))
    return;
  store = Store::current();
  if (store && !makeKey())
    store.reset();
}

Keeper::~Keeper() {
  if (inner)
    inner->noteIn(nullptr);
}

void Keeper::listen() {
  inner->noteIn(&dialogue);
}

bool Keeper::makeKey() {
  std::string machine = target.identity(options);
  const std::string &compiler = compilerIdentity();
  if (machine.empty() || compiler.empty())
    return false;
  ByteWriter out;
  out.text("nereid kernel");
  out.text(compiler);
  const Settings &settings = Settings::current();
#define SETTING(...)
#define CODE_SETTING(Field, Type, Variable, Default, Alias, Help) writeOption(out, settings.Field);
#include "support/settings.def"
#undef SETTING
  out.text(machine);
  out.text(request.target.text());
  // Everything but what concerns a launch.
#define LAUNCH_OPTION(...)
#define OPTION(Field, Type, Name, Default, Help) writeOption(out, request.options.Field);
#define GPU_OPTION(Field, Type, Name, Default, Help)                                               \
  if (request.target.backend != Backend::Cpu)                                                      \
    writeOption(out, request.options.Field);
#include "runtime/options.def"
#undef OPTION
  out.text(request.options.kernelName);

  const frontend::Function &function = request.function->function;
  out.flag(inner != nullptr);
  out.text(function.name());
  out.text(function.derivativeText());
  out.text(request.function->tile ? request.function->tile->text : "");
  if (!dialogue.entities.write(frontend::Value(frontend::FunctionValue{&function, nullptr}), out))
    return false;
  bool written = true;
  out.list(request.specs, [&](const frontend::ParamSpec &spec) {
    written = written && writeSpec(dialogue.entities, spec, out);
  });
  key = Key::of(out.bytes());
  return written;
}

std::unique_ptr<targets::CompiledKernel> Keeper::find(llvm::BitVector &written,
                                                      std::vector<uint8_t> &gradientFacts) {
  if (!store || wantsCompilation(request))
    return nullptr;
  EntryKind kind;
  std::optional<std::string> content = store->readAny(key, kind);
  if (!content)
    return nullptr;
  if (inner)
    inner->beginProbe();
  std::unique_ptr<targets::CompiledKernel> code;
  for (int i = 0; content && i < longestPath; ++i) {
    if (kind == EntryKind::Kernel) {
      code = restore(*content, written, gradientFacts);
      if (code && code->completed)
        keepCompleted(*content, *code);
      break;
    }
    std::optional<std::string> path;
    if (kind == EntryKind::Questions)
      path = dialogue.repeat(*content);
    if (!path)
      break;
    key = key.then(*path);
    content = store->readAny(key, kind);
  }
  if (inner)
    inner->endProbe(code != nullptr);
  return code;
}

std::unique_ptr<targets::CompiledKernel>
Keeper::restore(llvm::StringRef content, llvm::BitVector &written,
                std::vector<uint8_t> &gradientFacts) const {
  ByteReader in(content);
  for (int i = 0; i < 6; ++i)
    in.text();
  in.number<uint64_t>();
  written.clear();
  in.list([&] { written.push_back(in.flag()); });
  gradientFacts.clear();
  in.list([&] { gradientFacts.push_back(in.number<uint8_t>()); });
  std::string_view code = in.text();
  if (!in.done())
    return nullptr;
  ByteReader body(code);
  bool onlyFacts = request.options.gradientFacts;
  std::unique_ptr<targets::CompiledKernel> kernel =
      onlyFacts ? FactsOnly::restore(body) : target.restore(body, options);
  if (!kernel || !body.done() || kernel->params.size() != written.size())
    return nullptr;
  if (onlyFacts)
    return kernel;
  std::string why; // the compilation will say what is wrong
  return !options.load || target.load(*kernel, why) ? std::move(kernel) : nullptr;
}

void Keeper::keepCompleted(llvm::StringRef content, const targets::CompiledKernel &code) const {
  // The same entry with the code as it is now.
  ByteReader in(content);
  ByteWriter out, body;
  for (int i = 0; i < 6; ++i)
    out.text(in.text());
  in.number<uint64_t>();
  if (!code.save(body))
    return;
  out.number(uint64_t(body.bytes().size()));
  std::vector<bool> written;
  in.list([&] { written.push_back(in.flag()); });
  out.list(written, [&](bool flag) { out.flag(flag); });
  std::vector<uint8_t> gradientFacts;
  in.list([&] { gradientFacts.push_back(in.number<uint8_t>()); });
  out.list(gradientFacts, [&](uint8_t facts) { out.number(facts); });
  out.text(body.bytes());
  store->writeLater(key, EntryKind::Kernel, out.take());
}

void Keeper::keep(const targets::CompiledKernel &code, const nrd_kernel &kernel,
                  const llvm::BitVector &written) {
  ByteWriter body;
  if (!store || !dialogue.isRepeatable() || !code.save(body))
    return;
  if (code.namesPlaces)
    dialogue.notePlaces();
  for (const std::string &file : code.files)
    dialogue.noteFile(file);
  if (code.usesLibdevice)
    dialogue.noteTool("libdevice");
  if (!dialogue.isRepeatable())
    return;

  ByteWriter out;
  out.text(kernel.name);
  out.text(request.function->name);
  out.text(request.target.text());
  out.text(request.target.backend == Backend::Cpu ? request.options.features : "");
  std::string signature;
  for (const frontend::ParamSpec &spec : request.specs)
    signature += (signature.empty() ? "" : ", ") + signatureText(spec);
  out.text(signature);
  out.text(NEREID_VERSION);
  out.number(uint64_t(body.bytes().size()));
  out.count(written.size());
  for (unsigned i = 0; i < written.size(); ++i)
    out.flag(written.test(i));
  out.list(kernel.gradientFacts, [&](uint8_t facts) { out.number(facts); });
  out.text(body.bytes());

  // Another process may have got here meanwhile: its list is as good when it is the same one.
  std::string list = dialogue.furtherList();
  std::optional<std::string> path = dialogue.repeat(list);
  if (!path) { // nothing further was asked
    store->writeLater(key, EntryKind::Kernel, out.take());
    return;
  }
  std::optional<std::string> there = store->read(key, EntryKind::Questions);
  if (there && *there != list)
    return;
  if (store->writeLater(key.then(*path), EntryKind::Kernel, out.take()) && !there)
    store->writeLater(key, EntryKind::Questions, list); // after the kernel
}

#include "targets/nvidia/codegen/Assembler.h"

#include "support/file_identity.h"
#include "support/settings.h"
#include "targets/disassemble.h"
#include "targets/nvidia/codegen/AssemblyNote.h"
#include "targets/nvidia/codegen/Subprocess.h"
#include "targets/nvidia/codegen/Toolkit.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <mutex>

namespace nereid::nvidia {
namespace {

/// The number before `unit` in "12 registers", as ptxas writes them.
int numberBefore(llvm::StringRef line, llvm::StringRef unit) {
  size_t at = line.find(unit);
  if (at == llvm::StringRef::npos)
    return 0;
  llvm::StringRef before = line.take_front(at).rtrim();
  size_t start = before.find_last_not_of("0123456789");
  int number = 0;
  before.substr(start == llvm::StringRef::npos ? 0 : start + 1).getAsInteger(10, number);
  return number;
}

int timeLimit() {
  constexpr int64_t longest = 7 * 24 * 3600; // what a clock of milliseconds can hold
  return int(std::clamp<int64_t>(Settings::current().assemblerTimeout, 1, longest));
}

bool isMachineCode(llvm::StringRef bytes) {
  return bytes.starts_with("\x7f"
                           "ELF");
}

/// How a program of NVIDIA's ended, where it says nothing itself.
std::string endOf(const ProcessResult &result) {
  if (result.signal)
    return "it was ended by signal " + std::to_string(result.signal) + " (" +
           strsignal(result.signal) + ")";
  return "it ended with status " + std::to_string(result.status);
}

/// A `ptxas` process for each kernel.
class PtxasProgram final : public Assembler {
public:
  PtxasProgram(std::string path, int major, int minor)
      : path(std::move(path)), major(major), minor(minor) {}

  std::string description() const override {
    return "ptxas " + std::to_string(major) + "." + std::to_string(minor) + " (" + path + ")";
  }
  int ptxVersion() const override { return ptxVersionOfCuda(major, minor); }
  bool isInProcess() const override { return false; }

  llvm::Expected<Assembly> assemble(llvm::StringRef ptx, llvm::StringRef kernel,
                                    const AssembleOptions &options) const override {
    auto source = TemporaryFile::create("ptx", ptx);
    if (!source)
      return source.takeError();
    auto target = TemporaryFile::create("cubin", "");
    if (!target)
      return target.takeError();
    std::vector<std::string> args{"-v", "-arch=" + options.arch.name(),
                                  "-O" + std::to_string(options.optLevel)};
    for (llvm::StringRef word : options.words())
      args.push_back(word.str());
    args.insert(args.end(), {source->path(), "-o", target->path()});
    auto result = runProgram(path, args, timeLimit());
    if (!result)
      return result.takeError();
    if (result->signal)
      return llvm::createStringError(description() + " did not assemble `" + kernel +
                                     "`: " + endOf(*result));
    if (result->failed())
      return assemblerError(description(), kernel,
                            result->output.empty() ? endOf(*result) : result->output);
    auto cubin = target->read();
    if (!cubin)
      return cubin.takeError();
    // Its status may be unknown.
    if (result->status < 0 && !isMachineCode(*cubin))
      return assemblerError(description(), kernel, result->output);
    Assembly assembly;
    assembly.cubin = std::move(*cubin);
    readLog(result->output, kernel, assembly);
    return assembly;
  }

private:
  std::string path;
  int major, minor;
};

/// In the order in which they are tried.
llvm::SmallVector<llvm::StringRef> kindsInForce() {
  const Settings &settings = Settings::current();
  if (!settings.assembler.empty())
    return {settings.assembler};
  if (!settings.ptxas.empty())
    return {"ptxas"};
  return {"nvjitlink", "ptxas", "driver"};
}

std::unique_ptr<Assembler> open(llvm::StringRef kind, const std::string &ptxas, NoAssembler &none) {
  if (kind == "nvjitlink")
    return openNvJitLink(none);
  if (kind == "driver")
    return openDriverLinker(none);
  assert(kind == "ptxas");
  std::string path = ptxas.empty() ? findProgram("ptxas") : ptxas;
  if (path.empty()) {
    none.why = "no program `ptxas` was found";
    return nullptr;
  }
  return openPtxas(path, none);
}

/// The PTX version that an assembler has to read; 0 for no architecture.
int neededVersion(const Architecture *arch) {
  return arch ? ptxVersionFor(*arch, std::nullopt) : 0;
}

} // namespace

void readLog(llvm::StringRef log, llvm::StringRef kernel, Assembly &assembly) {
  assembly.log = log.str();
  llvm::SmallVector<llvm::StringRef> lines;
  log.split(lines, '\n', -1, false);
  bool ours = false; // of the entry, not of a function it calls
  for (llvm::StringRef line : lines) {
    if (line.contains("warning") || isPerformanceAdvisory(line))
      assembly.warnings.push_back(line.trim().str());
    if (line.contains("Function properties for") || line.contains("Compiling entry function")) {
      ours = line.contains(kernel);
      continue;
    }
    if (!ours || !line.contains("bytes stack frame")) {
      // nvJitLink repeats the figures after linking ("used 12 registers"); ptxas's come first.
      if (line.contains(": Used ") && ours) {
        assembly.registers = numberBefore(line, " registers");
        assembly.staticSharedBytes = numberBefore(line, " bytes smem");
      }
      continue;
    }
    assembly.stackBytes = numberBefore(line, " bytes stack frame");
    assembly.spillStoreBytes = numberBefore(line, " bytes spill stores");
    assembly.spillLoadBytes = numberBefore(line, " bytes spill loads");
  }
}

bool isPerformanceAdvisory(llvm::StringRef line) {
  // "(C7510) Potential Performance Loss: ..."; "(C7517) warpgroup.wait is injected ...", from 13.1
  // on "wgmma.wait_group is injected ...".
  return line.contains("Potential Performance Loss") || line.contains("is injected");
}

int ptxVersionOfCuda(int major, int minor) {
  switch (major) {
  case 11:
    return std::min(70 + minor, 78);
  case 12:
    // Releases up to 12.5 raise it by one each; 12.6 repeats 12.5's.
    return minor <= 5 ? 80 + minor : minor == 6 ? 85 : std::min(minor + 79, 88);
  default:
    return major < 11 ? 65 : 90 + (major - 13) * 10 + minor;
  }
}

std::unique_ptr<Assembler> openPtxas(const std::string &path, NoAssembler &none) {
  none.isThere = true;
  auto result = runProgram(path, {"--version"}, 30);
  if (!result) {
    none.why = llvm::toString(result.takeError());
    return nullptr;
  }
  llvm::StringRef output = result->output;
  int major = 0, minor = 0;
  size_t at = output.find("release ");
  if (!result->failed() && at != llvm::StringRef::npos) {
    output = output.substr(at + strlen("release "));
    if (!output.consumeInteger(10, major) && output.consume_front("."))
      output.consumeInteger(10, minor);
  }
  if (major == 0) {
    none.why = "`" + path + "` does not say its version: it is no `ptxas`";
    return nullptr;
  }
  return std::make_unique<PtxasProgram>(path, major, minor);
}

namespace {

/// What is in force for an architecture.
struct Choice {
  const Assembler *assembler = nullptr;
  std::string none;       ///< why there is none
  std::string passedOver; ///< why it is not the first one that is there
};

} // namespace

static Choice choose(llvm::ArrayRef<llvm::StringRef> kinds, const Architecture *arch) {
  // By choice and kind: settings may be read again.
  static auto *mutex = new std::mutex();
  static auto *choices = new llvm::StringMap<Choice>();
  static auto *opened = new llvm::StringMap<std::unique_ptr<Assembler>>();
  const Settings &settings = Settings::current();
  const int needed = neededVersion(arch);
  std::string places =
      "|" + settings.ptxas + "|" + settings.cudaPath + "|" + settings.cudaLibrary();
  std::lock_guard lock(*mutex);
  Choice &choice = (*choices)[llvm::join(kinds, ",") + "|" + std::to_string(needed) + places];
  // What was not found may have been installed, or the packages' folders named, since.
  if (choice.assembler)
    return choice;
  choice = {};
  const Assembler *old = nullptr;
  auto because = [](std::string &text, const std::string &why) {
    text += (text.empty() ? "" : "; ") + why;
  };
  for (llvm::StringRef kind : kinds) {
    std::unique_ptr<Assembler> &assembler = (*opened)[kind.str() + places];
    NoAssembler none;
    if (!assembler)
      assembler = open(kind, settings.ptxas, none);
    if (!assembler) {
      because(choice.none, none.why);
      if (none.isThere)
        because(choice.passedOver, none.why);
    } else if (assembler->ptxVersion() < needed) {
      if (!old)
        old = assembler.get();
      because(choice.passedOver, assembler->description() + " is too old for " + arch->name());
    } else {
      choice.assembler = assembler.get();
      return choice;
    }
  }
  // It says itself what it does not know.
  choice.assembler = old;
  choice.passedOver.clear();
  return choice;
}

llvm::Expected<const Assembler *> findAssembler(const Architecture *arch) {
  Choice choice = choose(kindsInForce(), arch);
  if (choice.assembler)
    return choice.assembler;
  return llvm::createStringError(
      "there is no assembler for NVIDIA's machine code: " + choice.none +
      "; install the package `nvidia-nvjitlink` with pip, a CUDA toolkit (NEREID_CUDA_PATH says "
      "where it is) or the NVIDIA driver");
}

std::string passedOver(const Architecture *arch) {
  Choice choice = choose(kindsInForce(), arch);
  if (!choice.assembler || choice.passedOver.empty())
    return "";
  return choice.passedOver + ": " + choice.assembler->description() + " assembles instead";
}

/// The PTX as a program that reads at most `version` (times ten) takes it: the versions differ in
/// what they add, and few kernels need the newest.
static std::string inVersion(llvm::StringRef ptx, int version) {
  static constexpr llvm::StringLiteral directive = "\n.version ";
  size_t at = ptx.find(directive);
  if (at == llvm::StringRef::npos)
    return ptx.str();
  llvm::StringRef rest = ptx.substr(at + directive.size());
  int major = 0, minor = 0;
  if (rest.consumeInteger(10, major) || !rest.consume_front(".") ||
      rest.consumeInteger(10, minor) || major * 10 + minor <= version)
    return ptx.str();
  return (ptx.take_front(at + directive.size()) + llvm::Twine(version / 10) + "." +
          llvm::Twine(version % 10) + rest)
      .str();
}

static llvm::Expected<Assembly> checked(llvm::Expected<Assembly> assembly, llvm::StringRef kernel) {
  if (!assembly || isMachineCode(assembly->cubin))
    return assembly;
  return llvm::createStringError(assembly->by + " gave " + llvm::Twine(assembly->cubin.size()) +
                                 " bytes for `" + kernel + "` that are no machine code");
}

/// The program that takes over from an assembler in the process; null where there is none or
/// another choice was made.
static const Assembler *programInForce(const Architecture &arch) {
  if (!llvm::is_contained(kindsInForce(), "ptxas"))
    return nullptr;
  const Assembler *program = choose({"ptxas"}, &arch).assembler;
  return program && program->ptxVersion() >= neededVersion(&arch) ? program : nullptr;
}

bool assemblesSetmaxnreg(const Architecture &arch) {
  auto found = findAssembler(&arch);
  if (!found) {
    llvm::consumeError(found.takeError());
    return true;
  }
  return !(*found)->isInProcess() || programInForce(arch);
}

std::optional<Assembly> assembleByProgram(llvm::StringRef ptx, llvm::StringRef kernel,
                                          const AssembleOptions &options) {
  auto found = findAssembler(&options.arch);
  if (!found) {
    llvm::consumeError(found.takeError());
    return std::nullopt;
  }
  const Assembler *program = (*found)->isInProcess() ? programInForce(options.arch) : nullptr;
  if (!program)
    return std::nullopt;
  auto assembly =
      checked(program->assemble(inVersion(ptx, program->ptxVersion()), kernel, options), kernel);
  if (!assembly) {
    llvm::consumeError(assembly.takeError());
    return std::nullopt;
  }
  assembly->by = program->description();
  return std::move(*assembly);
}

llvm::Expected<Assembly> assemble(llvm::StringRef ptx, llvm::StringRef kernel,
                                  const AssembleOptions &options, llvm::StringRef notes) {
  auto found = findAssembler(&options.arch);
  if (!found)
    return found.takeError();
  const Assembler &first = **found;
  auto run = [&](const Assembler &assembler, llvm::StringRef text) {
    auto assembly = assembler.assemble(text, kernel, options);
    if (assembly) {
      assembly->by = assembler.description();
      static std::atomic<bool> isTold = false;
      std::string other = &assembler == &first ? passedOver(&options.arch) : "";
      if (!other.empty() && !isTold.exchange(true))
        assembly->warnings.insert(assembly->warnings.begin(), other);
    }
    return checked(std::move(assembly), kernel);
  };
  if (!first.isInProcess())
    return run(first, ptx);
  if (ptx.contains("setmaxnreg."))
    if (const Assembler *program = programInForce(options.arch))
      return run(*program, inVersion(ptx, program->ptxVersion()));

  const std::string by = first.description();
  AssemblyNote note(notes, by + "\n" + options.arch.name() + " -O" +
                               std::to_string(options.optLevel) + " " + options.further + "\n" +
                               ptx.str());
  const Assembler *program = nullptr;
  std::string reason; // for not asking the first one
  bool isNews = true;
  if (first.hasCrashed()) {
    reason = by + " has crashed in this process";
    isNews = false;
  } else if (note.ended() > 0) {
    reason = by + " crashed at `" + kernel.str() +
             "` in an earlier process, or that process was stopped then";
  }
  if (!reason.empty())
    program = programInForce(options.arch);
  // Once may have been chance.
  if (reason.empty() || (!program && !first.hasCrashed() && note.ended() == 1)) {
    note.begin();
    auto assembly = run(first, ptx);
    if (assembly || !assembly.errorIsA<AssemblerCrashed>())
      return assembly;
    note.keep();
    reason = llvm::toString(assembly.takeError());
    program = programInForce(options.arch);
  }
  if (!program) {
    std::string file =
        note.ended() > 0 && !first.hasCrashed() ? ", or remove `" + note.path() + "`" : "";
    return llvm::createStringError(
        reason +
        "; it is not asked again: install `nvidia-nvjitlink>=13.3`, or let `ptxas` "
        "assemble, a program that can only crash alone (of a CUDA toolkit or the package "
        "`nvidia-cuda-nvcc`; NEREID_PTXAS names one)" +
        file);
  }
  auto assembly = run(*program, inVersion(ptx, program->ptxVersion()));
  if (!assembly)
    return llvm::createStringError(reason + ", and " + llvm::toString(assembly.takeError()));
  if (isNews)
    assembly->warnings.insert(assembly->warnings.begin(),
                              reason + ": " + assembly->by + " assembles it instead");
  return assembly;
}

/// The file of a library that is loaded, by the name that it gives itself; empty when none is.
/// (`dlopen` would tell with RTLD_NOLOAD, after it has looked for the file in every folder.)
static std::string loadedFile(const std::string &name) {
  struct Search {
    const std::string &name;
    std::string file;
  } search{name, ""};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto &search = *static_cast<Search *>(data);
        const ElfW(Dyn) *entry = nullptr;
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry =
                reinterpret_cast<const ElfW(Dyn) *>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        if (!entry || !info->dlpi_name || !*info->dlpi_name)
          return 0;
        ElfW(Addr) names = 0, own = 0;
        for (; entry->d_tag != DT_NULL; ++entry)
          if (entry->d_tag == DT_STRTAB)
            names = entry->d_un.d_ptr;
          else if (entry->d_tag == DT_SONAME)
            own = entry->d_un.d_val;
        // The loader has made an address of it, but for its own and the kernel's.
        if (names < info->dlpi_addr)
          names += info->dlpi_addr;
        if (own && search.name == reinterpret_cast<const char *>(names + own))
          search.file = info->dlpi_name;
        return search.file.empty() ? 0 : 1;
      },
      &search);
  return search.file;
}

/// The files that `dlopen` of a library's name may mean, as far as they can be told from outside.
static std::vector<std::string> loadable(const std::string &name) {
  if (name.find('/') != std::string::npos)
    return {name};
  if (std::string file = loadedFile(name); !file.empty())
    return {file};
  std::vector<std::string> files;
  llvm::SmallVector<llvm::StringRef> folders;
  const char *path = std::getenv("LD_LIBRARY_PATH");
  llvm::StringRef(path ? path : "").split(folders, ':', -1, false);
  folders.append({"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64",
                  "/usr/lib", "/usr/local/lib"});
  for (llvm::StringRef folder : folders)
    if (std::string file = (folder + "/" + name).str(); llvm::sys::fs::exists(file))
      files.push_back(std::move(file));
  return files;
}

static std::string identityOf(llvm::StringRef kind, const std::string &ptxas) {
  std::vector<std::string> files;
  if (kind == "nvjitlink") {
    for (const char *name : {"libnvJitLink.so.13", "libnvJitLink.so.12"})
      if (files.empty())
        if (files = loadable(name); files.empty())
          files = findLibraries(name, /*most=*/1);
  } else if (kind == "driver") {
    files = loadable(Settings::current().cudaLibrary());
  } else if (std::string program = ptxas.empty() ? findProgram("ptxas") : ptxas; !program.empty()) {
    files = {program};
  }
  std::string text;
  llvm::StringSet<> seen;
  for (const std::string &file : files)
    if (std::string build = buildIdentity(file); !build.empty() && seen.insert(build).second)
      text += " " + build;
  return text.empty() ? text : kind.str() + text;
}

std::string assemblerIdentity(const Architecture &arch) {
  static auto *mutex = new std::mutex();
  static auto *known = new llvm::StringMap<std::string>();
  const Settings &settings = Settings::current();
  llvm::SmallVector<llvm::StringRef> kinds = kindsInForce();
  const int needed = neededVersion(&arch);
  std::string key = llvm::join(kinds, ",") + "|" + std::to_string(needed) + "|" + settings.ptxas +
                    "|" + settings.cudaPath + "|" + settings.cudaLibrary();
  std::lock_guard lock(*mutex);
  std::string &identity = (*known)[key];
  if (!identity.empty())
    return identity;
  // What was not found may have been installed since.
  for (llvm::StringRef kind : kinds) {
    std::string one = identityOf(kind, settings.ptxas);
    identity += (identity.empty() || one.empty() ? "" : " ") + one;
    // An old one may be passed over, which shows only when it is opened. There is no nvJitLink of
    // before PTX 8.0.
    bool isNewEnough = kind == "nvjitlink" && needed <= ptxVersionOfCuda(12, 0);
    if (!one.empty() && isNewEnough)
      break;
  }
  return identity.empty() ? "no assembler" : identity;
}

llvm::Error assemblerError(llvm::StringRef assembler, llvm::StringRef kernel, llvm::StringRef log) {
  llvm::SmallVector<llvm::StringRef> lines;
  log.split(lines, '\n', -1, false);
  std::string cause;
  for (llvm::StringRef line : lines)
    if (cause.size() < 600 && (line.contains("error") || line.contains("fatal")))
      cause += (cause.empty() ? "" : "; ") + line.trim().str();
  if (cause.empty())
    cause = log.trim().take_front(600).str();
  std::string start = (assembler + " does not accept the code of `" + kernel + "`").str();
  if (llvm::StringRef(cause).contains("uses too much shared data"))
    return llvm::createStringError("`" + kernel + "` needs more shared memory than there is: " +
                                   cause + "; use smaller blocks or fewer `num_stages`");
  if (llvm::StringRef(cause).contains("Unsupported .version"))
    return llvm::createStringError(start + ": it is too old for this PTX: " + cause);
  if (llvm::StringRef(cause).contains("not defined for option 'gpu-name'") ||
      llvm::StringRef(cause).contains("is not defined for option"))
    return llvm::createStringError(start + ": it is too old for this GPU: " + cause);
  if (llvm::StringRef(cause).contains("register") &&
      llvm::StringRef(cause).contains_insensitive("allocation failed"))
    return llvm::createStringError("`" + kernel + "` does not fit into the registers: " + cause +
                                   "; use smaller blocks, more `num_warps` or a larger `maxnreg`");
  return llvm::createStringError(start + ": " + cause);
}

std::string findDisassembler() {
  std::string program = findProgram("nvdisasm");
  return program.empty() ? findProgram("cuobjdump") : program;
}

llvm::Expected<std::string> disassemble(llvm::StringRef cubin) {
  auto file = TemporaryFile::create("cubin", cubin);
  if (!file)
    return file.takeError();
  std::string program = findDisassembler();
  bool plain = llvm::sys::path::filename(program) == "nvdisasm";
  // With the lines of the source, where the code has them.
  std::vector<std::string> args = plain ? std::vector<std::string>{"-c", "-g", file->path()}
                                        : std::vector<std::string>{"-sass", file->path()};
  if (program.empty())
    return llvm::createStringError(
        "showing machine code needs `nvdisasm` or `cuobjdump`, and neither was found: install a "
        "CUDA toolkit (NEREID_CUDA_PATH says where it is), or the packages `nvidia-cuda-nvdisasm` "
        "or `triton`");
  auto result = runProgram(program, args, timeLimit());
  if (!result)
    return result.takeError();
  if (result->failed())
    return llvm::createStringError(
        "`" + program + "` failed: " +
        (result->output.empty() ? endOf(*result) : llvm::StringRef(result->output).trim()));
  // Its warnings come first, in the same stream.
  llvm::StringRef text = result->output;
  while (text.starts_with("nvdisasm ") || text.starts_with("cuobjdump "))
    text = text.split('\n').second;
  return text.str();
}

} // namespace nereid::nvidia

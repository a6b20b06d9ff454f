// PTX to machine code (a cubin), by whichever of NVIDIA's assemblers there is: nvJitLink in the
// process, a `ptxas` program, or the driver's own compiler.
//
// The setting NEREID_ASSEMBLER chooses ("nvjitlink", "ptxas", "driver"); NEREID_PTXAS (alias
// TRITON_PTXAS_PATH) names the program. Without a choice the first of that order is taken that can
// be used and is new enough for the GPU: the driver's compiler is several times slower than the
// others and the only one whose crash nothing can be done about. Assemblers are found once a
// process and may be used from several threads.
//
// nvJitLink and the driver's compiler run inside this process, and their crash would end it.
// `assemble` recovers from most crashes and avoids repeated ones.
#pragma once
#include "targets/nvidia/codegen/Architecture.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nereid::nvidia {

/// The lines of the source are kept where the PTX has them (`.loc`).
struct AssembleOptions {
  Architecture arch;
  /// 0 to 3.
  int optLevel = 3;
  /// Further options of ptxas, separated by spaces. The driver's own compiler takes none.
  std::string further{};

  llvm::SmallVector<llvm::StringRef> words() const {
    llvm::SmallVector<llvm::StringRef> all;
    llvm::StringRef(further).split(all, ' ', -1, false);
    return all;
  }
};

/// The finished code of one kernel, and what the assembler says about it.
struct Assembly {
  std::string cubin;
  /// The description of what made it; set by the function `assemble`.
  std::string by;
  /// Everything the assembler printed.
  std::string log;
  int registers = 0;       ///< a thread
  int stackBytes = 0;      ///< a thread
  int spillStoreBytes = 0; ///< a thread; static
  int spillLoadBytes = 0;  ///< a thread; static
  int staticSharedBytes = 0;
  /// "(C7510) Potential Performance Loss: ..." and other warnings, a line each.
  std::vector<std::string> warnings;
};

/// Reads registers, spills and warnings out of an assembler's log into `assembly`.
void readLog(llvm::StringRef log, llvm::StringRef kernel, Assembly &assembly);
/// Whether a line says that the code will run slower than it could: ptxas's advisories, and the
/// waits it adds between wgmma instructions.
bool isPerformanceAdvisory(llvm::StringRef line);

/// The error of an assembler that crashed while it assembled.
class AssemblerCrashed : public llvm::ErrorInfo<AssemblerCrashed> {
public:
  static inline char ID = 0;
  explicit AssemblerCrashed(std::string text) : text(std::move(text)) {}
  void log(llvm::raw_ostream &out) const override { out << text; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string text;
};

class Assembler {
public:
  virtual ~Assembler() = default;
  /// "nvJitLink 13.0", with its place.
  virtual std::string description() const = 0;
  /// The newest PTX version it reads, times ten.
  virtual int ptxVersion() const = 0;
  /// Whether a crash of it is one of this process.
  virtual bool isInProcess() const { return true; }
  /// Whether it has crashed in this process, which has survived it and does not call it again.
  virtual bool hasCrashed() const { return false; }
  /// A known defect of this release, which its user should hear of; empty for none.
  virtual std::string defect() const { return ""; }
  /// Assembles a module with the one kernel `kernel`. Errors are the assembler's, in its words,
  /// with the cause first where it is known (PTX too new, too much shared memory, out of
  /// registers).
  virtual llvm::Expected<Assembly> assemble(llvm::StringRef ptx, llvm::StringRef kernel,
                                            const AssembleOptions &options) const = 0;
};

/// The assembler in force, for an architecture or for any; an error says what to install. The
/// object lives as long as the process.
llvm::Expected<const Assembler *> findAssembler(const Architecture *arch = nullptr);

/// Why an assembler that is there and comes first was passed over: a library that cannot be loaded,
/// a release that is too old for the architecture. Empty where none was.
std::string passedOver(const Architecture *arch = nullptr);

/// Whether kernels with `setmaxnreg` get the registers that it names: by a `ptxas` program.
/// nvJitLink and the driver's compiler translate for linking, and ignore the instruction then
/// (ptxas's advisory C7504). True as well when there is no assembler.
bool assemblesSetmaxnreg(const Architecture &arch);

/// Assembles by the `ptxas` program that would take over from an assembler in this process; nothing
/// where there is none, another assembler was asked for, or it does not accept the code.
std::optional<Assembly> assembleByProgram(llvm::StringRef ptx, llvm::StringRef kernel,
                                          const AssembleOptions &options);

/// Assembles by the assembler in force, to machine code or an error. Code with `setmaxnreg` goes to
/// a `ptxas` program where there is one, unless another assembler was asked for. If another one was
/// passed over, the first assembly in a process has a warning.
///
/// One that crashes in this process (CrashGuard.h) is not called in it again: this code, with a
/// warning among the assembly's, and all further code goes to a `ptxas` program. Where there is
/// none, or another assembler was asked for, the error says what happened and what to install.
///
/// `notes`: a folder for notes (AssemblyNote.h) of what is assembled within the process; empty for
/// none. Code at which a process has ended before goes to `ptxas`, too; without it once more to the
/// same assembler.
llvm::Expected<Assembly> assemble(llvm::StringRef ptx, llvm::StringRef kernel,
                                  const AssembleOptions &options, llvm::StringRef notes);

/// Identifies the assembler in force in keys of kernels on disk: the build ids of the candidate
/// files, found without opening them.
std::string assemblerIdentity(const Architecture &arch);

/// PTX version (times ten) of a CUDA release: (12, 8) is 87.
int ptxVersionOfCuda(int major, int minor);

/// Why there is no assembler of a kind.
struct NoAssembler {
  std::string why;
  bool isThere = false; ///< but cannot be used
};

// One maker each; null and the reason where there is none.
std::unique_ptr<Assembler> openNvJitLink(NoAssembler &none);
std::unique_ptr<Assembler> openDriverLinker(NoAssembler &none);
std::unique_ptr<Assembler> openPtxas(const std::string &path, NoAssembler &none);

/// An assembler's error in the words of a kernel's author.
llvm::Error assemblerError(llvm::StringRef assembler, llvm::StringRef kernel, llvm::StringRef log);

/// The program that shows machine code: nvdisasm or cuobjdump. Empty when there is none.
std::string findDisassembler();

} // namespace nereid::nvidia

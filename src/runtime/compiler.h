// What the run time asks of the compiler: everything that needs MLIR or LLVM's code generators.
//
// In the installed package the compiler is a library of its own, libnereid_compiler.so.1 beside
// libnereid.so.1, which is loaded when it is first asked: a process whose kernels are all on disk
// starts without it (docs/process-start.md). Programs that link the compiler's archives have it
// from the start. Both libraries carry their own copy of what they share (diagnostics, source
// texts, the parts of LLVM's support library): objects with virtual functions are passed between
// them, but no llvm::Error and nothing else that is identified by the address of a variable. State
// that exists once in a process, settings and the folders of packages, belongs to the run time,
// which passes it to the compiler.
#pragma once

#include "runtime/compile.h"
#include "runtime/tile_source.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/Support/LogicalResult.h"

#include <optional>
#include <string>

namespace nereid {
struct Settings;
} // namespace nereid

namespace nereid::frontend {
class Semantic;
} // namespace nereid::frontend

namespace nereid::runtime {

class CHost;

class Compiler {
public:
  /// Null when it cannot be loaded: `problem` says why. Always the same.
  static const Compiler *find();
  static ErrorPtr problem();

  /// The stages up to finished code, not yet callable, into `kernel.code` with the times of the
  /// stages. `host` is null for a function that stands alone; `written` becomes the parameters of
  /// the code that it may store through.
  virtual ErrorPtr compile(const CompileRequest &request, const targets::CompileOptions &options,
                           CHost *host, llvm::BitVector &written, nrd_kernel &kernel) const = 0;

  /// Reads a text of tile IR; an error that says where it is wrong, or that it is IR of other
  /// dialects.
  virtual ErrorPtr readTileSource(llvm::StringRef file, std::string text,
                                  TileSourcePtr &out) const = 0;

  // What the names of the language mean (frontend/builtin.h, prelude.h, semantic.h).
  virtual const frontend::Builtin *findBuiltin(llvm::StringRef name) const = 0;
  virtual const frontend::Function *findPrelude(llvm::StringRef name) const = 0;
  virtual std::shared_ptr<const frontend::Class> findPreludeClass(llvm::StringRef name) const = 0;
  virtual std::optional<frontend::Value> languageMember(llvm::StringRef module,
                                                        llvm::StringRef name) const = 0;
  /// An operator of Python's by its name ("add", "lt", "getitem", "neg"); nothing when there is
  /// none of this name and number of arguments.
  virtual std::optional<llvm::FailureOr<frontend::Value>>
  callOperator(frontend::Semantic &semantic, std::string_view name,
               llvm::ArrayRef<frontend::Value> args) const = 0;

  /// The functions of the language as JSON (frontend/inventory.h).
  virtual std::string inventory() const = 0;
  /// Machine code as text (targets/disassemble.h); nothing and the reason in `why`.
  virtual std::optional<std::string> disassemble(llvm::StringRef image, std::string &why) const = 0;
  /// Passes by name over IR in text form (opt/Opt.h); the exit status.
  virtual int opt(int argc, char **argv) const = 0;

protected:
  ~Compiler() = default;
};

/// The one in this program or library.
const Compiler &linkedCompiler();

/// What the run time lends to a compiler that is a library of its own.
struct LentToCompiler {
  /// Of the run time; another one's compiler is not loaded.
  const char *version;
  const Settings &(*settings)();
  std::vector<std::string> (*packageFolders)();
};

/// The type and the name of the one function that the compiler's library exports. Null when the
/// versions differ.
using CompilerEntry = const Compiler *(const LentToCompiler &);
constexpr const char *compilerEntryName = "nereid_compiler";

} // namespace nereid::runtime

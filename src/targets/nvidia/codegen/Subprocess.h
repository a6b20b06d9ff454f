// Running one of NVIDIA's programs: no shell, both outputs captured, a time limit.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace nereid::nvidia {

struct ProcessResult {
  /// Exit status; -1 where a signal ended it, or where it is not known, because this process
  /// ignores its children's ends (SIGCHLD) or waits for all of them elsewhere.
  int status = 0;
  int signal = 0;                                           ///< that ended it, or 0
  bool failed() const { return signal != 0 || status > 0; } ///< as far as is known
  std::string output; ///< standard output and standard error together
};

/// Runs `program` with `args` (without the program's own name). An error when it cannot be started
/// or takes longer than `seconds`; it is killed then.
llvm::Expected<ProcessResult> runProgram(const std::string &program,
                                         llvm::ArrayRef<std::string> args, int seconds);

/// A file of its own in the folder for temporary files, removed with the object.
class TemporaryFile {
public:
  /// Creates it with `content`; `suffix` is its extension without the dot.
  static llvm::Expected<TemporaryFile> create(llvm::StringRef suffix, llvm::StringRef content);
  TemporaryFile(TemporaryFile &&other) : name(std::move(other.name)) { other.name.clear(); }
  TemporaryFile &operator=(TemporaryFile &&) = delete;
  ~TemporaryFile();

  const std::string &path() const { return name; }
  llvm::Expected<std::string> read() const;

private:
  explicit TemporaryFile(std::string name) : name(std::move(name)) {}
  std::string name;
};

} // namespace nereid::nvidia

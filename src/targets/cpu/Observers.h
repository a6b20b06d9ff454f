// Tells debuggers and profilers about code that was made in this process.
//
// Debuggers: through GDB's JIT interface (also LLDB's), a list of object files in memory that they
// read; names and lines come from there. Profilers: `perf` looks for names of code without a file
// in /tmp/perf-PID.map, which is written when the setting NEREID_PERF is on.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace nereid::cpu {

/// One object that debuggers know as long as it lives. Thread-safe.
class Observed {
public:
  /// `object` was loaded: its function `symbol` is at `address`.
  Observed(llvm::ArrayRef<char> object, llvm::StringRef symbol, uint64_t address);
  ~Observed();
  Observed(const Observed &) = delete;
  Observed &operator=(const Observed &) = delete;

private:
  struct Entry;
  std::unique_ptr<Entry> entry; ///< null when the object is not understood
};

/// The object with the addresses of its code filled in, and the functions in it.
struct PlacedObject {
  struct Function {
    std::string name;
    uint64_t address, size;
  };
  std::vector<char> image; ///< empty when the object is not understood
  std::vector<Function> functions;
};
PlacedObject placeObject(llvm::ArrayRef<char> object, llvm::StringRef symbol, uint64_t address);

} // namespace nereid::cpu

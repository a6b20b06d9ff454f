// What generated code calls at run time, by name, and the tables those calls refer to.
#pragma once
#include "kernel_abi/cpu.h"

#include <span>
#include <string>
#include <vector>

namespace nereid::cpu {

// The type of a printed element; integers carry their signedness here because the IR's do not.
enum class ElementKind : uint8_t {
  Bool,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  F16,
  BF16,
  F32,
  F64,
  F8E4M3FN,
  F8E5M2,
  Pointer
};

struct PrintOperand {
  ElementKind kind;
  std::vector<int64_t> shape; // empty: a scalar
};

// A place in the source: line and column as an editor counts them, from 1; 0 where unknown.
struct SitePlace {
  std::string file;
  int line = 0, column = 0;
  std::string source; // the line itself, for messages; empty where it is not known
  int indent = 0;     // columns that were taken off `source`
};

// What a run-time call refers to by its index.
struct Site {
  std::vector<SitePlace>
      places;       // of the operation, then of the calls that led to it, innermost first
  std::string text; // assert: its message; print: the prefix as written; access: the argument's
                    // name or empty
  bool hex = false; // print
  std::vector<PrintOperand> operands; // print
};

// Owned by the compiled kernel; must outlive its launches.
struct SiteTable {
  std::vector<Site> sites;
};

// What `device_print(prefix, operand)` gives for one program: a line an element,
//   pid (x, y, z) idx (i, j) prefix: value
// indices padded to the width of their dimension's largest, `(operand n) ` before the value when
// the call has several, floats as %f, hex zero-padded to the type's width.
std::string formatPrint(const Site &site, int operand, const int32_t grid[3], int64_t program,
                        const void *data);

struct Symbol {
  const char *name;
  void *address;
};
// Every function of kernel_abi/cpu.h, the C library's that math/Math.h names, and the device
// library, for the JIT to define.
std::span<const Symbol> supportSymbols();

} // namespace nereid::cpu

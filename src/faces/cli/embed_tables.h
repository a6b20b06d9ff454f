// The tables of an embedded kernel: its compiled variants, and the launches that choose among them.
#pragma once

#include "support/diagnostics.h"

#include "llvm/Support/JSON.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nereid::cli {

/// One compilation: of one signature for one target.
struct EmbeddedVariant {
  std::string target; ///< "cpu:avx2", "cuda:90", "ptx:80"
  std::string symbol; ///< of the CPU's entry
  std::string object; ///< the CPU's object file: its name
  std::string image;  ///< a GPU's cubin or PTX
  llvm::json::Object metadata;
  std::vector<std::string> signature; ///< as the user wrote it, one a parameter

  bool isCpu() const { return target.starts_with("cpu"); }
  bool isPtx() const { return target.starts_with("ptx"); }
};

/// What may be given for a parameter.
struct LaunchParam {
  enum class Kind { Folded, Pointer, Descriptor, Integer, Bool, Float };
  Kind kind = Kind::Folded; ///< Folded: the same constant in all variants, no parameter at all
  std::string name;
  std::string element;  ///< of a pointer or descriptor, or the number itself: "fp16", "i32"
  unsigned rank = 0;    ///< of a descriptor
  bool written = false; ///< through the pointer, by some variant
  std::string constant; ///< of a folded one, as Python writes it

  unsigned slots() const { return kind == Kind::Descriptor ? 2 * rank : 1; }
};

/// What a variant assumes of an argument: nrd_embedded_fact.
struct Fact {
  uint32_t kinds = 0;
  int64_t value = 0;
};

/// Variants that one typed launch chooses from: those whose pointers have the same types.
struct LaunchGroup {
  std::vector<LaunchParam> params;
  std::vector<const EmbeddedVariant *> variants;
  std::vector<std::vector<Fact>>
      facts; ///< of each variant, one for each parameter that is not folded
};

/// Sorts the variants into groups, in the order of their first signatures. Variants that a call
/// cannot distinguish, and those too large for a launch, are reported.
std::vector<LaunchGroup> groupVariants(const std::vector<EmbeddedVariant> &variants,
                                       DiagnosticEngine &diagnostics);

struct EmbeddedText {
  std::string fileName; ///< of the header, without folder
  std::string source;   ///< the kernel's file, for comments
  std::string kernel;   ///< its function
  std::string name;     ///< in C++
  std::string space;    ///< the namespace in C++, may be nested or empty
};

/// The tables, in C.
std::string tablesText(const EmbeddedText &about, const std::vector<LaunchGroup> &groups);
/// The typed header, for C and C++.
std::string typedHeaderText(const EmbeddedText &about, const std::vector<LaunchGroup> &groups);
/// What the names of a kernel begin with in C: "kernels_add_kernel".
std::string cPrefix(const EmbeddedText &about);
/// The instruction set of a target of the CPU, as a part of a name in C: "neoverse_v1" of
/// "cpu:neoverse-v1".
std::string cLevel(const std::string &target);

} // namespace nereid::cli

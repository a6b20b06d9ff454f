// The list of all functions of the language, for what is made from it: the Python module and its
// stubs, the reference page, the JSON that tests and tools read.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace nereid::frontend {

struct InventoryParameter {
  std::string name;
  std::string annotation;  ///< "constexpr" or empty
  std::string defaultText; ///< as written; empty when there is none
  bool isVararg = false;
  bool keywordOnly = false;
};

struct InventoryEntry {
  std::string name;
  std::vector<InventoryParameter> parameters;
  std::string doc;
  std::string category;
  std::string dtypes;
  std::vector<std::string> aliases;
  bool isMethod = false;
  bool isMemberOnly = false; ///< `x.to`, `x.item`: not in `tl`
  bool isType = false;       ///< `tl.constexpr`, `tl.dtype`...: classes in the Python module
  bool isPrelude = false;    ///< written in the language itself

  /// `(pointer, mask=None)`; `extra` is appended as a last keyword.
  std::string signature(llvm::StringRef extra = "") const;
};

/// Every public function of `tl` and every member function of tensors, sorted by name.
std::vector<InventoryEntry> inventory();

/// The functions of `tl.extra.libdevice`, by their bare names; `doc` lists the types they take.
std::vector<InventoryEntry> libdeviceInventory();

/// The inventory as a JSON list of objects: name, signature, doc, category, dtypes, aliases,
/// method, kind.
llvm::json::Array inventoryJson();

} // namespace nereid::frontend

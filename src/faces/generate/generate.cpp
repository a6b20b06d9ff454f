// Writes what is made from the builtin table and the prelude:
//
//   nereid-generate <folder>
//     _builtins.py    every function of `tl` as a Python function with its signature and docstring
//     _builtins.pyi   the same for type checkers and editors
//     builtins.json   the inventory, for tests and tools
//     language.md     the reference page (docs/reference/language.md is a checked-in copy)
//     _libdevice.py, libdevice.md   the same for the device library
#include "frontend/inventory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <system_error>

using namespace nereid::frontend;
using Entries = std::vector<InventoryEntry>;

/// A docstring of Python, indented by four.
static void writeDocstring(llvm::raw_ostream &out, llvm::StringRef doc) {
  out << "    \"\"\"";
  bool first = true;
  llvm::SmallVector<llvm::StringRef> lines;
  doc.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    if (!first)
      out << (line.empty() ? "\n" : "\n    ");
    for (char c : line) {
      if (c == '\\')
        out << '\\';
      out << c;
    }
    first = false;
  }
  out << (lines.size() > 1 ? "\n    \"\"\"\n" : "\"\"\"\n");
}

static void writeNames(llvm::raw_ostream &out, llvm::StringRef variable, const Entries &entries,
                       llvm::function_ref<bool(const InventoryEntry &)> isIn) {
  out << variable << " = [\n";
  for (const InventoryEntry &entry : entries)
    if (isIn(entry))
      out << "    \"" << entry.name << "\",\n";
  out << "]\n";
}

/// `(pointer, mask), {}`: how the Python function hands its arguments on.
static std::string forwarded(const InventoryEntry &entry) {
  std::string positional, keywords;
  for (const InventoryParameter &parameter : entry.parameters) {
    if (parameter.keywordOnly)
      keywords += (keywords.empty() ? "\"" : ", \"") + parameter.name + "\": " + parameter.name;
    else
      positional += (parameter.isVararg ? "*" : "") + parameter.name + ", ";
  }
  return "(" + llvm::StringRef(positional).rtrim(' ').str() + "), {" + keywords + "}";
}

static void writeModule(llvm::raw_ostream &out, const Entries &entries) {
  out << "\"\"\"The functions of the language. Made from the compiler's builtin table by "
         "nereid-generate: do not edit.\n\n"
         "Inside a kernel the names mean the compiler's own functions; these serve Python code "
         "that runs during a\n"
         "compilation and passes `_semantic`.\n\"\"\"\n\n"
         "from .. import _native\n"
         "from .core import PropagateNan, constexpr, float32\n\n";
  writeNames(out, "__all__", entries,
             [](const InventoryEntry &e) { return !e.isMemberOnly && !e.isType; });
  out << "\n#: Names that are also member functions of tensors.\n";
  writeNames(out, "METHODS", entries, [](const InventoryEntry &e) { return e.isMethod; });
  out << "\n#: Names of functions that are written in the language itself.\n";
  writeNames(out, "PRELUDE", entries, [](const InventoryEntry &e) { return e.isPrelude; });
  out << "\n\ndef _language(function):\n"
         "    function.__triton_builtin__ = True\n"
         "    function.__nereid_builtin__ = function.__name__\n"
         "    return function\n\n\n"
         "def _call(semantic, name, args, keywords):\n"
         "    if semantic is None:\n"
         "        raise ValueError(\"Did you forget to add @triton.jit ? \"\n"
         "                         \"(`_semantic` argument must be provided outside of JIT "
         "functions.)\")\n"
         "    return _native.call_builtin(semantic, name, args, keywords)\n";
  for (const InventoryEntry &entry : entries) {
    if (entry.isType)
      continue;
    out << "\n\n@_language\ndef " << entry.name << entry.signature("_semantic=None") << ":\n";
    writeDocstring(out, entry.doc);
    out << "    return _call(_semantic, \"" << entry.name << "\", " << forwarded(entry) << ")\n";
  }
}

static void writeStub(llvm::raw_ostream &out, const Entries &entries) {
  out << "# Made from the compiler's builtin table by nereid-generate: do not edit.\n"
         "from typing import Any\n\nfrom .core import PropagateNan, constexpr, float32\n\n"
         "__all__: list[str]\nMETHODS: list[str]\nPRELUDE: list[str]\n";
  for (const InventoryEntry &entry : entries) {
    if (entry.isType)
      continue;
    out << "\ndef " << entry.name << entry.signature("_semantic: Any = None") << " -> Any:\n";
    writeDocstring(out, entry.doc);
    out << "    ...\n";
  }
}

/// One section per category, in the order in which one learns the language.
static void writeReference(llvm::raw_ostream &out, const Entries &entries) {
  static constexpr const char *order[] = {"Programs",       "Creation",     "Memory",
                                          "Shape",          "Arithmetic",   "Selection",
                                          "Math",           "Foreign code", "Reductions and scans",
                                          "Linear algebra", "Atomics",      "Random numbers",
                                          "Library",        "Iteration",    "Hints",
                                          "Debugging",      "Types",        "Member functions"};
  out << "# Functions of the language\n\n"
         "Made from the builtin table (`src/frontend/builtins`) and the prelude (`src/prelude`) by "
         "`nereid-generate`; do not\n"
         "edit this page. Operators and promotion are described in [type-rules.md](type-rules.md). "
         "*member* marks what is also\n"
         "written `x.name(...)`.\n";
  std::map<std::string, std::vector<const InventoryEntry *>> byCategory;
  for (const InventoryEntry &entry : entries)
    byCategory[entry.category].push_back(&entry);
  for (const char *category : order) {
    out << "\n## " << category << "\n";
    for (const InventoryEntry *entry : byCategory[category]) {
      out << "\n### `" << entry->name << entry->signature() << "`\n\n";
      if (entry->isMethod && !entry->isMemberOnly)
        out << "*member*\n\n";
      for (llvm::StringRef line : llvm::split(llvm::StringRef(entry->doc), '\n')) {
        if (line.consume_front(":param ")) {
          auto [name, text] = line.split(':');
          out << "- `" << name << "`:" << text << "\n";
        } else if (line.consume_front(":returns:")) {
          out << "- returns" << line << "\n";
        } else {
          out << line << "\n";
        }
      }
    }
    byCategory.erase(category);
  }
  if (!byCategory.empty()) {
    llvm::errs() << "the category `" << byCategory.begin()->first
                 << "` has no place on the reference page\n";
    std::exit(1);
  }
}

static void writeLibdevice(llvm::raw_ostream &out, const Entries &entries) {
  out << "\"\"\"The functions of the device library. Made from the compiler's builtin table by "
         "nereid-generate: do not edit.\"\"\"\n\n"
         "from ... import _native\nfrom .. import core\n\n";
  writeNames(out, "__all__", entries, [](const InventoryEntry &) { return true; });
  out << "\n\ndef _of_kernels(function):\n"
         "    name = \"libdevice.\" + function.__name__\n"
         "    function = core.extern(function)\n"
         "    function.__nereid_builtin__ = name  # what it means inside a kernel\n"
         "    return function\n";
  for (const InventoryEntry &entry : entries) {
    out << "\n\n@_of_kernels\ndef " << entry.name << entry.signature("_semantic=None") << ":\n";
    writeDocstring(out, entry.doc);
    out << "    return _native.call_builtin(_semantic, \"libdevice." << entry.name << "\", "
        << forwarded(entry) << ")\n";
  }
}

static void writeLibdevicePage(llvm::raw_ostream &out, const Entries &entries) {
  out << "# The device library\n\n"
         "`tl.extra.libdevice`, also `triton.language.extra.cuda.libdevice` and "
         "`...cpu.libdevice`. "
         "Made by `nereid-generate` from\n"
         "`src/frontend/builtins/libdevice.def`; do not edit this page. On a GPU these are "
         "NVIDIA's "
         "functions, on the CPU\n"
         "functions that mean the same (`src/targets/cpu/support_library/DeviceLibrary.cpp`); "
         "those "
         "that the compiler has an\n"
         "operation for (`exp`, `tanh`, `rint`, `isnan` ...) need no library on either. "
         "Python numbers take the type of the other\n"
         "arguments; of several tensors one must have the type of a row, the others are widened to "
         "it.\n\n| function | types |\n|---|---|\n";
  for (const InventoryEntry &entry : entries)
    out << "| `" << entry.name << entry.signature() << "` | " << entry.doc << " |\n";
}

static void write(llvm::StringRef folder, llvm::StringRef name,
                  llvm::function_ref<void(llvm::raw_ostream &)> content) {
  std::string path = (folder + "/" + name).str();
  std::error_code failed;
  llvm::raw_fd_ostream out(path, failed);
  if (failed) {
    llvm::errs() << "cannot write " << path << ": " << failed.message() << "\n";
    std::exit(1);
  }
  content(out);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    llvm::errs() << "usage: nereid-generate <folder>\n";
    return 2;
  }
  Entries entries = inventory();
  write(argv[1], "_builtins.py", [&](llvm::raw_ostream &out) { writeModule(out, entries); });
  write(argv[1], "_builtins.pyi", [&](llvm::raw_ostream &out) { writeStub(out, entries); });
  write(argv[1], "language.md", [&](llvm::raw_ostream &out) { writeReference(out, entries); });
  Entries libdevice = libdeviceInventory();
  write(argv[1], "_libdevice.py", [&](llvm::raw_ostream &out) { writeLibdevice(out, libdevice); });
  write(argv[1], "libdevice.md",
        [&](llvm::raw_ostream &out) { writeLibdevicePage(out, libdevice); });
  write(argv[1], "builtins.json", [&](llvm::raw_ostream &out) {
    out << llvm::formatv("{0:2}\n", llvm::json::Value(inventoryJson()));
  });
  return 0;
}

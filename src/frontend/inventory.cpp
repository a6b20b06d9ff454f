#include "frontend/inventory.h"

#include "frontend/builtin.h"
#include "frontend/prelude.h"
#include "syntax/parser.h"

#include "llvm/ADT/STLExtras.h"

namespace nereid::frontend {

static std::vector<InventoryParameter> parametersIn(const syntax::Module &module,
                                                    const syntax::Arguments &arguments) {
  std::vector<InventoryParameter> result;
  auto add = [&](const syntax::Arg &arg, bool isVararg, bool keywordOnly) {
    InventoryParameter parameter;
    parameter.name = std::string(arg.name);
    if (arg.annotation)
      parameter.annotation = std::string(module.source().text(arg.annotation->range));
    if (arg.defaultValue)
      parameter.defaultText = std::string(module.source().text(arg.defaultValue->range));
    parameter.isVararg = isVararg;
    parameter.keywordOnly = keywordOnly;
    result.push_back(std::move(parameter));
  };
  for (const syntax::Arg *arg : arguments.args)
    add(*arg, false, false);
  if (arguments.vararg)
    add(*arguments.vararg, true, false);
  for (const syntax::Arg *arg : arguments.kwOnly)
    add(*arg, false, true);
  return result;
}

std::string InventoryEntry::signature(llvm::StringRef extra) const {
  std::string out = "(";
  for (const InventoryParameter &parameter : parameters) {
    if (out.size() > 1)
      out += ", ";
    out += (parameter.isVararg ? "*" : "") + parameter.name;
    if (!parameter.annotation.empty())
      out += ": " + parameter.annotation;
    if (!parameter.defaultText.empty())
      out += (parameter.annotation.empty() ? "=" : " = ") + parameter.defaultText;
  }
  if (!extra.empty())
    out += (out.size() > 1 ? ", " : "") + extra.str();
  return out + ")";
}

static InventoryEntry entryOf(const Builtin &builtin) {
  InventoryEntry entry;
  entry.name = builtin.name;
  entry.doc = builtin.doc;
  entry.category = builtin.category;
  entry.dtypes = builtin.dtypes;
  entry.aliases.assign(builtin.aliases.begin(), builtin.aliases.end());
  entry.isMethod = builtin.isMethod;
  entry.isMemberOnly = entry.category == "Member functions";
  entry.isType = entry.category == "Types";
  DiagnosticEngine diagnostics;
  auto source =
      SourceFile::create(builtin.name, std::string("def f") + builtin.signature + ": pass\n");
  auto parsed = syntax::parseModule(source, diagnostics);
  if (const syntax::FunctionDef *definition = parsed.module->findFunction("f"))
    entry.parameters = parametersIn(*parsed.module, *definition->args);
  return entry;
}

static InventoryEntry entryOf(const PreludeFunction &function) {
  static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> categories[] = {
      {"reduction.py", "Reductions and scans"}, {"atomics.py", "Atomics"},
      {"sorting.py", "Reductions and scans"},   {"standard.py", "Library"},
      {"random.py", "Random numbers"},
  };
  InventoryEntry entry;
  entry.name = function.name;
  entry.doc = function.doc;
  for (auto [file, category] : categories)
    if (file == function.file)
      entry.category = category.str();
  entry.isMethod = function.isMethod;
  entry.isPrelude = true;
  entry.parameters = parametersIn(*function.module, *function.definition->args);
  return entry;
}

std::vector<InventoryEntry> inventory() {
  std::vector<InventoryEntry> entries;
  for (const Builtin &builtin : allBuiltins())
    if (!llvm::StringRef(builtin.name).contains('.')) // `python.len`, `dtype.is_int`: not of `tl`
      entries.push_back(entryOf(builtin));
  for (const PreludeFunction &function : allPreludeFunctions())
    if (!llvm::StringRef(function.name).starts_with("_"))
      entries.push_back(entryOf(function));
  llvm::sort(entries,
             [](const InventoryEntry &a, const InventoryEntry &b) { return a.name < b.name; });
  return entries;
}

std::vector<InventoryEntry> libdeviceInventory() {
  std::vector<InventoryEntry> entries;
  for (const Builtin &builtin : allBuiltins())
    if (llvm::StringRef name = builtin.name; name.consume_front("libdevice.")) {
      entries.push_back(entryOf(builtin));
      entries.back().name = name.str();
    }
  return entries;
}

llvm::json::Array inventoryJson() {
  llvm::json::Array list;
  for (const InventoryEntry &entry : inventory()) {
    llvm::json::Array aliases;
    for (const std::string &alias : entry.aliases)
      aliases.push_back(alias);
    list.push_back(llvm::json::Object{{"name", entry.name},
                                      {"signature", entry.signature()},
                                      {"doc", llvm::json::fixUTF8(entry.doc)},
                                      {"category", entry.category},
                                      {"dtypes", entry.dtypes},
                                      {"aliases", std::move(aliases)},
                                      {"method", entry.isMethod},
                                      {"kind", entry.isPrelude ? "prelude"
                                               : entry.isType  ? "type"
                                                               : "builtin"}});
  }
  return list;
}

} // namespace nereid::frontend

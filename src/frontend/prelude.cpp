#include "frontend/prelude.h"

#include "frontend/builtin.h"
#include "frontend/function.h"
#include "frontend/semantic.h"
#include "support/diagnostics.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ErrorHandling.h"

#include <memory>

namespace nereid::frontend {

/// The texts, made from src/prelude/*.py at build time (cmake/EmbedText.cmake).
struct PreludeText {
  const char *name;
  const char *text;
};
extern const PreludeText preludeTexts[];
extern const size_t preludeTextCount;

/// Which functions are also members of tensors.
static constexpr llvm::StringLiteral methods[] = {
    "atomic_poll", "cdiv", "sigmoid", "softmax",   "ravel",  "max",     "min", "argmax",
    "argmin",      "sum",  "xor_sum", "reduce_or", "cumsum", "cumprod", "sort"};

/// The text of a docstring without its common indentation.
static std::string dedented(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  size_t margin = llvm::StringRef::npos;
  for (llvm::StringRef line : llvm::drop_begin(lines))
    if (!line.trim().empty())
      margin = std::min(margin, line.find_first_not_of(' '));
  std::string out = lines.front().trim().str();
  for (llvm::StringRef line : llvm::drop_begin(lines))
    out += "\n" + line.drop_front(std::min(margin, line.size())).rtrim().str();
  return llvm::StringRef(out).rtrim().str();
}

static std::string docstringOf(const syntax::FunctionDef &definition) {
  auto *statement = syntax::dynCast<syntax::ExprStmt>(definition.body.front());
  auto *literal = statement ? syntax::dynCast<syntax::Constant>(statement->value) : nullptr;
  return literal && literal->isStr() ? dedented(llvm::StringRef(literal->text)) : std::string();
}

namespace {
struct Prelude {
  std::vector<PreludeFunction> functions;
  std::vector<std::unique_ptr<Function>> owned;
  llvm::StringMap<size_t> byName;
  llvm::StringMap<ClassPtr> classes;

  Prelude() {
    for (size_t i = 0; i < preludeTextCount; ++i)
      add(preludeTexts[i]);
    llvm::sort(functions,
               [](const PreludeFunction &a, const PreludeFunction &b) { return a.name < b.name; });
    for (size_t i = 0; i < functions.size(); ++i)
      byName[functions[i].name] = i;
  }

  void add(const PreludeText &file) {
    auto source = SourceFile::create(std::string("<prelude>/") + file.name, file.text);
    DiagnosticEngine diagnostics;
    auto parsed = syntax::parseModule(source, diagnostics);
    if (!parsed)
      llvm::report_fatal_error(llvm::Twine(diagnostics.renderAll()));
    for (const syntax::Stmt *statement : parsed.module->body()) {
      if (auto *cls = syntax::dynCast<syntax::ClassDef>(statement))
        classes[llvm::StringRef(cls->name)] =
            std::make_shared<const Class>(parsed.module, *cls, nullptr, /*isPrelude=*/true);
      auto *definition = syntax::dynCast<syntax::FunctionDef>(statement);
      if (!definition)
        continue;
      auto function = std::make_unique<Function>(parsed.module, definition);
      function->isPrelude = true;
      PreludeFunction entry{std::string(definition->name),
                            docstringOf(*definition),
                            file.name,
                            definition,
                            parsed.module,
                            function.get()};
      entry.isMethod = llvm::is_contained(methods, entry.name);
      functions.push_back(std::move(entry));
      owned.push_back(std::move(function));
    }
  }
};

const Prelude &prelude() {
  static const Prelude instance;
  return instance;
}
} // namespace

llvm::ArrayRef<PreludeFunction> allPreludeFunctions() {
  return prelude().functions;
}

const PreludeFunction *findPrelude(llvm::StringRef name) {
  auto found = prelude().byName.find(name);
  return found == prelude().byName.end() ? nullptr : &prelude().functions[found->second];
}

ClassPtr findPreludeClass(llvm::StringRef name) {
  return prelude().classes.lookup(name);
}

std::optional<Value> lookupInPrelude(llvm::StringRef name) {
  if (const Builtin *own = findBuiltin(("prelude." + name).str()))
    return Value(BuiltinValue{own, nullptr});
  if (name == "tl")
    return Value(ModuleValue{"triton.language"});
  if (const PreludeFunction *function = findPrelude(name))
    return Value(FunctionValue{function->function, nullptr});
  if (ClassPtr cls = findPreludeClass(name))
    return Value(ClassValue{cls});
  if (auto member = languageMember("triton.language", name))
    return member;
  return pythonBuiltin(name);
}

} // namespace nereid::frontend

#include "frontend/standalone_host.h"

#include "frontend/builtin.h"
#include "frontend/known.h"
#include "frontend/limits.h"
#include "frontend/semantic.h"

#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace nereid::frontend {

using namespace nereid::syntax;

static HostResult<Value> found(Value value) {
  return {std::move(value), {}};
}
static HostResult<Value> failed(std::string message) {
  return {std::nullopt, {std::move(message), 0}};
}

static HostResult<Value> folded(std::variant<Value, KnownError> result) {
  if (auto *value = std::get_if<Value>(&result))
    return found(std::move(*value));
  return {};
}

/// "triton" or "nereid", or a module below them: one of ours.
static bool isOurs(llvm::StringRef module) {
  llvm::StringRef first = module.split('.').first;
  return first == "triton" || first == "nereid";
}

StandaloneHost::StandaloneHost(ModulePtr tree) : module(std::move(tree)) {
  for (const Stmt *statement : module->body())
    collectChangeable(*statement, nullptr);
  for (auto &entry : changeable)
    bindUnknown(entry.first(), entry.second);
  for (const Stmt *statement : module->body())
    run(*statement);
}

StandaloneHost::~StandaloneHost() = default;

//===--- names
//--------------------------------------------------------------------------------------===//

/// `globals()` and its like, which give out the names of the file.
static bool isNamespaceCall(const Node &node, bool inFunction) {
  auto *call = dynCast<Call>(&node);
  auto *name = call ? dynCast<Name>(call->func) : nullptr;
  if (!name || !call->args.empty())
    return false;
  return name->id == "globals" || (!inFunction && (name->id == "locals" || name->id == "vars"));
}

static bool isOursDecorated(const FunctionDef &function) {
  return llvm::any_of(function.decorators, [](const Expr *decorator) {
    Decorator kind = decoratorKind(*decorator);
    return kind == Decorator::Jit || kind == Decorator::ConstexprFunction;
  });
}

/// `globals()["NAME"] = ...`
void StandaloneHost::collectStored(const Node &target) {
  auto *subscript = dynCast<Subscript>(&target);
  if (!subscript || !isNamespaceCall(*subscript->value, /*inFunction=*/false)) {
    if (isa<syntax::Tuple>(target) || isa<List>(target) || isa<Starred>(target))
      forEachChild(target, [&](const Node &child) { collectStored(child); });
    return;
  }
  auto *key = dynCast<Constant>(subscript->index);
  if (key && key->constantKind == ConstantKind::Str)
    changeable[key->text] = "changed through `globals()`";
  else
    everyValue = "`globals()`";
}

void StandaloneHost::collectChangeable(const Node &node, const Node *function) {
  auto visit = [&](const Node &child) { collectChangeable(child, function); };
  switch (node.kind) {
  case NodeKind::FunctionDef:
  case NodeKind::Lambda:
    return forEachChild(node, [&](const Node &child) { collectChangeable(child, &node); });
  case NodeKind::Global:
    for (std::string_view name : cast<Global>(&node)->names)
      changeable[name] = "assigned by a function that declares it `global`";
    return;
  case NodeKind::Name: {
    auto *definition = function ? dynCast<FunctionDef>(function) : nullptr;
    if (function && !(definition && isOursDecorated(*definition)))
      changeableLists.insert(cast<Name>(&node)->id);
    return;
  }
  case NodeKind::Assign:
    for (const Expr *target : cast<Assign>(&node)->targets)
      collectStored(*target);
    break;
  case NodeKind::AugAssign:
    collectStored(*cast<AugAssign>(&node)->target);
    break;
  case NodeKind::Delete:
    for (const Expr *target : cast<Delete>(&node)->targets)
      collectStored(*target);
    break;
  case NodeKind::For:
    collectStored(*cast<For>(&node)->target);
    break;
  case NodeKind::Subscript: {
    auto &subscript = *cast<Subscript>(&node);
    auto *index = dynCast<Name>(subscript.index);
    auto *modules = dynCast<Attribute>(subscript.value);
    if (index && index->id == "__name__" && modules && modules->name == "modules")
      everyValue = "`sys.modules`";
    if (isNamespaceCall(*subscript.value, function))
      return visit(*subscript.index);
    break;
  }
  case NodeKind::Compare:
    for (const Expr *operand : cast<Compare>(&node)->comparators)
      if (!isNamespaceCall(*operand, function))
        visit(*operand);
    return visit(*cast<Compare>(&node)->left);
  case NodeKind::Attribute: {
    auto &attribute = *cast<Attribute>(&node);
    bool reads = llvm::is_contained({"get", "keys", "values", "items", "copy"}, attribute.name);
    if (reads && isNamespaceCall(*attribute.value, function))
      return;
    break;
  }
  case NodeKind::Call: {
    auto *name = dynCast<Name>(cast<Call>(&node)->func);
    if (isNamespaceCall(node, function) || (name && name->id == "exec") ||
        (name && name->id == "eval" && !function))
      everyValue = "`" + std::string(name->id) + "()`";
    break;
  }
  default:
    break;
  }
  forEachChild(node, visit);
}

void StandaloneHost::bind(llvm::StringRef name, std::optional<Binding> binding) {
  if (binding && (binding->kind != Binding::Kind::Value || binding->value.value)) {
    if (auto it = changeable.find(name); it != changeable.end())
      return bindUnknown(name, it->second);
    if (binding->kind == Binding::Kind::Value && !everyValue.empty())
      return bindUnknown(name, "a value of a file that may change its names through " + everyValue);
    if (binding->isList && changeableLists.contains(name))
      return bindUnknown(name, "a list that a function may change");
  }
  if (changes && !changes->contains(name))
    changes->try_emplace(name, current(name));
  if (binding)
    names.insert_or_assign(name, std::move(*binding));
  else
    names.erase(name);
}

std::optional<StandaloneHost::Binding> StandaloneHost::current(llvm::StringRef name) const {
  auto it = names.find(name);
  return it == names.end() ? std::nullopt : std::optional(it->second);
}

void StandaloneHost::bindUnknown(llvm::StringRef name, std::string what) {
  Binding binding;
  binding.value =
      failed("`" + name.str() + "` is " + std::move(what) + ", which is not known without Python");
  bind(name, std::move(binding));
}

StandaloneHost::Changes StandaloneHost::branch(llvm::function_ref<void()> statements) {
  Changes before;
  Changes *outer = std::exchange(changes, &before);
  statements();
  changes = outer;
  Changes after;
  for (auto &entry : before) {
    llvm::StringRef name = entry.first();
    after.try_emplace(name, current(name));
    if (entry.second)
      names.insert_or_assign(name, std::move(*entry.second));
    else
      names.erase(name);
  }
  return after;
}

void StandaloneHost::apply(const Changes &path) {
  for (auto &entry : path)
    bind(entry.first(), entry.second);
}

void StandaloneHost::forgetNames(const Changes &path, llvm::StringRef what) {
  for (auto &entry : path)
    bindUnknown(entry.first(), what.str());
}

void StandaloneHost::join(llvm::ArrayRef<Changes> paths, const Node &construct) {
  for (const Changes &path : paths)
    for (auto &entry : path) {
      llvm::StringRef name = entry.first();
      // A path that leaves the name without a value does not count: Python would stop where it is
      // used.
      std::optional<Binding> joined;
      bool differ = false;
      for (const Changes &other : paths) {
        auto it = other.find(name);
        std::optional<Binding> there = it == other.end() ? current(name) : it->second;
        if (!there)
          continue;
        differ |= joined && !joined->isSame(*there);
        joined = std::move(there);
      }
      if (differ)
        bindUnknown(name, "set in different ways around line " + lineOf(construct));
      else
        bind(name, std::move(joined));
    }
}

bool StandaloneHost::Binding::isSame(const Binding &other) const {
  if (kind != other.kind || module != other.module || member != other.member ||
      function != other.function || cls != other.cls)
    return false;
  if (kind != Kind::Value || !value.value || !other.value.value)
    return kind != Kind::Value;
  if (isList || other.isList)
    return false;
  if (value.value->isNumber() != other.value.value->isNumber())
    return false;
  auto equal = foldCompare(CompareOp::Is, *value.value, *other.value.value);
  if (auto *answer = std::get_if<Value>(&equal); answer && truthOfKnown(*answer).value_or(false))
    return true;
  equal = foldCompare(CompareOp::Eq, *value.value, *other.value.value);
  auto *answer = std::get_if<Value>(&equal);
  return answer && truthOfKnown(*answer).value_or(false) &&
         value.value->is<double>() == other.value.value->is<double>() &&
         value.value->is<bool>() == other.value.value->is<bool>();
}

std::string StandaloneHost::lineOf(const Node &node) const {
  return std::to_string(module->source().position(node.range.begin).line);
}

//===--- statements
//---------------------------------------------------------------------------------===//

void StandaloneHost::runImport(const Import &node) {
  for (const Alias *alias : node.names) {
    llvm::StringRef name = alias->name;
    Binding binding;
    binding.kind = Binding::Kind::Module;
    binding.module = alias->asName.empty() ? name.split('.').first.str() : name.str();
    mayRaise |= !isOurs(name);
    llvm::StringRef as = alias->asName;
    bind(as.empty() ? name.split('.').first : as, std::move(binding));
  }
}

void StandaloneHost::runImportFrom(const ImportFrom &node) {
  for (const Alias *alias : node.names) {
    Binding binding;
    binding.kind = Binding::Kind::Member;
    binding.module = std::string(node.level, '.') + std::string(node.module);
    binding.member = std::string(alias->name);
    mayRaise |= !isOurs(binding.module) ||
                (binding.member != "*" && !languageMember(binding.module, binding.member));
    bind(alias->asName.empty() ? alias->name : alias->asName, std::move(binding));
  }
}

void StandaloneHost::assign(const Expr &target, HostResult<Value> value, bool isList) {
  if (auto *name = dynCast<Name>(&target)) {
    if (!value.value && value.error.message.empty())
      value.error.message = "the value of `" + std::string(name->id) +
                            "` is not a constant that is known without Python";
    mayRaise |= !value.value;
    if (auto *text = value.value ? value.value->getIf<std::string>() : nullptr) {
      constantBytes += text->size();
      if (constantBytes > maxConstantBytes)
        value = failed("`" + std::string(name->id) +
                       "` does not fit: the strings at the top level of a file may take " +
                       std::to_string(maxConstantBytes) + " bytes in all");
    }
    Binding binding;
    binding.isList = isList;
    binding.value = std::move(value);
    return bind(name->id, std::move(binding));
  }
  auto *pattern = dynCast<syntax::Tuple>(&target);
  if (!pattern && !isa<List>(target))
    return forget(target, "changed after it was made");
  auto elements = pattern ? pattern->elements : cast<List>(&target)->elements;
  auto *values = value.value && !isList ? value.value->getIf<frontend::Tuple>() : nullptr;
  bool pairs = values && values->items.size() == elements.size() &&
               llvm::none_of(elements, [](const Expr *part) { return isa<Starred>(part); });
  if (!pairs)
    return forget(target, "a value assigned by unpacking");
  for (uint32_t i = 0; i < elements.size(); ++i)
    assign(*elements[i], found(values->items[i]), /*isList=*/false);
}

void StandaloneHost::runAssign(const Assign &node) {
  runEffects(*node.value);
  // `a, b = 1, torch.cuda` leaves `a` known: each value by itself, all of them before any name
  // changes.
  auto *values = dynCast<syntax::Tuple>(node.value);
  std::vector<HostResult<Value>> parts;
  if (values)
    for (const Expr *part : values->elements)
      parts.push_back(evaluate(*part));
  HostResult<Value> whole = evaluate(*node.value);
  // Python's lists change, also by another name.
  bool isList = holdsList(*node.value);
  if (isList && (forgetLists(*node.value, "a list with two names") || node.targets.size() > 1)) {
    for (const Expr *target : node.targets)
      forget(*target, "a list with two names");
    return;
  }
  for (const Expr *target : node.targets) {
    auto *pattern = dynCast<syntax::Tuple>(target);
    if (!values || !pattern || pattern->elements.size() != parts.size() ||
        llvm::any_of(pattern->elements, [](const Expr *part) { return isa<Starred>(part); })) {
      assign(*target, whole, isList);
      continue;
    }
    for (uint32_t i = 0; i < parts.size(); ++i)
      assign(*pattern->elements[i], parts[i], holdsList(*values->elements[i]));
  }
}

void StandaloneHost::runAugAssign(const AugAssign &node) {
  runEffects(*node.value);
  auto *name = dynCast<Name>(node.target);
  if (!name)
    return forget(*node.target, "changed after it was made");
  auto left = evaluate(*node.target), right = evaluate(*node.value);
  bool isList = listNamed(*name) || holdsList(*node.value);
  if (isList && forgetLists(*node.value, "a list with two names"))
    return forget(*name, "a list with two names");
  HostResult<Value> result;
  if (!left.value)
    result = std::move(left);
  else if (!right.value)
    result = std::move(right);
  else
    result = folded(foldBinary(node.op, *left.value, *right.value));
  assign(*name, std::move(result), isList);
}

void StandaloneHost::runFunction(const FunctionDef &node) {
  for (const Expr *decorator : node.decorators) {
    runEffects(*decorator);
    mayRaise |= decoratorKind(*decorator) == Decorator::Other;
  }
  noteDefaults(node);
  Binding binding;
  binding.kind = Binding::Kind::Function;
  binding.function = &node;
  bind(node.name, std::move(binding));
}

void StandaloneHost::runClass(const ClassDef &node) {
  mayRaise = true;
  for (const Stmt *statement : node.body) {
    runEffects(*statement);
    if (auto *method = dynCast<FunctionDef>(statement))
      noteDefaults(*method);
    auto *field = dynCast<AnnAssign>(statement);
    auto *name = field && field->value ? dynCast<Name>(field->target) : nullptr;
    if (name)
      defaults[node.range.begin].insert_or_assign(name->id, evaluate(*field->value));
  }
  Binding binding;
  binding.kind = Binding::Kind::Class;
  binding.cls = &node;
  binding.value = classValue(node);
  bind(node.name, std::move(binding));
}

void StandaloneHost::noteDefaults(const FunctionDef &node) {
  auto note = [&](const Arg *arg) {
    if (!arg || !arg->defaultValue || isa<Constant>(arg->defaultValue))
      return;
    runEffects(*arg->defaultValue);
    auto value = evaluate(*arg->defaultValue);
    forgetLists(*arg->defaultValue, "a list with two names");
    mayRaise |= !value.value;
    defaults[node.range.begin].insert_or_assign(arg->name, std::move(value));
  };
  for (auto list : {node.args->posOnly, node.args->args, node.args->kwOnly})
    llvm::for_each(list, note);
}

void StandaloneHost::runIf(const If &node) {
  auto side = [&](NodeList<Stmt> statements) {
    for (const Stmt *statement : statements)
      run(*statement);
  };
  auto test = evaluate(*node.test);
  if (auto truth = test.value ? truthOfKnown(*test.value) : std::nullopt)
    return side(*truth ? node.body : node.orelse);
  mayRaise = true;
  Changes paths[] = {branch([&] { side(node.body); }), branch([&] { side(node.orelse); })};
  join(paths, node);
}

/// The statements of `try`, then handlers, then those of `else` and `finally`.
void StandaloneHost::runTry(const UnsupportedStmt &node) {
  bool outer = std::exchange(mayRaise, false);
  std::vector<const Node *> handlers, after;
  Changes body = branch([&] {
    for (const Node *child : node.children)
      if (isa<UnsupportedPart>(*child))
        handlers.push_back(child);
      else if (handlers.empty())
        run(*child);
      else
        after.push_back(child);
  });
  bool handled = mayRaise && !handlers.empty();
  std::vector<Changes> paths;
  paths.push_back(branch([&] {
    apply(body);
    for (const Node *statement : after)
      run(*statement);
  }));
  std::string where = "set in the statement of line " + lineOf(node);
  if (handled)
    for (const Node *handler : handlers)
      paths.push_back(branch([&] {
        forgetNames(body, where);
        llvm::StringRef name = cast<UnsupportedPart>(handler)->name;
        if (!name.empty())
          bindUnknown(name, "an exception");
        forEachChild(*handler, [&](const Node &child) {
          if (!isa<Expr>(child))
            run(child);
        });
        for (const Node *statement : after)
          forgetBound(*statement, where);
      }));
  join(paths, node);
  mayRaise |= outer;
}

/// What `with` enters may end an exception of its statements, so that only a part of them ran.
void StandaloneHost::runWith(const With &node) {
  for (const WithItem *item : node.items) {
    runEffects(*item->context);
    forgetLists(*item->context, "a list that goes to `with`");
    if (item->target)
      forget(*item->target, "a value of `with`");
  }
  mayRaise = false;
  Changes body = branch([&] {
    for (const Stmt *statement : node.body)
      run(*statement);
  });
  if (mayRaise)
    forgetNames(body, "set in the statement of line " + lineOf(node));
  else
    apply(body);
  mayRaise = true;
}

/// Whatever `node` binds, by any kind of statement or expression, is no longer known.
void StandaloneHost::forget(const Node &node, llvm::StringRef what) {
  mayRaise = true;
  auto name = [&](llvm::StringRef id) { bindUnknown(id, what.str()); };
  switch (node.kind) {
  case NodeKind::Name:
    return name(cast<Name>(&node)->id);
  case NodeKind::Attribute: {
    // `torch.backends.cudnn.benchmark = True` leaves the module what it is.
    const Expr *object = cast<Attribute>(&node)->value;
    auto *base = dynCast<Name>(object);
    auto binding = base ? current(base->id) : std::nullopt;
    if (binding && binding->kind == Binding::Kind::Module)
      return;
    return forget(*object, what);
  }
  case NodeKind::Subscript:
    return forget(*cast<Subscript>(&node)->value, what);
  case NodeKind::Tuple:
  case NodeKind::List:
  case NodeKind::Starred:
    return forEachChild(node, [&](const Node &child) { forget(child, what); });
  default:
    return;
  }
}

void StandaloneHost::forgetBound(const Node &node, llvm::StringRef what) {
  mayRaise = true;
  switch (node.kind) {
  case NodeKind::Import:
    return runImport(*cast<Import>(&node));
  case NodeKind::ImportFrom:
    return runImportFrom(*cast<ImportFrom>(&node));
  case NodeKind::FunctionDef:
    return bindUnknown(cast<FunctionDef>(&node)->name, what.str());
  case NodeKind::ClassDef:
    bindUnknown(cast<ClassDef>(&node)->name, what.str());
    break;
  case NodeKind::Name:
    if (listNamed(*cast<Name>(&node)))
      bindUnknown(cast<Name>(&node)->id, "a list that may be changed in a block");
    return;
  case NodeKind::UnsupportedPart:
    if (llvm::StringRef name = cast<UnsupportedPart>(&node)->name; !name.empty())
      bindUnknown(name, what.str());
    break;
  case NodeKind::UnsupportedStmt:
    if (llvm::StringRef name = cast<UnsupportedStmt>(&node)->name; !name.empty())
      bindUnknown(name, what.str());
    break;
  case NodeKind::Assign:
    for (const Expr *target : cast<Assign>(&node)->targets)
      forget(*target, what);
    break;
  case NodeKind::AugAssign:
    forget(*cast<AugAssign>(&node)->target, what);
    break;
  case NodeKind::AnnAssign:
    if (cast<AnnAssign>(&node)->value)
      forget(*cast<AnnAssign>(&node)->target, what);
    break;
  case NodeKind::For:
    forget(*cast<For>(&node)->target, what);
    break;
  case NodeKind::NamedExpr:
    forget(*cast<NamedExpr>(&node)->target, what);
    break;
  case NodeKind::WithItem:
    if (const Expr *target = cast<WithItem>(&node)->target)
      forget(*target, what);
    break;
  case NodeKind::Delete:
    for (const Expr *target : cast<Delete>(&node)->targets)
      forget(*target, what);
    break;
  case NodeKind::Lambda:
    return;
  default:
    break;
  }
  forEachChild(node, [&](const Node &child) { forgetBound(child, what); });
}

/// `A := 3` binds A, and `A.append(3)` changes the list A, wherever in a statement they stand.
void StandaloneHost::runEffects(const Node &node) {
  if (auto *named = dynCast<NamedExpr>(&node)) {
    forget(*named->target, "a value assigned inside an expression");
    forgetLists(*named->value, "a list with two names");
  }
  if (auto *call = dynCast<Call>(&node)) {
    mayRaise = true;
    auto *function = dynCast<Name>(call->func);
    bool reads =
        function && names.find(function->id) == names.end() &&
        llvm::is_contained({"len", "max", "min", "sum", "any", "all", "print"}, function->id);
    if (!reads)
      forgetLists(node, "a list that a call may have changed");
  }
  if (auto *loop = dynCast<Comprehension>(&node))
    forgetLists(*loop->iter, "a list that a call may have changed");
  if (!isa<Lambda>(node) && !isa<FunctionDef>(node))
    forEachChild(node, [&](const Node &child) { runEffects(child); });
}

bool StandaloneHost::listNamed(const Name &name) const {
  auto it = names.find(name.id);
  return it != names.end() && it->second.isList;
}

bool StandaloneHost::holdsList(const Node &node) const {
  switch (node.kind) {
  case NodeKind::List:
    return true;
  case NodeKind::Name:
    return listNamed(*cast<Name>(&node));
  case NodeKind::Tuple:
  case NodeKind::IfExp:
  case NodeKind::BoolOp:
  case NodeKind::BinOp:
  case NodeKind::NamedExpr:
  case NodeKind::Starred: {
    bool holds = false;
    forEachChild(node, [&](const Node &child) { holds |= holdsList(child); });
    return holds;
  }
  default:
    return false;
  }
}

bool StandaloneHost::forgetLists(const Node &node, llvm::StringRef what) {
  if (auto *name = dynCast<Name>(&node)) {
    bool isList = listNamed(*name);
    if (isList)
      bindUnknown(name->id, what.str());
    return isList;
  }
  bool any = false;
  forEachChild(node, [&](const Node &child) { any |= forgetLists(child, what); });
  return any;
}

void StandaloneHost::run(const Node &node) {
  switch (node.kind) {
  case NodeKind::Import:
    return runImport(*cast<Import>(&node));
  case NodeKind::ImportFrom:
    return runImportFrom(*cast<ImportFrom>(&node));
  case NodeKind::FunctionDef:
    return runFunction(*cast<FunctionDef>(&node));
  case NodeKind::ClassDef:
    return runClass(*cast<ClassDef>(&node));
  case NodeKind::Assign:
    return runAssign(*cast<Assign>(&node));
  case NodeKind::AugAssign:
    return runAugAssign(*cast<AugAssign>(&node));
  case NodeKind::AnnAssign: {
    auto &annotated = *cast<AnnAssign>(&node);
    if (annotated.value) {
      runEffects(*annotated.value);
      auto value = evaluate(*annotated.value);
      bool isList = holdsList(*annotated.value);
      if (isList && forgetLists(*annotated.value, "a list with two names"))
        return forget(*annotated.target, "a list with two names");
      assign(*annotated.target, std::move(value), isList);
    }
    return;
  }
  case NodeKind::Delete:
    mayRaise = true;
    for (const Expr *target : cast<Delete>(&node)->targets)
      if (auto *name = dynCast<Name>(target))
        bind(name->id, std::nullopt);
      else
        forget(*target, "changed after it was made");
    return;
  case NodeKind::If:
    runEffects(*cast<If>(&node)->test);
    return runIf(*cast<If>(&node));
  case NodeKind::With:
    return runWith(*cast<With>(&node));
  case NodeKind::UnsupportedStmt:
    if (llvm::StringRef(cast<UnsupportedStmt>(&node)->astName).starts_with("Try"))
      return runTry(*cast<UnsupportedStmt>(&node));
    [[fallthrough]];
  case NodeKind::For:
  case NodeKind::While:
    return forgetBound(node, "set in the statement of line " + lineOf(node));
  case NodeKind::Raise:
  case NodeKind::Assert:
    mayRaise = true;
    return runEffects(node);
  case NodeKind::ExprStmt:
    mayRaise |= !isa<Constant>(cast<ExprStmt>(&node)->value);
    return runEffects(node);
  default:
    return;
  }
}

//===--- meanings
//-----------------------------------------------------------------------------------===//

const Function *StandaloneHost::function(llvm::StringRef name) {
  auto it = names.find(name);
  if (it == names.end() || it->second.kind != Binding::Kind::Function)
    return nullptr;
  return &functionOf(*it->second.function);
}

const Function &StandaloneHost::functionOf(const FunctionDef &definition) {
  std::unique_ptr<Function> &function = functions[&definition];
  if (!function)
    function = std::make_unique<Function>(module, &definition);
  return *function;
}

HostResult<Value> StandaloneHost::lookup(const Function &function, llvm::StringRef name) {
  if (!name.consume_back("="))
    return resolve(name);
  auto it = defaults.find(function.range().begin);
  if (it == defaults.end())
    return {};
  auto value = it->second.find(name);
  if (value == it->second.end())
    return {};
  HostResult<Value> result = value->second;
  if (!result.value && result.error.message.empty())
    result.error.message =
        "the default value of `" + name.str() + "` is not a constant that is known without Python";
  return result;
}

HostResult<Value> StandaloneHost::resolve(llvm::StringRef name) {
  auto it = names.find(name);
  if (it == names.end()) {
    // `from triton.language import *`
    if (auto star = names.find("*"); star != names.end() && isOurs(star->second.module))
      if (auto value = languageMember(star->second.module, name))
        return found(std::move(*value));
    return {};
  }
  const Binding &binding = it->second;
  switch (binding.kind) {
  case Binding::Kind::Module:
    if (!isOurs(binding.module))
      return failed("module `" + binding.module +
                    "` cannot be used in a kernel that is compiled without Python");
    return found(ModuleValue{binding.module});
  case Binding::Kind::Member:
    if (!isOurs(binding.module))
      return failed("`" + name.str() + "` comes from `" + binding.module +
                    "`, which cannot be used in a kernel that is compiled without Python");
    if (auto value = languageMember(binding.module, binding.member))
      return found(std::move(*value));
    return failed("`" + binding.module + "` has no member `" + binding.member + "`");
  case Binding::Kind::Function: {
    if (!isOursDecorated(*binding.function))
      return failed("`" + name.str() +
                    "` is an ordinary Python function: decorate it with `@triton.jit` to call it "
                    "in a kernel");
    return found(FunctionValue{&functionOf(*binding.function), nullptr});
  }
  case Binding::Kind::Class:
  case Binding::Kind::Value:
    break;
  }
  return binding.value;
}

HostResult<Value> StandaloneHost::classValue(const ClassDef &definition) {
  if (!isAggregateClass(definition))
    return failed("`" + std::string(definition.name) +
                  "` is an ordinary class: decorate it with `@triton.aggregate` to use it in a "
                  "kernel");
  ClassPtr base;
  for (const Expr *expr : definition.bases) {
    auto value = evaluate(*expr);
    auto *cls = value.value ? value.value->getIf<ClassValue>() : nullptr;
    if (!cls || base)
      return failed("`" + std::string(definition.name) +
                    "` may inherit from one other aggregate only");
    base = cls->cls;
  }
  return found(ClassValue{
      std::make_shared<const Class>(module, definition, std::move(base), /*isPrelude=*/false)});
}

/// A constant expression at the top level; no value and no message when it is not one.
HostResult<Value> StandaloneHost::evaluate(const Expr &node) {
  switch (node.kind) {
  case NodeKind::Constant: {
    auto &constant = *cast<Constant>(&node);
    switch (constant.constantKind) {
    case ConstantKind::None:
      return found(Value());
    case ConstantKind::True:
    case ConstantKind::False:
      return found(constant.constantKind == ConstantKind::True);
    case ConstantKind::Int:
      if (auto number = constant.asInt64())
        return found(Value::integer(*number));
      if (auto number = constant.asUint64())
        return found(llvm::APSInt(llvm::APInt(65, *number), /*isUnsigned=*/false));
      return {};
    case ConstantKind::Float:
      return found(constant.number);
    case ConstantKind::Str:
      return found(std::string(constant.text));
    default:
      return {};
    }
  }
  case NodeKind::Name: {
    std::string_view name = cast<Name>(&node)->id;
    // A file that a program compiles is a module of that program, not its main one.
    if (name == "__name__")
      return found(llvm::sys::path::stem(module->source().name()).str());
    return resolve(name);
  }
  case NodeKind::Attribute: {
    auto &attribute = *cast<Attribute>(&node);
    auto object = evaluate(*attribute.value);
    if (!object.value)
      return object;
    if (auto *ours = object.value->getIf<ModuleValue>())
      if (auto value = languageMember(ours->name, attribute.name))
        return found(std::move(*value));
    if (attribute.name == "value" && object.value->isNumber())
      return object;
    return {};
  }
  case NodeKind::Tuple:
  case NodeKind::List: {
    frontend::Tuple tuple;
    auto elements =
        isa<List>(node) ? cast<List>(&node)->elements : cast<syntax::Tuple>(&node)->elements;
    for (const Expr *element : elements) {
      auto value = evaluate(*element);
      if (!value.value)
        return value;
      tuple.items.push_back(std::move(*value.value));
      if (tuple.items.weight() > maxValueBytes || tuple.items.nesting() > maxValueDepth)
        return failed("the tuple is too large for a value of the compilation");
    }
    return found(std::move(tuple));
  }
  case NodeKind::UnaryOp: {
    auto operand = evaluate(*cast<UnaryOp>(&node)->operand);
    return operand.value ? folded(foldUnary(cast<UnaryOp>(&node)->op, *operand.value)) : operand;
  }
  case NodeKind::BinOp: {
    auto &binary = *cast<BinOp>(&node);
    auto left = evaluate(*binary.left);
    if (!left.value)
      return left;
    auto right = evaluate(*binary.right);
    return right.value ? folded(foldBinary(binary.op, *left.value, *right.value)) : right;
  }
  case NodeKind::Compare: {
    auto &compare = *cast<Compare>(&node);
    auto left = evaluate(*compare.left);
    if (!left.value || compare.ops.size() != 1)
      return {};
    auto right = evaluate(*compare.comparators[0]);
    return right.value ? folded(foldCompare(compare.ops[0], *left.value, *right.value)) : right;
  }
  case NodeKind::IfExp: {
    auto test = evaluate(*cast<IfExp>(&node)->test);
    auto truth = test.value ? truthOfKnown(*test.value) : std::nullopt;
    if (!truth)
      return {};
    return evaluate(*truth ? *cast<IfExp>(&node)->body : *cast<IfExp>(&node)->orelse);
  }
  case NodeKind::Call:
    return evaluateCall(*cast<Call>(&node));
  default:
    return {};
  }
}

/// `tl.constexpr(3)`, `float("inf")`, `triton.next_power_of_2(5)`, `triton.cdiv(7, 2)`.
HostResult<Value> StandaloneHost::evaluateCall(const Call &node) {
  if (!node.keywords.empty())
    return {};
  std::vector<Value> args;
  for (const Expr *arg : node.args) {
    auto value = evaluate(*arg);
    if (!value.value)
      return value;
    args.push_back(std::move(*value.value));
  }
  // One of ours, or Python's `float`: a function of the file with such a name is another one.
  llvm::StringRef name;
  if (auto *direct = dynCast<Name>(node.func)) {
    auto it = names.find(direct->id);
    if (it == names.end())
      name = direct->id;
    else if (it->second.kind == Binding::Kind::Member && isOurs(it->second.module))
      name = it->second.member;
  } else if (auto *attribute = dynCast<Attribute>(node.func)) {
    auto object = evaluate(*attribute->value);
    if (object.value && object.value->is<ModuleValue>())
      name = attribute->name;
  }
  auto integer = [&](size_t index) { return args[index].getIf<llvm::APSInt>(); };
  if (name == "constexpr" && args.size() == 1)
    return found(args[0]);
  if (name == "float" && args.size() == 1) {
    if (auto *number = integer(0))
      return found(toDouble(*number));
    if (args[0].is<double>())
      return found(args[0]);
    if (auto *text = args[0].getIf<std::string>()) {
      double number;
      if (!llvm::StringRef(*text).getAsDouble(number))
        return found(number);
    }
    return {};
  }
  if (name == "next_power_of_2" && args.size() == 1 && integer(0) && integer(0)->isSignedIntN(62)) {
    int64_t number = integer(0)->getExtValue();
    return found(
        Value::integer(number <= 1 ? number : int64_t(llvm::PowerOf2Ceil(uint64_t(number)))));
  }
  if (name == "cdiv" && args.size() == 2 && integer(0) && integer(1) &&
      integer(0)->isSignedIntN(62) && integer(1)->isSignedIntN(62) &&
      integer(1)->isStrictlyPositive())
    return found(Value::integer(
        llvm::divideCeilSigned(integer(0)->getExtValue(), integer(1)->getExtValue())));
  return {};
}

// Standing alone there are no foreign objects.

HostResult<Value> StandaloneHost::getAttribute(const HostObject &, llvm::StringRef) {
  return {};
}
HostResult<Value> StandaloneHost::getItem(const HostObject &object, const Value &) {
  return failed("`" + object.typeName + "` cannot be subscripted without Python");
}
HostResult<Value> StandaloneHost::call(const HostObject &callee, llvm::ArrayRef<Value>,
                                       llvm::ArrayRef<std::pair<std::string, Value>>, Semantic &) {
  return failed("`" + callee.typeName + "` cannot be called without Python");
}
HostResult<HostMember> StandaloneHost::getMember(const Class &, llvm::StringRef) {
  return {};
}
HostResult<bool> StandaloneHost::truth(const HostObject &object) {
  return {std::nullopt, {"the truth of `" + object.typeName + "` is not known without Python", 0}};
}

void StandaloneHost::print(llvm::StringRef text) {
  llvm::outs() << text;
  llvm::outs().flush();
}

} // namespace nereid::frontend

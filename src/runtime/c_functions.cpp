// The C ABI: source, functions, options, compiled kernels.
#include "runtime/c_api.h"
#include "runtime/compiler.h"
#include "runtime/fork.h"
#include "runtime/function.h"
#include "runtime/target_choice.h"
#include "support/text.h"

#include "llvm/ADT/STLExtras.h"

#include <cerrno>
#include <cstring>

using namespace nereid;
using namespace nereid::runtime;

//===--- source
//---------------------------------------------------------------------------------===//

namespace {

/// The functions at the top level, also inside its `if`, `try` and `with` blocks. The last
/// definition of a name counts; a class takes a function's name away.
void collectFunctions(const syntax::Node &node, nrd_module &module) {
  if (auto *function = syntax::dynCast<syntax::FunctionDef>(&node)) {
    auto [at, isNew] = module.definitions.insert_or_assign(function->name, function);
    if (isNew)
      module.names.emplace_back(function->name);
    return;
  }
  if (auto *type = syntax::dynCast<syntax::ClassDef>(&node)) {
    if (auto at = module.definitions.find(type->name); at != module.definitions.end())
      at->second = nullptr;
    return;
  }
  if (syntax::isa<syntax::Stmt>(node))
    syntax::forEachChild(node, [&](const syntax::Node &child) { collectFunctions(child, module); });
}

nrd_error *parse(const SourceFilePtr &file, nrd_module **out) {
  DiagnosticEngine diagnostics;
  syntax::ParseResult result = syntax::parseModule(file, diagnostics);
  if (!result)
    return wrap(errorFrom(diagnostics, NRD_ERROR_COMPILE));
  auto *module = new nrd_module{result.module, {}, {}, {}};
  for (const syntax::Stmt *statement : result.module->body())
    collectFunctions(*statement, *module);
  *out = module;
  return nullptr;
}

} // namespace

nrd_error *nrd_module_parse_tile(const char *text, size_t size, const char *name,
                                 nrd_module **out) try {
  NRD_NEEDS_ARRAY(text, size);
  NRD_NEEDS(name);
  NRD_NEEDS(out);
  TileSourcePtr tile;
  const Compiler *compiler = Compiler::find();
  if (!compiler)
    return wrap(Compiler::problem());
  if (ErrorPtr error = compiler->readTileSource(name, std::string(text, size), tile))
    return wrap(std::move(error));
  if (nrd_error *error = parse(SourceFile::create(name, tile->declarations()), out))
    return error;
  (*out)->tile = std::move(tile);
  return nullptr;
}
NRD_CATCH_ERROR

nrd_error *nrd_module_parse(const char *text, size_t size, const char *name, uint32_t first_line,
                            nrd_module **out) try {
  NRD_NEEDS_ARRAY(text, size);
  NRD_NEEDS(name);
  NRD_NEEDS(out);
  // A function cut out of a class or another function is indented: the text is dedented by its
  // first line.
  std::string_view view(text, size);
  uint32_t shift = 0;
  size_t at = view.find_first_not_of(" \t");
  std::string dedented;
  if (at != std::string_view::npos && at > 0 && view[at] != '\n' && view[at] != '#') {
    std::string_view indent = view.substr(0, at);
    shift = uint32_t(at);
    while (!view.empty()) {
      size_t end = view.find('\n');
      std::string_view line = view.substr(0, end == std::string_view::npos ? end : end + 1);
      view.remove_prefix(line.size());
      if (line.starts_with(indent))
        line.remove_prefix(indent.size());
      dedented += line;
    }
  } else {
    dedented = view;
  }
  return parse(SourceFile::create(name, std::move(dedented), {first_line, shift}), out);
}
NRD_CATCH_ERROR

nrd_error *nrd_module_load(const char *path, nrd_module **out) try {
  NRD_NEEDS(path);
  NRD_NEEDS(out);
  errno = 0;
  SourceFilePtr file = SourceFile::read(path);
  if (!file)
    return wrap(makeError(NRD_ERROR_ARGUMENT, "OSError", diag::CannotReadFile, path,
                          errno ? std::strerror(errno) : "not a regular file"));
  if (isTileFile(path))
    return nrd_module_parse_tile(file->text().data(), file->text().size(), path, out);
  return parse(file, out);
}
NRD_CATCH_ERROR

void nrd_module_free(nrd_module *module) try { delete module; }
NRD_CATCH
size_t nrd_module_function_count(const nrd_module *module) try {
  if (!module)
    return 0;
  return module->names.size();
}
NRD_CATCH_AND(return 0)
const char *nrd_module_function_name(const nrd_module *module, size_t index) try {
  if (!module)
    return nullptr;
  return index < module->names.size() ? module->names[index].c_str() : nullptr;
}
NRD_CATCH_AND(return nullptr)

nrd_error *nrd_function_create(nrd_module *module, const char *name, const nrd_host *host,
                               void *function_data, nrd_function **out) try {
  NRD_NEEDS(module);
  NRD_NEEDS(out);
  if (host) {
    const std::pair<const char *, bool> needed[] = {{"lookup", host->lookup},
                                                    {"get_attribute", host->get_attribute},
                                                    {"get_item", host->get_item},
                                                    {"call", host->call},
                                                    {"truth", host->truth}};
    for (auto [callback, isThere] : needed)
      if (!isThere)
        return nullArgument(__func__, (std::string("host->") + callback).c_str());
  }
  Working working;
  std::string_view file = module->tree->source().name();
  if (!name && module->names.empty())
    return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::NoFunctions, file));
  std::string wanted = name ? name : module->names.front();
  const syntax::FunctionDef *definition = module->definitions.lookup(wanted);
  if (!definition) // within another, or in a class
    definition = module->tree->findFunction(wanted);
  if (!definition) {
    std::vector<std::string_view> names(module->names.begin(), module->names.end());
    std::string_view near = nearestName(wanted, names);
    return wrap(near.empty() ? makeError(NRD_ERROR_ARGUMENT, "AttributeError", diag::NoSuchFunction,
                                         file, wanted)
                             : makeError(NRD_ERROR_ARGUMENT, "AttributeError",
                                         diag::NoSuchFunctionNear, file, wanted, near));
  }
  auto record = std::make_shared<FunctionRecord>(module->tree, definition, function_data);
  if (host)
    record->host = *host;
  for (ParamRule &rule : record->rules)
    rule.isStrict = !host;
  if ((record->tile = module->tile)) {
    for (auto [rule, param] : llvm::zip(record->rules, record->tile->find(wanted)->params))
      rule.forcedType = param.second;
    record->rulesChanged();
  }
  *out = new nrd_function{std::move(record)};
  return nullptr;
}
NRD_CATCH_ERROR

void nrd_function_free(nrd_function *function) try {
  Working working;
  delete function;
}
NRD_CATCH
const char *nrd_function_name(const nrd_function *function) try {
  if (!function)
    return nullptr;
  return function->record->name.c_str();
}
NRD_CATCH_AND(return nullptr)
size_t nrd_function_param_count(const nrd_function *function) try {
  if (!function)
    return 0;
  return function->record->rules.size();
}
NRD_CATCH_AND(return 0)

static const ParamRule *ruleOf(const nrd_function *function, size_t index) {
  const std::vector<ParamRule> &rules = function->record->rules;
  return index < rules.size() ? &rules[index] : nullptr;
}

const char *nrd_function_param_name(const nrd_function *function, size_t index) try {
  if (!function)
    return nullptr;
  const ParamRule *rule = ruleOf(function, index);
  return rule ? rule->name.c_str() : nullptr;
}
NRD_CATCH_AND(return nullptr)
char *nrd_function_param_type(const nrd_function *function, size_t index) try {
  if (!function)
    return nullptr;
  const ParamRule *rule = ruleOf(function, index);
  return rule && rule->forcedType ? strdup(signatureText(*rule->forcedType).c_str()) : nullptr;
}
NRD_CATCH_AND(return nullptr)
int nrd_function_param_is_constexpr(const nrd_function *function, size_t index) try {
  if (!function)
    return 0;
  const ParamRule *rule = ruleOf(function, index);
  return rule && rule->isConstexpr;
}
NRD_CATCH_AND(return 0)
int nrd_function_param_has_default(const nrd_function *function, size_t index) try {
  if (!function)
    return 0;
  const ParamRule *rule = ruleOf(function, index);
  return rule && rule->hasDefault;
}
NRD_CATCH_AND(return 0)

void nrd_function_set_param_policy(nrd_function *function, size_t index, uint32_t bits) try {
  if (!function)
    return;
  if (index >= function->record->rules.size())
    return;
  function->record->rules[index].policy = bits;
  function->record->rulesChanged();
}
NRD_CATCH

void nrd_function_set_noinline(nrd_function *function, int noinline_) try {
  if (!function)
    return;
  function->record->function.noinline = noinline_ != 0;
}
NRD_CATCH

void nrd_function_set_must_use_result(nrd_function *function, const char *hint) try {
  if (!function || !hint)
    return;
  function->record->function.mustUseResult = hint;
}
NRD_CATCH

/// Adds the parameters of a derivative. hasOutputs: of gradients, which the function writes beside
/// its outputs.
static nrd_error *setDerivative(const char *caller, nrd_function *function,
                                llvm::ArrayRef<nrd_tangent> tangents, bool isReverse,
                                bool hasOutputs = false) {
  FunctionRecord &record = *function->record;
  auto refuse = [&](auto def, const auto &...texts) {
    return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", def, std::string_view(texts)...));
  };
  if (record.tile)
    return refuse(diag::TangentsOfTile, record.name);
  if (!record.function.derivatives.empty() &&
      !record.function.derivatives.back().launchParameters().empty())
    return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadApiArgument,
                          std::string_view(caller), "function",
                          "a function without partial sums, which are not differentiated",
                          std::string_view("one with NRD_TANGENT_PARTIAL")));
  frontend::Derivative derivative;
  derivative.isReverse = isReverse;
  derivative.hasOutputs = hasOutputs;
  std::vector<ParamRule> rules = record.rules;
  auto indexOf = [&](const std::string &name) {
    return size_t(llvm::find_if(rules, [&](const ParamRule &rule) { return rule.name == name; }) -
                  rules.begin());
  };
  auto refuseRoles = [&](std::string_view expected, const std::string &found) {
    return wrap(makeError(
        NRD_ERROR_ARGUMENT, "ValueError", diag::BadApiArgument, std::string_view(caller),
        isReverse ? "gradients->roles" : "tangents->roles", expected, std::string_view(found)));
  };
  uint32_t roles = 0;
  for (const nrd_tangent &tangent : tangents) {
    if (uint32_t further = tangent.roles & (NRD_TANGENT_SAVED | NRD_TANGENT_STEP)) {
      bool isStep = further & NRD_TANGENT_STEP;
      std::string role = isStep ? "NRD_TANGENT_STEP" : "NRD_TANGENT_SAVED";
      if (!isReverse)
        return refuseRoles("no steps of a forward derivative", role);
      if (tangent.roles != further || further == (NRD_TANGENT_SAVED | NRD_TANGENT_STEP))
        return refuseRoles("no further role beside this one", role);
      if (roles & further)
        return refuseRoles("one parameter with this role", role);
      roles |= further;
      std::string name = tangent.name ? tangent.name : isStep ? "step" : "saved";
      if (indexOf(name) < rules.size())
        return refuse(diag::TangentNameTaken, name, name, record.name);
      ParamRule &rule = rules.emplace_back();
      rule.name = name;
      if (isStep) {
        rule.policy = NRD_PARAM_NO_SPECIALIZE;
        rule.forcedType = frontend::Type::of(frontend::DType::Int32);
      }
      frontend::Derivative::Item &item = derivative.items.emplace_back();
      item.parameter = unsigned(record.rules.size()); // none
      item.tangent = name;
      (isStep ? item.isStep : item.isSaved) = true;
      continue;
    }
    if (!tangent.parameter)
      return nullArgument(caller, isReverse ? "gradients->parameter" : "tangents->parameter");
    std::string parameter = tangent.parameter;
    size_t index = indexOf(parameter);
    if (index >= record.rules.size()) {
      std::string all;
      for (const ParamRule &rule : record.rules)
        all += (all.empty() ? "`" : ", `") + rule.name + "`";
      return refuse(diag::TangentOfUnknown, record.name, parameter, all);
    }
    if (rules[index].isConstexpr)
      return refuse(diag::TangentOfConstexpr, parameter, record.name);
    for (const frontend::Derivative::Item &item : derivative.items)
      if (item.parameter == index)
        return refuse(diag::TangentTwice, parameter, record.name);
    std::string name = tangent.name ? tangent.name : "d" + parameter;
    if (indexOf(name) < rules.size())
      return refuse(diag::TangentNameTaken, parameter, name, record.name);
    bool isInput = tangent.roles & NRD_TANGENT_INPUT, isOutput = tangent.roles & NRD_TANGENT_OUTPUT;
    if (isReverse && isInput && isOutput)
      return refuse(diag::GradientInPlace, parameter);
    bool isPartial = tangent.roles & NRD_TANGENT_PARTIAL;
    if (isPartial && !(isReverse && isInput))
      return refuseRoles("partial sums only of gradients of inputs",
                         "NRD_TANGENT_PARTIAL of `" + parameter + "`");
    ParamRule rule = rules[index];
    rule.name = name;
    rule.isConst = rule.hasDefault = false;
    rule.policy &= ~uint32_t(NRD_PARAM_CONST);
    if (isReverse && isInput) // a number's is a pointer, and fp32 may stand for narrower floats
      rule.forcedType.reset();
    if (rule.forcedType)
      rule.forcedType->isConst = false;
    rules.push_back(std::move(rule));
    roles |= tangent.roles;
    derivative.items.push_back({unsigned(index), name, isInput, isOutput, isPartial});
  }
  if ((roles & NRD_TANGENT_PARTIAL) && (roles & (NRD_TANGENT_SAVED | NRD_TANGENT_STEP)))
    return refuseRoles("no steps of a gradient with partial sums", "both");
  for (const auto &[name, type] : derivative.launchParameters()) {
    if (indexOf(name) < rules.size())
      return refuse(diag::TangentNameTaken, "launch", name, record.name);
    ParamRule rule;
    rule.name = name;
    // That rows begin at multiples of 16 elements lets a kernel access several at once.
    if (type != frontend::DType::Int64)
      rule.policy = NRD_PARAM_NO_SPECIALIZE;
    rule.forcedType = frontend::Type::of(type);
    rules.push_back(std::move(rule));
  }
  if ((roles & (NRD_TANGENT_INPUT | NRD_TANGENT_OUTPUT)) !=
      (NRD_TANGENT_INPUT | NRD_TANGENT_OUTPUT))
    return refuse(diag::NoTangents, record.name);
  record.rules = std::move(rules);
  record.function.derivatives.push_back(std::move(derivative));
  record.rulesChanged();
  return nullptr;
}

nrd_error *nrd_function_set_tangents(nrd_function *function, const nrd_tangent *tangents,
                                     size_t count) try {
  NRD_NEEDS(function);
  NRD_NEEDS_ARRAY(tangents, count);
  Working working;
  return setDerivative(__func__, function, {tangents, count}, /*isReverse=*/false);
}
NRD_CATCH_ERROR

nrd_error *nrd_function_set_gradients(nrd_function *function, const nrd_tangent *gradients,
                                      size_t count) try {
  NRD_NEEDS(function);
  NRD_NEEDS_ARRAY(gradients, count);
  Working working;
  return setDerivative(__func__, function, {gradients, count}, /*isReverse=*/true);
}
NRD_CATCH_ERROR

nrd_error *nrd_function_set_outputs_and_gradients(nrd_function *function,
                                                  const nrd_tangent *gradients, size_t count) try {
  NRD_NEEDS(function);
  NRD_NEEDS_ARRAY(gradients, count);
  Working working;
  return setDerivative(__func__, function, {gradients, count}, /*isReverse=*/true,
                       /*hasOutputs=*/true);
}
NRD_CATCH_ERROR

nrd_error *nrd_function_set_param_type(nrd_function *function, size_t index,
                                       const char *signature) try {
  NRD_NEEDS(function);
  if (index >= function->record->rules.size())
    return wrap(makeError(NRD_ERROR_ARGUMENT, "IndexError", diag::LaunchTooManyArguments,
                          function->record->name, int64_t(function->record->rules.size()),
                          int64_t(std::min<uint64_t>(index, INT64_MAX - 1)) + 1));
  ParamRule &rule = function->record->rules[index];
  if (!signature) {
    rule.forcedType.reset();
    function->record->rulesChanged();
    return nullptr;
  }
  auto type = frontend::parseSignatureType(signature);
  if (!type || type->isDescriptor) // a descriptor's type is its own
    return wrap(makeError(NRD_ERROR_ARGUMENT, "ValueError", diag::BadSignature,
                          std::string_view(rule.name), "a type such as `*fp32`, `i64`, `fp32`",
                          signature));
  rule.forcedType = std::move(type);
  function->record->rulesChanged();
  return nullptr;
}
NRD_CATCH_ERROR

void nrd_function_clear_cache(nrd_function *function) try {
  if (!function)
    return;
  Working working;
  function->record->dispatcher.clear();
}
NRD_CATCH

//===--- options
//--------------------------------------------------------------------------------===//

nrd_options *nrd_options_new(void) try { return new nrd_options(); }
NRD_CATCH_AND(return nullptr)
nrd_error *nrd_options_set(nrd_options *options, const char *name, const nrd_value *value) try {
  NRD_NEEDS(options);
  NRD_NEEDS(name);
  NRD_NEEDS(value);
  return wrap(options->values.set(name, *value));
}
NRD_CATCH_ERROR
nrd_options *nrd_options_copy(const nrd_options *options) try {
  if (!options)
    return nullptr;
  return new nrd_options(*options);
}
NRD_CATCH_AND(return nullptr)
void nrd_options_set_kernel_name(nrd_options *options, const char *name) try {
  if (!options)
    return;
  options->values.kernelName = name ? name : "";
}
NRD_CATCH
void nrd_options_free(nrd_options *options) try { delete options; }
NRD_CATCH

//===--- compiling
//------------------------------------------------------------------------------===//

nrd_error *nrd_compile(nrd_function *function, const char *const *signature, size_t count,
                       const nrd_options *options, nrd_kernel **out) try {
  NRD_NEEDS(function);
  NRD_NEEDS_ALL(signature, count);
  NRD_NEEDS(out);
  Working working;
  FunctionRecord &record = *function->record;
  CompileRequest request;
  request.function = &record;
  std::vector<std::string> own;
  if (record.tile && !count)
    for (const ParamRule &rule : record.rules)
      own.push_back(signatureText(*rule.forcedType));
  std::vector<llvm::StringRef> texts(signature, signature + count);
  texts.insert(texts.end(), own.begin(), own.end());
  if (ErrorPtr error = specialiseSignature(record.rules, texts, record.name, request.specs))
    return wrap(std::move(error));
  request.options = (options ? options->values : Options()).resolved();
  if (ErrorPtr error = targetWithoutArguments(request.options, request.target))
    return wrap(std::move(error));
  request.load = canLaunch(request);
  std::unique_ptr<nrd_kernel> kernel;
  if (ErrorPtr error = compileKernel(std::move(request), kernel))
    return wrap(std::move(error));
  kernel->keepAlive = function->record;
  *out = kernel.release();
  return nullptr;
}
NRD_CATCH_ERROR

void nrd_kernel_free(nrd_kernel *kernel) try {
  Working working;
  delete kernel;
}
NRD_CATCH
const char *nrd_kernel_name(const nrd_kernel *kernel) try {
  if (!kernel)
    return nullptr;
  return kernel->name.c_str();
}
NRD_CATCH_AND(return nullptr)

const char *nrd_kernel_layout(const nrd_kernel *kernel) try {
  if (!kernel)
    return nullptr;
  return kernel->layout.c_str();
}
NRD_CATCH_AND(return nullptr)

nrd_value *nrd_kernel_constant(const nrd_kernel *kernel, size_t index) try {
  if (!kernel)
    return nullptr;
  nrd_value *found = nullptr;
  size_t next = 0;
  forEachLeaf(kernel->request.function->rules, kernel->request.specs,
              [&](const frontend::ParamSpec &spec, const std::string &) {
                if (next++ == index && spec.kind == frontend::ParamSpec::Kind::Constant)
                  found = new nrd_value{spec.constant, {}, kernel->request.owners, {}};
              });
  return found;
}
NRD_CATCH_AND(return nullptr)

const void *nrd_kernel_stage(const nrd_kernel *kernel, const char *stage, size_t *size) try {
  if (!kernel || !stage)
    return nullptr;
  Working working;
  const std::string *text = const_cast<nrd_kernel *>(kernel)->stage(stage);
  if (size)
    *size = text ? text->size() : 0;
  return text ? text->c_str() : nullptr;
}
NRD_CATCH_AND(return nullptr)

nrd_error *nrd_kernel_read_stage(const nrd_kernel *kernel, const char *stage, const void **data,
                                 size_t *size) try {
  NRD_NEEDS(kernel);
  NRD_NEEDS(stage);
  NRD_NEEDS(data);
  NRD_NEEDS(size);
  Working working;
  auto *mutableKernel = const_cast<nrd_kernel *>(kernel);
  std::string why;
  const std::string *text = mutableKernel->stage(stage, &why);
  *data = text ? text->c_str() : nullptr;
  *size = text ? text->size() : 0;
  if (text || why.empty())
    return nullptr;
  return wrap(makeError(NRD_ERROR_RUNTIME, "", diag::StageUnavailable, stage, kernel->name, why));
}
NRD_CATCH_ERROR

size_t nrd_kernel_stage_count(const nrd_kernel *kernel) try {
  if (!kernel)
    return 0;
  Working working;
  return const_cast<nrd_kernel *>(kernel)->stageNames().size();
}
NRD_CATCH_AND(return 0)
const char *nrd_kernel_stage_name(const nrd_kernel *kernel, size_t index) try {
  if (!kernel)
    return nullptr;
  Working working;
  const std::vector<std::string> &names = const_cast<nrd_kernel *>(kernel)->stageNames();
  return index < names.size() ? names[index].c_str() : nullptr;
}
NRD_CATCH_AND(return nullptr)

size_t nrd_kernel_time_count(const nrd_kernel *kernel) try {
  if (!kernel)
    return 0;
  return kernel->times.size();
}
NRD_CATCH_AND(return 0)
const char *nrd_kernel_time(const nrd_kernel *kernel, size_t index, double *milliseconds) try {
  if (!kernel)
    return nullptr;
  if (index >= kernel->times.size())
    return nullptr;
  if (milliseconds)
    *milliseconds = kernel->times[index].ms;
  return kernel->times[index].name.c_str();
}
NRD_CATCH_AND(return nullptr)

const char *nrd_kernel_metadata(const nrd_kernel *kernel) try {
  if (!kernel)
    return nullptr;
  return kernel->metadata.c_str();
}
NRD_CATCH_AND(return nullptr)

// The C ABI: the way back from a host's callback into the running compilation.
#include "frontend/semantic.h"
#include "runtime/c_api.h"
#include "runtime/c_host.h"
#include "runtime/compiler.h"
#include "runtime/function.h"

using namespace nereid;
using namespace nereid::runtime;
using frontend::Value;

namespace {

using Result = llvm::FailureOr<Value>;

/// What was reported since `before`, for the caller of a callback. The diagnostics stay with the
/// compilation, which fails.
nrd_error *reported(frontend::Semantic &semantic) {
  return wrap(errorFrom(semantic.diagnostics, compileErrorKind(semantic.diagnostics)));
}

} // namespace

nrd_error *nrd_call_builtin(nrd_semantic *lent, const char *name, const nrd_value *const *args,
                            size_t arg_count, const char *const *keyword_names,
                            const nrd_value *const *keyword_values, size_t keyword_count,
                            nrd_value **out) {
  frontend::Semantic &semantic = lent->semantic;
  std::vector<Value> values;
  for (size_t i = 0; i < arg_count; ++i)
    values.push_back(args[i]->value);
  Result result = llvm::failure();
  const Compiler *compiler = Compiler::find(); // it is running
  if (auto done =
          keyword_count == 0 ? compiler->callOperator(semantic, name, values) : std::nullopt) {
    result = std::move(*done);
  } else {
    std::vector<std::pair<std::string, Value>> keywords;
    for (size_t i = 0; i < keyword_count; ++i)
      keywords.emplace_back(keyword_names[i], keyword_values[i]->value);
    std::unique_ptr<nrd_value> callee(nrd_value_builtin(name));
    if (!callee)
      return wrap(makeError(NRD_ERROR_ARGUMENT, "AttributeError", diag::UnknownBuiltinName, name));
    result = semantic.evaluator.call(callee->value, values, keywords, semantic.span());
  }
  if (llvm::failed(result))
    return reported(semantic);
  *out = new nrd_value{std::move(*result), {}, {}, {}};
  if ((*out)->value.isKnown())
    (*out)->key = keyOfLiteral((*out)->value);
  return nullptr;
}

nrd_error *nrd_call_function(nrd_semantic *lent, nrd_function *function,
                             const nrd_value *const *args, size_t arg_count, nrd_value **out) {
  frontend::Semantic &semantic = lent->semantic;
  std::vector<Value> values;
  for (size_t i = 0; i < arg_count; ++i)
    values.push_back(args[i]->value);
  Result result =
      semantic.evaluator.call(Value(frontend::FunctionValue{&function->record->function, nullptr}),
                              values, {}, semantic.span());
  if (llvm::failed(result))
    return reported(semantic);
  *out = new nrd_value{std::move(*result), {}, {}, {}};
  return nullptr;
}

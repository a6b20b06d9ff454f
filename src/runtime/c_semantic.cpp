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

/// The error for the caller of a callback. The diagnostics stay with the
/// compilation, which fails.
nrd_error *reported(frontend::Semantic &semantic) {
  return wrap(errorFrom(semantic.diagnostics, compileErrorKind(semantic.diagnostics)));
}

} // namespace

nrd_error *nrd_call_builtin(nrd_semantic *semantic, const char *name, const nrd_value *const *args,
                            size_t arg_count, const char *const *keyword_names,
                            const nrd_value *const *keyword_values, size_t keyword_count,
                            nrd_value **out) try {
  NRD_NEEDS(semantic);
  NRD_NEEDS(name);
  NRD_NEEDS_ALL(args, arg_count);
  NRD_NEEDS_ALL(keyword_names, keyword_count);
  NRD_NEEDS_ALL(keyword_values, keyword_count);
  NRD_NEEDS(out);
  frontend::Semantic &running = semantic->semantic;
  std::vector<Value> values;
  for (size_t i = 0; i < arg_count; ++i)
    values.push_back(args[i]->value);
  Result result = llvm::failure();
  const Compiler *compiler = Compiler::find(); // it is running
  if (auto done =
          keyword_count == 0 ? compiler->callOperator(running, name, values) : std::nullopt) {
    result = std::move(*done);
  } else {
    std::vector<std::pair<std::string, Value>> keywords;
    for (size_t i = 0; i < keyword_count; ++i)
      keywords.emplace_back(keyword_names[i], keyword_values[i]->value);
    std::unique_ptr<nrd_value> callee(nrd_value_builtin(name));
    if (!callee)
      return wrap(makeError(NRD_ERROR_ARGUMENT, "AttributeError", diag::UnknownBuiltinName, name));
    result = running.evaluator.call(callee->value, values, keywords, running.span());
  }
  if (llvm::failed(result))
    return reported(running);
  *out = new nrd_value{std::move(*result), {}, {}, {}};
  if ((*out)->value.isKnown())
    (*out)->key = keyOfLiteral((*out)->value);
  return nullptr;
}
NRD_CATCH_ERROR

nrd_error *nrd_call_function(nrd_semantic *semantic, nrd_function *function,
                             const nrd_value *const *args, size_t arg_count, nrd_value **out) try {
  NRD_NEEDS(semantic);
  NRD_NEEDS(function);
  NRD_NEEDS_ALL(args, arg_count);
  NRD_NEEDS(out);
  frontend::Semantic &running = semantic->semantic;
  std::vector<Value> values;
  for (size_t i = 0; i < arg_count; ++i)
    values.push_back(args[i]->value);
  Result result =
      running.evaluator.call(Value(frontend::FunctionValue{&function->record->function, nullptr}),
                             values, {}, running.span());
  if (llvm::failed(result))
    return reported(running);
  *out = new nrd_value{std::move(*result), {}, {}, {}};
  return nullptr;
}
NRD_CATCH_ERROR

// The C ABI: the way back from a host's callback into the running compilation.
#include "frontend/builtin.h"
#include "frontend/prelude.h"
#include "frontend/semantic.h"
#include "runtime/c_api.h"
#include "runtime/c_host.h"
#include "runtime/function.h"

using namespace nereid;
using namespace nereid::runtime;
using frontend::Value;

namespace {

struct BinaryRow {
  std::string_view name;
  syntax::BinaryOp op;
};
constexpr BinaryRow binaryOps[] = {
    {"add", syntax::BinaryOp::Add},           {"sub", syntax::BinaryOp::Sub},
    {"mul", syntax::BinaryOp::Mult},          {"truediv", syntax::BinaryOp::Div},
    {"floordiv", syntax::BinaryOp::FloorDiv}, {"mod", syntax::BinaryOp::Mod},
    {"and", syntax::BinaryOp::BitAnd},        {"or", syntax::BinaryOp::BitOr},
    {"xor", syntax::BinaryOp::BitXor},        {"lshift", syntax::BinaryOp::LShift},
    {"rshift", syntax::BinaryOp::RShift},     {"pow", syntax::BinaryOp::Pow},
};
struct CompareRow {
  std::string_view name;
  syntax::CompareOp op;
};
constexpr CompareRow compareOps[] = {
    {"eq", syntax::CompareOp::Eq}, {"ne", syntax::CompareOp::NotEq},
    {"lt", syntax::CompareOp::Lt}, {"le", syntax::CompareOp::LtE},
    {"gt", syntax::CompareOp::Gt}, {"ge", syntax::CompareOp::GtE},
};

using Result = llvm::FailureOr<Value>;

std::optional<Result> callOperator(frontend::Semantic &semantic, std::string_view name,
                                   llvm::ArrayRef<Value> args) {
  if (args.size() == 2) {
    for (const BinaryRow &row : binaryOps)
      if (row.name == name)
        return semantic.binary(row.op, args[0], args[1]);
    for (const CompareRow &row : compareOps)
      if (row.name == name)
        return semantic.compare(row.op, args[0], args[1]);
    if (name == "getitem")
      return semantic.subscript(args[0], args[1]);
    if (name == "getattr")
      if (auto *attribute = args[1].getIf<std::string>())
        return semantic.evaluator.getAttribute(args[0], *attribute, semantic.span());
  }
  if (args.size() == 1) {
    if (name == "neg")
      return semantic.unary(syntax::UnaryOpKind::USub, args[0]);
    if (name == "pos")
      return semantic.unary(syntax::UnaryOpKind::UAdd, args[0]);
    if (name == "invert")
      return semantic.unary(syntax::UnaryOpKind::Invert, args[0]);
  }
  return std::nullopt;
}

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
  if (auto done = keyword_count == 0 ? callOperator(semantic, name, values) : std::nullopt) {
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

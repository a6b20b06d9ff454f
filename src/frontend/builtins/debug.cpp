// Printing and asserting, while compiling and while running.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

namespace nereid::frontend {

static FailureOr<Value> devicePrint(Semantic &s, const BoundArgs &args) {
  auto prefix = s.knownString(args["prefix"], "`prefix` of `device_print`", args.span("prefix"));
  auto hex = s.knownBool(args["hex"], "`hex`", args.span("hex"));
  if (failed(prefix) || failed(hex))
    return failure();
  if (!llvm::all_of(*prefix, [](char c) { return llvm::isPrint(c) || llvm::isSpace(c); }))
    return s.error(diag::PrintPrefix, args.span("prefix"));
  // Triton's form: `x` becomes " x: ", and without arguments " text".
  const auto &items = args["args"].get<Tuple>().items;
  std::string text = *prefix;
  if (!items.empty()) {
    if (!llvm::StringRef(text).ends_with(" "))
      text += ' ';
    if (!llvm::StringRef(text).ends_with(": "))
      text.replace(text.size() - 1, 1, ": ");
  }
  if (text.size() > 2 && text.front() != ' ')
    text.insert(0, " ");
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<bool> signs;
  for (const Value &item : items) {
    auto tensor = s.toTensor(item, args.span("args"));
    if (failed(tensor))
      return failure();
    values.push_back(tensor->ir);
    signs.push_back(!tensor->type.isPointer && isSignedInt(tensor->type.scalar));
  }
  tile::PrintOp::create(s.builder, s.loc(), text, *hex, signs, values,
                        /*shapes=*/mlir::ArrayAttr());
  return Value();
}

static FailureOr<Value> deviceAssert(Semantic &s, const BoundArgs &args) {
  if (!s.options.debug)
    return Value();
  auto condition = s.truth(args["cond"], args.span("cond"));
  auto message = s.knownString(args["msg"], "`msg` of `device_assert`", args.span("msg"));
  if (failed(condition) || failed(message))
    return failure();
  mlir::Value mask;
  if (!args["mask"].isNone()) {
    auto flag = s.truth(args["mask"], args.span("mask"));
    if (failed(flag) || failed(s.broadcastPair(*condition, *flag, args.call())))
      return failure();
    mask = flag->ir;
  }
  tile::AssertOp::create(s.builder, s.loc(), condition->ir, *message, mask);
  return Value();
}

static FailureOr<Value> staticPrint(Semantic &s, const BoundArgs &args) {
  auto sep = s.knownString(args["sep"], "`sep`", args.span("sep"));
  auto end = s.knownString(args["end"], "`end`", args.span("end"));
  if (failed(sep) || failed(end))
    return failure();
  std::string text;
  const auto &items = args["values"].get<Tuple>().items;
  for (size_t i = 0; i < items.size(); ++i)
    text += (i ? *sep : "") + strOfKnown(items[i]);
  s.host.print(text + *end);
  return Value();
}

static FailureOr<Value> staticAssert(Semantic &s, const BoundArgs &args) {
  SourceSpan at = args.span("cond");
  const Value *condition = knownOrNull(args["cond"]);
  if (!condition || (s.options.strict && !condition->is<bool>()))
    return s.error(diag::StaticAssertNotKnown, at, args["cond"].kindName());
  auto truth = s.knownTruth(*condition, at);
  if (failed(truth))
    return failure();
  if (truth->value_or(false))
    return Value();
  std::string message = strOfKnown(args["msg"]);
  if (message.empty())
    return s.error(diag::StaticAssertFailed, at);
  return s.error(diag::StaticAssertFailedWith, at, message);
}

std::vector<Builtin> debugBuiltins() {
  return {
      {.name = "device_print",
       .signature = "(prefix, *args, hex=False)",
       .doc = R"(Prints scalars and blocks from the running kernel.

:param prefix: a literal string of printable ASCII characters.
:param args: numbers, scalars and blocks.
:param hex: print integers in hexadecimal.)",
       .build = &devicePrint,
       .category = "Debugging"},
      {.name = "device_assert",
       .signature = "(cond, msg=\"\", mask=None)",
       .doc =
           R"(Stops the launch with a message when the condition is false in any element. Only compiled with `debug`.

:param cond: a condition, scalar or block.
:param msg: a literal string.
:param mask: int1: where it is false the condition is not looked at.)",
       .build = &deviceAssert,
       .category = "Debugging"},
      {.name = "static_print",
       .signature = "(*values, sep=\" \", end=\"\\n\", file=None, flush=False)",
       .doc = R"(Prints while the kernel is being compiled; for a run-time value its type.)",
       .build = &staticPrint,
       .category = "Debugging"},
      {.name = "static_assert",
       .signature = "(cond, msg=\"\")",
       .doc = R"(Stops the compilation when a condition known during compilation is false.)",
       .build = &staticAssert,
       .category = "Debugging"},
  };
}

} // namespace nereid::frontend

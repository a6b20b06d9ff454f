// Foreign code on elements: assembly, functions of an author's own library, and functions of the
// language that are mapped over single elements.
#include "frontend/builtins/families.h"
#include "frontend/frontend.h"
#include "ir/tile/Dialect.h"
#include "ir/tile/InlineAsm.h"

#include "llvm/ADT/StringExtras.h"

namespace nereid::frontend {
namespace {

using Tensors = std::vector<Tensor>;

/// A tuple's items, or the value alone.
std::vector<Value> partsOf(const Value &value) {
  auto *tuple = value.getIf<Tuple>();
  return tuple ? tuple->items.all() : std::vector<Value>{value};
}

/// The arguments as tensors of one shape; their types stay.
FailureOr<Tensors> broadcastAll(Semantic &s, const std::vector<Value> &items, SourceSpan at) {
  Tensors tensors;
  Shape shape;
  for (const Value &item : items) {
    auto tensor = s.toTensor(item, at);
    if (failed(tensor))
      return failure();
    auto common = s.commonShape(shape, tensor->type.shape, at);
    if (failed(common))
      return failure();
    shape = *common;
    tensors.push_back(*tensor);
  }
  for (Tensor &tensor : tensors) {
    auto shaped = s.broadcastTo(tensor, shape, at);
    if (failed(shaped))
      return failure();
    tensor = *shaped;
  }
  return tensors;
}

llvm::SmallVector<mlir::Value, 4> valuesOf(const Tensors &tensors) {
  return llvm::map_to_vector<4>(tensors, [](const Tensor &each) { return each.ir; });
}

Value packed(Tensors results, bool isTuple) {
  if (!isTuple)
    return Value(std::move(results.front()));
  Tuple tuple;
  for (Tensor &each : results)
    tuple.items.push_back(Value(std::move(each)));
  return Value(std::move(tuple));
}

FailureOr<unsigned> packOf(Semantic &s, const BoundArgs &args) {
  auto pack = s.knownInt(args["pack"], "`pack`", args.span("pack"));
  if (failed(pack))
    return failure();
  if (*pack < 1 || *pack > 64)
    return s.error(diag::PackSize, args.span("pack"), *pack);
  return unsigned(*pack);
}

//===--- assembly
//---------------------------------------------------------------------------------===//

/// The text without comments of either kind.
std::string withoutComments(llvm::StringRef text) {
  std::string out;
  while (!text.empty()) {
    if (text.starts_with("//")) {
      text = text.drop_until([](char c) { return c == '\n'; });
    } else if (text.starts_with("/*")) {
      size_t end = text.find("*/", 2);
      text = end == llvm::StringRef::npos ? "" : text.drop_front(end + 2);
    } else {
      out += text.front();
      text = text.drop_front();
    }
  }
  return out;
}

/// The kind of an assembly text; empty without an instruction, which every target accepts. Nearly
/// all of PTX's instructions have a dot in their name (`add.f32`), none of x86's has.
llvm::StringRef kindOfAssembly(llvm::StringRef text) {
  std::string code = withoutComments(text);
  llvm::SmallVector<llvm::StringRef> statements;
  llvm::SplitString(code, statements, ";\n{}");
  bool hasInstruction = false;
  for (llvm::StringRef statement : statements) {
    statement = statement.trim();
    if (statement.starts_with("@")) // a predicate
      statement = statement.drop_until([](char c) { return c == ' ' || c == '\t'; }).trim();
    llvm::StringRef name = statement.take_until([](char c) { return c == ' ' || c == '\t'; });
    if (name.starts_with(".reg") || name.drop_while([](char c) { return c == '.'; }).contains('.'))
      return tile::ptxAssembly;
    for (llvm::StringRef bare : {"trap", "exit", "ret", "brkpt"}) // of PTX, without a dot
      if (name == bare && statement.trim() == bare && llvm::StringRef(text).contains(';'))
        return tile::ptxAssembly;
    bool isLabel = name.ends_with(":") || name.starts_with("$"); // or an operand alone
    hasInstruction |= !name.empty() && !isLabel;
  }
  return hasInstruction ? tile::x86Assembly : llvm::StringLiteral("");
}

unsigned bitsOf(const Type &type) {
  return type.isPointer ? 64 : info(type.scalar).bits;
}

struct Constraints {
  unsigned outputs = 0, inputs = 0;
};
Constraints countConstraints(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  Constraints result;
  for (llvm::StringRef part : parts) {
    part = part.trim();
    result.outputs += part.starts_with("=");
    result.inputs += !part.starts_with("=") && !part.starts_with("~");
  }
  return result;
}

FailureOr<Value> inlineAsm(Semantic &s, const BoundArgs &args) {
  auto text = s.knownString(args["asm"], "`asm`", args.span("asm"));
  auto constraints = s.knownString(args["constraints"], "`constraints`", args.span("constraints"));
  auto isPure = s.knownBool(args["is_pure"], "`is_pure`", args.span("is_pure"));
  auto pack = packOf(s, args);
  if (failed(text) || failed(constraints) || failed(isPure) || failed(pack))
    return failure();
  bool manyResults = args["dtype"].is<Tuple>();
  std::vector<Type> resultTypes;
  for (const Value &item : partsOf(args["dtype"])) {
    auto type = s.knownType(item, "`dtype`", args.span("dtype"));
    if (failed(type))
      return failure();
    resultTypes.push_back(*type);
  }
  if (resultTypes.empty())
    return s.error(diag::AsmNoResult, args.span("dtype"));
  auto operands = broadcastAll(s, partsOf(args["args"]), args.span("args"));
  if (failed(operands))
    return failure();

  bool onCpu = s.options.targetName == "cpu";
  llvm::StringRef target = onCpu ? tile::x86Assembly : tile::ptxAssembly;
  llvm::StringRef found = kindOfAssembly(*text);
  if (!found.empty() && found != target)
    return onCpu ? s.error(diag::AsmIsPtx, args.span("asm"))
                 : s.error(diag::AsmIsX86, args.span("asm"));

  Constraints given = countConstraints(*constraints);
  Constraints wanted;
  for (const Type &type : resultTypes)
    wanted.outputs += tile::asmRegisters(bitsOf(type), *pack).count;
  for (const Tensor &operand : *operands)
    wanted.inputs += tile::asmRegisters(bitsOf(operand.type), *pack).count;
  if (given.outputs != wanted.outputs)
    return s.error(diag::AsmRegisters, args.span("constraints"), "outputs", given.outputs,
                   "results", wanted.outputs, *pack);
  if (given.inputs != wanted.inputs)
    return s.error(diag::AsmRegisters, args.span("constraints"), "inputs", given.inputs,
                   "arguments", wanted.inputs, *pack);

  Shape shape = operands->empty() ? Shape() : operands->front().type.shape;
  llvm::SmallVector<mlir::Type> irTypes;
  for (Type &type : resultTypes) {
    type = type.withShape(shape);
    irTypes.push_back(type.toIR(*s.builder.getContext()));
  }
  auto op = tile::InlineAsmOp::create(s.builder, s.loc(), irTypes, *text, *constraints, target,
                                      valuesOf(*operands), *pack, *isPure);
  Tensors results;
  for (auto [value, type] : llvm::zip(op.getResults(), resultTypes))
    results.push_back(Semantic::wrap(value, type));
  return packed(std::move(results), manyResults);
}

//===--- functions of the language
//----------------------------------------------------------------===//

/// What the mapped function gives for `pack` elements: the types of one element's results.
FailureOr<std::vector<Type>> yieldResults(Semantic &s, const Value &result, unsigned pack,
                                          SourceSpan at) {
  std::vector<Type> types;
  llvm::SmallVector<mlir::Value> yielded;
  for (const Value &item : partsOf(result)) {
    auto value = s.toTensor(item, at);
    if (failed(value))
      return failure();
    if (value->type.isBlock() || value->type.isDescriptor)
      return s.error(diag::MapResult, at, item.kindName());
    types.push_back(value->type);
    yielded.push_back(value->ir);
  }
  if (types.empty() || types.size() % pack)
    return s.error(diag::MapResultCount, at, int64_t(pack), int64_t(types.size()));
  std::vector<Type> perElement;
  for (size_t i = 0; i < types.size(); ++i) {
    if (i % pack == 0)
      perElement.push_back(types[i]);
    else if (types[i] != perElement.back())
      return s.error(diag::MapResultTypes, at, perElement.back().str(), types[i].str());
  }
  tile::YieldOp::create(s.builder, s.loc(), yielded);
  return perElement;
}

FailureOr<Value> mapElementwise(Semantic &s, const BoundArgs &args) {
  auto pack = packOf(s, args);
  auto operands = broadcastAll(s, args["args"].get<Tuple>().items, args.span("args"));
  if (failed(pack) || failed(operands))
    return failure();
  if (operands->empty())
    return s.error(diag::MapNoArguments, args.call());
  const Value &function = args["scalar_fn"];
  SourceSpan at = args.call();
  Shape shape = operands->front().type.shape;
  if (shape.empty()) { // one element: a call
    std::vector<Value> scalars;
    if (*pack != 1)
      return s.error(diag::MapOddPack, args.span("pack"), *pack, 1);
    for (const Tensor &operand : *operands)
      scalars.push_back(operand);
    return s.evaluator.call(function, scalars, {}, at);
  }
  int64_t count = operands->front().type.numElements();
  if (count % *pack)
    return s.error(diag::MapOddPack, args.span("pack"), *pack, count);

  // The results' types are known when the region is: the operation is made again around it.
  auto draft = tile::MapElementwiseOp::create(s.builder, s.loc(), mlir::TypeRange(),
                                              valuesOf(*operands), *pack);
  FailureOr<std::vector<Type>> types = failure();
  bool isSingle = true;
  {
    mlir::OpBuilder::InsertionGuard guard(s.builder);
    mlir::Block *block = s.builder.createBlock(&draft.getBody());
    std::vector<Value> scalars;
    for (const Tensor &operand : *operands)
      for (unsigned i = 0; i < *pack; ++i) {
        Type element = operand.type.element();
        scalars.push_back(Semantic::wrap(
            block->addArgument(element.toIR(*s.builder.getContext()), s.loc()), element));
      }
    auto result = s.evaluator.call(function, scalars, {}, at);
    if (succeeded(result)) {
      isSingle = !result->is<Tuple>();
      types = yieldResults(s, *result, *pack, at);
    }
  }
  if (failed(types)) {
    draft.erase();
    return failure();
  }
  const char *refused = nullptr;
  draft.getBody().walk([&](mlir::Operation *op) {
    if (llvm::isa<tile::BarrierOp, tile::Atomic>(op))
      refused = llvm::isa<tile::BarrierOp>(op) ? "a barrier" : "an atomic operation";
    for (mlir::Type type : op->getResultTypes())
      if (llvm::isa<mlir::RankedTensorType>(type))
        refused = "a block";
  });
  if (refused) {
    draft.erase();
    return s.error(diag::MapForbids, at, refused);
  }
  llvm::SmallVector<mlir::Type> irTypes;
  for (Type &type : *types) {
    type = type.withShape(shape);
    irTypes.push_back(type.toIR(*s.builder.getContext()));
  }
  auto op = tile::MapElementwiseOp::create(s.builder, s.loc(), irTypes, draft.getSrcs(), *pack);
  op.getBody().takeBody(draft.getBody());
  draft.erase();
  Tensors results;
  for (auto [value, type] : llvm::zip(op.getResults(), *types))
    results.push_back(Semantic::wrap(value, type));
  return packed(std::move(results), !isSingle);
}

//===--- functions of a library
//-------------------------------------------------------------------===//

/// One row of the dictionary: types of the arguments, the symbol, the type of the result.
struct Overload {
  std::vector<Type> arguments;
  std::string symbol;
  Type result;
};

FailureOr<std::vector<Overload>> overloadsOf(Semantic &s, const BoundArgs &args, size_t count) {
  SourceSpan at = args.span("arg_type_symbol_dict");
  auto malformed = [&] {
    return s.error(diag::ExpectedArgumentKind, at, "`arg_type_symbol_dict`",
                   "a dictionary {(dtype, ...): (symbol, dtype)}",
                   args["arg_type_symbol_dict"].kindName());
  };
  auto *rows = args["arg_type_symbol_dict"].getIf<Tuple>();
  if (!rows)
    return malformed();
  if (rows->items.empty())
    return s.error(diag::ExternNoOverload, at);
  std::vector<Overload> overloads;
  for (const Value &item : rows->items) {
    auto *row = item.getIf<Tuple>(); // ((dtype, ...), (symbol, dtype))
    auto *types = row && row->items.size() == 2 ? row->items[0].getIf<Tuple>() : nullptr;
    auto *means = types ? row->items[1].getIf<Tuple>() : nullptr;
    if (!means || means->items.size() != 2)
      return malformed();
    Overload overload;
    for (const Value &each : types->items) {
      auto type = s.knownType(each, "a type of an argument", at);
      if (failed(type))
        return failure();
      overload.arguments.push_back(*type);
    }
    if (overload.arguments.size() != count)
      return s.error(diag::ExternCount, args.span("args"), int64_t(overload.arguments.size()),
                     int64_t(count));
    auto symbol = s.knownString(means->items[0], "the symbol", at);
    auto result = s.knownType(means->items[1], "the type of the result", at);
    if (failed(symbol) || failed(result))
      return failure();
    overload.symbol = *symbol;
    overload.result = *result;
    overloads.push_back(std::move(overload));
  }
  return overloads;
}

const Overload *findOverload(const std::vector<Overload> &overloads, const Tensors &operands) {
  for (const Overload &overload : overloads)
    if (llvm::equal(overload.arguments, operands, [](const Type &type, const Tensor &operand) {
          return type == operand.type.element();
        }))
      return &overload;
  return nullptr;
}

std::string typesText(llvm::ArrayRef<Type> types) {
  std::string out = "(";
  for (const Type &type : types)
    out += (out.size() > 1 ? ", " : "") + type.element().str();
  return out + ")";
}

FailureOr<Value> externElementwise(Semantic &s, const BoundArgs &args) {
  auto library = s.knownString(args["lib_name"], "`lib_name`", args.span("lib_name"));
  auto path = s.knownString(args["lib_path"], "`lib_path`", args.span("lib_path"));
  auto isPure = s.knownBool(args["is_pure"], "`is_pure`", args.span("is_pure"));
  if (failed(library) || failed(path) || failed(isPure))
    return failure();
  std::vector<Value> items = partsOf(args["args"]);
  auto overloads = overloadsOf(s, args, items.size());
  auto operands = broadcastAll(s, items, args.span("args"));
  if (failed(overloads) || failed(operands))
    return failure();

  // Arguments that no row fits are promoted like operands of `+`.
  const Overload *overload = findOverload(*overloads, *operands);
  if (!overload && operands->size() > 1) {
    Tensors promoted = *operands;
    Semantic::PromoteOptions how;
    how.operation = "extern_elementwise";
    for (int round = 0; round < 2; ++round)
      for (Tensor &each : promoted) {
        auto pair = s.promote(Value(promoted.back()), Value(each), how, args.span("args"),
                              args.span("args"));
        if (failed(pair))
          return failure();
        promoted.back() = pair->first;
        each = pair->second;
      }
    overload = findOverload(*overloads, promoted);
    if (overload)
      *operands = std::move(promoted);
  }
  if (!overload) {
    std::string expected;
    for (const Overload &each : *overloads)
      expected += (expected.empty() ? "" : ", ") + typesText(each.arguments);
    std::vector<Type> found;
    for (const Tensor &operand : *operands)
      found.push_back(operand.type);
    return s.error(diag::ExternTypes, args.span("args"), expected, typesText(found));
  }
  Shape shape = operands->empty() ? Shape() : operands->front().type.shape;
  Type type = overload->result.withShape(shape);
  auto op = tile::ExternOp::create(
      s.builder, s.loc(), type.toIR(*s.builder.getContext()), valuesOf(*operands), overload->symbol,
      *library, *isPure, path->empty() ? mlir::StringAttr() : s.builder.getStringAttr(*path));
  return Value(Semantic::wrap(op.getResult(), type));
}

} // namespace

std::vector<Builtin> foreignBuiltins() {
  return {
      {.name = "inline_asm_elementwise",
       .signature = "(asm, constraints, args, dtype, is_pure, pack)",
       .doc =
           R"(Runs assembly on every element: PTX on a GPU, x86 (in AT&T syntax) on the CPU. Which one it is is recognised;
the other target's is an error.

:param asm: the text, with `$0`, `$1`, ... for the registers of the results, then of the arguments.
:param constraints: LLVM's constraints of the registers, results first: `"=r,=r,r"`.
:param args: the arguments, broadcast to one shape. Without any the result is a scalar.
:param dtype: the type of the result, or a tuple of types for several results. At least one is needed; its result may be ignored.
:param is_pure: the assembly has no effect but its results; it may be removed, merged and moved.
:param pack: how many elements one instance works on. Values narrower than 32 bits share registers then, the first in the lowest
 bits. Which elements meet in an instance is not specified; some may be repeated.)",
       .build = &inlineAsm,
       .category = "Foreign code"},
      {.name = "map_elementwise",
       .signature = "(scalar_fn, *args, pack=1)",
       .doc =
           R"(Runs a jit function on every element, so that `if` and `while` can decide for each element alone.

:param scalar_fn: takes scalars, one per argument, and returns a scalar or a tuple of them. With `pack` it takes that many of the first
 argument, then of the second, ... and returns as many of each result. It may load and store through pointers; atomics and
 barriers are refused.
:param args: blocks, broadcast to one shape.
:param pack: how many elements one call takes. Which ones is not specified.
:returns: a block, or a tuple of blocks where the function returns a tuple.)",
       .build = &mapElementwise,
       .category = "Foreign code",
       .dtypes = "all"},
      {.name = "extern_elementwise",
       .signature = "(lib_name, lib_path, args, arg_type_symbol_dict, is_pure)",
       .doc =
           R"(Calls a scalar function of a library of LLVM bitcode on every element.

:param lib_name: the library; `extern_libs={lib_name: path}` at the launch says where it is.
:param lib_path: its file, or `""`.
:param args: the arguments, broadcast to one shape.
:param arg_type_symbol_dict: `{(dtype, ...): (symbol, dtype of the result)}`. Arguments that fit no row are promoted to their common
 type first.
:param is_pure: the function has no effect but its result.)",
       .build = &externElementwise,
       .category = "Foreign code"},
  };
}

} // namespace nereid::frontend

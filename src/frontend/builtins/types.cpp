// Types as values, their questions, and names that only classify or wrap values.
#include "frontend/builtins/families.h"

namespace nereid::frontend {

static FailureOr<Value> identity(Semantic &, const BoundArgs &args) {
  return args[0];
}

static FailureOr<Value> makeTuple(Semantic &s, const BoundArgs &args) {
  if (args[0].is<Tuple>())
    return args[0];
  return s.error(diag::ExpectedArgumentKind, args.span("args"), "the argument of `tuple`",
                 "a tuple", args[0].kindName());
}

static FailureOr<Value> pointerType(Semantic &s, const BoundArgs &args) {
  auto element = s.knownType(args["element_ty"], "`element_ty`", args.span("element_ty"));
  auto space = s.knownInt(args["address_space"], "`address_space`", args.span("address_space"));
  auto isConst = s.knownBool(args["const"], "`const`", args.span("const"));
  if (failed(element) || failed(space) || failed(isConst))
    return failure();
  if (element->isPointer || element->isBlock())
    return s.error(diag::ExpectedArgumentKind, args.span("element_ty"), "`element_ty`",
                   "a scalar type", args["element_ty"].kindName());
  Type type = Type::pointerTo(element->scalar, *isConst);
  type.addressSpace = uint8_t(*space);
  return Value(TypeValue{type});
}

static FailureOr<Value> blockType(Semantic &s, const BoundArgs &args) {
  auto element = s.knownType(args["element_ty"], "`element_ty`", args.span("element_ty"));
  auto shape = s.knownShape(args["shape"], args.span("shape"));
  if (failed(element) || failed(shape))
    return failure();
  return Value(TypeValue{element->withShape(*shape)});
}

static FailureOr<Value> dtypeNamed(Semantic &s, const BoundArgs &args) {
  auto name = s.knownString(args["name"], "the name of a dtype", args.span("name"));
  if (failed(name))
    return failure();
  auto type = dtypeByName(*name);
  if (!type)
    return s.error(diag::UnknownDtype, args.span("name"), *name);
  return Value(TypeValue{Type::of(*type)});
}

static FailureOr<Value> tensorClass(Semantic &s, const BoundArgs &args) {
  return s.error(diag::TensorConstructor, args.call());
}

static FailureOr<Value> range(Semantic &s, const BoundArgs &args) {
  Value first = args["arg1"], second = args["arg2"], step = args["step"];
  if (second.isNone()) {
    second = first;
    first = Value::integer(0);
  }
  if (step.isNone())
    step = Value::integer(1);
  RangeValue range;
  range.kind = llvm::StringRef(args.row().name) == "static_range" ? RangeValue::Kind::Static
                                                                  : RangeValue::Kind::Range;
  range.start = std::make_shared<const Value>(first);
  range.stop = std::make_shared<const Value>(second);
  range.step = std::make_shared<const Value>(step);
  if (range.kind == RangeValue::Kind::Range)
    for (const Parameter &parameter : parametersOf(args.row()).drop_front(3)) {
      const Value &hint = args[parameter.name];
      if (hint.isNone())
        continue;
      auto number = s.knownInt(hint, "`" + parameter.name + "`", args.span(parameter.name));
      if (failed(number))
        return failure();
      if (*number)
        range.hints.push_back({parameter.name, *number});
    }
  return Value(std::move(range));
}

//===--- questions to a dtype
//---------------------------------------------------------------------===//

static const Type &selfType(const BoundArgs &args) {
  return args[0].get<TypeValue>().type;
}

template <bool (*test)(const Type &)>
static FailureOr<Value> ask(Semantic &, const BoundArgs &args) {
  return Value(test(selfType(args)));
}

/// `is_fp16`, `is_int32`...: a row per scalar type, named by `row`.
static FailureOr<Value> isNamed(Semantic &, const BoundArgs &args) {
  const Type &type = selfType(args);
  return Value(type.isArithmetic() &&
               llvm::StringRef(info(type.scalar).shortName) == args.row().row);
}

static FailureOr<Value> limitOf(Semantic &s, const BoundArgs &args) {
  const Type &type = selfType(args);
  bool isMax = llvm::StringRef(args.row().name).contains("max");
  if (!type.isArithmetic() || !isInt(type.scalar))
    return s.error(diag::IntLimitOfFloat, args.call(), args.row().name + 6, type.str());
  unsigned bits = info(type.scalar).bits;
  bool isSigned = isSignedInt(type.scalar);
  llvm::APInt value =
      isMax ? (isSigned ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits))
            : (isSigned ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits));
  unsigned wide = isSigned || bits < 64 ? 64 : 65;
  return Value(llvm::APSInt(isSigned ? value.sext(wide) : value.zext(wide), /*isUnsigned=*/false));
}

/// The name in `tl`: "float32" where the short name is "fp32".
static FailureOr<Value> codegenName(Semantic &, const BoundArgs &args) {
  const Type &type = selfType(args);
  return Value(std::string(type.isArithmetic() ? info(type.scalar).name : type.str().c_str()));
}

/// One of `dtype.KIND`.
static FailureOr<Value> kindOf(Semantic &, const BoundArgs &args) {
  DType type = selfType(args).scalar;
  return Value::integer(isBool(type) ? 0 : isInt(type) ? 1 : 2);
}

static FailureOr<Value> blockShape(Semantic &, const BoundArgs &args) {
  Tuple sizes;
  for (int64_t size : selfType(args).shape)
    sizes.items.push_back(Value::integer(size));
  return Value(std::move(sizes));
}

static FailureOr<Value> mangled(Semantic &, const BoundArgs &args) {
  return Value(selfType(args).mangle());
}

static FailureOr<Value> withElement(Semantic &s, const BoundArgs &args) {
  auto element = s.knownType(args["element_ty"], "`element_ty`", args.span("element_ty"));
  if (failed(element))
    return failure();
  return Value(TypeValue{element->withShape(selfType(args).shape)});
}

static void addDtypeQuestions(std::vector<Builtin> &rows) {
  auto question = [&](const char *name, BuildFn build, const char *row = "") {
    rows.push_back({.name = name, .signature = "(self)", .build = build, .row = row});
  };
  question("dtype.is_floating",
           &ask<[](const Type &t) { return t.isArithmetic() && isFloat(t.scalar); }>);
  question("dtype.is_standard_floating", &ask<[](const Type &t) {
             return t.isArithmetic() && isFloat(t.scalar) && !isFloat8(t.scalar);
           }>);
  question("dtype.is_fp8",
           &ask<[](const Type &t) { return t.isArithmetic() && isFloat8(t.scalar); }>);
  question("dtype.is_int", &ask<[](const Type &t) { return t.isArithmetic() && isInt(t.scalar); }>);
  question("dtype.is_int_signed",
           &ask<[](const Type &t) { return t.isArithmetic() && isSignedInt(t.scalar); }>);
  question("dtype.is_int_unsigned", &ask<[](const Type &t) {
             return t.isArithmetic() && isInt(t.scalar) && !isSignedInt(t.scalar);
           }>);
  question("dtype.is_bool",
           &ask<[](const Type &t) { return t.isArithmetic() && isBool(t.scalar); }>);
  question("dtype.is_ptr", &ask<[](const Type &t) { return t.isPointer; }>);
  question("dtype.is_const", &ask<[](const Type &t) { return t.isConst; }>);
  question("dtype.is_block", &ask<[](const Type &t) { return t.isBlock(); }>);
  question("dtype.is_void",
           &ask<[](const Type &t) { return !t.isPointer && t.scalar == DType::Void; }>);
  question("dtype.kind", &kindOf);
  question("dtype.get_block_shapes", &blockShape);
  question("dtype.codegen_name", &codegenName);
  question("dtype.mangle", &mangled);
  rows.push_back(
      {.name = "dtype.with_element_ty", .signature = "(self, element_ty)", .build = &withElement});
  question("dtype.get_int_max_value", &limitOf);
  question("dtype.get_int_min_value", &limitOf);
#define DTYPE(Enum, Name, Short, ...) question("dtype.is_" Short, &isNamed, Short);
#include "frontend/dtypes.def"
#undef DTYPE
  // `dtype.is_void` is both a question and the name of a type.
  llvm::SmallVector<llvm::StringRef> seen;
  llvm::erase_if(rows, [&](const Builtin &row) {
    if (llvm::is_contained(seen, row.name))
      return true;
    seen.push_back(row.name);
    return false;
  });
}

std::vector<Builtin> typesBuiltins() {
  std::vector<Builtin> rows = {
      {.name = "constexpr",
       .signature = "(value)",
       .doc =
           R"(The value itself: what is known during compilation needs no box. As an annotation, `x: tl.constexpr` binds a name
to a value known during compilation.)",
       .build = &identity,
       .category = "Types"},
      {.name = "tuple",
       .signature = "(args)",
       .doc = R"(A tuple from a tuple or list.)",
       .build = &makeTuple,
       .category = "Types"},
      {.name = "pointer_type",
       .signature = "(element_ty, address_space=1, const=False)",
       .doc = R"(The type of pointers to a scalar type.)",
       .build = &pointerType,
       .category = "Types"},
      {.name = "block_type",
       .signature = "(element_ty, shape)",
       .doc = R"(The type of blocks of this shape.)",
       .build = &blockType,
       .category = "Types"},
      {.name = "dtype",
       .signature = "(name)",
       .doc = R"(The scalar type of this name: `tl.dtype("fp32")`.)",
       .build = &dtypeNamed,
       .category = "Types"},
      {.name = "tensor",
       .signature = "(handle, type)",
       .doc =
           R"(The class of run-time scalars, pointers and blocks, for `isinstance` and annotations.)",
       .build = &tensorClass,
       .category = "Types"},
      {.name = "range",
       .signature = "(arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None, "
                    "disallow_acc_multi_buffer=False, flatten=False, warp_specialize=False, "
                    "disable_licm=False)",
       .doc = R"(`range` with hints for the loop; the meaning is the same.

:param num_stages: GPUs: how many iterations of loads are in flight; advice says when they cannot be.
:param loop_unroll_factor: GPUs: how often the body is repeated.
:param disallow_acc_multi_buffer: accepted; a dot's accumulator always has one copy.
:param flatten: accepted without effect, which GPU targets say: the loop inside stays a loop.
:param warp_specialize: GPUs with a copy engine: further warps copy the blocks of descriptors that feed products in the loop, or in a loop within. They go ahead of stores through other arguments. Where that is not possible it has no effect, which a line of advice says.
:param disable_licm: leave the body's invariant operations where they are.)",
       .build = &range,
       .category = "Iteration"},
      {.name = "static_range",
       .signature = "(arg1, arg2=None, step=None)",
       .doc =
           R"(`range` over bounds known during compilation: the loop is unrolled, its variable is known.)",
       .build = &range,
       .category = "Iteration"},
  };
  addDtypeQuestions(rows);
  return rows;
}

} // namespace nereid::frontend

// Atomics. Which element types each one takes is a table.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

namespace nereid::frontend {

namespace {
struct Ordering {
  tile::MemSemantic sem;
  tile::MemScope scope;
};

/// The kind of read-modify-write per class of element type; `None` marks what is refused.
struct AtomicRow {
  const char *name;
  std::optional<tile::AtomicKind> onSigned, onUnsigned, onFloat, onHalf;
};
} // namespace

using Kind = tile::AtomicKind;
static const AtomicRow atomicRows[] = {
    {"atomic_add", Kind::Add, Kind::Add, Kind::FAdd, Kind::FAdd},
    {"atomic_max", Kind::Max, Kind::UMax, Kind::FMax, std::nullopt},
    {"atomic_min", Kind::Min, Kind::UMin, Kind::FMin, std::nullopt},
    {"atomic_and", Kind::And, Kind::And, std::nullopt, std::nullopt},
    {"atomic_or", Kind::Or, Kind::Or, std::nullopt, std::nullopt},
    {"atomic_xor", Kind::Xor, Kind::Xor, std::nullopt, std::nullopt},
    {"atomic_xchg", Kind::Xchg, Kind::Xchg, Kind::Xchg, std::nullopt},
};

static constexpr tile::MemScope scopes[] = {tile::MemScope::GPU, tile::MemScope::CTA,
                                            tile::MemScope::System};

/// Of an access that reads or writes: `"acquire"` or `"release"`, the default, or `"relaxed"`.
static FailureOr<Ordering> orderingOfAccess(Semantic &s, const BoundArgs &args,
                                            tile::MemSemantic ordered) {
  const char *name = ordered == tile::MemSemantic::Acquire ? "acquire" : "release";
  auto sem = choice(s, args, "sem", {name, "relaxed"}, 0);
  auto scope = choice(s, args, "scope", {"gpu", "cta", "sys"}, 0);
  if (failed(sem) || failed(scope))
    return failure();
  return Ordering{*sem ? tile::MemSemantic::Relaxed : ordered, scopes[*scope]};
}

static FailureOr<Ordering> orderingOf(Semantic &s, const BoundArgs &args) {
  static constexpr tile::MemSemantic sems[] = {
      tile::MemSemantic::Acquire, tile::MemSemantic::Release, tile::MemSemantic::AcqRel,
      tile::MemSemantic::Relaxed};
  auto sem = choice(s, args, "sem", {"acquire", "release", "acq_rel", "relaxed"}, 2);
  auto scope = choice(s, args, "scope", {"gpu", "cta", "sys"}, 0);
  if (failed(sem) || failed(scope))
    return failure();
  return Ordering{sems[*sem], scopes[*scope]};
}

static FailureOr<Tensor> pointerOf(Semantic &s, const BoundArgs &args, bool reads = false) {
  auto *pointer = args["pointer"].getIf<Tensor>();
  if (!pointer || !pointer->type.isPointer)
    return s.error(diag::AtomicNotPointer, args.span("pointer"), args.row().name,
                   pointer ? pointer->type.str() : args["pointer"].kindName());
  if (pointer->type.isConst && !reads)
    return s.error(diag::StoreToConst, args.span("pointer"));
  return *pointer;
}

/// A value as the pointee's type, in the pointer's shape. Numbers become constants.
static FailureOr<Tensor> operandFor(Semantic &s, const BoundArgs &args, llvm::StringRef name,
                                    const Tensor &pointer) {
  SourceSpan at = args.span(name);
  auto value = tensorArg(s, args, name);
  if (failed(value))
    return failure();
  if (value->type.isBlock() && !pointer.type.isBlock())
    return s.error(diag::BlockWithScalarPointer, at, name, args[name].kindName(), "Value");
  auto converted = s.cast(*value, pointer.type.scalar, at);
  return failed(converted) ? converted : s.broadcastTo(*converted, pointer.type.shape, at);
}

/// Floats that are only exchanged go through integers of their width.
static DType bitsOf(DType type) {
  switch (info(type).bits) {
  case 8:
    return DType::Int8;
  case 16:
    return DType::Int16;
  case 32:
    return DType::Int32;
  default:
    return DType::Int64;
  }
}

static Tensor asBits(Semantic &s, const Tensor &value) {
  Type type = value.type.element();
  type.scalar = bitsOf(type.scalar);
  return type.isPointer ? *s.cast(value, type) : *s.cast(value, type, {.bitcast = true});
}

/// The mask in the pointer's shape; null where all lanes take part.
static FailureOr<mlir::Value> maskOf(Semantic &s, const BoundArgs &args, const Tensor &pointer) {
  const Value &argument = args["mask"];
  bool isKnownTrue = argument.is<bool>() && argument.get<bool>();
  if (argument.isNone() || isKnownTrue)
    return mlir::Value();
  auto flag = tensorArg(s, args, "mask");
  if (failed(flag))
    return failure();
  if (!isBool(flag->type.scalar) || flag->type.isPointer)
    return s.error(diag::MaskNotBool, args.span("mask"), argument.kindName());
  if (flag->type.isBlock() && !pointer.type.isBlock())
    return s.error(diag::BlockWithScalarPointer, args.span("mask"), "mask", argument.kindName(),
                   "Mask");
  auto shaped = s.broadcastTo(*flag, pointer.type.shape, args.span("mask"));
  if (failed(shaped))
    return failure();
  return shaped->ir;
}

/// A load or store that other threads see as a whole. Pointers to `int1` point to bytes, as those
/// of `load` and `store` do.
template <bool reads> static FailureOr<Value> access(Semantic &s, const BoundArgs &args) {
  auto pointer = pointerOf(s, args, reads);
  if (failed(pointer))
    return failure();
  if (reads) { // the mask may have the larger shape
    auto flag = args["mask"].getIf<Tensor>();
    if (flag && pointer->type.isBlock()) {
      auto common = s.commonShape(pointer->type.shape, flag->type.shape, args.span("mask"));
      auto shaped = failed(common) ? FailureOr<Tensor>()
                                   : s.broadcastTo(*pointer, *common, args.span("mask"));
      if (failed(shaped))
        return failure();
      *pointer = *shaped;
    }
  }
  DType type = pointer->type.scalar;
  bool isFlag = isBool(type);
  if (!isInt(type) && !isFloat(type))
    return s.error(diag::AtomicDtype, args.span("pointer"), args.row().name, info(type).shortName);
  auto order =
      orderingOfAccess(s, args, reads ? tile::MemSemantic::Acquire : tile::MemSemantic::Release);
  auto mask = maskOf(s, args, *pointer);
  if (failed(order) || failed(mask))
    return failure();
  Tensor target = *pointer;
  if (isFlag) {
    Type bytes = pointer->type.element();
    bytes.scalar = DType::Int8;
    target = *s.cast(*pointer, bytes);
  }
  if (!reads) {
    auto value = operandFor(s, args, "val", *pointer);
    if (failed(value))
      return failure();
    Tensor operand = isFlag ? *s.cast(*value, DType::Int8) : *value;
    tile::AtomicStoreOp::create(s.builder, s.loc(), target.ir, operand.ir, *mask, order->sem,
                                order->scope);
    return Value();
  }
  Type loaded = Type::of(target.type.scalar, target.type.shape);
  auto op = tile::AtomicLoadOp::create(s.builder, s.loc(), loaded.toIR(*s.builder.getContext()),
                                       target.ir, *mask, order->sem, order->scope);
  Tensor seen = Semantic::wrap(op, loaded);
  if (isFlag)
    return Value(s.emitCompare(CompareOp::NotEq, seen, s.constant(0, seen.type)));
  return Value(std::move(seen));
}

static FailureOr<Value> atomic(Semantic &s, const BoundArgs &args) {
  auto pointer = pointerOf(s, args);
  if (failed(pointer))
    return failure();
  DType type = pointer->type.scalar;
  const AtomicRow &row = *llvm::find_if(atomicRows, [&](const AtomicRow &each) {
    return llvm::StringRef(each.name) == args.row().name;
  });
  std::optional<tile::AtomicKind> kind;
  if (isFloat(type))
    kind = info(type).bits >= 32 ? row.onFloat : isFloat8(type) ? std::nullopt : row.onHalf;
  else if (info(type).bits >= 32)
    kind = isSignedInt(type) ? row.onSigned : row.onUnsigned;
  if (!kind)
    return s.error(diag::AtomicDtype, args.span("pointer"), row.name, info(type).shortName);

  auto value = operandFor(s, args, "val", *pointer);
  if (failed(value))
    return failure();
  auto mask = maskOf(s, args, *pointer);
  if (failed(mask))
    return failure();
  auto order = orderingOf(s, args);
  if (failed(order))
    return failure();
  bool throughBits = *kind == Kind::Xchg && isFloat(type);
  Tensor target = throughBits ? asBits(s, *pointer) : *pointer;
  Tensor operand = throughBits ? asBits(s, *value) : *value;
  auto op = tile::AtomicRMWOp::create(s.builder, s.loc(), operand.ir.getType(), *kind, target.ir,
                                      operand.ir, *mask, order->sem, order->scope);
  Tensor old = Semantic::wrap(op, operand.type);
  if (throughBits)
    return result(s.cast(old, Type::of(type), {.bitcast = true}));
  return Value(std::move(old));
}

static FailureOr<Value> atomicCas(Semantic &s, const BoundArgs &args) {
  auto pointer = pointerOf(s, args);
  if (failed(pointer))
    return failure();
  DType type = pointer->type.scalar;
  if (info(type).bits < 16)
    return s.error(diag::AtomicCasWidth, args.span("pointer"), info(type).shortName);
  auto cmp = operandFor(s, args, "cmp", *pointer);
  auto value = operandFor(s, args, "val", *pointer);
  auto order = orderingOf(s, args);
  if (failed(cmp) || failed(value) || failed(order))
    return failure();
  bool throughBits = isFloat(type);
  Tensor target = throughBits ? asBits(s, *pointer) : *pointer;
  Tensor expected = throughBits ? asBits(s, *cmp) : *cmp;
  Tensor operand = throughBits ? asBits(s, *value) : *value;
  auto op =
      tile::AtomicCASOp::create(s.builder, s.loc(), operand.ir.getType(), target.ir, expected.ir,
                                operand.ir, mlir::Value(), order->sem, order->scope);
  Tensor old = Semantic::wrap(op, operand.type);
  if (throughBits)
    return result(s.cast(old, Type::of(type), {.bitcast = true}));
  return Value(std::move(old));
}

std::vector<Builtin> atomicBuiltins() {
  constexpr const char *ordering = R"(
:param pointer: a pointer or a block of pointers, not to const; several lanes may name one address.
:param val: cast to the element type and broadcast to the pointers' shape.
:param mask: int1: where it is false nothing is touched and the result is undefined.
:param sem: `"acquire"`, `"release"`, `"acq_rel"` (the default) or `"relaxed"`.
:param scope: `"gpu"` (the default), `"cta"` or `"sys"`.
:returns: the old values.)";
  static const std::string docs[] = {
      std::string("Adds atomically. 32- and 64-bit integers, fp16, bf16, fp32, fp64.\n") + ordering,
      std::string("Replaces by the larger value atomically. 32- and 64-bit integers, fp32, fp64 "
                  "(-0.0 is below +0.0).\n") +
          ordering,
      std::string("Replaces by the smaller value atomically. 32- and 64-bit integers, fp32, fp64 "
                  "(-0.0 is below +0.0).\n") +
          ordering,
      std::string("Bitwise and, atomically. 32- and 64-bit integers.\n") + ordering,
      std::string("Bitwise or, atomically. 32- and 64-bit integers.\n") + ordering,
      std::string("Bitwise exclusive or, atomically. 32- and 64-bit integers.\n") + ordering,
      std::string("Exchanges atomically. 32- and 64-bit integers, fp32, fp64.\n") + ordering,
  };
  static const char *const dtypes[] = {"int32 int64 uint32 uint64 fp16 bf16 fp32 fp64",
                                       "int32 int64 uint32 uint64 fp32 fp64",
                                       "int32 int64 uint32 uint64 fp32 fp64",
                                       "int32 int64 uint32 uint64",
                                       "int32 int64 uint32 uint64",
                                       "int32 int64 uint32 uint64",
                                       "int32 int64 uint32 uint64 fp32 fp64"};
  static_assert(std::size(docs) == std::size(atomicRows) &&
                std::size(dtypes) == std::size(atomicRows));
  std::vector<Builtin> rows;
  for (size_t i = 0; i < std::size(atomicRows); ++i)
    rows.push_back({.name = atomicRows[i].name,
                    .signature = "(pointer, val, mask=None, sem=None, scope=None)",
                    .doc = docs[i].c_str(),
                    .build = &atomic,
                    .isMethod = true,
                    .category = "Atomics",
                    .dtypes = dtypes[i]});
  constexpr const char *all = "int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e5 "
                              "float8e4nv fp16 bf16 fp32 fp64";
  rows.push_back(
      {.name = "atomic_load",
       .signature = "(pointer, mask=None, sem=None, scope=None)",
       .doc =
           R"(Reads each element as a whole, at a time that other threads agree on. Since Triton 3.9.

:param pointer: a pointer or a block of pointers to integers or floats, also to const. The memory may be read-only.
:param mask: int1: where it is false nothing is touched and the result is undefined. Blocks of pointers are broadcast to its shape.
:param sem: `"acquire"` (the default): what was stored before a release that is seen here is visible afterwards; or `"relaxed"`.
:param scope: `"gpu"` (the default), `"cta"` or `"sys"`.)",
       .build = &access<true>,
       .isMethod = true,
       .category = "Atomics",
       .dtypes = all});
  rows.push_back(
      {.name = "atomic_store",
       .signature = "(pointer, val, mask=None, sem=None, scope=None)",
       .doc =
           R"(Writes each element as a whole, at a time that other threads agree on. Since Triton 3.9.

:param pointer: a pointer or a block of pointers to integers or floats, not to const.
:param val: cast to the element type and broadcast to the pointers' shape.
:param mask: int1: where it is false nothing is written.
:param sem: `"release"` (the default): what was stored before is visible to those who see the value by an acquire; or `"relaxed"`.
:param scope: `"gpu"` (the default), `"cta"` or `"sys"`.)",
       .build = &access<false>,
       .isMethod = true,
       .category = "Atomics",
       .dtypes = all});
  rows.push_back(
      {.name = "atomic_cas",
       .signature = "(pointer, cmp, val, sem=None, scope=None)",
       .doc =
           R"(Replaces by `val` where the memory holds `cmp`, atomically; floats are compared by their bits.

:param pointer: a pointer or a block of pointers to elements of 16, 32 or 64 bits.
:param cmp: cast to the element type and broadcast.
:param val: cast to the element type and broadcast.
:param sem: `"acquire"`, `"release"`, `"acq_rel"` (the default) or `"relaxed"`.
:param scope: `"gpu"` (the default), `"cta"` or `"sys"`.
:returns: the old values.)",
       .build = &atomicCas,
       .isMethod = true,
       .category = "Atomics",
       .dtypes = "int16 int32 int64 uint16 uint32 uint64 fp16 bf16 fp32 fp64"});
  return rows;
}

} // namespace nereid::frontend

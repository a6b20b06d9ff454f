// Loads and stores.
#include "frontend/builtins/block_pointer.h"
#include "frontend/builtins/families.h"
#include "ir/tile/WithTangent.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace nereid::frontend {

/// `int1` in memory is a byte: such pointers are read and written as pointers to int8.
static Tensor bytePointer(Semantic &s, const Tensor &pointer) {
  if (pointer.type.scalar != DType::Int1)
    return pointer;
  Type type = pointer.type;
  type.scalar = DType::Int8;
  return *s.cast(pointer, type.element());
}

/// The mask as an int1 of the pointer's shape; a null value for no mask, or one known to be true.
static FailureOr<mlir::Value> maskFor(Semantic &s, const BoundArgs &args, const Tensor &pointer) {
  const Value &mask = args["mask"];
  if (mask.isNone())
    return mlir::Value();
  if (!mask.isTensor()) {
    auto known = s.knownBool(mask, "`mask`", args.span("mask"));
    if (failed(known))
      return failure();
    if (*known)
      return mlir::Value();
    return s.constant(Value(false), pointer.type.withScalar(DType::Int1)).ir;
  }
  Tensor flag = mask.get<Tensor>();
  if (!isBool(flag.type.scalar) || flag.type.isPointer)
    return s.error(diag::MaskNotBool, args.span("mask"), mask.kindName());
  if (flag.type.isBlock() && !pointer.type.isBlock())
    return s.error(diag::BlockWithScalarPointer, args.span("mask"), "mask", mask.kindName(),
                   "Mask");
  auto shaped = s.broadcastTo(flag, pointer.type.shape, args.span("mask"));
  return failed(shaped) ? FailureOr<mlir::Value>(failure()) : FailureOr<mlir::Value>(shaped->ir);
}

static FailureOr<tile::EvictionPolicy> evictionOf(Semantic &s, const BoundArgs &args) {
  auto policy =
      choice(s, args, "eviction_policy", {"evict_normal", "evict_first", "evict_last"}, 0);
  if (failed(policy))
    return failure();
  return tile::EvictionPolicy(*policy);
}

/// Options that only block pointers understand.
static llvm::LogicalResult refuseBlockPointerOptions(Semantic &s, const BoundArgs &args,
                                                     bool hasPadding) {
  auto *dims = args["boundary_check"].getIf<Tuple>();
  bool checks = dims ? !dims->items.empty() : !args["boundary_check"].isNone();
  bool pads = hasPadding && truthOfKnown(args["padding_option"]).value_or(true);
  if (checks && !hasPadding)
    return s.error(diag::StoreBlockOptions, args.span("boundary_check"));
  if (checks || pads)
    return s.error(diag::LoadBlockOptions, args.span(checks ? "boundary_check" : "padding_option"));
  return llvm::success();
}

/// Whether a mask of this shape makes a block of the pointer's shape larger.
static bool outgrows(llvm::ArrayRef<int64_t> mask, llvm::ArrayRef<int64_t> pointer) {
  if (mask.size() > pointer.size())
    return true;
  return llvm::any_of(llvm::zip(llvm::reverse(mask), llvm::reverse(pointer)), [](auto dims) {
    auto [of, by] = dims;
    return by == 1 && of != 1;
  });
}

/// The value in checked mode of masked-off lanes of a load without `other`, which are undefined
/// otherwise: NaN in floats, bytes of 0x5A in integers (so true in bools); nothing for pointers.
static mlir::Value conspicuous(Semantic &s, const Type &type) {
  mlir::Type ir = type.toIR(*s.builder.getContext());
  mlir::Type element = mlir::getElementTypeOrSelf(ir);
  mlir::TypedAttr value;
  if (auto floating = llvm::dyn_cast<mlir::FloatType>(element))
    value = s.builder.getFloatAttr(floating, llvm::APFloat::getNaN(floating.getFloatSemantics()));
  else if (auto integer = llvm::dyn_cast<mlir::IntegerType>(element))
    value = s.builder.getIntegerAttr(
        integer, llvm::APInt::getSplat(integer.getWidth(), llvm::APInt(8, 0x5A)));
  else
    return {};
  if (auto block = llvm::dyn_cast<mlir::RankedTensorType>(ir))
    value = mlir::DenseElementsAttr::get(block, value);
  return mlir::arith::ConstantOp::create(s.builder, s.loc(), value);
}

static FailureOr<Value> load(Semantic &s, const BoundArgs &args) {
  if (isBlockPointer(args["pointer"]))
    return loadThroughBlock(s, args);
  auto *given = args["pointer"].getIf<Tensor>();
  if (!given || !given->type.isPointer || given->type.scalar == DType::Void)
    return s.error(diag::LoadNotPointer, args.span("pointer"),
                   given ? given->type.str() : args["pointer"].kindName());
  if (failed(refuseBlockPointerOptions(s, args, true)))
    return failure();
  const Value &otherArg = args["other"];
  if (args["mask"].isNone() && !otherArg.isNone())
    return s.error(diag::OtherWithoutMask, args.span("other"));
  bool isFlag = given->type.scalar == DType::Int1;
  Tensor pointer = bytePointer(s, *given);
  // As in Triton a load, and it alone, has the shape of pointer and mask together.
  if (auto *flag = args["mask"].getIf<Tensor>(); flag && flag->type.isBlock() &&
                                                 pointer.type.isBlock() &&
                                                 outgrows(flag->type.shape, pointer.type.shape)) {
    Tensor shaped = *flag;
    if (failed(s.broadcastPair(pointer, shaped, args.span("mask"))))
      return failure();
  }
  auto mask = maskFor(s, args, pointer);
  if (failed(mask))
    return failure();

  Type type = pointer.type.withScalar(pointer.type.scalar);
  mlir::Value other;
  if (otherArg.isNone() && *mask && s.options.checked) {
    other = conspicuous(s, type);
  } else if (!otherArg.isNone() && *mask) {
    SourceSpan at = args.span("other");
    if (otherArg.isNumber() && !isFlag &&
        !isFloat8(type.scalar)) { // the constant at once in its final type and shape
      auto literal = s.literalType(otherArg, at);
      if (failed(literal))
        return failure();
      other = s.constant(otherArg, type).ir;
    } else {
      auto value = s.toTensor(otherArg, at);
      if (failed(value))
        return failure();
      if (value->type.isBlock() && !pointer.type.isBlock())
        return s.error(diag::BlockWithScalarPointer, at, "other", otherArg.kindName(), "Other");
      auto converted = s.cast(*value, isFlag ? DType::Int1 : type.scalar, at);
      if (succeeded(converted) && isFlag)
        converted = s.cast(*converted, DType::Int8, at);
      if (failed(converted))
        return failure();
      auto shaped = s.broadcastTo(*converted, pointer.type.shape, at);
      if (failed(shaped))
        return failure();
      other = shaped->ir;
    }
  }

  static constexpr tile::CacheModifier modifiers[] = {
      tile::CacheModifier::CA, tile::CacheModifier::CG, tile::CacheModifier::CS,
      tile::CacheModifier::CV};
  auto cache = choice(s, args, "cache_modifier", {".ca", ".cg", ".cs", ".cv"}, -1);
  auto evict = evictionOf(s, args);
  auto isVolatile = s.knownBool(args["volatile"], "`volatile`", args.span("volatile"));
  if (failed(cache) || failed(evict) || failed(isVolatile))
    return failure();
  mlir::Type ir = type.toIR(*s.builder.getContext());
  auto op = tile::LoadOp::create(s.builder, s.loc(), ir, pointer.ir, *mask, other,
                                 *cache < 0 ? tile::CacheModifier::None : modifiers[*cache], *evict,
                                 *isVolatile);
  Tensor loaded = Semantic::wrap(op, type);
  if (isFlag)
    loaded = s.emitCompare(CompareOp::NotEq, loaded, s.constant(0, type));
  return Value(std::move(loaded));
}

static FailureOr<Value> store(Semantic &s, const BoundArgs &args) {
  if (isBlockPointer(args["pointer"]))
    return storeThroughBlock(s, args);
  auto *given = args["pointer"].getIf<Tensor>();
  if (!given || !given->type.isPointer || given->type.scalar == DType::Void)
    return s.error(diag::StoreNotPointer, args.span("pointer"),
                   given ? given->type.str() : args["pointer"].kindName());
  if (given->type.isConst)
    return s.error(diag::StoreToConst, args.span("pointer"));
  if (failed(refuseBlockPointerOptions(s, args, false)))
    return failure();
  SourceSpan at = args.span("value");
  bool isFlag = given->type.scalar == DType::Int1;
  Tensor pointer = bytePointer(s, *given);
  Type type = pointer.type.withScalar(pointer.type.scalar);

  const Value &valueArg = args["value"];
  mlir::Value value;
  if (valueArg.isNumber() && !isFlag && !isFloat8(type.scalar)) {
    auto literal = s.literalType(valueArg, at);
    if (failed(literal))
      return failure();
    value = s.constant(valueArg, type).ir;
  } else {
    auto tensor = s.toTensor(valueArg, at);
    if (failed(tensor))
      return failure();
    if (tensor->type.isBlock() && !pointer.type.isBlock())
      return s.error(diag::BlockWithScalarPointer, at, "value", valueArg.kindName(), "Value");
    auto common = s.commonShape(tensor->type.shape, pointer.type.shape, at);
    if (failed(common))
      return failure();
    if (*common != pointer.type.shape)
      return s.error(diag::StorePointerShape, at, shapeText(*common),
                     shapeText(pointer.type.shape));
    auto converted = s.cast(*tensor, isFlag ? DType::Int1 : type.scalar, at);
    if (succeeded(converted) && isFlag)
      converted = s.cast(*converted, DType::Int8, at);
    if (failed(converted))
      return failure();
    auto shaped = s.broadcastTo(*converted, pointer.type.shape, at);
    if (failed(shaped))
      return failure();
    value = shaped->ir;
  }
  auto mask = maskFor(s, args, pointer);
  static constexpr tile::CacheModifier modifiers[] = {
      tile::CacheModifier::WB, tile::CacheModifier::CG, tile::CacheModifier::CS,
      tile::CacheModifier::WT};
  auto cache = choice(s, args, "cache_modifier", {".wb", ".cg", ".cs", ".wt"}, -1);
  auto evict = evictionOf(s, args);
  if (failed(mask) || failed(cache) || failed(evict))
    return failure();
  tile::StoreOp::create(s.builder, s.loc(), pointer.ir, value, *mask,
                        *cache < 0 ? tile::CacheModifier::None : modifiers[*cache], *evict);
  return Value();
}

/// A store, and a mark by which gradient kernels find the place.
static FailureOr<Value> save(Semantic &s, const BoundArgs &args) {
  auto *pointer = args["pointer"].getIf<Tensor>();
  if (!pointer || !pointer->type.isPointer || pointer->type.scalar == DType::Void)
    return s.error(diag::StoreNotPointer, args.span("pointer"),
                   pointer ? pointer->type.str() : args["pointer"].kindName());
  if (pointer->type.isConst)
    return s.error(diag::StoreToConst, args.span("pointer"));
  SourceSpan at = args.span("input");
  auto input = s.toTensor(args["input"], at);
  if (failed(input))
    return failure();
  for (const Type &type : {input->type, pointer->type.withScalar(pointer->type.scalar)})
    if (type.isPointer || !isFloat(type.scalar))
      return s.error(diag::ExpectedDtype, at, args.row().name, "floats", type.element().str(),
                     "floats");
  if (input->type.shape != pointer->type.shape)
    return s.error(diag::StorePointerShape, at, shapeText(input->type.shape),
                   shapeText(pointer->type.shape));
  if (args["mask"].isNone() && !args["other"].isNone())
    return s.error(diag::OtherWithoutMask, args.span("other"));
  auto mask = maskFor(s, args, *pointer);
  auto stored = s.cast(*input, pointer->type.scalar, at);
  if (failed(mask) || failed(stored))
    return failure();
  llvm::SmallVector<mlir::Value> operands{input->ir, pointer->ir};
  if (*mask) {
    operands.push_back(*mask);
    auto other =
        s.toTensor(args["other"].isNone() ? Value(0.0) : args["other"], args.span("other"));
    if (succeeded(other))
      other = s.cast(*other, pointer->type.scalar, args.span("other"));
    if (succeeded(other))
      other = s.broadcastTo(*other, pointer->type.shape, args.span("other"));
    if (failed(other))
      return failure();
    operands.push_back(other->ir);
  }
  tile::StoreOp::create(s.builder, s.loc(), pointer->ir, stored->ir, *mask);
  auto op = tile::ExternOp::create(s.builder, s.loc(), input->ir.getType(), operands,
                                   tile::savedSymbol, tile::tangentLibrary, /*pure=*/true,
                                   /*path=*/nullptr);
  return Value(Semantic::wrap(op.getResult(), input->type));
}

static FailureOr<Value> debugBarrier(Semantic &s, const BoundArgs &) {
  tile::BarrierOp::create(s.builder, s.loc());
  return Value();
}

std::vector<Builtin> memoryBuiltins() {
  return {
      {.name = "load",
       .signature = "(pointer, mask=None, other=None, boundary_check=(), padding_option=\"\", "
                    "cache_modifier=\"\", eviction_policy=\"\", volatile=False)",
       .doc = R"(Reads through a pointer, or through every pointer of a block.

:param pointer: a pointer (the result is a scalar), a block of pointers (a block of that shape) or a block pointer.
:param mask: int1, broadcast to the pointers' shape, or a known bool: where it is false no memory is touched.
:param other: what lanes that are masked off give, cast to the element type and broadcast; only with `mask`.
 Without it they are undefined.
:param boundary_check: of a block pointer: the dimensions along which the window may leave the tensor.
:param padding_option: of a block pointer: what is read outside of the tensor along these dimensions: `"zero"`, `"nan"` (floats only), or
 `""` for undefined.
:param cache_modifier: `""`, `".ca"`, `".cg"`, `".cs"` or `".cv"`, a hint.
:param eviction_policy: `""`, `"evict_normal"`, `"evict_first"` or `"evict_last"`, a hint.
:param volatile: the access is neither merged, nor moved, nor removed.

A pointer to `int1` reads a byte and compares it with zero.)",
       .build = &load,
       .category = "Memory",
       .dtypes = "all"},
      {.name = "store",
       .signature = "(pointer, value, mask=None, boundary_check=(), cache_modifier=\"\", "
                    "eviction_policy=\"\")",
       .doc = R"(Writes through a pointer, or through every pointer of a block.

:param pointer: a pointer, a block of pointers or a block pointer, not to const. It is not broadcast.
:param value: cast to the element type (also to a narrower one) and broadcast to the pointers' shape.
:param mask: int1, broadcast to the pointers' shape, or a known bool: where it is false nothing is written.
:param boundary_check: of a block pointer: the dimensions along which nothing is written outside of the tensor.
:param cache_modifier: `""`, `".wb"`, `".cg"`, `".cs"` or `".wt"`, a hint.
:param eviction_policy: `""`, `"evict_normal"`, `"evict_first"` or `"evict_last"`, a hint.)",
       .build = &store,
       .isMethod = true,
       .category = "Memory",
       .dtypes = "all"},
      {.name = "save",
       .signature = "(input, pointer, mask=None, other=None)",
       .doc =
           R"(The input, which is also stored through the pointers. Gradient kernels (`nereid.grad`) load it from there and do not compute it again: give them the tensor that the kernel has written. Its derivative is that of the input.

:param input: floats, of the shape of the pointers.
:param pointer: a pointer or a block of pointers to floats.
:param mask: int1, broadcast to the pointers' shape, or a known bool: where it is false nothing is stored or loaded.
:param other: what gradient kernels take where the mask is false; 0 without.)",
       .build = &save,
       .category = "Memory",
       .dtypes = "floats"},
      {.name = "debug_barrier",
       .signature = "()",
       .doc = R"(Orders all memory accesses of this program before and after it.)",
       .build = &debugBarrier,
       .category = "Memory"},
  };
}

} // namespace nereid::frontend

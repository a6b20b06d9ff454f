// Tensor descriptors: making them, and what their blocks can do.
#include "frontend/builtins/descriptor.h"
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"
#include "ir/tile/WithTangent.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace nereid::frontend {

/// What the copy engine needs the last dimension of a block to have.
static constexpr int64_t leastRowBytes = 16;
/// What a gather needs: rows, and bytes of a row.
static constexpr int64_t leastGatheredRows = 8, leastGatheredBytes = 32;

static int64_t bitsOf(DType scalar) {
  return isBool(scalar) ? 8 : info(scalar).bits;
}

static FailureOr<std::vector<Value>> items(Semantic &s, const BoundArgs &args,
                                           llvm::StringRef name) {
  if (auto *tuple = args[name].getIf<Tuple>())
    return tuple->items.all();
  return s.error(diag::ExpectedArgumentKind, args.span(name), "`" + name.str() + "`",
                 "a list with one item per dimension", args[name].kindName());
}

/// A scalar integer as `type`.
static FailureOr<mlir::Value> scalarInt(Semantic &s, const Value &value, DType type,
                                        std::string what, SourceSpan at) {
  if (value.is<llvm::APSInt>() || value.is<bool>())
    return s.constant(value, Type::of(type)).ir;
  auto *tensor = value.getIf<Tensor>();
  if (!tensor || tensor->type.isBlock() || !tensor->type.isArithmetic() ||
      !isInt(tensor->type.scalar))
    return s.error(diag::ExpectedArgumentKind, at, what, "a scalar integer", value.kindName());
  auto converted = s.cast(*tensor, type, at);
  return failed(converted) ? FailureOr<mlir::Value>(failure()) : converted->ir;
}

/// An index into a tensor: 32 bits at most, so that none is cut silently.
static FailureOr<mlir::Value> coordinate(Semantic &s, const Value &value, std::string what,
                                         SourceSpan at) {
  bool fits = true;
  if (auto *number = value.getIf<llvm::APSInt>())
    fits = number->isSignedIntN(32);
  else if (auto *tensor = value.getIf<Tensor>())
    fits = !tensor->type.isArithmetic() || info(tensor->type.scalar).bits <= 32;
  if (!fits)
    return s.error(diag::DescriptorOffsetWidth, at, what,
                   value.isTensor() ? value.kindName() : value.repr());
  return scalarInt(s, value, DType::Int32, std::move(what), at);
}

//===--- making
//-----------------------------------------------------------------------------------===//

static FailureOr<Value> make(Semantic &s, const BoundArgs &args) {
  auto *base = args["base"].getIf<Tensor>();
  if (!base || !base->type.isPointer || base->type.isBlock() || base->type.scalar == DType::Void)
    return s.error(diag::ExpectedArgumentKind, args.span("base"), "`base`", "a scalar pointer",
                   args["base"].kindName());
  auto shape = items(s, args, "shape"), strides = items(s, args, "strides");
  if (failed(shape) || failed(strides))
    return failure();
  int64_t rank = int64_t(shape->size());
  if (rank < 1 || rank > int64_t(maxDescriptorRank))
    return s.error(diag::DescriptorRank, args.span("shape"), rank);
  if (int64_t(strides->size()) != rank)
    return s.error(diag::DescriptorStrides, args.span("strides"), rank, int64_t(strides->size()));
  auto block = s.knownShape(args["block_shape"], args.span("block_shape"));
  if (failed(block))
    return failure();
  if (int64_t(block->size()) != rank)
    return s.error(diag::DescriptorBlockRank, args.span("block_shape"), rank,
                   int64_t(block->size()));

  DType scalar = base->type.scalar;
  int64_t bits = bitsOf(scalar), columns = block->back();
  if (columns * bits < leastRowBytes * 8) {
    int64_t bytes = columns * bits / 8;
    if (s.options.strict)
      return s.error(diag::DescriptorNarrowBlock, args.span("block_shape"), columns, bits / 8,
                     bytes);
    s.warning(diag::DescriptorNarrowBlockSlow, args.span("block_shape"), columns, bits / 8, bytes);
  }
  const Value *last = knownOrNull(strides->back());
  if (!last || !equalKnown(*last, Value::integer(1)))
    return s.error(diag::DescriptorLastStride, args.span("strides"),
                   last ? last->repr() : strides->back().kindName());
  auto padding = choice(s, args, "padding_option", {"zero", "nan"}, 0);
  if (failed(padding))
    return failure();
  bool padsNaN = *padding == 1;
  if (padsNaN && !isFloat(scalar))
    return s.error(diag::DescriptorPadsInts, args.span("padding_option"));

  llvm::SmallVector<mlir::Value> sizes, steps;
  for (const Value &size : *shape) {
    auto value = scalarInt(s, size, DType::Int32, "an item of `shape`", args.span("shape"));
    if (failed(value))
      return failure();
    sizes.push_back(*value);
  }
  for (const Value &stride : llvm::ArrayRef(*strides).drop_back()) {
    auto value = scalarInt(s, stride, DType::Int64, "an item of `strides`", args.span("strides"));
    if (failed(value))
      return failure();
    steps.push_back(*value);
  }
  Type type = Type::descriptorOf(scalar, *block, padsNaN);
  type.isConst = base->type.isConst;
  return Value(makeDescriptor(s, *base, type, sizes, steps));
}

Tensor makeDescriptor(Semantic &s, const Tensor &base, const Type &type, mlir::ValueRange sizes,
                      mlir::ValueRange strides) {
  auto ir = llvm::cast<tile::DescType>(type.toIR(*s.builder.getContext()));
  auto pointer = tile::PtrType::get(ir.getElementType());
  mlir::Value address = base.ir;
  if (address.getType() != pointer)
    address = tile::PtrCastOp::create(s.builder, s.loc(), pointer, address);
  return Semantic::wrap(tile::MakeDescriptorOp::create(s.builder, s.loc(), ir, address, sizes,
                                                       strides,
                                                       /*copy_engine=*/false, /*optional=*/false,
                                                       /*number=*/mlir::IntegerAttr()),
                        type);
}

//===--- accesses
//---------------------------------------------------------------------------------===//

static FailureOr<Tensor> descriptorArg(Semantic &s, const BoundArgs &args) {
  auto *desc = args[size_t(0)].getIf<Tensor>();
  if (desc && desc->type.isDescriptor)
    return *desc;
  llvm::StringRef name = parametersOf(args.row())[0].name;
  return s.error(diag::ExpectedArgumentKind, args.span(name), "`" + name.str() + "`",
                 "a tensor descriptor", args[size_t(0)].kindName());
}

/// The same for an access that writes.
static FailureOr<Tensor> writableArg(Semantic &s, const BoundArgs &args) {
  auto desc = descriptorArg(s, args);
  if (succeeded(desc) && desc->type.isConst)
    return s.error(diag::StoreToConst, args.call());
  return desc;
}

static FailureOr<llvm::SmallVector<mlir::Value>> coordinates(Semantic &s, const BoundArgs &args,
                                                             const Type &desc) {
  auto offsets = items(s, args, "offsets");
  if (failed(offsets))
    return failure();
  if (offsets->size() != desc.block.size())
    return s.error(diag::DescriptorOffsets, args.span("offsets"), int64_t(desc.block.size()),
                   int64_t(offsets->size()));
  llvm::SmallVector<mlir::Value> values;
  for (const Value &offset : *offsets) {
    auto value = coordinate(s, offset, "an item of `offsets`", args.span("offsets"));
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  return values;
}

/// fp32 rounded to the 10 bits of TF32's mantissa, to the nearest, ties to even; infinities and NaN
/// stay. Its derivative is that of the number.
static mlir::Value roundedToTF32(Semantic &s, mlir::Value number, llvm::ArrayRef<int64_t> shape) {
  using namespace mlir::arith;
  constexpr unsigned dropped = 23 - 10;
  constexpr int64_t below = (1 << dropped) - 1, exponent = 0x7f800000;
  mlir::Location loc = s.loc();
  Type whole = Type::of(DType::Int32, shape);
  auto constant = [&](int64_t value) { return s.constant(value, whole).ir; };
  auto withTangent = [&](mlir::Value value, mlir::Value source) {
    return tile::ExternOp::create(s.builder, loc, number.getType(), mlir::ValueRange{value, source},
                                  tile::tangentSymbol, tile::tangentLibrary, /*pure=*/true,
                                  /*path=*/nullptr)
        .getResult();
  };
  // The bits of what has a tangent have no derivative.
  mlir::Value detached = withTangent(number, s.constant(0, Type::of(DType::Float32, shape)).ir);
  mlir::Value bits =
      BitcastOp::create(s.builder, loc, whole.toIR(*s.builder.getContext()), detached);
  mlir::Value last = ShRUIOp::create(s.builder, loc, bits, constant(dropped));
  last = AndIOp::create(s.builder, loc, last, constant(1));
  mlir::Value sum = AddIOp::create(s.builder, loc, bits, constant(below / 2));
  sum = AddIOp::create(s.builder, loc, sum, last);
  sum = AndIOp::create(s.builder, loc, sum, constant(~below));
  mlir::Value masked = AndIOp::create(s.builder, loc, bits, constant(exponent));
  mlir::Value isFinite =
      CmpIOp::create(s.builder, loc, CmpIPredicate::ne, masked, constant(exponent));
  mlir::Value chosen = SelectOp::create(s.builder, loc, isFinite, sum, bits);
  return withTangent(BitcastOp::create(s.builder, loc, number.getType(), chosen), number);
}

/// What a load through `desc` gives: bools are bytes in memory.
static Value loaded(Semantic &s, mlir::Value ir, const Type &desc, llvm::ArrayRef<int64_t> shape) {
  if (desc.roundsTF32)
    ir = roundedToTF32(s, ir, shape);
  if (desc.scalar != DType::Int1)
    return Value(Semantic::wrap(ir, Type::of(desc.scalar, shape)));
  Type bytes = Type::of(DType::Int8, shape);
  return Value(s.emitCompare(CompareOp::NotEq, Semantic::wrap(ir, bytes), s.constant(0, bytes)));
}

/// `value` in the type and shape of what is written; a scalar fills the block.
static FailureOr<mlir::Value> writtenValue(Semantic &s, const BoundArgs &args, DType scalar,
                                           llvm::ArrayRef<int64_t> shape) {
  SourceSpan at = args.span("value");
  auto value = tensorArg(s, args, "value");
  if (failed(value))
    return failure();
  if (!value->type.isBlock() && s.options.strict)
    return s.error(diag::ExpectedArgumentKind, at, "`value`", "a block (strict mode)",
                   args["value"].kindName());
  if (value->type.isBlock() && llvm::ArrayRef(value->type.shape) != shape)
    return s.error(diag::DescriptorValueShape, at, shapeText(shape), shapeText(value->type.shape));
  auto converted = s.cast(*value, scalar, at);
  if (succeeded(converted) && scalar == DType::Int1)
    converted = s.cast(*converted, DType::Int8, at);
  if (failed(converted))
    return failure();
  auto shaped = s.broadcastTo(*converted, shape, at);
  return failed(shaped) ? FailureOr<mlir::Value>(failure()) : shaped->ir;
}

static FailureOr<Value> load(Semantic &s, const BoundArgs &args) {
  auto desc = descriptorArg(s, args);
  if (failed(desc))
    return failure();
  auto coords = coordinates(s, args, desc->type);
  if (failed(coords))
    return failure();
  mlir::Type block = llvm::cast<tile::DescType>(desc->ir.getType()).getBlockType();
  mlir::Value ir = tile::DescLoadOp::create(s.builder, s.loc(), block, desc->ir, *coords);
  return loaded(s, ir, desc->type, desc->type.block);
}

static FailureOr<Value> store(Semantic &s, const BoundArgs &args) {
  auto desc = writableArg(s, args);
  if (failed(desc))
    return failure();
  auto coords = coordinates(s, args, desc->type);
  if (failed(coords))
    return failure();
  auto value = writtenValue(s, args, desc->type.scalar, desc->type.block);
  if (failed(value))
    return failure();
  tile::DescStoreOp::create(s.builder, s.loc(), desc->ir, *coords, *value);
  return Value();
}

//===--- atomics
//----------------------------------------------------------------------------------===//

namespace {
/// A way of combining with memory per class of element type; nothing marks what is refused.
struct ReductionRow {
  const char *name;
  std::optional<tile::AtomicKind> onSigned, onUnsigned, onHalf, onFloat;
};
} // namespace

using Kind = tile::AtomicKind;
static const ReductionRow reductionRows[] = {
    {"tensor_descriptor.atomic_add", Kind::Add, Kind::Add, Kind::FAdd, Kind::FAdd},
    {"tensor_descriptor.atomic_max", Kind::Max, Kind::UMax, Kind::FMax, std::nullopt},
    {"tensor_descriptor.atomic_min", Kind::Min, Kind::UMin, Kind::FMin, std::nullopt},
    {"tensor_descriptor.atomic_and", Kind::And, Kind::And, std::nullopt, std::nullopt},
    {"tensor_descriptor.atomic_or", Kind::Or, Kind::Or, std::nullopt, std::nullopt},
    {"tensor_descriptor.atomic_xor", Kind::Xor, Kind::Xor, std::nullopt, std::nullopt},
};

static FailureOr<Value> reduce(Semantic &s, const BoundArgs &args) {
  auto desc = writableArg(s, args);
  if (failed(desc))
    return failure();
  const ReductionRow &row = *llvm::find_if(reductionRows, [&](const ReductionRow &each) {
    return llvm::StringRef(each.name) == args.row().name;
  });
  llvm::StringRef operation = llvm::StringRef(row.name).rsplit('.').second;
  DType scalar = desc->type.scalar;
  unsigned bits = info(scalar).bits;
  std::optional<Kind> kind;
  if (isFloat(scalar))
    kind = bits == 16 ? row.onHalf : bits == 32 ? row.onFloat : std::nullopt;
  else if (bits >= 32)
    kind = isSignedInt(scalar) ? row.onSigned : row.onUnsigned;
  // The copy engine adds 64-bit integers without a sign only.
  if (kind == Kind::Add && scalar == DType::Int64 && s.options.strict)
    kind = std::nullopt;
  if (!kind)
    return s.error(diag::AtomicDtype, args.call(), operation, info(scalar).shortName);
  if ((kind == Kind::FMax || kind == Kind::FMin) && !s.options.hasTensorCopies)
    return s.error(diag::DescriptorHalfExtremum, args.call(), operation, info(scalar).shortName);
  auto coords = coordinates(s, args, desc->type);
  if (failed(coords))
    return failure();
  if (auto *given = args["value"].getIf<Tensor>(); given && s.options.strict && s.since(307))
    if (isFloat(given->type.scalar) != isFloat(scalar) || info(given->type.scalar).bits != bits)
      return s.error(diag::ExpectedArgumentKind, args.span("value"), "`value`",
                     "elements of the descriptor's type (strict mode)", args["value"].kindName());
  auto value = writtenValue(s, args, scalar, desc->type.block);
  if (failed(value))
    return failure();
  tile::DescReduceOp::create(s.builder, s.loc(), *kind, desc->ir, *coords, *value);
  return Value();
}

//===--- rows
//-------------------------------------------------------------------------------------===//

namespace {
struct RowAccess {
  mlir::Value rows, column;
  Shape shape; ///< of the value
};
} // namespace

static FailureOr<RowAccess> rowAccess(Semantic &s, const BoundArgs &args, const Type &desc) {
  llvm::StringRef operation = llvm::StringRef(args.row().name).rsplit('.').second;
  if (desc.block.size() != 2 || desc.block[0] != 1)
    return s.error(diag::DescriptorRowBlock, args.call(), operation, shapeText(desc.block));
  auto *rows = args["x_offsets"].getIf<Tensor>();
  if (!rows || rows->type.shape.size() != 1 || !rows->type.isArithmetic() ||
      (rows->type.scalar != DType::Int32 && rows->type.scalar != DType::Int16))
    return s.error(diag::ExpectedArgumentKind, args.span("x_offsets"), "`x_offsets`",
                   "a block of rank 1 of int16 or int32", args["x_offsets"].kindName());
  int64_t count = rows->type.shape[0], columns = desc.block[1];
  int64_t leastColumns = leastGatheredBytes * 8 / bitsOf(desc.scalar);
  if (count < leastGatheredRows)
    return s.error(diag::DescriptorFewRows, args.span("x_offsets"), operation, leastGatheredRows,
                   shapeText(rows->type.shape));
  if (columns < leastColumns)
    return s.error(diag::DescriptorFewColumns, args.call(), operation, info(desc.scalar).shortName,
                   leastColumns, columns);
  auto wide = s.cast(*rows, DType::Int32, args.span("x_offsets"));
  auto column = coordinate(s, args["y_offset"], "`y_offset`", args.span("y_offset"));
  if (failed(wide) || failed(column))
    return failure();
  return RowAccess{wide->ir, *column, {count, columns}};
}

static FailureOr<Value> gather(Semantic &s, const BoundArgs &args) {
  auto desc = descriptorArg(s, args);
  if (failed(desc))
    return failure();
  auto access = rowAccess(s, args, desc->type);
  if (failed(access))
    return failure();
  auto element = llvm::cast<tile::DescType>(desc->ir.getType()).getElementType();
  mlir::Value ir = tile::DescGatherOp::create(s.builder, s.loc(),
                                              mlir::RankedTensorType::get(access->shape, element),
                                              desc->ir, access->rows, access->column);
  return loaded(s, ir, desc->type, access->shape);
}

static FailureOr<Value> scatter(Semantic &s, const BoundArgs &args) {
  auto desc = writableArg(s, args);
  if (failed(desc))
    return failure();
  auto access = rowAccess(s, args, desc->type);
  if (failed(access))
    return failure();
  auto value = writtenValue(s, args, desc->type.scalar, access->shape);
  if (failed(value))
    return failure();
  tile::DescScatterOp::create(s.builder, s.loc(), desc->ir, access->rows, access->column, *value);
  return Value();
}

static FailureOr<Value> descriptorClass(Semantic &s, const BoundArgs &args) {
  return s.error(diag::DescriptorConstructor, args.call());
}

//===--- attributes
//-------------------------------------------------------------------------------===//

std::optional<Value> descriptorAttribute(Semantic &s, const Value &self, llvm::StringRef name) {
  const Tensor &desc = self.get<Tensor>();
  if (name == "dtype")
    return Value(TypeValue{Type::of(desc.type.scalar)});
  if (name == "type")
    return Value(TypeValue{desc.type});
  if (name == "block_type")
    return Value(TypeValue{desc.type.blockType()});
  Tuple parts;
  for (auto [dim, size] : llvm::enumerate(desc.type.block)) {
    if (name == "block_shape")
      parts.items.push_back(Value::integer(size));
    else if (name == "shape")
      parts.items.push_back(Semantic::wrap(
          tile::DescShapeOp::create(s.builder, s.loc(), s.builder.getI32Type(), desc.ir, dim),
          Type::of(DType::Int32)));
    else if (name == "strides")
      parts.items.push_back(Semantic::wrap(
          tile::DescStrideOp::create(s.builder, s.loc(), s.builder.getI64Type(), desc.ir, dim),
          Type::of(DType::Int64)));
  }
  if (!parts.items.empty())
    return Value(std::move(parts));
  if (const Builtin *builtin = findBuiltin(("tensor_descriptor." + name).str()))
    return Value(BuiltinValue{builtin, std::make_shared<const Value>(self)});
  return std::nullopt;
}

std::vector<Builtin> descriptorBuiltins() {
  std::vector<Builtin> rows = {
      {.name = "make_tensor_descriptor",
       .signature = "(base, shape, strides, block_shape, padding_option=\"zero\")",
       .doc = R"(Describes a tensor in global memory, for accesses to blocks of one size.

:param base: a scalar pointer to its first element; the address is a multiple of 16.
:param shape: its sizes, one to five scalar integers that are not negative; they become int32.
:param strides: how many elements neighbours lie apart, one integer a dimension; they become int64. The last must be known to be 1, the
 others are multiples of 16 bytes.
:param block_shape: the sizes of the blocks, known during compilation. A last size of fewer than 16 bytes works, more slowly.
:param padding_option: what a load gives outside the tensor: `"zero"`, or `"nan"` for floats.

The descriptor has the methods `load(offsets)`, `store(offsets, value)`, `atomic_add`, `atomic_min`, `atomic_max`, `atomic_and`,
`atomic_or` and `atomic_xor(offsets, value)`, which return nothing, `gather(x_offsets, y_offset)` and `scatter(value, x_offsets, y_offset)`, and the
attributes `dtype`, `block_type`, `block_shape`, `shape` and `strides`. Offsets are int32, one a dimension, and may lie outside the
tensor: what is outside gives the padding or is not written. Values are cast to the descriptor's dtype.)",
       .build = &make,
       .category = "Memory",
       .dtypes = "all"},
      {.name = "load_tensor_descriptor",
       .signature = "(desc, offsets)",
       .doc =
           R"(Reads the block of a tensor that begins at `offsets`; the same as `desc.load(offsets)`.

:param desc: a tensor descriptor.
:param offsets: a scalar int32 for each dimension. Elements outside the tensor give the descriptor's padding.)",
       .build = &load,
       .category = "Memory",
       .dtypes = "all"},
      {.name = "store_tensor_descriptor",
       .signature = "(desc, offsets, value)",
       .doc =
           R"(Writes the block of a tensor that begins at `offsets`; the same as `desc.store(offsets, value)`.

:param desc: a tensor descriptor.
:param offsets: a scalar int32 for each dimension. Elements outside the tensor are not written.
:param value: a block of the descriptor's block shape, or a scalar that fills it; cast to the descriptor's dtype.)",
       .build = &store,
       .category = "Memory",
       .dtypes = "all"},
      {.name = "tensor_descriptor",
       .signature = "(*args)",
       .doc =
           R"(The class of tensor descriptors, for `isinstance` and annotations; `make_tensor_descriptor` makes one.)",
       .build = &descriptorClass,
       .category = "Types",
       .aliases = {"tensor_descriptor_base"}},
      {.name = "tensor_descriptor.load", .signature = "(self, offsets)", .build = &load},
      {.name = "tensor_descriptor.store", .signature = "(self, offsets, value)", .build = &store},
      {.name = "tensor_descriptor.gather",
       .signature = "(self, x_offsets, y_offset)",
       .build = &gather},
      {.name = "tensor_descriptor.scatter",
       .signature = "(self, value, x_offsets, y_offset)",
       .build = &scatter},
  };
  for (const ReductionRow &row : reductionRows)
    rows.push_back({.name = row.name, .signature = "(self, offsets, value)", .build = &reduce});
  return rows;
}

} // namespace nereid::frontend

// Binding of arguments, result types and messages of the builtin functions. Values are tested on
// targets (tests/language).
#include "Fixture.h"

namespace nereid::frontend::test {
namespace {

class Builtins : public Fixture {
public:
  /// A call that must fail, and its message.
  std::string refused(llvm::StringRef name, std::vector<Value> args, NamedArgs keywords = {}) {
    EXPECT_TRUE(failed(callNamed(name, std::move(args), std::move(keywords)))) << name.str();
    return message();
  }
  std::string accepted(llvm::StringRef name, std::vector<Value> args, NamedArgs keywords = {}) {
    std::string result = typeOf(callNamed(name, std::move(args), std::move(keywords)));
    EXPECT_EQ(diagnostics.renderAll(), "");
    return result;
  }
  Value block(DType type = DType::Float32, std::vector<int64_t> shape = {16}) {
    return argument(type, shape);
  }
  Value text(const char *value) { return Value(std::string(value)); }
};

TEST_F(Builtins, EveryRowIsWellFormed) {
  std::vector<std::string> names;
  for (const Builtin &builtin : allBuiltins()) {
    EXPECT_NE(builtin.build, nullptr) << builtin.name;
    EXPECT_STRNE(builtin.signature, "") << builtin.name;
    bool isPublic = !llvm::StringRef(builtin.name).contains('.');
    if (isPublic) {
      EXPECT_STRNE(builtin.doc, "") << builtin.name;
      EXPECT_STRNE(builtin.category, "") << builtin.name;
    }
    size_t parameters = parametersOf(builtin).size();
    EXPECT_EQ(parameters == 0, llvm::StringRef(builtin.signature) == "()") << builtin.name;
    EXPECT_EQ(findBuiltin(builtin.name), &builtin);
    for (const char *alias : builtin.aliases)
      EXPECT_EQ(findBuiltin(alias), &builtin);
    names.push_back(builtin.name);
  }
  EXPECT_TRUE(std::adjacent_find(names.begin(), names.end()) == names.end())
      << "two rows of one name";
}

TEST_F(Builtins, Binding) {
  EXPECT_EQ(accepted("arange", {integer(0), integer(16)}), "<['16'], int32>");
  EXPECT_EQ(accepted("arange", {integer(0)}, {{"end", integer(16)}}), "<['16'], int32>");
  EXPECT_EQ(accepted("arange", {}, {{"end", integer(16)}, {"start", integer(4)}}),
            "<['12'], int32>");
  EXPECT_EQ(refused("arange", {integer(0)}), "MissingArgument: `arange` needs the argument `end`");
  EXPECT_EQ(refused("arange", {integer(0), integer(1), integer(2)}),
            "TooManyArguments: `arange` takes at most 2 positional arguments, found 3");
  EXPECT_EQ(refused("arange", {integer(0), integer(1)}, {{"step", integer(2)}}),
            "UnknownKeyword: `arange` has no parameter `step`");
  EXPECT_EQ(refused("arange", {integer(0)}, {{"edn", integer(2)}}),
            "UnknownKeywordNear: `arange` has no parameter `edn`, did you mean `end`?");
  EXPECT_EQ(refused("arange", {integer(0), integer(1)}, {{"end", integer(2)}}),
            "DuplicateArgument: `arange` got two values for its parameter `end`");
}

TEST_F(Builtins, RestParameters) {
  EXPECT_EQ(accepted("reshape", {block(), integer(4), integer(4)}), "<['4', '4'], fp32>");
  EXPECT_EQ(accepted("reshape", {block(), shape({4, 4})}), "<['4', '4'], fp32>");
  EXPECT_EQ(accepted("reshape", {block()}, {{"shape", shape({2, 8})}}), "<['2', '8'], fp32>");
  EXPECT_EQ(accepted("reshape", {block(), integer(2), integer(8)}, {{"can_reorder", Value(true)}}),
            "<['2', '8'], fp32>");
  EXPECT_EQ(accepted("trans", {block(DType::Float32, {4, 8}), integer(1), integer(0)}),
            "<['8', '4'], fp32>");
  EXPECT_EQ(accepted("trans", {block(DType::Float32, {4, 8})}), "<['8', '4'], fp32>");
}

TEST_F(Builtins, Descriptors) {
  auto make = [&](DType type, Value block, NamedArgs more = {}) {
    NamedArgs keywords = {
        {"shape", shape({64, 64})}, {"strides", shape({64, 1})}, {"block_shape", block}};
    for (auto &[name, value] : more)
      keywords.emplace_back(name, value);
    return callNamed("make_tensor_descriptor", {pointer(type)}, std::move(keywords));
  };
  auto made = [&](DType type, Value block, NamedArgs more = {}) {
    EXPECT_TRUE(failed(make(type, block, more)));
    return message();
  };
  EXPECT_EQ(typeOf(make(DType::Float16, shape({8, 16}))), "tensor_descriptor<fp16[8, 16]>");
  EXPECT_EQ(typeOf(make(DType::Float16, shape({8, 16}), {{"padding_option", text("nan")}})),
            "tensor_descriptor<fp16[8, 16], nan>");
  EXPECT_EQ(made(DType::Int16, shape({8, 16}), {{"padding_option", text("nan")}}),
            "DescriptorPadsInts: the padding `nan` is only for floats, and this descriptor is of "
            "integers: pad with `zero`");
  EXPECT_EQ(made(DType::Float16, shape({16})),
            "DescriptorBlockRank: `block_shape` of a descriptor must have a size for each "
            "dimension: expected 2, found 1");
  auto refusedWith = [&](Value sizes, Value strides) {
    return refused("make_tensor_descriptor",
                   {pointer(DType::Float32), sizes, strides, shape({16})});
  };
  EXPECT_EQ(refusedWith(shape({1, 1, 1, 1, 1, 1}), shape({1})),
            "DescriptorRank: a descriptor must have 1 to 5 dimensions, found 6");
  EXPECT_EQ(
      refusedWith(shape({4, 4}), shape({1})),
      "DescriptorStrides: a descriptor needs a stride for each dimension: expected 2, found 1");
  EXPECT_EQ(refusedWith(shape({64}), shape({2})),
            "DescriptorLastStride: the last stride of a descriptor must be 1, found 2");
  EXPECT_EQ(typeOf(make(DType::Float16, shape({8, 4}))), "tensor_descriptor<fp16[8, 4]>");
  EXPECT_EQ(message(), "DescriptorNarrowBlockSlow: the last dimension of the descriptor's blocks "
                       "has 4 * 2 = 8 bytes: with fewer than 16 they are not copied as blocks");
  options.strict = true;
  EXPECT_EQ(made(DType::Float16, shape({8, 4})),
            "DescriptorNarrowBlock: the last dimension of a descriptor's blocks must have at least "
            "16 bytes in strict mode, found 4 * 2 = 8 bytes");
  options.strict = false;
  EXPECT_EQ(refused("tensor_descriptor", {}),
            "DescriptorConstructor: a descriptor is made by `tl.make_tensor_descriptor`, or passed "
            "to the kernel");
}

TEST_F(Builtins, DescriptorAccesses) {
  auto descriptor = [&](DType type, std::vector<int64_t> block) {
    return argument(Type::descriptorOf(type, block));
  };
  Value half = descriptor(DType::Float16, {8, 16});
  Value row = descriptor(DType::Float32, {1, 32});
  EXPECT_EQ(accepted("load_tensor_descriptor", {half, shape({0, 0})}), "<['8', '16'], fp16>");
  EXPECT_EQ(refused("load_tensor_descriptor", {half, shape({0})}),
            "DescriptorOffsets: expected 2 offsets, but got 1");
  EXPECT_EQ(refused("load_tensor_descriptor", {half, shape({0, int64_t(1) << 40})}),
            "DescriptorOffsetWidth: an item of `offsets` must fit 32 bits, add a `.to(tl.int32)` "
            "or use pointers, found 1099511627776");
  EXPECT_EQ(
      refused("store_tensor_descriptor", {half, shape({0, 0}), block(DType::Float16, {16, 8})}),
      "DescriptorValueShape: the value must have the shape of the block: expected [8, 16], "
      "found [16, 8]");
  EXPECT_EQ(refused("tensor_descriptor.atomic_max", {half, shape({0, 0}), integer(1)}),
            "DescriptorHalfExtremum: `atomic_max` of fp16 needs a GPU that copies blocks by tensor "
            "maps (compute capability 9.0)");
  options.hasTensorCopies = true;
  EXPECT_TRUE(
      succeeded(callNamed("tensor_descriptor.atomic_max", {half, shape({0, 0}), integer(1)})));
  Value rows = block(DType::Int32, {8});
  EXPECT_EQ(accepted("tensor_descriptor.gather", {row, rows, integer(0)}), "<['8', '32'], fp32>");
  EXPECT_EQ(refused("tensor_descriptor.gather", {half, rows, integer(0)}),
            "DescriptorRowBlock: descriptor gather needs blocks of two dimensions and 1 row, but "
            "got [8, 16]");
  EXPECT_EQ(refused("tensor_descriptor.gather", {row, block(DType::Int32, {4}), integer(0)}),
            "DescriptorFewRows: descriptor gather must have at least 8 rows, but got [4]");
  EXPECT_EQ(
      refused("tensor_descriptor.gather", {descriptor(DType::Float32, {1, 4}), rows, integer(0)}),
      "DescriptorFewColumns: descriptor gather of fp32 must have at least 8 columns, but got "
      "4");
}

TEST_F(Builtins, KnownArguments) {
  EXPECT_EQ(refused("arange", {argument(DType::Int32), integer(16)}),
            "ExpectedKnownValue: `start` of `arange` must be known during compilation, found int32 "
            "scalar: pass it as "
            "a `tl.constexpr`");
  EXPECT_EQ(refused("arange", {integer(0), text("x")}),
            "ExpectedArgumentKind: `end` of `arange` must be an integer, found str");
  // A number given to a plain name still counts as known.
  EXPECT_EQ(accepted("arange", {integer(0), *semantic->assigned(integer(64))}), "<['64'], int32>");
}

TEST_F(Builtins, Programs) {
  EXPECT_EQ(accepted("program_id", {integer(2)}), "int32");
  EXPECT_EQ(refused("program_id", {integer(3)}),
            "GridAxis: program_id axis must be 0, 1, or 2 but got 3");
  EXPECT_EQ(refused("num_programs", {integer(-1)}),
            "GridAxis: num_programs axis must be 0, 1, or 2 but got -1");
}

TEST_F(Builtins, Creation) {
  EXPECT_EQ(accepted("arange", {integer(-8), integer(92)}), "<['100'], int32>");
  EXPECT_EQ(
      refused("arange", {integer(4), integer(4)}),
      "EmptyRange: arange's end argument must be greater than the start argument, found 4 and 4");
  EXPECT_EQ(refused("arange", {integer(0), integer(1ll << 32)}),
            "RangeTooLarge: arange's bounds must fit in int32, found 0 and 4294967296");
  EXPECT_EQ(refused("arange", {integer(0), integer(1 << 21)}),
            "TooManyElements: a block may have at most 1048576 elements, found 2097152: use "
            "smaller blocks");
  options.strict = true;
  EXPECT_EQ(refused("arange", {integer(0), integer(100)}),
            "RangeNotPowerOfTwo: arange's range must be a power of 2, found 100 (strict mode)");
  EXPECT_EQ(refused("full", {shape({100}), integer(0), type(DType::Int32)}),
            "ShapeNotPowerOfTwo: the sizes of a shape must be powers of 2 in strict mode, found "
            "100 at index 0");
  options.strict = false;
  EXPECT_EQ(accepted("full", {shape({100}), integer(0), type(DType::Int8)}), "<['100'], int8>");
  EXPECT_EQ(accepted("full", {shape({}), Value(1.5), type(DType::Float16)}), "fp16");
  EXPECT_EQ(accepted("full", {shape({4}), argument(DType::Float32), Value()}), "<['4'], fp32>");
  EXPECT_EQ(refused("full", {shape({4}), integer(0), Value()}),
            "FullNeedsDtype: `dtype` must be specified when `value` is not a tensor");
  EXPECT_EQ(refused("full", {shape({4}), block(), type(DType::Float32)}),
            "FullNeedsScalar: `value` must be a scalar or a block of one element, found fp32 block "
            "of shape [16]");
  EXPECT_EQ(refused("full", {shape({0}), integer(0), type(DType::Int32)}),
            "ShapeNotPositive: the sizes of a shape must be positive, found 0");
  EXPECT_EQ(refused("zeros", {shape({4}), integer(3)}),
            "ExpectedArgumentKind: `dtype` must be a dtype such as `tl.float32`, found int");
  EXPECT_EQ(accepted("zeros", {shape({4, 4}), type(DType::BFloat16)}), "<['4', '4'], bf16>");
}

TEST_F(Builtins, Casts) {
  const DType all[] = {DType::Int1,    DType::Int8,     DType::Int32,    DType::Int64,
                       DType::UInt8,   DType::UInt64,   DType::Float8E5, DType::Float8E4NV,
                       DType::Float16, DType::BFloat16, DType::Float32,  DType::Float64};
  for (DType from : all)
    for (DType to : all)
      EXPECT_EQ(accepted("cast", {argument(from), type(to)}), info(to).shortName);
  NamedArgs bits{{"bitcast", Value(true)}};
  EXPECT_EQ(accepted("cast", {argument(DType::Float32), type(DType::Int32)}, bits), "int32");
  EXPECT_EQ(refused("cast", {argument(DType::Float32), type(DType::Float16)}, bits),
            "BitcastWidth: a bitcast keeps the number of bits, found 32 and 16");
  NamedArgs rtz{{"fp_downcast_rounding", text("rtz")}};
  EXPECT_EQ(accepted("cast", {argument(DType::Float32), type(DType::Float16)}, rtz), "fp16");
  EXPECT_EQ(refused("cast", {argument(DType::Float16), type(DType::Float32)}, rtz),
            "RoundingNotNarrowing: `fp_downcast_rounding` is only for conversions to a narrower "
            "float, found fp16 to fp32: leave it out");
  EXPECT_EQ(refused("cast", {argument(DType::Float32), type(DType::Float16)},
                    {{"fp_downcast_rounding", text("up")}}),
            "UnknownChoice: `fp_downcast_rounding` cannot be `up`: expected one of `rtne`, `rtz`");
  EXPECT_EQ(accepted("cast", {pointer(DType::Float32), type(DType::Int64)}), "int64");
  EXPECT_EQ(refused("cast", {pointer(DType::Float32), type(DType::Int32)}),
            "CannotCast: cannot cast pointer<fp32> to int32: only 64-bit integers and pointers "
            "convert into "
            "one another");
}

TEST_F(Builtins, Float8ThatStrictModeRefuses) {
  options.strict = true;
  const char *text = "Float8NotSupported: the target does not support fp8e4b15: expected one of "
                     "the 8-bit floats 'fp8e4nv', 'fp8e5', 'fp8e5b16'";
  EXPECT_EQ(refused("cast", {argument(DType::Float32), type(DType::Float8E4B15)}), text);
  Value odd = block(DType::Float8E4B15);
  EXPECT_TRUE(failed(semantic->binary(BinaryOp::Add, odd, odd)));
  EXPECT_EQ(message(), text);
  EXPECT_TRUE(failed(semantic->unary(UnaryOpKind::USub, odd)));
  EXPECT_EQ(message(), text);
  EXPECT_EQ(refused("full", {shape({4}), Value(1.0), type(DType::Float8E4B15)}), text);
  EXPECT_EQ(refused("store", {pointer(DType::Float8E4B15), Value(1.0)}), text);
  // Their bytes can be moved.
  EXPECT_EQ(accepted("load", {pointer(DType::Float8E4B15)}), "fp8e4b15");
  EXPECT_EQ(accepted("store", {pointer(DType::Float8E4B15, {16}), odd}), "None");
}

TEST_F(Builtins, PointersToNothing) {
  EXPECT_EQ(refused("load", {pointer(DType::Void)}),
            "LoadNotPointer: `load` expects a pointer or a block of pointers, found pointer<void>");
  Value bytes(TypeValue{Type::pointerTo(DType::Int8)});
  EXPECT_EQ(accepted("cast", {pointer(DType::Void), bytes}), "pointer<int8>");
}

TEST_F(Builtins, Shapes) {
  EXPECT_EQ(accepted("broadcast_to", {block(DType::Float32, {1, 8}), shape({4, 8})}),
            "<['4', '8'], fp32>");
  EXPECT_EQ(refused("broadcast_to", {block(), shape({4, 16})}),
            "BroadcastRank: cannot broadcast shape [16] to [4, 16]: expected equal ranks, add "
            "dimensions with `None` or `expand_dims`");
  EXPECT_EQ(refused("broadcast_to", {block(DType::Float32, {2, 8}), shape({4, 8})}),
            "BroadcastSize: cannot broadcast shape [2, 8] to [4, 8]: at index 0 expected the size "
            "4 or 1, found 2");
  EXPECT_TRUE(failed(semantic->binary(BinaryOp::Add, block(), block(DType::Float32, {32}))));
  EXPECT_EQ(message(), "IncompatibleShapes: shapes [16] and [32] cannot be broadcast together: at "
                       "index 0 the sizes are 16 and 32, expected equal sizes or 1");
  EXPECT_EQ(accepted("expand_dims", {block(), shape({0, -1})}), "<['1', '16', '1'], fp32>");
  EXPECT_EQ(refused("expand_dims", {block(), shape({0, 0})}),
            "DuplicateAxis: axis 0 is given twice");
  EXPECT_EQ(refused("expand_dims", {block(), integer(2)}),
            "InvalidAxis: axis 2 is out of range: expected -2 <= axis < 2");
  EXPECT_EQ(refused("reshape", {block(), integer(8)}),
            "ReshapeElements: a reshape keeps the number of elements: [16] has 16, [8] has 8");
  EXPECT_EQ(refused("trans", {block(DType::Float32, {4, 8}), integer(0), integer(0)}),
            "NotPermutation: expected a permutation of the 2 dimensions, found [0, 0]");
  EXPECT_EQ(refused("trans", {block()}),
            "TransRank: `trans` without dimensions needs at least rank 2, found rank 1");
  EXPECT_EQ(accepted("join", {argument(DType::Int32), argument(DType::Int32)}), "<['2'], int32>");
  EXPECT_EQ(accepted("join", {block(), block()}), "<['16', '2'], fp32>");
  EXPECT_EQ(accepted("split", {block(DType::Float32, {4, 2})}), "tuple");
  EXPECT_EQ(refused("split", {block()}),
            "SplitLastAxis: `split` needs a last dimension of size 2, found shape [16]");
  EXPECT_EQ(accepted("cat", {block(), block()}), "<['32'], fp32>");
  EXPECT_EQ(refused("cat", {block(), block(DType::Int32)}),
            "CatMismatch: cannot concatenate fp32 block of shape [16] and int32 block of shape "
            "[16] along "
            "dimension 0: element types, "
            "ranks and the other dimensions must be equal");
  EXPECT_EQ(accepted("item", {block(DType::Float32, {1, 1})}), "fp32");
  EXPECT_EQ(refused("item", {block()}),
            "ItemOfMany: `item` needs a block of one element, found fp32 block of shape [16]");
  Value index = block(DType::Int32, {4});
  EXPECT_EQ(accepted("gather", {block(), index, integer(-1)}), "<['4'], fp32>");
  EXPECT_EQ(refused("gather", {block(), block(), integer(0)}),
            "GatherIndexType: the index must be an integer tensor, found <['16'], fp32>");
  EXPECT_EQ(refused("gather", {block(DType::Float32, {4, 4}), index, integer(0)}),
            "GatherRank: source and index tensors must have the same rank, found shapes [4, 4] and "
            "[4]");
  EXPECT_EQ(refused("gather", {block(), index, integer(1)}),
            "GatherAxis: gather axis 1 must be < source rank (1)");
  EXPECT_EQ(
      refused("gather", {block(DType::Float32, {4, 4}), block(DType::Int32, {8, 8}), integer(0)}),
      "GatherSize: index dim 1 must match the corresponding source dim, found shapes [4, 4] "
      "and [8, 8]");
  EXPECT_EQ(accepted("histogram", {index, integer(32)}), "<['32'], int32>");
  EXPECT_EQ(refused("histogram", {block(DType::Int32, {4, 4}), integer(32)}),
            "HistogramRank: histogram only supports 1D input, found shape [4, 4]");
  EXPECT_EQ(refused("histogram", {block(), integer(32)}),
            "HistogramType: histogram only supports integer input, found <['16'], fp32>");
  EXPECT_EQ(refused("histogram", {index, integer(32), index}),
            "HistogramMask: the mask of a histogram must be of bools and of the input's shape: "
            "expected <['4'], int1>, found <['4'], int32>");
  EXPECT_EQ(accepted("flip", {block(DType::Float32, {4, 4}), integer(0)}), "<['4', '4'], fp32>");
}

TEST_F(Builtins, Loads) {
  Value p = pointer(DType::Float32), ps = pointer(DType::Float32, {16});
  Value mask = block(DType::Int1);
  EXPECT_EQ(accepted("load", {p}), "fp32");
  EXPECT_EQ(accepted("load", {ps, mask, integer(0)}), "<['16'], fp32>");
  EXPECT_EQ(accepted("load", {ps, Value(false)}), "<['16'], fp32>");
  EXPECT_EQ(accepted("load", {pointer(DType::Int1, {16}), mask, Value(true)}), "<['16'], int1>");
  EXPECT_EQ(accepted("load", {pointer(DType::Float16, {16}), mask, block(DType::Float32)}),
            "<['16'], fp16>");
  EXPECT_EQ(accepted("load", {ps},
                     {{"cache_modifier", text(".cg")}, {"eviction_policy", text("evict_first")}}),
            "<['16'], fp32>");
  EXPECT_EQ(
      refused("load", {block()}),
      "LoadNotPointer: `load` expects a pointer or a block of pointers, found <['16'], fp32>");
  EXPECT_EQ(refused("load", {ps}, {{"other", integer(0)}}),
            "OtherWithoutMask: `other` cannot be provided without `mask`");
  EXPECT_EQ(refused("load", {ps, block(DType::Int32)}),
            "MaskNotBool: the mask must be a bool or a block of bools, found int32 block of shape "
            "[16]: compare it with a number");
  EXPECT_EQ(refused("load", {p, mask}), "BlockWithScalarPointer: the pointer is a scalar: expected "
                                        "a scalar `mask`, found int1 block of shape [16]");
  EXPECT_EQ(refused("load", {ps}, {{"boundary_check", shape({0})}}),
            "LoadBlockOptions: `load` through ordinary pointers takes neither `boundary_check` nor "
            "`padding_option`: give a `mask`, or use a block pointer (`tl.make_block_ptr`)");
  EXPECT_EQ(refused("load", {ps}, {{"cache_modifier", text(".wt")}}),
            "UnknownChoice: `cache_modifier` cannot be `.wt`: expected one of `.ca`, `.cg`, `.cs`, "
            "`.cv`");
}

TEST_F(Builtins, Stores) {
  Value p = pointer(DType::Float32), ps = pointer(DType::Float16, {16});
  EXPECT_EQ(accepted("store", {p, integer(1)}), "None");
  EXPECT_EQ(accepted("store", {ps, block()}), "None"); // narrowed
  EXPECT_EQ(accepted("store", {ps, argument(DType::Int32), block(DType::Int1)}), "None");
  EXPECT_EQ(accepted("store", {pointer(DType::Int1, {16}), block()}), "None");
  EXPECT_EQ(refused("store", {ps, block()}, {{"boundary_check", shape({0})}}),
            "StoreBlockOptions: `store` through ordinary pointers does not take `boundary_check`: "
            "give a `mask`, or use a block pointer (`tl.make_block_ptr`)");
  EXPECT_EQ(refused("store", {argument(DType::Int64), integer(0)}),
            "StoreNotPointer: `store` expects a pointer or a block of pointers, found int64");
  EXPECT_EQ(refused("store", {pointer(DType::Float32, {}, true), integer(0)}),
            "StoreToConst: cannot write through a pointer to const: declare the parameter without "
            "`const`");
  EXPECT_EQ(refused("store", {ps, block(DType::Float32, {4, 16})}),
            "StorePointerShape: `store` needs a pointer for each element in strict mode: expected "
            "a block of pointers of shape [4, 16], found [16]");
}

TEST_F(Builtins, Arithmetic) {
  EXPECT_EQ(accepted("where", {block(DType::Int1), integer(1), integer(0)}), "<['16'], int32>");
  EXPECT_EQ(accepted("where", {argument(DType::Int1), block(), Value(0.0)}), "<['16'], fp32>");
  EXPECT_EQ(accepted("where", {block(DType::Int1), pointer(DType::Int8), pointer(DType::Int8)}),
            "<['16'], pointer<int8>>");
  EXPECT_EQ(typeOf(callNamed("where", {block(DType::Int32), integer(1), integer(0)})),
            "<['16'], int32>");
  EXPECT_EQ(message(), "ConditionNotBool: the condition of `where` has type int32: expected int1, "
                       "it is compared with 0");
  EXPECT_EQ(refused("where", {block(DType::Int1), pointer(DType::Int8), integer(0)}),
            "InvalidOperandTypes: `where`: invalid operands of type pointer<int8> and int32");
  EXPECT_EQ(accepted("maximum", {block(DType::BFloat16), block(DType::BFloat16)}),
            "<['16'], fp32>");
  EXPECT_EQ(accepted("maximum", {block(DType::Int8), integer(300)}), "<['16'], int32>");
  EXPECT_EQ(accepted("minimum", {block(DType::UInt8), block(DType::UInt8)}), "<['16'], uint8>");
  EXPECT_EQ(accepted("clamp", {block(), Value(0.0), Value(1.0)}), "<['16'], fp32>");
  EXPECT_EQ(refused("clamp", {block(DType::Int32), integer(0), integer(1)}),
            "ClampNotFloat: `clamp` takes floats, found int32: use `tl.minimum` and `tl.maximum`");
}

TEST_F(Builtins, Math) {
  EXPECT_EQ(accepted("exp", {block()}), "<['16'], fp32>");
  EXPECT_EQ(accepted("math.exp", {argument(DType::Float64)}), "fp64");
  EXPECT_EQ(refused("exp", {block(DType::Float16)}),
            "ExpectedDtype: `exp` takes fp32 or fp64, found fp16: cast the argument");
  EXPECT_EQ(refused("sqrt_rn", {argument(DType::Float64)}),
            "ExpectedDtype: `sqrt_rn` takes fp32, found fp64: cast the argument");
  EXPECT_EQ(accepted("umulhi", {block(DType::UInt32), integer(0xD2511F53)}), "<['16'], uint32>");
  EXPECT_EQ(refused("umulhi", {block(DType::Int16), block(DType::Int16)}),
            "ExpectedDtype: `umulhi` takes int32, int64, uint32 or uint64, found int16: cast the "
            "argument");
  EXPECT_EQ(accepted("fdiv", {block(DType::Float16), block(DType::Float16)}), "<['16'], fp16>");
  EXPECT_EQ(refused("fdiv", {block(DType::Int32), block(DType::Int32)}),
            "FdivNotFloat: both operands of fdiv must have floating scalar type, found int32");
  EXPECT_EQ(accepted("fma", {block(), Value(2.0), block()}), "<['16'], fp32>");
  EXPECT_EQ(accepted("div_rn", {block(), Value(3.0)}), "<['16'], fp32>");
  for (DType each :
       {DType::Int8, DType::UInt16, DType::Float8E4NV, DType::BFloat16, DType::Float64})
    EXPECT_EQ(accepted("abs", {argument(each)}), info(each).shortName);
}

TEST_F(Builtins, Reductions) {
  Value matrix = block(DType::Float32, {4, 8}), vector = block(DType::Int32, {8});
  EXPECT_EQ(accepted("reduce", {matrix, integer(-1), Value()}), "<['4'], fp32>");
  EXPECT_EQ(accepted("reduce", {vector, integer(0), Value()}), "int32");
  EXPECT_EQ(accepted("reduce", {matrix, Value(), Value(), Value(true)}), "<['1', '1'], fp32>");
  EXPECT_EQ(accepted("reduce", {matrix, integer(0), Value(), Value(true)}), "<['1', '8'], fp32>");
  EXPECT_EQ(accepted("associative_scan", {matrix, integer(1), Value(), Value(true)}),
            "<['4', '8'], fp32>");
  EXPECT_EQ(refused("reduce", {matrix, integer(2), Value()}),
            "InvalidAxis: axis 2 is out of range: expected -2 <= axis < 2");
  EXPECT_EQ(refused("reduce", {argument(DType::Int32), integer(0), Value()}),
            "ReductionOfScalar: `reduce` needs a block, found int32 scalar");
  EXPECT_EQ(refused("reduce", {tuple({vector, vector}), integer(0), Value()}),
            "CombinerCount: the combining function must return 2 values, found 1");
  EXPECT_EQ(refused("reduce", {vector, integer(0), argument(DType::Float32)}),
            "CombinerType: the combining function must return the type of its arguments: expected "
            "int32, found fp32");
  EXPECT_EQ(refused("reduce", {tuple({vector, block(DType::Int32, {16})}), integer(0), Value()}),
            "DifferentShapes: all inputs must have the same shape, found [8] and [16]");
}

TEST_F(Builtins, Atomics) {
  for (const char *name : {"atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or",
                           "atomic_xor", "atomic_xchg"})
    for (DType each : {DType::Int32, DType::UInt32, DType::Int64, DType::UInt64})
      EXPECT_EQ(accepted(name, {pointer(each), integer(1)}), info(each).shortName);
  EXPECT_EQ(
      accepted("atomic_add", {pointer(DType::BFloat16, {16}), Value(1.0), block(DType::Int1)}),
      "<['16'], bf16>");
  EXPECT_EQ(
      accepted("atomic_max", {pointer(DType::Float32), Value(1.0)}, {{"sem", text("relaxed")}}),
      "fp32");
  EXPECT_EQ(
      accepted("atomic_xchg", {pointer(DType::Float32), Value(1.0)}, {{"scope", text("sys")}}),
      "fp32");
  EXPECT_EQ(accepted("atomic_cas", {pointer(DType::Int32), integer(0), integer(1)}), "int32");
  EXPECT_EQ(refused("atomic_add", {pointer(DType::Int16), integer(1)}),
            "AtomicDtype: atomic_add does not support int16");
  EXPECT_EQ(refused("atomic_max", {pointer(DType::Float16), integer(1)}),
            "AtomicDtype: atomic_max does not support fp16");
  EXPECT_EQ(refused("atomic_or", {pointer(DType::Float32), integer(1)}),
            "AtomicDtype: atomic_or does not support fp32");
  EXPECT_EQ(refused("atomic_add", {integer(1), integer(1)}),
            "AtomicNotPointer: `atomic_add` needs a pointer or a block of pointers, found int");
  EXPECT_EQ(
      refused("atomic_cas", {pointer(DType::Int8), integer(0), integer(1)}),
      "AtomicCasWidth: atomic_cas only supports elements with width {16, 32, 64}, found int8");
  EXPECT_EQ(refused("atomic_add", {pointer(DType::Int32), integer(1)}, {{"sem", text("strong")}}),
            "UnknownChoice: `sem` cannot be `strong`: expected one of `acquire`, `release`, "
            "`acq_rel`, `relaxed`");
}

TEST_F(Builtins, Dot) {
  auto matrix = [&](DType type, int64_t rows, int64_t columns) {
    return block(type, {rows, columns});
  };
  auto square = [&](DType type) { return matrix(type, 16, 16); };
  EXPECT_EQ(accepted("dot", {matrix(DType::Float16, 4, 8), matrix(DType::Float16, 8, 2)}),
            "<['4', '2'], fp32>");
  EXPECT_EQ(accepted("dot", {square(DType::Float16), square(DType::Float16)},
                     {{"out_dtype", type(DType::Float16)}}),
            "<['16', '16'], fp16>");
  EXPECT_EQ(accepted("dot", {square(DType::Float8E5), square(DType::Float8E4NV)}),
            "<['16', '16'], fp32>");
  EXPECT_EQ(accepted("dot", {square(DType::Int8), square(DType::Int8)}), "<['16', '16'], int32>");
  EXPECT_EQ(accepted("dot", {square(DType::Float64), square(DType::Float64)}),
            "<['16', '16'], fp64>");
  EXPECT_EQ(accepted("dot",
                     {square(DType::BFloat16), square(DType::BFloat16), square(DType::Float32)},
                     {{"allow_tf32", Value(false)}}),
            "<['16', '16'], fp32>");
  EXPECT_EQ(
      accepted("dot", {block(DType::Float32, {2, 3, 4, 8}), block(DType::Float32, {2, 3, 8, 16})}),
      "<['2', '3', '4', '16'], fp32>");
  EXPECT_EQ(refused("dot", {square(DType::Float16), square(DType::BFloat16)}),
            "DotDtypes: the operands of `dot` must have one dtype, found fp16 and bf16: cast one "
            "of them");
  EXPECT_EQ(refused("dot", {square(DType::UInt8), square(DType::UInt8)}),
            "DotOnlyInt8: `dot` of integers takes int8, found uint8: cast the operands");
  EXPECT_EQ(refused("dot", {block(), block()}),
            "DotRank: `dot` needs two blocks of one rank of at least 2, found fp32 block of shape "
            "[16] and fp32 block of shape [16]");
  EXPECT_EQ(
      refused("dot", {matrix(DType::Float16, 4, 8), matrix(DType::Float16, 4, 8)}),
      "DotInner: the inner dimensions of `dot` differ: [4, 8] has 8 columns and [4, 8] has 4 rows");
  EXPECT_EQ(refused("dot", {block(DType::Float32, {2, 4, 4}), block(DType::Float32, {3, 4, 4})}),
            "DotBatch: the batch dimensions of [2, 4, 4] and [3, 4, 4] differ");
  EXPECT_EQ(refused("dot", {square(DType::BFloat16), square(DType::BFloat16)},
                    {{"out_dtype", type(DType::BFloat16)}}),
            "DotOutBFloat16: `out_dtype` of `dot` cannot be bfloat16: take float32 and cast the "
            "result with `.to(tl.bfloat16)`");
  EXPECT_EQ(
      refused("dot", {square(DType::Float32), square(DType::Float32), square(DType::Float64)}),
      "DotAccumulator: the accumulator must have the type of the result <['16', '16'], fp32>, "
      "found <['16', '16'], "
      "fp64>");
  EXPECT_EQ(refused("dot", {square(DType::Float32), square(DType::Float32)},
                    {{"allow_tf32", Value(true)}, {"input_precision", text("ieee")}}),
            "DotPrecisionTwice: only one of `input_precision` and `allow_tf32` can be specified");
  EXPECT_EQ(refused("dot", {square(DType::Float32), square(DType::Float32)},
                    {{"input_precision", text("fast")}}),
            "UnknownChoice: `input_precision` cannot be `fast`: expected one of `tf32`, `tf32x3`, "
            "`ieee`, "
            "`bf16x3`, `bf16x6`");
}

TEST_F(Builtins, DotScaled) {
  auto scaled = [&](Value lhs, Value lhsScale, const char *lhsFormat, Value rhs, Value rhsScale,
                    const char *rhsFormat,
                    std::vector<std::pair<std::string, Value>> keywords = {}) {
    return refused("dot_scaled", {lhs, lhsScale, text(lhsFormat), rhs, rhsScale, text(rhsFormat)},
                   keywords);
  };
  Value a = block(DType::UInt8, {16, 32}), b = block(DType::UInt8, {32, 16});
  Value scale = block(DType::UInt8, {16, 2});
  EXPECT_EQ(scaled(a, scale, "e3m2", b, scale, "e2m1"),
            "ScaledFormat: `dot_scaled` does not know the format `e3m2`: expected e2m1, e4m3, "
            "e5m2, bf16 or fp16");
  EXPECT_EQ(scaled(a, scale, "bf16", b, scale, "e2m1"),
            "ScaledDtype: `dot_scaled`: an operand of the format bf16 cannot have the dtype uint8");
  EXPECT_EQ(scaled(a, scale, "e2m1", a, scale, "e2m1"),
            "ScaledInner: the inner dimensions of `dot_scaled` differ: [16, 32] has 64 numbers "
            "along K and [16, 32] has 32");
  EXPECT_EQ(
      scaled(a, block(DType::UInt8, {16, 1}), "e2m1", b, scale, "e2m1"),
      "ScaledScaleShape: `lhs_scale` of `dot_scaled` must have the shape [16, 2], found [16, 1]");
  EXPECT_EQ(
      scaled(a, scale, "e2m1", b, block(DType::Float8E4NV, {16, 2}), "e2m1"),
      "ScaledScaleShape: `rhs_scale` of `dot_scaled` must have the shape [16, 4], found [16, 2]");
  EXPECT_EQ(scaled(a, block(DType::Float32, {16, 2}), "e2m1", b, scale, "e2m1"),
            "ScaledScaleDtype: `lhs_scale` must be a block of uint8 or float8e4nv, found fp32");
  EXPECT_EQ(scaled(a, scale, "e2m1", b, scale, "e2m1", {{"out_dtype", type(DType::Float16)}}),
            "ScaledOut: `out_dtype` of `dot_scaled` must be float32: cast the result");
  EXPECT_EQ(scaled(a, scale, "e4m3", b, scale, "e2m1", {{"lhs_k_pack", Value(false)}}),
            "ScaledPack: `dot_scaled`: only operands of the format e2m1 can be packed along "
            "another dimension than K");
  EXPECT_EQ(scaled(block(DType::UInt8, {16}), scale, "e2m1", b, scale, "e2m1"),
            "ScaledRank: the operands of `dot_scaled` must have one rank, 2 or 3, found [16] and "
            "[32, 16]");
}

TEST_F(Builtins, Hints) {
  EXPECT_EQ(accepted("multiple_of", {argument(DType::Int32), integer(16)}), "int32");
  EXPECT_EQ(accepted("max_contiguous", {block(DType::Int32, {4, 8}), shape({1, 8})}),
            "<['4', '8'], int32>");
  EXPECT_EQ(refused("max_constancy", {block(DType::Int32, {4, 8}), integer(8)}),
            "HintCount: `max_constancy` needs 2 values, one per dimension of its input, found 1");
  EXPECT_EQ(refused("multiple_of", {argument(DType::Int32), integer(0)}),
            "HintNotPositive: the values of `multiple_of` must be positive, found 0");
  EXPECT_EQ(accepted("assume", {argument(DType::Int1)}), "None");
}

TEST_F(Builtins, Tangents) {
  EXPECT_EQ(accepted("detach", {block(DType::Float32, {4, 8})}), "<['4', '8'], fp32>");
  EXPECT_EQ(accepted("detach", {argument(DType::Int32)}), "int32");
  EXPECT_EQ(accepted("with_tangent", {block(DType::Float16, {4}), argument(DType::Float32)}),
            "<['4'], fp16>");
  EXPECT_EQ(refused("with_tangent", {block(DType::Int32, {4}), block(DType::Float32, {4})}),
            "ExpectedDtype: `with_tangent` takes floats, found int32: cast the argument");
}

TEST_F(Builtins, Debugging) {
  EXPECT_EQ(accepted("device_print", {text("x"), block()}), "None");
  EXPECT_NE(ir().find("\" x: \""), std::string::npos);
  EXPECT_EQ(
      refused("device_print", {text("\x01")}),
      "PrintPrefix: the prefix of `device_print` must be a string of printable ASCII characters");
  EXPECT_EQ(accepted("device_assert", {block(DType::Int1), text("positive")}), "None");
  EXPECT_EQ(ir().find("positive"), std::string::npos);
  options.debug = true;
  EXPECT_EQ(accepted("device_assert", {block(DType::Int1), text("positive")}), "None");
  EXPECT_NE(ir().find("positive"), std::string::npos);
  EXPECT_EQ(accepted("static_print", {text("N ="), integer(3), block()}), "None");
  EXPECT_EQ(host.printed, "N = 3 fp32[constexpr[16]]\n");
  EXPECT_EQ(accepted("static_assert", {Value(true)}), "None");
  EXPECT_EQ(refused("static_assert", {Value(false)}),
            "StaticAssertFailed: static assertion failed");
  EXPECT_EQ(refused("static_assert", {Value(false), text("N must be even")}),
            "StaticAssertFailedWith: static assertion failed: N must be even");
  EXPECT_EQ(refused("static_assert", {argument(DType::Int1)}),
            "StaticAssertNotKnown: the condition of `static_assert` could not be determined at "
            "compile-time, found int1 scalar: it may only depend on "
            "`constexpr` values");
}

TEST_F(Builtins, Types) {
  Value half = *languageMember("triton.language", "float16");
  auto ask = [&](const char *question) {
    return call(*getAttribute(half, question, {}), {}, {}, {})->repr();
  };
  EXPECT_EQ(ask("is_floating"), "True");
  EXPECT_EQ(ask("is_fp16"), "True");
  EXPECT_EQ(ask("is_int"), "False");
  EXPECT_EQ(getAttribute(half, "primitive_bitwidth", {})->repr(), "16");
  EXPECT_EQ(refused("dtype.get_int_max_value", {half}),
            "IntLimitOfFloat: `get_int_max_value` is only for integer types, found fp16");
  EXPECT_EQ(callNamed("dtype.get_int_min_value", {type(DType::Int8)})->repr(), "-128");
  EXPECT_EQ(callNamed("dtype.get_int_max_value", {type(DType::UInt64)})->repr(),
            "18446744073709551615");
  EXPECT_EQ(callNamed("dtype", {text("bf16")})->repr(), "bf16");
  EXPECT_EQ(refused("dtype", {text("fp17")}), "UnknownDtype: `fp17` is not the name of a dtype");
  EXPECT_EQ(callNamed("pointer_type", {type(DType::Float32)})->repr(), "pointer<fp32>");
  EXPECT_EQ(refused("tensor", {integer(0), type(DType::Float32)}),
            "TensorConstructor: a tensor cannot be made from a handle inside a kernel");
  EXPECT_EQ(callNamed("constexpr", {integer(3)})->repr(), "3");
}

TEST_F(Builtins, Python) {
  EXPECT_EQ(callNamed("python.len", {shape({1, 2})})->repr(), "2");
  EXPECT_EQ(refused("python.len", {integer(3)}), "NoLength: int has no length");
  EXPECT_EQ(callNamed("python.float", {text("-inf")})->repr(), "-inf");
  EXPECT_EQ(callNamed("python.int", {Value(-2.7)})->repr(), "-2");
  EXPECT_EQ(refused("python.float", {text("three")}), "NotANumber: `float` cannot convert 'three'");
  EXPECT_EQ(callNamed("python.max", {integer(1), integer(3), integer(2)})->repr(), "3");
  EXPECT_EQ(accepted("python.min", {argument(DType::Int32), integer(2)}), "int32");
  EXPECT_EQ(
      callNamed("python.isinstance", {integer(1), *languageMember("triton.language", "constexpr")})
          ->repr(),
      "False");
  EXPECT_EQ(callNamed("python.isinstance", {block(), *languageMember("triton.language", "tensor")})
                ->repr(),
            "True");
  EXPECT_EQ(refused("python.isinstance", {integer(1), integer(2)}),
            "NotAClass: the second argument of `isinstance` must be a class, found int");
  EXPECT_EQ(callNamed("python.next_power_of_2", {integer(931)})->repr(), "1024");
  EXPECT_EQ(callNamed("python.hasattr", {block(), text("to")})->repr(), "True");
  EXPECT_EQ(callNamed("python.hasattr", {block(), text("nothing")})->repr(), "False");
}

TEST_F(Builtins, StrictModeRefusesWhatTritonRefuses) {
  options.strict = true;
  EXPECT_TRUE(failed(semantic->unary(UnaryOpKind::Not, argument(DType::Int32))));
  EXPECT_EQ(message(), "BitcastWidth: a bitcast keeps the number of bits, found 32 and 1");
  EXPECT_TRUE(succeeded(semantic->unary(UnaryOpKind::Not, argument(DType::Int1))));
}

} // namespace
} // namespace nereid::frontend::test

// What arguments become: types, constants, facts, keys.
#include "runtime/specialise.h"

#include "arguments.h"

#include <gtest/gtest.h>

#include <limits>

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::test;

namespace {

ParamRule rule(const char *forced = nullptr, uint32_t policy = 0) {
  ParamRule result;
  result.name = "x";
  result.policy = policy;
  if (forced)
    result.forcedType = frontend::parseSignatureType(forced);
  return result;
}
ParamRule constexprRule() {
  ParamRule result = rule();
  result.isConstexpr = true;
  return result;
}

std::string specialised(const ParamRule &rule, const nrd_arg &arg) {
  KeyBuffer key;
  bool usual;
  if (ErrorPtr error = appendKey(key, rule, ruleKinds(rule), arg, "kernel", usual))
    return error->pythonClass + ": " + error->summary;
  return signatureText(specialise(rule, arg)[0]);
}

std::vector<uint8_t> key(const ParamRule &rule, const nrd_arg &arg) {
  KeyBuffer key;
  bool usual;
  EXPECT_FALSE(appendKey(key, rule, ruleKinds(rule), arg, "kernel", usual));
  return {key.begin(), key.end()};
}

} // namespace

TEST(Specialise, Integers) {
  EXPECT_EQ(specialised(rule(), integer(1)), "1");
  EXPECT_EQ(specialised(rule(), integer(0)), "i32:16");
  EXPECT_EQ(specialised(rule(), integer(2)), "i32");
  EXPECT_EQ(specialised(rule(), integer(-16)), "i32:16");
  EXPECT_EQ(specialised(rule(), integer(48)), "i32:16");
  EXPECT_EQ(specialised(rule(), integer(INT32_MAX)), "i32");
  EXPECT_EQ(specialised(rule(), integer(int64_t(INT32_MAX) + 1)), "i64:16");
  EXPECT_EQ(specialised(rule(), integer(int64_t(INT32_MIN) - 1)), "i64");
  EXPECT_EQ(specialised(rule(), unsignedInteger(7)), "i32");
  EXPECT_EQ(specialised(rule(), unsignedInteger(uint64_t(INT64_MAX) + 1)), "u64:16");
  EXPECT_EQ(specialised(rule(), unsignedInteger(UINT64_MAX)), "u64");
}

TEST(Specialise, OtherKinds) {
  EXPECT_EQ(specialised(rule(), boolean(true)), "u1");
  EXPECT_EQ(specialised(rule(), number(1.0)), "fp32");
  EXPECT_EQ(specialised(rule(), none()), "None");
  EXPECT_EQ(specialised(rule(), pointer(0x1000)), "*fp32:16");
  EXPECT_EQ(specialised(rule(), pointer(0x1008, NRD_BF16)), "*bf16");
  ParamRule constant = rule();
  constant.isConst = true;
  EXPECT_EQ(specialised(constant, pointer(0x1008, NRD_INT8)), "*ki8");
}

TEST(Specialise, Descriptors) {
  nrd_descriptor desc{};
  desc.rank = 2;
  int64_t shape[] = {33, 48}, strides[] = {64, 1}, block[] = {8, 16};
  std::copy_n(shape, 2, desc.shape);
  std::copy_n(strides, 2, desc.strides);
  std::copy_n(block, 2, desc.block);
  nrd_arg arg = pointer(0x1000, NRD_FP16);
  arg.kind = NRD_ARG_DESCRIPTOR;
  arg.descriptor = &desc;
  EXPECT_EQ(specialised(rule(), arg), "tensordesc<fp16[8, 16]>:16");
  desc.shape[1] = 47;
  desc.pads_nan = 1;
  EXPECT_EQ(specialised(rule(), arg), "tensordesc<fp16[8, 16], nan>");
  EXPECT_EQ(specialised(rule(nullptr, NRD_PARAM_NO_ALIGNMENT), arg),
            "tensordesc<fp16[8, 16], nan>");
  desc.rounds_tf32 = 1;
  EXPECT_EQ(specialised(rule(), arg), "TypeError: argument `x` of `kernel`: expected rounding to "
                                      "TF32 of fp32 only, found fp16");
  arg.dtype = NRD_FP32;
  EXPECT_EQ(specialised(rule(), arg), "tensordesc<fp32[8, 16], nan, tf32>");
  desc.pads_nan = 0;
  EXPECT_EQ(specialised(rule(), arg), "tensordesc<fp32[8, 16], tf32>");
  desc.rounds_tf32 = 0;
  desc.pads_nan = 1;
  arg.dtype = NRD_FP16;
  EXPECT_EQ(specialised(rule("*fp16"), arg),
            "TypeError: argument `x` of `kernel` is a pointer: expected a tensor, an object with "
            "`data_ptr()` or an address, found a tensor descriptor");
  auto refused = [&](const std::string &what) {
    EXPECT_EQ(specialised(rule(), arg), "TypeError: argument `x` of `kernel`: expected " + what);
  };
  desc.strides[0] = 60;
  refused("strides that are multiples of 16 bytes, found 120 bytes");
  desc.strides[0] = std::numeric_limits<int64_t>::min();
  refused("strides of less than 2^63 bytes, found -9223372036854775808 elements");
  desc.strides[0] = 64;
  desc.strides[1] = 2;
  refused("a last stride of 1, found 2");
  desc.strides[1] = 1;
  desc.shape[0] = int64_t(1) << 31;
  refused("sizes from 1 to 2147483647, found 2147483648");
  desc.shape[0] = 1;
  arg.p = reinterpret_cast<void *>(0x1008);
  refused("a base address that is a multiple of 16, found 0x1008");
  arg.p = nullptr;
  arg.dtype = NRD_INT16;
  refused("a padding of zero for integers, found NaN");
  desc.rank = 6;
  refused("a descriptor of rank 1 to 5, found another rank");
}

TEST(Specialise, Policies) {
  EXPECT_EQ(specialised(rule(nullptr, NRD_PARAM_NO_SPECIALIZE), integer(1)), "i32");
  EXPECT_EQ(specialised(rule(nullptr, NRD_PARAM_NO_SPECIALIZE), integer(16)), "i32");
  EXPECT_EQ(specialised(rule(nullptr, NRD_PARAM_NO_ALIGNMENT), integer(1)), "1");
  EXPECT_EQ(specialised(rule(nullptr, NRD_PARAM_NO_ALIGNMENT), integer(16)), "i32");
  EXPECT_EQ(specialised(rule(nullptr, NRD_PARAM_NO_ALIGNMENT), pointer(0x1000)), "*fp32");
  EXPECT_EQ(specialised(rule(nullptr, NRD_PARAM_CONST), pointer(0x1000)), "*kfp32:16");
}

TEST(Specialise, ForcedTypes) {
  EXPECT_EQ(specialised(rule("i64"), integer(1)), "i64");
  EXPECT_EQ(specialised(rule("i64"), integer(32)), "i64:16");
  EXPECT_EQ(specialised(rule("fp64"), number(1.5)), "fp64");
  EXPECT_EQ(specialised(rule("fp32"), integer(16)), "fp32");
  EXPECT_EQ(specialised(rule("*fp16"), pointer(0x1000)), "*fp16:16");
  EXPECT_EQ(specialised(rule("*fp16"), integer(0x1008)), "*fp16");
  // ArgumentOutOfRange and LaunchBadArgument
  EXPECT_EQ(specialised(rule("i8"), integer(128)),
            "OverflowError: 128 does not fit the type of `x`, which is `i8`");
  EXPECT_EQ(specialised(rule("i8"), integer(-128)), "i8:16");
  EXPECT_EQ(specialised(rule("u32"), integer(-1)),
            "OverflowError: -1 does not fit the type of `x`, which is `u32`");
  EXPECT_EQ(
      specialised(rule("i32"), number(1.5)),
      "TypeError: argument `x` of `kernel`: expected a value for its type `i32`, found a float");
}

TEST(Specialise, NotAPointer) {
  EXPECT_EQ(specialised(rule("*fp16"), number(1.5)),
            "TypeError: argument `x` of `kernel` is a pointer: expected a tensor, an object with "
            "`data_ptr()` or an address, found a float");
}

TEST(Specialise, Tuples) {
  nrd_arg inner[] = {number(2.5), integer(1)};
  nrd_tuple innerTuple{inner, 2, nullptr, 0};
  nrd_arg items[] = {integer(1), pointer(0x1000), none(), {}};
  items[3].kind = NRD_ARG_TUPLE;
  items[3].tuple = &innerTuple;
  const char *fields[] = {"a", "b", "c", "d"};
  nrd_tuple outer{items, 4, nullptr, 0}, named{items, 4, fields, 7}, empty{};
  auto tupleArg = [](const nrd_tuple &tuple) {
    nrd_arg arg{};
    arg.kind = NRD_ARG_TUPLE;
    arg.tuple = &tuple;
    return arg;
  };
  EXPECT_EQ(specialised(rule(), tupleArg(outer)), "(1, *fp32:16, None, (fp32, 1))");
  EXPECT_EQ(specialised(rule(), tupleArg(empty)), "()");
  // The parameter's policies are not its items'.
  EXPECT_EQ(specialised(rule(nullptr, NRD_PARAM_NO_SPECIALIZE), tupleArg(outer)),
            "(1, *fp32:16, None, (fp32, 1))");
  EXPECT_NE(key(rule(), tupleArg(outer)), key(rule(), tupleArg(named)));
  EXPECT_EQ(specialised(rule("i32"), tupleArg(outer)),
            "TypeError: argument `x` of `kernel`: expected a value for its type `i32`, found a "
            "tuple");

  llvm::SmallVector<nrd_arg> storage;
  EXPECT_EQ(flatten({tupleArg(outer), integer(5)}, storage).size(), 6u);
  nrd_arg plain[] = {integer(1), integer(5)};
  EXPECT_EQ(flatten(plain, storage).data(), plain);

  std::vector<std::string> names;
  ParamRule rules[] = {rule(), rule()};
  nrd_arg args[] = {tupleArg(named), tupleArg(outer)};
  forEachLeaf(rules, specialise(rules, args),
              [&](const frontend::ParamSpec &, const std::string &name) { names.push_back(name); });
  EXPECT_EQ(names, (std::vector<std::string>{"x.a", "x.b", "x.c", "x.d[0]", "x.d[1]", "x[0]",
                                             "x[1]", "x[2]", "x[3][0]", "x[3][1]"}));
}

TEST(Specialise, TypesWithoutValues) {
  auto typed = [](const char *signature, uint32_t divisibility = 0) {
    static std::vector<std::unique_ptr<nrd_value>> values;
    values.push_back(std::make_unique<nrd_value>());
    values.back()->value =
        frontend::Value(frontend::TypeValue{*frontend::parseSignatureType(signature)});
    nrd_arg arg{};
    arg.kind = NRD_ARG_TYPE;
    arg.divisibility = divisibility;
    arg.v = values.back().get();
    return arg;
  };
  for (const char *type : {"i32", "i64", "u64", "u1", "fp32", "*fp16", "*ki8", "i8", "fp16", "bf16",
                           "tensordesc<fp16[8, 16]>"})
    EXPECT_EQ(specialised(rule(), typed(type)), type);
  EXPECT_EQ(specialised(rule(), typed("*fp16", 16)), "*fp16:16");
  EXPECT_EQ(specialised(rule("i64"), typed("i64", 16)), "i64:16");
  // The keys of values of these types.
  EXPECT_EQ(key(rule(), typed("i32", 16)), key(rule(), integer(32)));
  EXPECT_EQ(key(rule(), typed("*fp32")), key(rule(), pointer(0x1004)));
  EXPECT_EQ(key(rule(), typed("u1")), key(rule(), boolean(true)));
  EXPECT_EQ(key(rule("i16"), typed("i16")), key(rule("i16"), integer(3)));
  EXPECT_NE(key(rule(), typed("i8")), key(rule(), typed("i16")));
}

TEST(Specialise, Constexprs) {
  EXPECT_EQ(specialised(constexprRule(), integer(1024)), "1024");
  EXPECT_EQ(specialised(constexprRule(), boolean(true)), "True");
  EXPECT_EQ(specialised(constexprRule(), number(0.5)), "0.5");
  // ConstexprNeedsValue
  EXPECT_EQ(
      specialised(constexprRule(), pointer(0x1000)),
      "TypeError: argument `x` of `kernel` is a constexpr: expected a value known at compile time, "
      "found a pointer");
}

TEST(Specialise, IntegerTooLarge) {
  nrd_value big{frontend::Value(llvm::APSInt(llvm::APInt(80, 1).shl(70), false)), "i", {}, {}};
  nrd_arg arg{};
  arg.kind = NRD_ARG_VALUE;
  arg.v = &big;
  EXPECT_EQ(specialised(rule(), arg),
            "OverflowError: argument `x`: the integer does not fit 64 bits");
}

TEST(Specialise, EqualKeysExactlyForEqualSpecialisations) {
  std::vector<nrd_arg> args = {integer(1),
                               integer(2),
                               integer(3),
                               integer(16),
                               integer(32),
                               integer(1LL << 40),
                               boolean(true),
                               boolean(false),
                               number(1.0),
                               number(2.0),
                               none(),
                               pointer(0x1000),
                               pointer(0x2000),
                               pointer(0x1004),
                               pointer(0x1000, NRD_FP16),
                               unsignedInteger(UINT64_MAX)};
  for (const nrd_arg &a : args)
    for (const nrd_arg &b : args)
      EXPECT_EQ(key(rule(), a) == key(rule(), b), specialised(rule(), a) == specialised(rule(), b));
  // 1, True and 1.0 are different constants.
  EXPECT_NE(key(constexprRule(), integer(1)), key(constexprRule(), boolean(true)));
  EXPECT_NE(key(constexprRule(), integer(1)), key(constexprRule(), number(1.0)));
}

TEST(Specialise, SignatureTexts) {
  ParamRule rules[] = {rule(), rule(), rule(), constexprRule(), constexprRule(), rule(), rule()};
  llvm::StringRef texts[] = {"*fp32:16",
                             "i32:1",
                             " i64:16 ",
                             "1024",
                             "'tf32'",
                             "()",
                             "(*fp16:16, (i32:1, None), tensordesc<fp16[8, 16]>,)"};
  std::vector<frontend::ParamSpec> specs;
  ASSERT_FALSE(specialiseSignature(rules, texts, "kernel", specs));
  EXPECT_EQ(signatureText(specs[0]), "*fp32:16");
  EXPECT_EQ(signatureText(specs[1]), "1");
  EXPECT_EQ(signatureText(specs[2]), "i64:16");
  EXPECT_EQ(signatureText(specs[3]), "1024");
  EXPECT_EQ(signatureText(specs[4]), "'tf32'");
  EXPECT_EQ(signatureText(specs[5]), "()");
  EXPECT_EQ(signatureText(specs[6]), "(*fp16:16, (1, None), tensordesc<fp16[8, 16]>)");
}

TEST(Specialise, BadSignature) {
  auto message = [](const ParamRule &rule, llvm::StringRef text) {
    std::vector<frontend::ParamSpec> specs;
    ErrorPtr error = specialiseSignature(rule, text, "kernel", specs);
    return error ? error->summary : "";
  };
  EXPECT_EQ(message(rule(), "flot"), "the signature of `x` expects a type such as `*fp32:16`, "
                                     "`i32`, `i32:16`, `fp32`, found `flot`");
  EXPECT_EQ(message(rule(), "fp32:16"), "the signature of `x` expects `:16` or, for an integer, "
                                        "`:1` after the type, found `fp32:16`");
  EXPECT_EQ(message(rule(), "(i32, (i32)"),
            "the signature of `x` expects a tuple of types, `(*fp32, i32)`, found `(i32, (i32)`");
  EXPECT_EQ(message(constexprRule(), "N"),
            "the signature of `x` expects a Python literal, because it is a constexpr, found `N`");
  EXPECT_EQ(message(constexprRule(), "7"), "");
}

TEST(Specialise, Literals) {
  EXPECT_EQ(parseLiteral("-12")->repr(), "-12");
  EXPECT_EQ(parseLiteral("0x10")->repr(), "16");
  EXPECT_EQ(parseLiteral("1e3")->repr(), "1000.0");
  EXPECT_EQ(parseLiteral("None")->repr(), "None");
  EXPECT_EQ(parseLiteral("\"a b\"")->repr(), "'a b'");
  EXPECT_EQ(parseLiteral("123456789012345678901234567890")->repr(),
            "123456789012345678901234567890");
  EXPECT_FALSE(parseLiteral("x + 1"));
  EXPECT_FALSE(parseLiteral(""));
}

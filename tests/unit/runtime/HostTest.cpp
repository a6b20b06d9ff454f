// A host behind the C ABI: names, foreign calls and the way back into the builtin table.
#include "common.h"

#include <cstring>

using namespace nereid;
using nereid::test::CApi;

namespace {

const char *const text = R"(
def kernel(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, foreign(tl.load(x + i), SCALE))
)";

struct TestHost {
  bool fails = false;
  std::string calls;

  static int lookup(void *, void *data, const char *name, nrd_value **out) {
    EXPECT_STREQ(static_cast<const char *>(data), "my function");
    if (!std::strcmp(name, "tl"))
      *out = nrd_value_module("triton.language");
    else if (!std::strcmp(name, "foreign"))
      *out = nrd_value_object(17, "function", "foreign:1");
    else if (!std::strcmp(name, "SCALE"))
      *out = nrd_value_float(3.0);
    else
      return 0;
    return 1;
  }
  static int getAttribute(void *, uint64_t, const char *, nrd_value **) { return 0; }
  static int getItem(void *, uint64_t, const nrd_value *, nrd_value **) { return 0; }
  static int truth(void *, uint64_t) { return 1; }
  static int identical(void *, uint64_t a, uint64_t b) { return a == b; }
  static void print(void *, const char *) {}

  /// foreign(tensor, number) = tensor * number + 1, through the builtin table.
  static int call(void *self, uint64_t callee, const nrd_value *const *args, size_t count,
                  const char *const *, const nrd_value *const *, size_t, nrd_semantic *semantic,
                  nrd_value **out) {
    auto *host = static_cast<TestHost *>(self);
    EXPECT_EQ(callee, 17u);
    EXPECT_EQ(count, 2u);
    if (host->fails) {
      nrd_host_error("ValueError: no", 99);
      return -1;
    }
    const int64_t *shape = nullptr;
    size_t rank = 0;
    EXPECT_EQ(nrd_value_get_kind(args[0]), NRD_VALUE_TENSOR);
    host->calls += nrd_value_get_type(args[0], &shape, &rank);
    host->calls += "[" + std::to_string(rank ? shape[0] : -1) + "]";
    nrd_value *product = nullptr;
    EXPECT_EQ(nrd_call_builtin(semantic, "mul", args, 2, nullptr, nullptr, 0, &product), nullptr);
    ValueHandle owner(product), one(nrd_value_float(1.0));
    const nrd_value *operands[] = {product, one.get()};
    EXPECT_EQ(nrd_call_builtin(semantic, "add", operands, 2, nullptr, nullptr, 0, out), nullptr);
    nrd_error *error =
        nrd_call_builtin(semantic, "no_such_builtin", operands, 2, nullptr, nullptr, 0, &product);
    EXPECT_STREQ(nrd_error_name(error), "UnknownBuiltinName");
    EXPECT_STREQ(nrd_error_summary(error), "the language has no builtin `no_such_builtin`");
    nrd_error_free(error);
    return 1;
  }

  nrd_host callbacks() {
    return {this, lookup, getAttribute, getItem, call, truth, identical, print};
  }
};

class HostTest : public CApi {
protected:
  void SetUp() override {
    ASSERT_EQ(nrd_module_parse(text, strlen(text), "host.py", 1, module.out()), nullptr);
    nrd_host callbacks = host.callbacks();
    ASSERT_EQ(nrd_function_create(module.get(), "kernel", &callbacks,
                                  const_cast<char *>("my function"), function.out()),
              nullptr);
  }
  ModuleHandle module;
  FunctionHandle function;
  TestHost host;
};

TEST_F(HostTest, ForeignCodeBuildsIR) {
  std::vector<float> x(16);
  std::iota(x.begin(), x.end(), 0.0f);
  nrd_arg args[] = {Argument(x), Argument(16)};
  nrd_launch how = detail::rawLaunch(Launch({1}));
  EXPECT_EQ(take(nrd_dispatch(function.get(), args, 2, nullptr, &how, nullptr)), "");
  EXPECT_EQ(host.calls, "fp32[16]");
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(x[i], 3.0f * i + 1);
}

TEST_F(HostTest, ItsExceptionIsTheCause) {
  host.fails = true;
  std::vector<float> x(16);
  nrd_arg args[] = {Argument(x), Argument(16)};
  nrd_error *error = nrd_dispatch(function.get(), args, 2, nullptr, nullptr, nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(nrd_error_cause(error), 99u);
  EXPECT_NE(std::string(nrd_error_message(error)).find("ValueError: no"), std::string::npos);
  nrd_error_free(error);
}

TEST(Values, RoundTrip) {
  ValueHandle big(nrd_value_big_int("-123456789012345678901234567890"));
  int64_t out = 0;
  EXPECT_EQ(nrd_value_get_int(big.get(), &out), 0);
  EXPECT_STREQ(nrd_value_get_text(big.get()), "-123456789012345678901234567890");
  EXPECT_EQ(nrd_value_big_int("12x"), nullptr);
  ValueHandle small(nrd_value_int(INT64_MIN));
  EXPECT_EQ(nrd_value_get_int(small.get(), &out), 1);
  EXPECT_EQ(out, INT64_MIN);
  EXPECT_EQ(nrd_value_type("fp33", nullptr, 0), nullptr);
  const int64_t shape[] = {4, 8};
  ValueHandle block(nrd_value_type("*kfp16", shape, 2));
  const int64_t *found = nullptr;
  size_t rank = 0;
  EXPECT_STREQ(nrd_value_get_type(block.get(), &found, &rank), "*kfp16");
  ASSERT_EQ(rank, 2u);
  EXPECT_EQ(found[1], 8);
  nrd_value *items[] = {small.get(), block.get()};
  const char *fields[] = {"low", "kind"};
  ValueHandle tuple(nrd_value_tuple(items, 2, fields, 5));
  EXPECT_EQ(nrd_value_get_count(tuple.get()), 2u);
  EXPECT_STREQ(nrd_value_get_field(tuple.get(), 1), "kind");
  EXPECT_EQ(nrd_value_get_handle(tuple.get()), 5u);
  ValueHandle item(nrd_value_get_item(tuple.get(), 0));
  EXPECT_EQ(nrd_value_get_kind(item.get()), NRD_VALUE_INT);
  EXPECT_EQ(nrd_value_get_item(tuple.get(), 2), nullptr);
}

} // namespace

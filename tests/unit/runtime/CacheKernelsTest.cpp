// Kernels on disk below the C ABI: what is kept of a kernel comes back, and is made whole.
#include "runtime/cache/store.h"
#include "runtime/compile.h"
#include "runtime/function.h"
#include "support/settings.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace nereid;
using namespace nereid::runtime;

namespace {

constexpr char source[] = "import triton\n"
                          "import triton.language as tl\n"
                          "OFFSET = tl.constexpr(3)\n"
                          "@triton.jit\n"
                          "def kernel(x, y, n, B: tl.constexpr):\n"
                          "    i = tl.program_id(0) * B + tl.arange(0, B)\n"
                          "    tl.store(y + i, tl.load(x + i, mask=i < n) + OFFSET, mask=i < n)\n";

class CacheKernels : public ::testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/nereid-kernels-XXXXXX";
    folder = ::mkdtemp(name);
    ::setenv("NEREID_CACHE", "1", 1);
    ::setenv("NEREID_CACHE_DIR", folder.c_str(), 1);
    Settings::refresh();
  }
  void TearDown() override {
    ::setenv("NEREID_CACHE", "0", 1);
    ::unsetenv("NEREID_CACHE_DIR");
    Settings::refresh();
    [[maybe_unused]] int code = std::system(("rm -rf " + folder).c_str());
  }

  std::unique_ptr<nrd_kernel> compile(const std::string &text, TargetName target, bool load) {
    nrd_module *module = nullptr;
    nrd_function *function = nullptr;
    EXPECT_EQ(nrd_module_parse(text.data(), text.size(), "kernels.py", 1, &module), nullptr);
    EXPECT_EQ(nrd_function_create(module, "kernel", nullptr, nullptr, &function), nullptr);
    nrd_module_free(module);
    std::shared_ptr<FunctionRecord> record = function->record;
    nrd_function_free(function);
    CompileRequest request;
    request.function = record.get();
    EXPECT_EQ(specialiseSignature(record->rules, {"*fp32:16", "*fp32:16", "i32", "64"},
                                  record->name, request.specs),
              nullptr);
    request.options = Options().resolved();
    request.target = target;
    request.load = load;
    std::unique_ptr<nrd_kernel> kernel;
    ErrorPtr error = compileKernel(std::move(request), kernel);
    EXPECT_EQ(error, nullptr) << (error ? error->message : "");
    if (kernel)
      kernel->keepAlive = record;
    return kernel;
  }

  static bool isHit(const nrd_kernel &kernel) {
    return kernel.times.size() == 1 && kernel.times[0].name == "kernel cache";
  }

  uint64_t bytes() {
    uint64_t sum = 0;
    cache::Store(folder + "/kernels").forEach([&](const cache::EntryInfo &entry) {
      sum += entry.bytes;
    });
    return sum;
  }

  std::string folder;
};

TEST_F(CacheKernels, AKernelComesBack) {
  auto fresh = compile(source, {Backend::Cpu, 0}, true);
  auto kept = compile(source, {Backend::Cpu, 0}, true);
  ASSERT_TRUE(fresh && kept);
  EXPECT_FALSE(isHit(*fresh));
  EXPECT_TRUE(isHit(*kept));
  EXPECT_TRUE(kept->entry);
  EXPECT_EQ(kept->metadata, fresh->metadata);
  EXPECT_EQ(kept->layout, fresh->layout);
  EXPECT_EQ(kept->hasWrites, fresh->hasWrites);
  ASSERT_EQ(kept->params.size(), fresh->params.size());
  for (size_t i = 0; i < kept->params.size(); ++i) {
    EXPECT_EQ(kept->params[i].passed, fresh->params[i].passed);
    EXPECT_EQ(kept->params[i].written, fresh->params[i].written);
    EXPECT_EQ(kept->params[i].kind, fresh->params[i].kind);
    EXPECT_EQ(kept->params[i].name, fresh->params[i].name);
  }
  EXPECT_EQ(*kept->stage("obj"), *fresh->stage("obj"));
}

TEST_F(CacheKernels, ConstantsOfTheFile) {
  compile(source, {Backend::Cpu, 0}, true);
  std::string other = source;
  other.replace(other.find("constexpr(3)"), 12, "constexpr(4)");
  auto kernel = compile(other, {Backend::Cpu, 0}, true);
  ASSERT_TRUE(kernel);
  EXPECT_FALSE(isHit(*kernel));
}

TEST_F(CacheKernels, MachineCodeThatIsMissingIsAdded) {
  auto fresh = compile(source, {Backend::Cuda, 90}, false);
  ASSERT_TRUE(fresh);
  uint64_t before = bytes();
  auto whole = compile(source, {Backend::Cuda, 90}, true);
  ASSERT_TRUE(whole);
  EXPECT_TRUE(isHit(*whole));
  EXPECT_EQ(*whole->stage("ptx"), *fresh->stage("ptx"));
  std::string why;
  const std::string *cubin = whole->stage("cubin", &why);
  if (!cubin)
    GTEST_SKIP() << "no assembler: " << why;
  EXPECT_GE(bytes(), before + cubin->size());
  auto again = compile(source, {Backend::Cuda, 90}, true);
  ASSERT_TRUE(again);
  EXPECT_TRUE(isHit(*again));
  EXPECT_EQ(*again->stage("cubin"), *cubin);
}

} // namespace

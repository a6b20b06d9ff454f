#include "targets/nvidia/codegen/Assembler.h"

#include "Environment.h"
#include "Kernels.h"

#include "targets/nvidia/codegen/Subprocess.h"
#include "targets/nvidia/codegen/Toolkit.h"

#include "llvm/Support/FileSystem.h"

#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace nereid::nvidia;

namespace {

/// Runs on every assembler this machine has.
void withEach(llvm::function_ref<void(const Assembler &)> test) {
  NoAssembler why;
  int count = 0;
  auto run = [&](std::unique_ptr<Assembler> assembler) {
    if (!assembler)
      return;
    SCOPED_TRACE(assembler->description());
    ++count;
    test(*assembler);
  };
  run(openNvJitLink(why));
  run(openDriverLinker(why));
  if (std::string path = findProgram("ptxas"); !path.empty())
    run(openPtxas(path, why));
  if (count == 0)
    GTEST_SKIP() << "no assembler";
}

TEST(Assembler, VectorAdd) {
  withEach([](const Assembler &assembler) {
    EXPECT_GE(assembler.ptxVersion(), 80);
    std::string ptx = ptxOf(addKernel, hopper());
    auto assembly = assembler.assemble(ptx, "add", {{90, true}});
    ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError());
    EXPECT_TRUE(llvm::StringRef(assembly->cubin)
                    .starts_with("\x7f"
                                 "ELF"));
    EXPECT_GT(assembly->registers, 4);
    EXPECT_LT(assembly->registers, 64);
    EXPECT_EQ(assembly->spillStoreBytes, 0);
    EXPECT_EQ(assembly->stackBytes, 0);
    EXPECT_TRUE(assembly->warnings.empty()) << assembly->warnings.front();
  });
}

TEST(Assembler, Wgmma) {
  withEach([](const Assembler &assembler) {
    auto assembly = assembler.assemble(ptxOf(wgmmaKernel(), hopper()), "wgmma", {{90, true}});
    ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError());
    EXPECT_TRUE(assembly->warnings.empty()) << assembly->warnings.front();
  });
}

TEST(Assembler, PerformanceAdvisoryIsAWarning) {
  withEach([](const Assembler &assembler) {
    // The accumulator is touched while the product is in flight.
    std::string text = wgmmaKernel();
    size_t at = text.find("  %w = call");
    text.insert(at, "  %bad = fadd float %d0, 1.0\n"
                    "  store float %bad, ptr addrspace(1) %out\n");
    auto assembly = assembler.assemble(ptxOf(text, hopper()), "wgmma", {{90, true}});
    ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError());
    ASSERT_FALSE(assembly->warnings.empty()) << assembly->log;
    EXPECT_TRUE(isPerformanceAdvisory(assembly->warnings.front())) << assembly->log;
  });
}

TEST(Assembler, RegisterLimitSpills) {
  withEach([](const Assembler &assembler) {
    // 64 values that are all needed at once, in 24 registers.
    std::string text = "define void @many(ptr addrspace(1) %p) {\n";
    for (int i = 0; i < 64; ++i) {
      std::string n = std::to_string(i);
      text += "  %p" + n + " = getelementptr float, ptr addrspace(1) %p, i64 " + n + "\n" + "  %v" +
              n + " = load volatile float, ptr addrspace(1) %p" + n + "\n";
    }
    for (int i = 63; i >= 0; --i) {
      std::string n = std::to_string(i);
      text += "  store volatile float %v" + n + ", ptr addrspace(1) %p\n";
    }
    text += "  ret void\n}\n";
    KernelShape shape;
    shape.maxRegisters = 24;
    auto assembly = assembler.assemble(ptxOf(text, hopper(), shape), "many", {{90, true}});
    ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError());
    EXPECT_LE(assembly->registers, 24);
    EXPECT_GT(assembly->spillStoreBytes, 0);
    EXPECT_GT(assembly->spillLoadBytes, 0);
    EXPECT_GT(assembly->stackBytes, 0);
  });
}

TEST(Assembler, Errors) {
  withEach([](const Assembler &assembler) {
    std::string ptx = ptxOf(addKernel, hopper());
    auto fails = [&](std::string text) {
      auto assembly = assembler.assemble(text, "add", {{90, true}});
      EXPECT_FALSE(bool(assembly));
      return assembly ? "" : llvm::toString(assembly.takeError());
    };
    std::string tooNew = ptx;
    tooNew.replace(tooNew.find(".version 8.0"), 12, ".version 99.0");
    EXPECT_NE(fails(tooNew).find("it is too old for this PTX"), std::string::npos) << fails(tooNew);
    std::string wrong = ptx;
    wrong.replace(wrong.find("ret;"), 4, "rett;");
    EXPECT_NE(fails(wrong).find("does not accept the code of `add`"), std::string::npos);
    std::string big = ptx;
    big.insert(big.find(".visible"), ".shared .align 16 .b8 everything[300000];\n");
    big.replace(big.find("ret;"), 4, "st.shared.b32 [everything], %r1; ret;");
    EXPECT_NE(fails(big).find("`add` needs more shared memory than there is"), std::string::npos)
        << fails(big);
  });
}

/// What of a kernel makes nvJitLink 12.9 to 13.1 read address 76.
constexpr char crashingPtx[] = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel() {
  .reg .pred %p<31>;
  .reg .b16 %rs<19>;
  .reg .b32 %r<116>;
  .reg .b64 %rd<93>;
  sqrt.rn.f64 %rd45, %rd64;
  shfl.sync.bfly.b32 %r59, %r58, 2, 31, -1;
  add.s32 %r61, %r59, %r60;
  selp.b32 %r62, %r61, %r57, %p19;
  selp.b32 %r63, 0, %r62, %p20;
  add.s32 %r30, %r63, %r56;
  min.f32 %r81, %r79, 0fC0400000;
  min.f32 %r82, %r80, 0fC0400000;
  cvt.rn.satfinite.e5m2x2.f32 %rs16, %r82, %r81;
  mov.b32 %r85, {%rs16, %rs17};
  shfl.sync.idx.b32 %r86, %r85, %r84, 31, -1;
  prmt.b32 %r88, %r86, 0, 0x7771U;
  cvt.u16.u32 %rs5, %r88;
  @%p11 st.global.b32 [%rd49], %r30;
  @%p14 st.global.b8 [%rd51+8], %rs5;
}
)";

TEST(Assembler, ACrashOfNvJitLinkIsAnError) {
  NoAssembler none;
  if (!openNvJitLink(none))
    GTEST_SKIP() << none.why;
  // In a process of its own: what is left of the library after a crash is not to be relied on. Its
  // other threads finish what they are at.
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    auto assembler = openNvJitLink(none);
    std::string ptx = ptxOf(addKernel, hopper());
    std::atomic<int> fine = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        auto assembly = assembler->assemble(ptx, "add", {{90, true}});
        if (assembly)
          ++fine;
        else
          llvm::consumeError(assembly.takeError());
      });
    auto assembly = assembler->assemble(crashingPtx, "kernel", {{90, true}});
    bool isCrash = !assembly && assembly.errorIsA<AssemblerCrashed>();
    std::string text = assembly ? "" : llvm::toString(assembly.takeError());
    for (std::thread &thread : threads)
      thread.join();
    if (fine != 3 || isCrash != assembler->hasCrashed())
      _exit(2);
    _exit(text.empty() || (isCrash && text.find("crashed at `kernel`") != std::string::npos) ? 0
                                                                                             : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Assembler, ChoiceBySetting) {
  {
    Environment environment({{"NEREID_PTXAS", "/no/such/ptxas"}});
    auto found = findAssembler();
    ASSERT_FALSE(bool(found));
    std::string text = llvm::toString(found.takeError());
    EXPECT_NE(text.find("cannot run `/no/such/ptxas`: No such file or directory"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("install the package `nvidia-nvjitlink`"), std::string::npos) << text;
  }
  std::string path = findProgram("ptxas");
  if (path.empty())
    GTEST_SKIP() << "no ptxas";
  Environment environment({{"NEREID_PTXAS", path}});
  auto found = findAssembler();
  ASSERT_TRUE(bool(found));
  EXPECT_NE((*found)->description().find("ptxas "), std::string::npos);
}

TEST(Assembler, PtxVersions) {
  EXPECT_EQ(ptxVersionOfCuda(11, 8), 78);
  EXPECT_EQ(ptxVersionOfCuda(12, 0), 80);
  EXPECT_EQ(ptxVersionOfCuda(12, 5), 85);
  EXPECT_EQ(ptxVersionOfCuda(12, 6), 85);
  EXPECT_EQ(ptxVersionOfCuda(12, 8), 87);
  EXPECT_EQ(ptxVersionOfCuda(12, 9), 88);
  EXPECT_EQ(ptxVersionOfCuda(13, 0), 90);
}

TEST(Subprocess, OutputStatusAndTimeLimit) {
  auto result = runProgram("/bin/sh", {"-c", "echo out; echo err >&2; exit 3"}, 10);
  ASSERT_TRUE(bool(result));
  EXPECT_EQ(result->status, 3);
  EXPECT_EQ(result->output, "out\nerr\n");
  auto late = runProgram("/bin/sleep", {"30"}, 1);
  ASSERT_FALSE(bool(late));
  EXPECT_EQ(llvm::toString(late.takeError()), "`/bin/sleep` did not finish within 1 seconds");
}

TEST(Subprocess, TemporaryFilesGoAway) {
  std::string path;
  {
    auto file = TemporaryFile::create("ptx", "text");
    ASSERT_TRUE(bool(file));
    path = file->path();
    EXPECT_EQ(llvm::cantFail(file->read()), "text");
  }
  EXPECT_FALSE(llvm::sys::fs::exists(path));
}

} // namespace

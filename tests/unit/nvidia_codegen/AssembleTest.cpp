// What becomes of code at which an assembler crashes, or ends the process.
#include "targets/nvidia/codegen/AssemblyNote.h"

#include "Environment.h"
#include "targets/nvidia/Kernel.h"
#include "targets/nvidia/codegen/Assembler.h"
#include "targets/nvidia/codegen/CrashGuard.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <csignal>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace nereid::nvidia;

namespace {

constexpr char ptx[] = "// by hand\n.version 9.0\n.target sm_90a\n.address_size 64\n";

/// A folder of its own, removed at the end.
class Folder {
public:
  Folder() {
    llvm::cantFail(
        llvm::errorCodeToError(llvm::sys::fs::createUniqueDirectory("nereid-notes", name)));
  }
  ~Folder() { llvm::sys::fs::remove_directories(name); }
  std::string path(llvm::StringRef rest) const { return (name + "/" + rest).str(); }
  size_t filesIn(llvm::StringRef rest) const {
    size_t count = 0;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(path(rest), error), end; it != end && !error;
         it.increment(error))
      ++count;
    return count;
  }

private:
  llvm::SmallString<128> name;
};

/// The exit status of a child which runs `body`, or minus the signal that ends it.
template <typename Body> int statusOfChild(Body body) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(AssemblyNote, StaysWhenTheProcessEnds) {
  Folder folder;
  std::string notes = folder.path("a/b");
  for (int ended = 0; ended < 3; ++ended) {
    EXPECT_EQ(AssemblyNote(notes, "kernel").ended(), ended);
    EXPECT_EQ(statusOfChild([&] {
                AssemblyNote note(notes, "kernel");
                note.begin();
                return raise(SIGKILL);
              }),
              -SIGKILL);
  }
  EXPECT_EQ(AssemblyNote(notes, "another").ended(), 0);
  EXPECT_EQ(folder.filesIn("a/b"), 1u);
  {
    AssemblyNote note(notes, "kernel");
    note.begin();
  }
  EXPECT_EQ(folder.filesIn("a/b"), 0u) << "it has come back";
}

TEST(AssemblyNote, IsNoSignWhileSomebodyIsAtIt) {
  Folder folder;
  AssemblyNote first(folder.path("notes"), "kernel");
  first.begin();
  std::thread([&] {
    AssemblyNote second(folder.path("notes"), "kernel");
    EXPECT_EQ(second.ended(), 0);
    second.begin();
  }).join();
  EXPECT_EQ(folder.filesIn("notes"), 1u) << "the first one's";
}

TEST(AssemblyNote, NoFolderNoNote) {
  for (const char *folder : {"", "/proc/nereid"}) {
    AssemblyNote note(folder, "kernel");
    note.begin();
    EXPECT_EQ(note.ended(), 0);
  }
}

/// A toolkit with the stand-in for nvJitLink.
class Assemble : public testing::Test {
protected:
  void SetUp() override {
    // Loaded, it is what its name means.
    ASSERT_TRUE(dlopen(FAKE_NVJITLINK_PATH, RTLD_NOW)) << dlerror();
  }
  Folder folder;

  /// Its `ptxas` writes `output` as machine code, and its PTX's version to a file.
  std::string makePtxas(const std::string &output, const std::string &release = "12.8") {
    std::string path = folder.path("ptxas");
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    out << "#!/bin/sh\n"
           "[ \"$1\" = --version ] && { echo 'release "
        << release
        << "'; exit 0; }\n"
           "for word in \"$@\"; do\n"
           "  case $word in *.ptx) grep version \"$word\" > "
        << folder.path("version")
        << ";; *.cubin) target=$word;; esac\n"
           "done\n"
        << output << "\n";
    out.close();
    llvm::cantFail(
        llvm::errorCodeToError(llvm::sys::fs::setPermissions(path, llvm::sys::fs::all_all)));
    return path;
  }
  llvm::Expected<Assembly> run() {
    return assemble(ptx, "add", {{90, true}}, folder.path("notes"));
  }
  std::string error() {
    auto assembly = run();
    return assembly ? "no error" : llvm::toString(assembly.takeError());
  }
  int crash() {
    Environment crashing({{"FAKE_NVJITLINK", "crash"}});
    return statusOfChild([&] {
      llvm::consumeError(run().takeError());
      return 0;
    });
  }
};

TEST_F(Assemble, CodeThatCrashedGoesToTheProgram) {
  // Found as the package's.
  std::string path = makePtxas("printf '\\177ELFapart' > \"$target\"");
  llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::create_directory(folder.path("bin"))));
  llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::rename(path, folder.path("bin/ptxas"))));
  Environment environment(
      {{"NEREID_CUDA_PATH", folder.path(".")}, {"NEREID_ASSEMBLER", ""}, {"NEREID_PTXAS", ""}});
  auto before = run();
  ASSERT_TRUE(bool(before)) << llvm::toString(before.takeError());
  EXPECT_EQ(before->cubin, "\177ELFfake");
  EXPECT_EQ(folder.filesIn("notes"), 0u);
  ASSERT_EQ(crash(), -SIGSEGV);
  auto assembly = run();
  ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError());
  EXPECT_EQ(assembly->cubin, "\177ELFapart");
  ASSERT_EQ(assembly->warnings.size(), 1u);
  EXPECT_EQ(assembly->warnings[0], "nvJitLink 13.0 (" FAKE_NVJITLINK_PATH
                                   ") crashed at `add` in an earlier process, or "
                                   "that process was stopped then: ptxas 12.8 (" +
                                       folder.path("./bin/ptxas") + ") assembles it instead");
  // It reads no PTX as new as nvJitLink's.
  auto version = llvm::MemoryBuffer::getFile(folder.path("version"));
  ASSERT_TRUE(bool(version));
  EXPECT_EQ((*version)->getBuffer(), ".version 8.7\n");
  // Another assembler, or other options, are another thing.
  auto other = assemble(ptx, "add", {{90, true}, 0}, folder.path("notes"));
  ASSERT_TRUE(bool(other)) << llvm::toString(other.takeError());
  EXPECT_EQ(other->cubin, "\177ELFfake");
}

/// What assembles for an architecture, and what the first two assemblies have warned of.
std::vector<std::string> assembledFor(const Architecture &arch) {
  std::vector<std::string> found;
  for (int time = 0; time < 2; ++time) {
    auto assembly = assemble(ptx, "add", {arch}, "");
    if (!assembly)
      return {llvm::toString(assembly.takeError())};
    found.insert(found.end(), assembly->warnings.begin(), assembly->warnings.end());
    if (time == 1)
      found.push_back(assembly->cubin);
  }
  return found;
}

TEST_F(Assemble, TheProgramComesBeforeTheDriver) {
  struct Case {
    const char *nvJitLink, *ptxas;
    Architecture arch;
    std::vector<std::string> found; ///< PTXAS stands for the program's path
  };
  const std::string link = "nvJitLink 12.0 (" FAKE_NVJITLINK_PATH ") is too old for sm_100a";
  const Case cases[] = {
      {"130", "12.8", {90, true}, {"\177ELFfake"}},
      // sm_90 is known to every nvJitLink.
      {"120", "12.8", {90, true}, {"\177ELFfake"}},
      {"120",
       "12.8",
       {100, true},
       {link + ": ptxas 12.8 (PTXAS) assembles instead", "\177ELFapart"}},
      {"120",
       "12.4",
       {100, true},
       {link + "; ptxas 12.4 (PTXAS) is too old for sm_100a: the NVIDIA driver (CUDA 13.0) "
               "assembles instead",
        "\177ELFdriver"}},
      {"120",
       "",
       {100, true},
       {link + "; `PTXAS` does not say its version: it is no `ptxas`: the NVIDIA driver (CUDA "
               "13.0) assembles instead",
        "\177ELFdriver"}},
  };
  std::string program = folder.path("./bin/ptxas");
  llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::create_directory(folder.path("bin"))));
  for (const Case &one : cases) {
    SCOPED_TRACE(std::string(one.nvJitLink) + " " + one.ptxas + " " + one.arch.name());
    std::string made = makePtxas("printf '\\177ELFapart' > \"$target\"", one.ptxas);
    llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::rename(made, program)));
    Environment environment({{"NEREID_CUDA_PATH", folder.path(".")},
                             {"NEREID_ASSEMBLER", ""},
                             {"NEREID_PTXAS", ""},
                             {"NEREID_LIBCUDA", FAKE_DRIVER_PATH},
                             {"FAKE_NVJITLINK_RELEASE", one.nvJitLink}});
    std::string said = folder.path("said");
    EXPECT_EQ(statusOfChild([&] {
                std::error_code error;
                llvm::raw_fd_ostream out(said, error);
                for (const std::string &text : assembledFor(one.arch))
                  out << text << "\n";
                return 0;
              }),
              0);
    std::string expected;
    for (std::string text : one.found) {
      if (size_t at = text.find("PTXAS"); at != std::string::npos)
        text.replace(at, 5, program);
      expected += text + "\n";
    }
    EXPECT_EQ((*llvm::MemoryBuffer::getFile(said))->getBuffer().str(), expected);
  }
}

TEST_F(Assemble, WhatMayBePassedOverIsPartOfTheKey) {
  std::string program = folder.path("bin/ptxas");
  llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::create_directory(folder.path("bin"))));
  Environment environment({{"NEREID_CUDA_PATH", folder.path(".")},
                           {"NEREID_ASSEMBLER", ""},
                           {"NEREID_PTXAS", ""},
                           {"NEREID_LIBCUDA", FAKE_DRIVER_PATH}});
  auto identities = [&](const std::string &release) {
    std::string made = makePtxas("printf '\\177ELFapart' > \"$target\"", release);
    llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::rename(made, program)));
    std::string said = folder.path("said");
    statusOfChild([&] { // what is known of files is kept
      std::error_code error;
      llvm::raw_fd_ostream out(said, error);
      out << assemblerIdentity({90, true}) << '\n' << assemblerIdentity({100, true});
      return 0;
    });
    auto text = llvm::cantFail(llvm::errorOrToExpected(llvm::MemoryBuffer::getFile(said)));
    auto [hopper, blackwell] = text->getBuffer().split('\n');
    return std::pair(hopper.str(), blackwell.str());
  };
  auto [hopper, blackwell] = identities("12.8");
  auto [hopperThen, blackwellThen] = identities("12.4 of another day");
  EXPECT_EQ(hopper, hopperThen) << "nvJitLink alone";
  EXPECT_NE(blackwell, blackwellThen) << "or the program";
  EXPECT_EQ(blackwell.find(hopper), 0u);
  EXPECT_NE(blackwell.find("driver "), std::string::npos) << blackwell;
}

TEST_F(Assemble, WithoutTheProgramTheSecondEndIsTheLast) {
  Environment environment({{"NEREID_ASSEMBLER", "nvjitlink"}});
  ASSERT_EQ(crash(), -SIGSEGV);
  // Once may have been chance: it is tried again, and may come back.
  auto assembly = run();
  ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError());
  EXPECT_TRUE(assembly->warnings.empty());
  ASSERT_EQ(crash(), -SIGSEGV);
  ASSERT_EQ(crash(), -SIGSEGV);
  EXPECT_EQ(crash(), 0) << "not asked a third time";
  std::string text = error();
  EXPECT_EQ(text.find("nvJitLink 13.0 (" FAKE_NVJITLINK_PATH ") crashed at `add` in an earlier "
                      "process, or that process was stopped then; it is not asked again: install "
                      "`nvidia-nvjitlink>=13.3`, or let `ptxas` assemble"),
            0u)
      << text;
  // What it tells to do helps.
  size_t at = text.rfind("remove `");
  ASSERT_NE(at, std::string::npos);
  llvm::StringRef file = llvm::StringRef(text).substr(at + 8).drop_back();
  EXPECT_FALSE(llvm::sys::fs::remove(file, /*IgnoreNonExisting=*/false));
  EXPECT_EQ(error(), "no error");
}

TEST_F(Assemble, ACrashInTheLibraryIsLeft) {
  std::string path = makePtxas("printf '\\177ELFapart' > \"$target\"");
  llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::create_directory(folder.path("bin"))));
  llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::rename(path, folder.path("bin/ptxas"))));
  Environment environment({{"NEREID_CUDA_PATH", folder.path(".")},
                           {"NEREID_ASSEMBLER", ""},
                           {"NEREID_PTXAS", ""},
                           {"FAKE_NVJITLINK", "fault"}});
  // The process lives, and so do all its threads.
  EXPECT_EQ(statusOfChild([&] {
              std::atomic<int> apart = 0, told = 0;
              std::vector<std::thread> threads;
              for (int t = 0; t < 8; ++t)
                threads.emplace_back([&, t] {
                  std::string code = ptx + ("// " + std::to_string(t));
                  auto assembly = assemble(code, "add", {{90, true}}, folder.path("notes"));
                  if (!assembly)
                    return llvm::consumeError(assembly.takeError());
                  apart += assembly->cubin == "\177ELFapart";
                  for (const std::string &warning : assembly->warnings)
                    told += warning.find("nvJitLink 13.0 (" FAKE_NVJITLINK_PATH
                                         ") crashed at `add`: ptxas 12.8 (") == 0;
                });
              for (std::thread &thread : threads)
                thread.join();
              // Code that did not crash it goes elsewhere, too, and nothing is said.
              auto fine = assemble(ptx, "fine", {{90, true}}, folder.path("notes"));
              if (!fine || fine->cubin != "\177ELFapart" || !fine->warnings.empty())
                return 100;
              return apart == 8 && told > 0 ? 0 : apart * 10 + told;
            }),
            0);
  EXPECT_GT(folder.filesIn("notes"), 0u) << "other processes know";
  Environment asked({{"NEREID_ASSEMBLER", "nvjitlink"}});
  EXPECT_EQ(statusOfChild([&] {
              auto text = [&](llvm::StringRef kernel) {
                auto assembly = assemble(ptx, kernel, {{90, true}}, folder.path("others"));
                return assembly ? "" : llvm::toString(assembly.takeError());
              };
              const std::string rest = "; it is not asked again: install `nvidia-nvjitlink>=13.3`";
              if (text("add").find(") crashed at `add`" + rest) == std::string::npos)
                return 1;
              return text("fine").find(") has crashed in this process" + rest) == std::string::npos
                         ? 2
                         : 0;
            }),
            0);
}

/// Reads where nothing is, in code that no guard means.
__attribute__((noinline, no_sanitize("address", "undefined"))) int faultHere() {
  return *reinterpret_cast<volatile int *>(uintptr_t(76));
}

TEST_F(Assemble, OtherFaultsGoToWhoHadThemBefore) {
  CodeRange code =
      codeOfLibraryWith(dlsym(dlopen(FAKE_NVJITLINK_PATH, RTLD_NOW), "nvJitLinkVersion"));
  ASSERT_GT(code.end, code.begin);
  EXPECT_EQ(codeOfLibraryWith(this).end, 0u) << "no code";
  auto seven = [] { signal(SIGSEGV, [](int) { _exit(7); }); };
  EXPECT_EQ(statusOfChild([&] {
              seven();
              CrashGuard guard(code);
              int result;
              guard.call(result, faultHere);
              return 0;
            }),
            7);
  EXPECT_EQ(statusOfChild([&] {
              seven();
              CrashGuard guard(code);
              std::thread([] { faultHere(); }).join();
              return 0;
            }),
            7);
  EXPECT_EQ(statusOfChild([&] {
              seven();
              CrashGuard guard(code);
              kill(getpid(), SIGSEGV);
              return 0;
            }),
            7);
  EXPECT_EQ(statusOfChild([&] {
              signal(SIGSEGV, SIG_DFL);
              CrashGuard guard(code);
              return faultHere();
            }),
            -SIGSEGV);
  // Afterwards all is as before, unless somebody else came meanwhile.
  EXPECT_EQ(statusOfChild([&] {
              auto mine = [](int) {};
              auto other = [](int) {};
              signal(SIGSEGV, mine);
              {
                CrashGuard outer(code);
                CrashGuard inner(code);
              }
              if (signal(SIGSEGV, mine) != +mine)
                return 1;
              {
                CrashGuard guard(code);
                signal(SIGSEGV, other);
              }
              return signal(SIGSEGV, mine) == +other ? 0 : 2;
            }),
            0);
}

TEST_F(Assemble, WhatIsNoMachineCodeIsAnError) {
  Environment environment({{"NEREID_ASSEMBLER", "nvjitlink"}, {"FAKE_NVJITLINK", "garbage"}});
  EXPECT_EQ(error(), "nvJitLink 13.0 (" FAKE_NVJITLINK_PATH
                     ") gave 8 bytes for `add` that are no machine code");
}

// 8 warps: two blocks have 128 registers a thread. 4 warps: three blocks have 168.
TEST_F(Assemble, ABlockThatAFewRegistersKeepAway) {
  struct Case {
    const char *figures;
    int warps;
    int64_t sharedBytes;
    const char *options;
    int registers;
    int ofProducts; ///< where the kernel is a gradient that is bound by products
  };
  for (Case one :
       {Case{"143 127 0", 8, 65536, "", 127, 127}, Case{"170 128 0", 8, 65536, "", 128, 128},
        Case{"171 128 0", 8, 65536, "", 171, 128}, // too many, but for products
        Case{"214 128 0", 8, 65536, "", 214, 214},
        Case{"128 127 0", 8, 65536, "", 128, 128}, // not needed
        Case{"143 127 8", 8, 65536, "", 143, 127}, // spills
        Case{"143 127 72", 8, 65536, "", 143, 143},
        Case{"143 127 0", 4, 65536, "", 143, 143},  // two anyway
        Case{"143 127 0", 8, 120000, "", 143, 143}, // shared memory
        // A third block has nothing to fill between products.
        Case{"172 99 0 168 0", 4, 49152, "", 168, 172},
        Case{"225 99 0 168 0", 4, 49152, "", 225, 225},
        Case{"125 99 0 99 0", 4, 49152, "", 125, 125}, // a fourth is no matter
        Case{"143 127 0", 8, 65536, "-maxrregcount=200", 143, 143}}) {
    Environment environment(
        {{"NEREID_ASSEMBLER", "nvjitlink"}, {"FAKE_NVJITLINK_REGISTERS", one.figures}});
    NvidiaKernel kernel;
    kernel.arch = {90, true};
    kernel.ptx = ptx;
    kernel.info.entry = "fine";
    kernel.info.numWarps = one.warps;
    kernel.info.sharedBytes = one.sharedBytes;
    kernel.assemblerOptions = one.options;
    llvm::cantFail(kernel.assemble());
    EXPECT_EQ(kernel.info.registers, one.registers) << one.figures << ", " << one.warps;
    kernel.isBoundByProducts = kernel.isGradient = true;
    llvm::cantFail(kernel.assemble());
    EXPECT_EQ(kernel.info.registers, one.ofProducts) << one.figures << ", " << one.warps;
    // Of other products no block more is asked for: a third one took 1.12 times as long.
    kernel.isGradient = false;
    llvm::cantFail(kernel.assemble());
    EXPECT_EQ(kernel.info.registers, std::stoi(one.figures)) << one.figures << ", " << one.warps;
  }
}

// 2 warps: nine blocks have 96 registers a thread (five warps a quarter of the multiprocessor).
TEST_F(Assemble, ABlockMoreOfProductsWithFewWarps) {
  struct Case {
    const char *figures;
    int warps;
    int64_t sharedBytes;
    int registers;
  };
  for (Case one : {Case{"114 0 0 96 0", 2, 24576, 96}, Case{"120 0 0 96 0", 2, 24576, 96},
                   Case{"121 0 0 96 0", 2, 24576, 121}, // too many
                   Case{"114 0 0 96 8", 2, 24576, 114}, // spills
                   Case{"114 0 0 96 0", 2, 26000, 114}, // shared memory
                   Case{"114 0 0 96 0", 4, 24576, 114}}) {
    Environment environment(
        {{"NEREID_ASSEMBLER", "nvjitlink"}, {"FAKE_NVJITLINK_REGISTERS", one.figures}});
    NvidiaKernel kernel;
    kernel.arch = {90, true};
    kernel.ptx = ptx;
    kernel.info.entry = "fine";
    kernel.info.numWarps = one.warps;
    kernel.info.sharedBytes = one.sharedBytes;
    kernel.isBoundByProducts = true;
    llvm::cantFail(kernel.assemble());
    EXPECT_EQ(kernel.info.registers, one.registers) << one.figures << ", " << one.warps;
  }
}

// 8 warps of 70 registers: three blocks have 80 a thread, two have 128.
TEST_F(Assemble, BlocksForWhichTheRegistersWouldDo) {
  struct Case {
    const char *figures;
    int demand;
    int64_t sharedBytes;
    const char *options;
    int registers;
  };
  for (Case one : {Case{"163 128 0 80 0", 70, 0, "", 80}, Case{"163 128 0 80 16", 70, 0, "", 80},
                   Case{"163 128 4 80 104", 70, 0, "", 128},    // three spill
                   Case{"163 128 92 80 104", 70, 0, "", 163},   // both spill
                   Case{"255 128 92 80 104", 90, 0, "", 255},   // two are all
                   Case{"181 128 0 80 0", 0, 0, "", 181},       // not known
                   Case{"255 99 9 32 0", 383, 0, "", 255},      // spills in any case
                   Case{"163 128 0 80 0", 200, 0, "", 163},     // one is all
                   Case{"163 128 0 80 0", 70, 100000, "", 128}, // shared memory
                   Case{"163 128 0 80 0", 70, 0, "-maxrregcount=200", 163}}) {
    Environment environment(
        {{"NEREID_ASSEMBLER", "nvjitlink"}, {"FAKE_NVJITLINK_REGISTERS", one.figures}});
    NvidiaKernel kernel;
    kernel.arch = {90, true};
    kernel.ptx = ptx;
    kernel.registerDemand = one.demand;
    kernel.info.entry = "fine";
    kernel.info.numWarps = 8;
    kernel.info.sharedBytes = one.sharedBytes;
    kernel.assemblerOptions = one.options;
    llvm::cantFail(kernel.assemble());
    EXPECT_EQ(kernel.info.registers, one.registers) << one.figures << ", " << one.demand;
  }
}

// nvJitLink spills 192 bytes with 255 registers, whatever it is told. 4 warps: two blocks fit.
TEST_F(Assemble, AnotherAssemblerForRowsThatSpill) {
  struct Case {
    int registers, spills; ///< of ptxas
    int demand;            ///< of the kernel; 0 for no rows
    const char *options, *setting;
    bool isTaken;
  };
  std::string path = folder.path("bin/ptxas");
  llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::create_directories(folder.path("bin"))));
  for (Case one :
       {Case{255, 24, 250, "", "1", true}, Case{255, 96, 250, "", "1", true},
        Case{255, 100, 250, "", "1", false}, Case{255, 24, 0, "", "1", false},
        Case{255, 24, 250, "-maxrregcount=255", "1", false}, Case{255, 24, 250, "", "0", false}}) {
    makePtxas("echo \"ptxas info : Compiling entry function 'fine' for 'sm_90a'\"\n"
              "echo '    0 bytes stack frame, " +
              std::to_string(one.spills) +
              " bytes spill stores, 0 bytes spill loads'\necho 'ptxas info : Used " +
              std::to_string(one.registers) + " registers'\nprintf '\\177ELFother' > \"$target\"");
    llvm::cantFail(llvm::errorCodeToError(llvm::sys::fs::rename(folder.path("ptxas"), path)));
    Environment environment({{"NEREID_CUDA_PATH", folder.path(".")},
                             {"NEREID_ASSEMBLER", ""},
                             {"NEREID_PTXAS", ""},
                             {"NEREID_SECOND_ASSEMBLER", one.setting},
                             {"FAKE_NVJITLINK_REGISTERS", "255 255 192 255 192 192"}});
    NvidiaKernel kernel;
    kernel.arch = {90, true};
    kernel.ptx = ptx;
    kernel.registerDemand = one.demand;
    kernel.info.entry = "fine";
    kernel.info.numWarps = 4;
    kernel.assemblerOptions = one.options;
    llvm::cantFail(kernel.assemble());
    EXPECT_EQ(kernel.cubin, one.isTaken ? "\177ELFother" : "\177ELFfake")
        << one.spills << ", " << one.demand;
  }
}

TEST_F(Assemble, HowTheProgramEnds) {
  std::string path = makePtxas("kill -9 $$");
  Environment environment({{"NEREID_PTXAS", path}});
  EXPECT_EQ(error(),
            "ptxas 12.8 (" + path + ") did not assemble `add`: it was ended by signal 9 (Killed)");
  makePtxas("exit 7");
  EXPECT_EQ(error(),
            "ptxas 12.8 (" + path + ") does not accept the code of `add`: it ended with status 7");
  makePtxas("exit 0");
  EXPECT_EQ(error(), "ptxas 12.8 (" + path + ") gave 0 bytes for `add` that are no machine code");
  // A program that ignores its children's ends gets no status of them.
  auto former = signal(SIGCHLD, SIG_IGN);
  makePtxas("echo 'ptxas fatal: no' >&2; exit 1");
  EXPECT_EQ(error(),
            "ptxas 12.8 (" + path + ") does not accept the code of `add`: ptxas fatal: no");
  makePtxas("printf '\\177ELFapart' > \"$target\"");
  EXPECT_EQ(error(), "no error");
  signal(SIGCHLD, former);
}

} // namespace

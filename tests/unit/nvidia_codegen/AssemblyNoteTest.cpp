#include "targets/nvidia/codegen/AssemblyNote.h"

#include "Environment.h"
#include "targets/nvidia/codegen/Assembler.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

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

/// The signal that ends a child which runs `body`, 0 when it comes back.
template <typename Body> int endOfChild(Body body) {
  pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(AssemblyNote, StaysWhenTheProcessEnds) {
  Folder folder;
  std::string notes = folder.path("a/b");
  for (int ended = 0; ended < 3; ++ended) {
    EXPECT_EQ(AssemblyNote(notes, "kernel").ended(), ended);
    EXPECT_EQ(endOfChild([&] {
                AssemblyNote note(notes, "kernel");
                note.begin();
                raise(SIGKILL);
              }),
              SIGKILL);
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
  std::string makePtxas(const std::string &output) {
    std::string path = folder.path("ptxas");
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    out << "#!/bin/sh\n"
           "[ \"$1\" = --version ] && { echo 'release 12.8, V12.8.1'; exit 0; }\n"
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
    return endOfChild([&] { llvm::consumeError(run().takeError()); });
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
  ASSERT_EQ(crash(), SIGSEGV);
  auto assembly = run();
  ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError());
  EXPECT_EQ(assembly->cubin, "\177ELFapart");
  ASSERT_EQ(assembly->warnings.size(), 1u);
  EXPECT_EQ(assembly->warnings[0],
            "a process ended while nvJitLink 13.0 (" FAKE_NVJITLINK_PATH
            ") assembled `add` (by a crash of it, or stopped): ptxas 12.8 (" +
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

TEST_F(Assemble, WithoutTheProgramTheSecondEndIsTheLast) {
  Environment environment({{"NEREID_ASSEMBLER", "nvjitlink"}});
  ASSERT_EQ(crash(), SIGSEGV);
  // Once may have been chance: it is tried again, and may come back.
  auto assembly = run();
  ASSERT_TRUE(bool(assembly)) << llvm::toString(assembly.takeError());
  EXPECT_TRUE(assembly->warnings.empty());
  ASSERT_EQ(crash(), SIGSEGV);
  ASSERT_EQ(crash(), SIGSEGV);
  EXPECT_EQ(crash(), 0) << "not asked a third time";
  std::string text = error();
  EXPECT_EQ(text.find("2 processes ended while nvJitLink 13.0 (" FAKE_NVJITLINK_PATH
                      ") assembled `add` (by a crash of it, or stopped); it is not asked again: "
                      "let `ptxas` assemble"),
            0u)
      << text;
  // What it tells to do helps.
  size_t at = text.rfind("remove `");
  ASSERT_NE(at, std::string::npos);
  llvm::StringRef file = llvm::StringRef(text).substr(at + 8).drop_back();
  EXPECT_FALSE(llvm::sys::fs::remove(file, /*IgnoreNonExisting=*/false));
  EXPECT_EQ(error(), "no error");
}

TEST_F(Assemble, WhatIsNoMachineCodeIsAnError) {
  Environment environment({{"NEREID_ASSEMBLER", "nvjitlink"}, {"FAKE_NVJITLINK", "garbage"}});
  EXPECT_EQ(error(), "nvJitLink 13.0 (" FAKE_NVJITLINK_PATH
                     ") gave 8 bytes for `add` that are no machine code");
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

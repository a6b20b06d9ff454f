// The folder of the cache: what is written comes back, and nothing else does.
#include "runtime/cache/store.h"
#include "support/bytes.h"
#include "support/diagnostics.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace nereid;
using namespace nereid::runtime::cache;

namespace {

struct TemporaryFolder {
  TemporaryFolder() {
    char name[] = "/tmp/nereid-store-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~TemporaryFolder() {
    [[maybe_unused]] int code =
        std::system(("chmod -R u+rwx " + path + "; rm -rf " + path).c_str());
  }
  std::string path;
};

class CacheStore : public ::testing::Test {
protected:
  TemporaryFolder folder;
  std::string base = folder.path + "/a/kernels";
  Store store{base};
  Key key = Key::of("what is asked");

  std::string fileOf(const Key &of) {
    std::string hex = of.hex();
    return base + "/" + hex.substr(0, 2) + "/" + hex.substr(2);
  }
  static std::string readFile(const std::string &path) {
    std::string text;
    if (FILE *file = std::fopen(path.c_str(), "rb")) {
      char buffer[4096];
      while (size_t got = std::fread(buffer, 1, sizeof buffer, file))
        text.append(buffer, got);
      std::fclose(file);
    }
    return text;
  }
  static void writeFile(const std::string &path, const std::string &text) {
    FILE *file = std::fopen(path.c_str(), "wb");
    ASSERT_TRUE(file);
    ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
  }
  size_t count() {
    size_t n = 0;
    store.forEach([&](const EntryInfo &) { ++n; });
    return n;
  }
  static void setAge(const std::string &path, int64_t seconds) {
    timespec times[2] = {{std::time(nullptr) - seconds, 0}, {std::time(nullptr) - seconds, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  /// In seconds; -1: there is no such file. A new file can be ahead of the clock that `time` reads.
  static int64_t ageOf(const std::string &path) {
    struct stat status;
    return ::stat(path.c_str(), &status) == 0
               ? std::max<int64_t>(std::time(nullptr) - status.st_mtime, 0)
               : -1;
  }
};

TEST_F(CacheStore, WhatIsWrittenComesBack) {
  EXPECT_EQ(store.state(), FolderState::Missing);
  EXPECT_FALSE(store.read(key, EntryKind::Kernel));
  std::string content("a\0b", 3);
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, content));
  EXPECT_EQ(store.state(), FolderState::Usable);
  EXPECT_EQ(store.read(key, EntryKind::Kernel), content);
  EXPECT_FALSE(store.read(key, EntryKind::Questions)) << "another kind";
  EXPECT_FALSE(store.read(key.then("more"), EntryKind::Kernel));
  ASSERT_TRUE(store.write(key, EntryKind::Questions, "")) << "replaced, also by nothing";
  EXPECT_EQ(store.read(key, EntryKind::Questions), "");
  EXPECT_EQ(count(), 1u);
  store.remove(key);
  EXPECT_FALSE(store.read(key, EntryKind::Questions));
}

TEST_F(CacheStore, KeysOfDifferentQuestionsDiffer) {
  EXPECT_EQ(Key::of("a"), Key::of("a"));
  EXPECT_NE(Key::of("a"), Key::of("b"));
  EXPECT_NE(Key::of("a").then("b"), Key::of("ab"));
  EXPECT_NE(Key::of("a").then("bc"), Key::of("a").then("b").then("c"));
  EXPECT_EQ(key.hex().size(), 64u);
}

TEST_F(CacheStore, TheFolderIsClosedToOthers) {
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  struct stat status;
  ASSERT_EQ(::stat(base.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  for (int mode : {0755, 0770, 0701, 0777}) {
    ASSERT_EQ(::chmod(base.c_str(), mode_t(mode)), 0);
    EXPECT_EQ(store.state(), FolderState::NotOurs);
    EXPECT_FALSE(store.read(key, EntryKind::Kernel));
    EXPECT_FALSE(store.write(key, EntryKind::Kernel, "y"));
    EXPECT_EQ(store.clear(), 0u);
  }
  ASSERT_EQ(::chmod(base.c_str(), 0700), 0);
  EXPECT_EQ(store.read(key, EntryKind::Kernel), "x");
}

TEST_F(CacheStore, AnotherUsersFolderDoesNotCount) {
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can give files away";
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  ASSERT_EQ(::chown(fileOf(key).c_str(), 12345, 12345), 0);
  EXPECT_FALSE(store.read(key, EntryKind::Kernel)) << "a file of theirs in a folder of ours";
  ASSERT_EQ(::chown(fileOf(key).c_str(), 0, 0), 0);
  EXPECT_TRUE(store.read(key, EntryKind::Kernel));
  ASSERT_EQ(::chown(base.c_str(), 12345, 12345), 0);
  EXPECT_EQ(store.state(), FolderState::NotOurs);
  EXPECT_FALSE(store.read(key, EntryKind::Kernel));
}

TEST_F(CacheStore, LinksAreNotFollowed) {
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  std::string file = fileOf(key), elsewhere = folder.path + "/elsewhere";
  ASSERT_EQ(::rename(file.c_str(), elsewhere.c_str()), 0);
  ASSERT_EQ(::symlink(elsewhere.c_str(), file.c_str()), 0);
  EXPECT_FALSE(store.read(key, EntryKind::Kernel));
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "y")) << "the link is replaced";
  EXPECT_EQ(store.read(key, EntryKind::Kernel), "y");
  std::string link = folder.path + "/link";
  ASSERT_EQ(::symlink(base.c_str(), link.c_str()), 0);
  EXPECT_EQ(Store(link).state(), FolderState::NoFolder);
}

TEST_F(CacheStore, DamagedFilesAreNotBelieved) {
  std::mt19937 random(1);
  std::string content;
  for (int i = 0; i < 700; ++i)
    content += char(random());
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, content));
  std::string file = fileOf(key), good = readFile(file);
  ASSERT_EQ(good.size(), content.size() + 88);
  auto expectRefused = [&](const std::string &bad) {
    writeFile(file, bad);
    EntryKind kind;
    EXPECT_FALSE(store.readAny(key, kind));
  };
  for (size_t at = 0; at < good.size(); at += at < 88 ? 1 : 13) {
    std::string bad = good;
    bad[at] = char(bad[at] ^ (1 << random() % 8));
    expectRefused(bad);
  }
  for (size_t size = 0; size < good.size(); size += 11)
    expectRefused(good.substr(0, size));
  for (size_t more : {1, 7, 100})
    expectRefused(good + std::string(more, '\0'));
  expectRefused("");
  for (int i = 0; i < 50; ++i) {
    std::string bad(random() % 300, '\0');
    for (char &byte : bad)
      byte = char(random());
    expectRefused(i % 2 ? good.substr(0, 88) + bad : bad);
  }
  // What stood under another key.
  Key other = Key::of("another question");
  ASSERT_TRUE(store.write(other, EntryKind::Kernel, "another answer"));
  expectRefused(readFile(fileOf(other)));
  // It is written anew.
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, content));
  EXPECT_EQ(store.read(key, EntryKind::Kernel), content);
}

TEST_F(CacheStore, FoldersAndPipesInPlaceOfFiles) {
  std::string file = fileOf(key);
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  ::unlink(file.c_str());
  ASSERT_EQ(::mkdir(file.c_str(), 0700), 0);
  EXPECT_FALSE(store.read(key, EntryKind::Kernel));
  EXPECT_FALSE(store.write(key, EntryKind::Kernel, "x"));
  ::rmdir(file.c_str());
  std::string plain = folder.path + "/plain";
  writeFile(plain, "no folder");
  EXPECT_EQ(Store(plain).state(), FolderState::NoFolder);
  EXPECT_FALSE(Store(plain).write(key, EntryKind::Kernel, "x"));
  EXPECT_FALSE(Store(plain + "/below").write(key, EntryKind::Kernel, "x"));
  EXPECT_FALSE(Store("/proc/nereid").write(key, EntryKind::Kernel, "x"));
}

TEST_F(CacheStore, AFolderThatCanOnlyBeReadServes) {
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  ASSERT_EQ(::chmod(base.c_str(), 0500), 0);
  ASSERT_EQ(::chmod((base + "/" + key.hex().substr(0, 2)).c_str(), 0500), 0);
  EXPECT_EQ(store.state(), FolderState::Usable);
  EXPECT_EQ(store.read(key, EntryKind::Kernel), "x");
  if (::geteuid() != 0) { // for whom modes do not count
    EXPECT_FALSE(store.write(key.then("y"), EntryKind::Kernel, "y"));
  }
}

TEST_F(CacheStore, AFullDisk) {
  // A limit on the size of files is the disk that anyone can fill.
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    bool kept = store.write(key, EntryKind::Kernel, std::string(100000, 'y'));
    ::_exit(kept ? 1 : store.read(key, EntryKind::Kernel) == "x" ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(store.read(key, EntryKind::Kernel), "x");
  EXPECT_EQ(count(), 1u) << "nothing half written stays";
}

TEST_F(CacheStore, TheLeastRecentlyUsedGoFirst) {
  Store small(base, 100000);
  std::vector<Key> keys;
  for (int i = 0; i < 20; ++i) {
    keys.push_back(Key::of("entry " + std::to_string(i)));
    ASSERT_TRUE(store.write(keys.back(), EntryKind::Kernel, std::string(9000, 'x')));
    setAge(fileOf(keys.back()), 100000 - i * 1000);
  }
  ASSERT_TRUE(small.read(keys[0], EntryKind::Kernel)); // used: the oldest becomes the youngest
  EXPECT_LT(ageOf(fileOf(keys[0])), 100);
  EXPECT_TRUE(small.thinOut());
  uint64_t sum = 0;
  store.forEach([&](const EntryInfo &entry) { sum += entry.bytes; });
  EXPECT_LE(sum, 80000u);
  EXPECT_GE(sum, 70000u);
  EXPECT_TRUE(store.read(keys[0], EntryKind::Kernel));
  EXPECT_FALSE(store.read(keys[1], EntryKind::Kernel));
  EXPECT_TRUE(store.read(keys[19], EntryKind::Kernel));
}

TEST_F(CacheStore, WritingKeepsToTheLimit) {
  Store small(base, 50000);
  for (int i = 0; i < 40; ++i)
    small.write(Key::of(std::to_string(i)), EntryKind::Kernel, std::string(4000, 'x'));
  uint64_t sum = 0;
  store.forEach([&](const EntryInfo &entry) { sum += entry.bytes; });
  EXPECT_LE(sum, 50000u);
  EXPECT_GT(sum, 10000u);
}

TEST_F(CacheStore, AReaderKeepsWhatItHasOpened) {
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  int opened = ::open(fileOf(key).c_str(), O_RDONLY);
  ASSERT_GE(opened, 0);
  EXPECT_EQ(store.clear(), 1u);
  char byte;
  EXPECT_EQ(::pread(opened, &byte, 1, 88), 1);
  EXPECT_EQ(byte, 'x');
  ::close(opened);
}

TEST_F(CacheStore, WhatKilledWritersLeftGoes) {
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  std::string shard = base + "/" + key.hex().substr(0, 2);
  writeFile(shard + "/.new-1-0-OLD", "half");
  writeFile(shard + "/.new-1-1-NEW", "half");
  setAge(shard + "/.new-1-0-OLD", 4000);
  EXPECT_EQ(count(), 1u);
  EXPECT_TRUE(store.thinOut());
  EXPECT_EQ(ageOf(shard + "/.new-1-0-OLD"), -1);
  EXPECT_GE(ageOf(shard + "/.new-1-1-NEW"), 0);
}

TEST_F(CacheStore, NotesGoWithTheEntries) {
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  std::string notes = store.assemblyNotes();
  ASSERT_EQ(::mkdir(notes.c_str(), 0700), 0);
  writeFile(notes + "/old", "!");
  writeFile(notes + "/new", "!");
  setAge(notes + "/old", 31 * 24 * 3600);
  EXPECT_EQ(count(), 1u) << "notes are no entries";
  EXPECT_TRUE(store.thinOut());
  EXPECT_EQ(ageOf(notes + "/old"), -1);
  EXPECT_GE(ageOf(notes + "/new"), 0);
  EXPECT_EQ(store.clear(), 1u);
  EXPECT_EQ(ageOf(notes + "/new"), -1);
}

TEST_F(CacheStore, OneThinsOutAtATime) {
  ASSERT_TRUE(store.write(key, EntryKind::Kernel, "x"));
  writeFile(base + "/thinning", "");
  EXPECT_FALSE(store.thinOut());
  setAge(base + "/thinning", 1000); // its owner was killed
  EXPECT_TRUE(store.thinOut());
  EXPECT_TRUE(store.thinOut());
}

TEST_F(CacheStore, ManyThreadsAtOnce) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random{unsigned(t)};
      for (int i = 0; i < 150; ++i) {
        std::string question = std::to_string(random() % 10);
        Key of = Key::of(question);
        if (auto content = store.read(of, EntryKind::Kernel))
          wrong += *content != question + std::string(5000, question[0]);
        if (random() % 2)
          store.write(of, EntryKind::Kernel, question + std::string(5000, question[0]));
        if (random() % 50 == 0)
          store.clear();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CacheStore, WarningsSayWhatToDo) {
  DiagnosticEngine diagnostics;
  diagnostics.report(diag::CacheFolderNotOurs, {}, "/x");
  diagnostics.report(diag::CacheNotWritten, {}, "/x", "No space left on device");
  EXPECT_EQ(diagnostics.diagnostics()[0].message(),
            "the kernel cache `/x` is not used: the folder must belong to this user and be closed "
            "to others (mode 0700), `nereid doctor` says more");
  EXPECT_EQ(diagnostics.diagnostics()[1].message(),
            "compiled kernels are not kept: cannot write below `/x`: No space left on device");
}

TEST(Bytes, ReadersStopAtTheEnd) {
  ByteWriter writer;
  writer.number(uint32_t(7));
  writer.text("text");
  writer.flag(true);
  writer.real(-0.5);
  writer.number(int64_t(-3));
  std::string bytes = writer.take();
  auto read = [](std::string_view from) {
    ByteReader reader(from);
    bool same = reader.number<uint32_t>() == 7 && reader.text() == "text" && reader.flag() &&
                reader.real() == -0.5 && reader.number<int64_t>() == -3;
    return same && reader.done();
  };
  EXPECT_TRUE(read(bytes));
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(read(std::string_view(bytes).substr(0, size)));
  EXPECT_FALSE(read(bytes + "x"));
  // A length beyond the end.
  ByteWriter huge;
  huge.number(~uint64_t(0));
  ByteReader reader(huge.bytes());
  EXPECT_EQ(reader.text(), "");
  EXPECT_FALSE(reader.ok());
  ByteReader flags(std::string_view("\x02", 1));
  EXPECT_FALSE(flags.flag());
  EXPECT_FALSE(flags.ok());
}

} // namespace

// Entries on their way to the disk.
#include "runtime/cache/store.h"
#include "runtime/cache/writer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace nereid::runtime::cache;
using namespace std::chrono_literals;

namespace {

class CacheWriter : public ::testing::Test {
protected:
  CacheWriter() {
    char name[] = "/tmp/nereid-writer-XXXXXX";
    base = std::string(::mkdtemp(name));
    store.emplace(base + "/kernels");
  }
  ~CacheWriter() override {
    writer::flush(10s);
    [[maybe_unused]] int code = std::system(("rm -rf " + base).c_str());
  }

  bool isOnDisk(const Key &of) const {
    std::string hex = of.hex();
    struct stat status;
    return ::stat((base + "/kernels/" + hex.substr(0, 2) + "/" + hex.substr(2)).c_str(), &status) ==
           0;
  }
  static int resultOf(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string base;
  std::optional<Store> store;
  Key key = Key::of("what is asked");
};

TEST_F(CacheWriter, EntriesAreFoundAtOnceAndComeToTheDisk) {
  constexpr int entries = 40; // more than are written together
  for (int i = 0; i < entries; ++i) {
    Key of = Key::of(std::to_string(i));
    ASSERT_TRUE(store->writeLater(of, i % 2 ? EntryKind::Kernel : EntryKind::Questions,
                                  std::to_string(i) + std::string(3000, 'x')));
    EXPECT_EQ(store->read(of, i % 2 ? EntryKind::Kernel : EntryKind::Questions),
              std::to_string(i) + std::string(3000, 'x'));
    EXPECT_FALSE(store->read(of, i % 2 ? EntryKind::Questions : EntryKind::Kernel));
  }
  ASSERT_TRUE(writer::flush(60s));
  for (int i = 0; i < entries; ++i) {
    Key of = Key::of(std::to_string(i));
    EXPECT_TRUE(isOnDisk(of));
    EXPECT_EQ(store->read(of, i % 2 ? EntryKind::Kernel : EntryKind::Questions),
              std::to_string(i) + std::string(3000, 'x'));
  }
  EXPECT_EQ(store->temporaryFiles(), 0u);
}

TEST_F(CacheWriter, TheLastOfSeveralCounts) {
  for (int i = 0; i < 50; ++i)
    ASSERT_TRUE(store->writeLater(key, EntryKind::Kernel, std::to_string(i)));
  EXPECT_EQ(store->read(key, EntryKind::Kernel), "49");
  ASSERT_TRUE(writer::flush(60s));
  EXPECT_EQ(store->read(key, EntryKind::Kernel), "49");
}

TEST_F(CacheWriter, WhoLooksAtFilesSeesAll) {
  ASSERT_TRUE(store->writeLater(key, EntryKind::Kernel, "x"));
  size_t count = 0;
  store->forEach([&](const EntryInfo &) { ++count; });
  EXPECT_EQ(count, 1u);
  ASSERT_TRUE(store->writeLater(key.then("y"), EntryKind::Kernel, "y"));
  EXPECT_EQ(store->clear(), 2u);
  EXPECT_FALSE(store->read(key.then("y"), EntryKind::Kernel));
  ASSERT_TRUE(store->writeLater(key, EntryKind::Kernel, "x"));
  store->remove(key);
  EXPECT_FALSE(store->read(key, EntryKind::Kernel));
}

TEST_F(CacheWriter, TooMuchIsWrittenAtOnce) {
  std::string large((size_t(64) << 20) + 1, 'x');
  ASSERT_TRUE(store->writeLater(key, EntryKind::Kernel, large));
  EXPECT_TRUE(isOnDisk(key));
  EXPECT_EQ(store->read(key, EntryKind::Kernel), large);
}

TEST_F(CacheWriter, AFolderThatIsNoneIsNoticedAtOnce) {
  EXPECT_FALSE(Store("/proc/nereid").writeLater(key, EntryKind::Kernel, "x"));
  ASSERT_TRUE(store->write(key, EntryKind::Kernel, "x"));
  ASSERT_EQ(::chmod(store->folder().c_str(), 0777), 0);
  EXPECT_FALSE(store->writeLater(key, EntryKind::Kernel, "y"));
  ASSERT_EQ(::chmod(store->folder().c_str(), 0700), 0);
  EXPECT_EQ(store->read(key, EntryKind::Kernel), "x");
}

TEST_F(CacheWriter, AChildFindsWhatWasOnItsWayAndWritesByItself) {
  for (int round = 0; round < 5; ++round) {
    Key ofParent = Key::of("p" + std::to_string(round)), ofChild = ofParent.then("c");
    ASSERT_TRUE(store->writeLater(ofParent, EntryKind::Kernel, std::string(20000, 'p')));
    pid_t child = ::fork();
    if (child == 0) {
      bool found = isOnDisk(ofParent) && store->read(ofParent, EntryKind::Kernel);
      bool written = store->writeLater(ofChild, EntryKind::Kernel, "c") && isOnDisk(ofChild);
      pid_t grandchild = ::fork();
      if (grandchild == 0)
        ::_exit(store->read(ofChild, EntryKind::Kernel) == "c" ? 0 : 1);
      ::_exit((found ? 0 : 1) + (written ? 0 : 2) + (resultOf(grandchild) ? 4 : 0));
    }
    ASSERT_EQ(resultOf(child), 0);
    EXPECT_EQ(store->read(ofChild, EntryKind::Kernel), "c");
    ASSERT_TRUE(store->writeLater(ofParent.then("x"), EntryKind::Kernel, "x")) << "it goes on";
  }
}

TEST_F(CacheWriter, ForksWhileOthersWrite) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        Key of = Key::of(std::to_string(t) + "-" + std::to_string(i));
        store->writeLater(of, EntryKind::Kernel, std::string(1000, 'x'));
        EXPECT_EQ(store->read(of, EntryKind::Kernel), std::string(1000, 'x'));
        std::this_thread::sleep_for(50ms);
      }
    });
  for (int i = 0; i < 5; ++i) {
    pid_t child = ::fork();
    if (child == 0)
      ::_exit(store->writeLater(key, EntryKind::Kernel, "c") && isOnDisk(key) ? 0 : 1);
    EXPECT_EQ(resultOf(child), 0);
  }
  stop = true;
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_TRUE(writer::flush(60s));
  EXPECT_EQ(store->temporaryFiles(), 0u);
}

// The last test: it cannot be undone.
TEST_F(CacheWriter, ZAtOnce) {
  ASSERT_TRUE(store->writeLater(key, EntryKind::Kernel, "x"));
  writer::writeAtOnce();
  ASSERT_TRUE(store->writeLater(key.then("y"), EntryKind::Kernel, "y"));
  EXPECT_TRUE(isOnDisk(key.then("y")));
  EXPECT_EQ(store->read(key, EntryKind::Kernel), "x");
}

} // namespace

#include "targets/nvidia/codegen/Toolkit.h"

#include "Environment.h"

#include "support/packages.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace nereid::nvidia;

namespace {

/// A folder with files in it, removed at the end.
class Tree {
public:
  explicit Tree(std::initializer_list<const char *> files) {
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("nereid-toolkit", folder));
    for (const char *file : files) {
      llvm::SmallString<128> path(folder);
      llvm::sys::path::append(path, file);
      EXPECT_FALSE(llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path)));
      std::error_code error;
      llvm::raw_fd_ostream out(path, error);
      out << "x";
      out.close();
      llvm::sys::fs::setPermissions(path, llvm::sys::fs::all_all);
    }
  }
  ~Tree() { llvm::sys::fs::remove_directories(folder); }
  std::string at(const llvm::Twine &rest = "") const {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, rest);
    return path.str().str();
  }

private:
  llvm::SmallString<128> folder;
};

TEST(Toolkit, SettingComesFirst) {
  Tree toolkit({"bin/ptxas", "lib64/libnvJitLink.so.13", "nvvm/libdevice/libdevice.10.bc"});
  Tree packages({"nvidia/cu13/bin/ptxas", "nvidia/cu13/lib/libnvJitLink.so.13",
                 "nvidia/nvjitlink/lib/libnvJitLink.so.12",
                 "triton/backends/nvidia/lib/libdevice.10.bc"});
  nereid::setPackageFolders({packages.at()});
  {
    Environment environment({{"NEREID_CUDA_PATH", "/nowhere:" + toolkit.at()}});
    EXPECT_EQ(findProgram("ptxas"), toolkit.at("bin/ptxas"));
    EXPECT_EQ(findLibdevice(), toolkit.at("nvvm/libdevice/libdevice.10.bc"));
    auto libraries = findLibraries("libnvJitLink.so.13");
    ASSERT_GE(libraries.size(), 2u);
    EXPECT_EQ(libraries[0], toolkit.at("lib64/libnvJitLink.so.13"));
    EXPECT_EQ(libraries[1], packages.at("nvidia/cu13/lib/libnvJitLink.so.13"));
  }
  Environment environment({{"NEREID_CUDA_PATH", ""}});
  EXPECT_EQ(findProgram("ptxas"), packages.at("nvidia/cu13/bin/ptxas"));
  EXPECT_EQ(findLibdevice(), packages.at("triton/backends/nvidia/lib/libdevice.10.bc"));
  EXPECT_EQ(findLibraries("libnvJitLink.so.12").front(),
            packages.at("nvidia/nvjitlink/lib/libnvJitLink.so.12"));
  nereid::setPackageFolders({});
}

TEST(Toolkit, NothingFound) {
  EXPECT_EQ(findProgram("no-such-program-of-nvidia"), "");
  EXPECT_TRUE(findLibraries("libNoSuch.so.1").empty());
}

} // namespace

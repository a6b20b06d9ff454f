#include "targets/nvidia/codegen/Toolkit.h"

#include "support/packages.h"
#include "support/settings.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <algorithm>
#include <dlfcn.h>

namespace nereid::nvidia {
namespace {

std::string below(llvm::StringRef folder, const llvm::Twine &rest) {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, rest);
  return path.str().str();
}

/// The folders above this library: in a wheel, one of them holds all packages.
std::vector<std::string> foldersAboveThisLibrary() {
  std::vector<std::string> folders;
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void *>(&foldersAboveThisLibrary), &info) || !info.dli_fname)
    return folders;
  llvm::StringRef path = info.dli_fname;
  for (int level = 0; level < 4 && !(path = llvm::sys::path::parent_path(path)).empty(); ++level)
    folders.push_back(path.str());
  return folders;
}

/// "/usr/local/cuda-13.0", "/usr/local/cuda-12.8"...: by version, newest first.
std::vector<std::string> numberedToolkits() {
  std::vector<std::pair<std::pair<int, int>, std::string>> found;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it("/usr/local", error), end; it != end && !error;
       it.increment(error)) {
    llvm::StringRef version = llvm::sys::path::filename(it->path());
    int major = 0, minor = 0;
    if (!version.consume_front("cuda-") || version.consumeInteger(10, major))
      continue;
    if (version.consume_front("."))
      version.consumeInteger(10, minor);
    found.push_back({{major, minor}, it->path()});
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> folders;
  for (auto &[version, path] : found)
    folders.push_back(path);
  return folders;
}

/// Folders laid out like a toolkit (bin, lib64, nvvm), best first, to `take` until it returns
/// false. Where they come from is looked at no further than that: each look is a system call, and a
/// new process makes them all.
void eachRoot(llvm::function_ref<bool(const std::string &)> take) {
  std::vector<std::string> seen;
  auto isEnough = [&](std::string folder) {
    if (llvm::is_contained(seen, folder) || !llvm::sys::fs::is_directory(folder))
      return false;
    seen.push_back(std::move(folder));
    return !take(seen.back());
  };
  llvm::SmallVector<llvm::StringRef> given;
  llvm::StringRef(Settings::current().cudaPath).split(given, ':', -1, false);
  for (llvm::StringRef folder : given)
    if (isEnough(folder.str()))
      return;
  std::vector<std::string> packages = packageFolders();
  for (std::string &folder : foldersAboveThisLibrary())
    packages.push_back(std::move(folder));
  for (const std::string &folder : packages)
    for (const char *package :
         {"nvidia/cu13", "nvidia/nvjitlink", "nvidia/cuda_nvcc", "triton/backends/nvidia"})
      if (isEnough(below(folder, package)))
        return;
  if (isEnough("/usr/local/cuda"))
    return;
  for (std::string &folder : numberedToolkits())
    if (isEnough(std::move(folder)))
      return;
}

std::vector<std::string> filesBelow(llvm::ArrayRef<const char *> places, llvm::StringRef name,
                                    size_t most = SIZE_MAX) {
  std::vector<std::string> found;
  eachRoot([&](const std::string &root) {
    for (const char *place : places) {
      std::string path = below(below(root, place), name);
      if (llvm::sys::fs::exists(path))
        found.push_back(std::move(path));
      if (found.size() >= most)
        return false;
    }
    return true;
  });
  return found;
}

} // namespace

std::vector<std::string> findLibraries(llvm::StringRef name, size_t most) {
  return filesBelow({"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"}, name,
                    most);
}

std::string findProgram(llvm::StringRef name) {
  for (std::string &path : filesBelow({"bin", "."}, name))
    if (llvm::sys::fs::can_execute(path))
      return std::move(path);
  llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName(name);
  return path ? *path : "";
}

std::string findLibdevice() {
  const std::string &given = Settings::current().libdevice;
  if (!given.empty())
    return given;
  auto found = filesBelow({"nvvm/libdevice", "lib"}, "libdevice.10.bc");
  return found.empty() ? "" : found.front();
}

} // namespace nereid::nvidia

#include "targets/nvidia/codegen/AssemblyNote.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nereid::nvidia {

AssemblyNote::AssemblyNote(llvm::StringRef folder, llvm::StringRef what) {
  if (folder.empty())
    return;
  auto hash = llvm::BLAKE3::hash<16>(llvm::arrayRefFromStringRef(what));
  name = (folder + "/" + llvm::toHex(hash, /*LowerCase=*/true)).str();
  auto open = [&] {
    return ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  };
  file = open();
  if (file < 0 && errno == ENOENT &&
      !llvm::sys::fs::create_directories(folder, true, llvm::sys::fs::owner_all))
    file = open();
  if (file < 0)
    return;
  struct stat status;
  // A file without a link was removed meanwhile: the other process has finished.
  if (::flock(file, LOCK_EX | LOCK_NB) == 0 && ::fstat(file, &status) == 0 &&
      S_ISREG(status.st_mode) && status.st_nlink > 0) {
    count = int(std::min<off_t>(status.st_size, 100));
    isEmpty = count == 0;
    return;
  }
  ::close(file);
  file = -1;
}

AssemblyNote::~AssemblyNote() {
  if (file < 0)
    return;
  if (begun || isEmpty)
    ::unlink(name.c_str());
  ::close(file);
}

void AssemblyNote::begin() {
  begun = file >= 0 && ::pwrite(file, "!", 1, count) == 1;
  isEmpty &= !begun;
}

} // namespace nereid::nvidia

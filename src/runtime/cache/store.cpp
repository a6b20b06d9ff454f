#include "runtime/cache/store.h"

#include "runtime/cache/writer.h"
#include "support/bytes.h"
#include "support/diagnostics.h"
#include "support/settings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <limits>
#include <pwd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace nereid::runtime::cache {
namespace {

// The head of a file; all that follows is its content.
//
//   0  "NEREID\x1a\n"
//   8  version of this form, 4 bytes
//  12  kind, 4 bytes
//  16  bytes of content, 8 bytes
//  24  the key, 32 bytes
//  56  BLAKE3 of the 56 bytes before and of the content, 32 bytes
constexpr char magic[] = "NEREID\x1a\n";
constexpr uint32_t formatVersion = 1;
constexpr size_t checkedHead = 56, headSize = 88;
/// No entry is larger.
constexpr uint64_t largestEntry = uint64_t(1) << 30;
constexpr int64_t touchAfter = 3600, temporaryLife = 3600, lockLife = 300,
                  noteLife = 30 * 24 * 3600;
/// How long readers of the folder wait for entries that are being written.
constexpr std::chrono::milliseconds patience(10000);
constexpr char lockName[] = "thinning";
constexpr char temporaryPrefix[] = ".new-";

using Checksum = std::array<uint8_t, 32>;

Checksum checksum(llvm::StringRef head, llvm::StringRef content) {
  llvm::BLAKE3 hash;
  hash.update(head);
  hash.update(content);
  return hash.final<32>();
}

std::string headOf(const Key &key, EntryKind kind, llvm::StringRef content) {
  ByteWriter head;
  for (size_t i = 0; i < 8; ++i)
    head.number(uint8_t(magic[i]));
  head.number(formatVersion);
  head.number(kind);
  head.number(uint64_t(content.size()));
  for (uint8_t byte : key.bytes)
    head.number(byte);
  Checksum sum = checksum(head.bytes(), content);
  for (uint8_t byte : sum)
    head.number(byte);
  return head.take();
}

/// Closes what it holds.
class File {
public:
  explicit File(int descriptor) : descriptor(descriptor) {}
  File(const File &) = delete;
  ~File() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  explicit operator bool() const { return descriptor >= 0; }
  int get() const { return descriptor; }
  int release() { return std::exchange(descriptor, -1); }

private:
  int descriptor;
};

/// Follows no link and does not block: a pipe in place of an entry is opened and then rejected.
int openAt(int folder, const char *name, int flags, mode_t mode = 0) {
  int result;
  do
    result = ::openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
  while (result < 0 && errno == EINTR);
  return result;
}

/// A regular file that the user alone writes as a whole; an empty text when it is none.
std::string readAll(int file, struct stat &status) {
  std::string content;
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & 022) || status.st_size < off_t(headSize) ||
      uint64_t(status.st_size) > largestEntry)
    return content;
  content.resize(size_t(status.st_size));
  size_t have = 0;
  while (have < content.size()) {
    ssize_t got = ::read(file, content.data() + have, content.size() - have);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return {};
    have += size_t(got);
  }
  return content;
}

/// The content of a file with the head of `key`; removes the head from `file`.
std::optional<std::string> contentOf(std::string file, const Key &key, EntryKind &kind) {
  if (file.size() < headSize || std::memcmp(file.data(), magic, 8) != 0)
    return std::nullopt;
  ByteReader head(std::string_view(file).substr(8, checkedHead - 8));
  uint32_t version = head.number<uint32_t>();
  auto found = EntryKind(head.number<uint32_t>());
  uint64_t size = head.number<uint64_t>();
  if (version != formatVersion || size != file.size() - headSize ||
      std::memcmp(file.data() + 24, key.bytes.data(), key.bytes.size()) != 0)
    return std::nullopt;
  Checksum sum = checksum({file.data(), checkedHead}, llvm::StringRef(file).drop_front(headSize));
  if (std::memcmp(file.data() + checkedHead, sum.data(), sum.size()) != 0)
    return std::nullopt;
  kind = found;
  file.erase(0, headSize);
  return file;
}

bool writeAll(int file, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return false;
    bytes = bytes.drop_front(size_t(put));
  }
  return true;
}

/// "ab/cdef...": where an entry stands in the folder.
std::string nameOf(const Key &key) {
  std::string hex = key.hex();
  return hex.substr(0, 2) + "/" + hex.substr(2);
}

std::optional<Key> keyOf(llvm::StringRef shard, llvm::StringRef name) {
  std::string text = (shard + name).str(), bytes;
  Key key;
  if (text.size() != 2 * key.bytes.size() || !llvm::tryGetFromHex(text, bytes) ||
      bytes.size() != key.bytes.size())
    return std::nullopt;
  std::memcpy(key.bytes.data(), bytes.data(), bytes.size());
  return key;
}

/// Calls `visit(name)` for everything that an open folder holds.
template <typename Visit> void entriesOf(int folder, Visit visit) {
  int copy = ::dup(folder);
  DIR *stream = copy >= 0 ? ::fdopendir(copy) : nullptr;
  if (!stream) {
    if (copy >= 0)
      ::close(copy);
    return;
  }
  ::rewinddir(stream);
  while (dirent *entry = ::readdir(stream))
    if (llvm::StringRef name = entry->d_name; name != "." && name != "..")
      visit(name.str());
  ::closedir(stream);
}

/// Calls `each(shard's descriptor, shard's name, file's name)` for every file of the folder.
template <typename Each> void walk(int folder, Each each) {
  entriesOf(folder, [&](const std::string &shard) {
    if (shard.size() != 2)
      return;
    File inside(openAt(folder, shard.c_str(), O_RDONLY | O_DIRECTORY));
    if (inside)
      entriesOf(inside.get(), [&](const std::string &name) { each(inside.get(), shard, name); });
  });
}

/// Removes the files of a folder in this one that were last written before `time`.
void removeOlder(int folder, const char *name, int64_t time) {
  File inside(openAt(folder, name, O_RDONLY | O_DIRECTORY));
  if (!inside)
    return;
  entriesOf(inside.get(), [&](const std::string &file) {
    struct stat status;
    if (::fstatat(inside.get(), file.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        status.st_mtime < time)
      ::unlinkat(inside.get(), file.c_str(), 0);
  });
}

/// Of this process, for all stores alike. Atomics only: a fork finds no lock taken.
std::atomic<bool> warnedFolder = false, warnedWrite = false;

template <typename Def, typename... Args>
void warnOnce(std::atomic<bool> &flag, Def def, Args &&...args) {
  if (flag.exchange(true))
    return;
  DiagnosticEngine diagnostics;
  diagnostics.report(def, {}, std::forward<Args>(args)...);
  llvm::errs() << diagnostics.renderAll();
}

uint64_t randomNumber() {
  uint64_t noise = 0;
  if (::getrandom(&noise, sizeof noise, GRND_NONBLOCK) != sizeof noise)
    noise = uint64_t(reinterpret_cast<uintptr_t>(&noise)) ^ uint64_t(std::time(nullptr));
  return noise;
}

std::string homeFolder() {
  if (const char *home = std::getenv("HOME"); home && *home == '/')
    return home;
  char buffer[4096];
  passwd entry, *found = nullptr;
  if (::getpwuid_r(::geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found &&
      found->pw_dir && *found->pw_dir == '/')
    return found->pw_dir;
  return {};
}

} // namespace

//===--- keys -------------------------------------------------------------------------------===//

Key Key::of(llvm::StringRef content) {
  return {llvm::BLAKE3::hash<32>(llvm::arrayRefFromStringRef(content))};
}

Key Key::then(llvm::StringRef content) const {
  llvm::BLAKE3 hash;
  hash.update(bytes);
  hash.update(content);
  return {hash.final<32>()};
}

std::string Key::hex() const {
  return llvm::toHex(bytes, /*LowerCase=*/true);
}

//===--- the folder
//--------------------------------------------------------------------------===//

Store::Store(std::string folder, uint64_t limit) : path(std::move(folder)), limit(limit) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
}

std::string Store::defaultFolder() {
  const Settings &settings = Settings::current();
  if (!settings.cacheDir.empty())
    return settings.cacheDir + "/kernels";
  if (const char *base = std::getenv("XDG_CACHE_HOME"); base && *base == '/')
    return std::string(base) + "/nereid/kernels";
  std::string home = homeFolder();
  return home.empty() ? "" : home + "/.cache/nereid/kernels";
}

std::optional<Store> Store::current() {
  const Settings &settings = Settings::current();
  if (!settings.cache)
    return std::nullopt;
  std::string folder = defaultFolder();
  if (folder.empty())
    return std::nullopt;
  return Store(std::move(folder), uint64_t(std::max<int64_t>(0, settings.cacheSize)) << 20);
}

int Store::openFolder(FolderState *why) const {
  FolderState ignored;
  FolderState &state = why ? *why : ignored;
  File folder(openAt(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY));
  struct stat status;
  if (!folder) {
    state = errno == ENOENT ? FolderState::Missing : FolderState::NoFolder;
    return -1;
  }
  if (::fstat(folder.get(), &status) != 0) {
    state = FolderState::NoFolder;
    return -1;
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    state = FolderState::NotOurs;
    if (!why)
      warnOnce(warnedFolder, diag::CacheFolderNotOurs, path);
    return -1;
  }
  state = FolderState::Usable;
  return folder.release();
}

FolderState Store::state() const {
  FolderState state;
  File folder(openFolder(&state));
  return state;
}

bool Store::isWritable() const {
  // A folder that is not there yet is made in the nearest one that is.
  for (std::string at = path; !at.empty();) {
    if (::faccessat(AT_FDCWD, at.c_str(), W_OK | X_OK, AT_EACCESS) == 0)
      return true;
    if (errno != ENOENT || at == "/")
      return false;
    size_t slash = at.rfind('/');
    at = slash == std::string::npos ? "." : slash == 0 ? "/" : at.substr(0, slash);
  }
  return false;
}

bool Store::makeFolder() const {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1))
    if (::mkdir(path.substr(0, slash).c_str(), 0777) != 0 && errno != EEXIST)
      return false;
  if (::mkdir(path.c_str(), 0700) != 0)
    return errno == EEXIST;
  return ::chmod(path.c_str(), 0700) == 0; // the mask may take more away
}

//===--- entries
//-----------------------------------------------------------------------------===//

std::optional<std::string> Store::readAny(const Key &key, EntryKind &kind) const {
  if (std::optional<std::string> content = writer::find(path, key, kind))
    return content;
  File folder(openFolder());
  if (!folder)
    return std::nullopt;
  std::string name = nameOf(key);
  File file(openAt(folder.get(), name.c_str(), O_RDONLY));
  if (!file)
    return std::nullopt;
  struct stat status{};
  std::optional<std::string> content = contentOf(readAll(file.get(), status), key, kind);
  if (content && std::time(nullptr) - status.st_mtime > touchAfter)
    ::futimens(file.get(), nullptr); // fails where the folder can only be read: no matter
  return content;
}

std::optional<std::string> Store::read(const Key &key, EntryKind kind) const {
  EntryKind found;
  std::optional<std::string> content = readAny(key, found);
  return content && found == kind ? std::move(content) : std::nullopt;
}

static bool isLink(const std::string &path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

int Store::openForWriting() const {
  FolderState state;
  int folder = openFolder(&state);
  if (folder < 0 && state == FolderState::Missing && makeFolder())
    folder = openFolder(&state);
  if (folder >= 0)
    return folder;
  int error = errno;
  if (state == FolderState::NotOurs)
    warnOnce(warnedFolder, diag::CacheFolderNotOurs, path);
  else if (!Settings::current().cacheDir.empty()) // without a place of its own it goes without
    warnOnce(warnedWrite, diag::CacheNotWritten, path,
             isLink(path) ? "it is a link, which is not followed" : std::strerror(error));
  return -1;
}

/// Tells what went wrong. Always false.
bool Store::failed(int error) const {
  // A folder that can only be read is a way to share one.
  if (error != EROFS && error != EACCES && error != EPERM)
    warnOnce(warnedWrite, diag::CacheNotWritten, path, std::strerror(error));
  return false;
}

std::optional<Store::Staged> Store::stage(const Key &key, EntryKind kind,
                                          llvm::StringRef content) const {
  static std::atomic<uint32_t> number = 0;
  if (content.size() + headSize > largestEntry)
    return std::nullopt;
  File folder(openForWriting());
  if (!folder)
    return std::nullopt;
  Staged staged;
  staged.name = nameOf(key);
  std::string shard = staged.name.substr(0, 2);
  staged.temporary = shard + "/" + temporaryPrefix + std::to_string(::getpid()) + "-" +
                     std::to_string(number++) + "-" + llvm::utohexstr(randomNumber());
  auto open = [&] {
    return openAt(folder.get(), staged.temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  };
  int opened = open();
  if (opened < 0 && errno == ENOENT &&
      (::mkdirat(folder.get(), shard.c_str(), 0700) == 0 || errno == EEXIST))
    opened = open();
  File file(opened);
  std::string head = headOf(key, kind, content);
  if (!file || !writeAll(file.get(), head) || !writeAll(file.get(), content)) {
    int error = errno;
    if (file)
      ::unlinkat(folder.get(), staged.temporary.c_str(), 0);
    failed(error);
    return std::nullopt;
  }
  staged.bytes = head.size() + content.size();
  staged.file = file.release();
  staged.folder = folder.release();
  return staged;
}

bool Store::commit(const Staged &staged) const {
  File folder(staged.folder);
  bool done = ::fsync(staged.file) == 0;
  int error = errno;
  // Some file systems report a full disk only here.
  if (::close(staged.file) != 0 && done) {
    done = false;
    error = errno;
  }
  if (done &&
      ::renameat(folder.get(), staged.temporary.c_str(), folder.get(), staged.name.c_str()) != 0) {
    done = false;
    error = errno;
  }
  if (!done) {
    ::unlinkat(folder.get(), staged.temporary.c_str(), 0);
    return failed(error);
  }
  noteWritten(staged.bytes);
  return true;
}

bool Store::write(const Key &key, EntryKind kind, llvm::StringRef content) const {
  std::optional<Staged> staged = stage(key, kind, content);
  return staged && commit(*staged);
}

bool Store::writeLater(const Key &key, EntryKind kind, const std::string &content) const {
  if (!File(openForWriting()))
    return false;
  // A copy: what is not taken is written.
  return writer::take(*this, key, kind, content) || write(key, kind, content);
}

void Store::remove(const Key &key) const {
  writer::flush(patience);
  File folder(openFolder());
  if (folder)
    ::unlinkat(folder.get(), nameOf(key).c_str(), 0);
}

//===--- all of them
//-------------------------------------------------------------------------===//

void Store::forEach(llvm::function_ref<void(const EntryInfo &)> each) const {
  writer::flush(patience);
  File folder(openFolder());
  if (!folder)
    return;
  walk(folder.get(), [&](int inside, const std::string &shard, const std::string &name) {
    struct stat status;
    if (!llvm::StringRef(name).starts_with(temporaryPrefix) &&
        ::fstatat(inside, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      each({path + "/" + shard + "/" + name, uint64_t(status.st_size), status.st_mtime});
  });
}

std::optional<std::string> Store::open(const EntryInfo &entry, EntryKind &kind) const {
  auto [rest, name] = llvm::StringRef(entry.path).rsplit('/');
  std::optional<Key> key = keyOf(rest.rsplit('/').second, name);
  File file(key ? openAt(AT_FDCWD, entry.path.c_str(), O_RDONLY) : -1);
  if (!file)
    return std::nullopt;
  struct stat status{};
  return contentOf(readAll(file.get(), status), *key, kind);
}

size_t Store::temporaryFiles() const {
  writer::flush(patience);
  size_t count = 0;
  File folder(openFolder());
  if (folder)
    walk(folder.get(), [&](int, const std::string &, const std::string &name) {
      count += llvm::StringRef(name).starts_with(temporaryPrefix);
    });
  return count;
}

size_t Store::clear() const {
  writer::flush(patience);
  size_t removed = 0;
  File folder(openFolder());
  if (folder)
    walk(folder.get(), [&](int inside, const std::string &, const std::string &name) {
      if (::unlinkat(inside, name.c_str(), 0) == 0 &&
          !llvm::StringRef(name).starts_with(temporaryPrefix))
        ++removed;
    });
  if (folder)
    removeOlder(folder.get(), notesName, std::numeric_limits<int64_t>::max());
  return removed;
}

void Store::noteWritten(uint64_t bytes) const {
  // Random, so that processes need no common counter of bytes: about once for every sixteenth of
  // the limit.
  uint64_t share = (limit ? limit : uint64_t(1) << 31) / 16;
  if (bytes >= share || randomNumber() % share < bytes)
    thinOut();
}

bool Store::thinOut() const {
  File folder(openFolder());
  if (!folder)
    return false;
  int64_t now = std::time(nullptr);
  // The lock only saves work: two who thin out at once remove the same files.
  struct stat status;
  if (::fstatat(folder.get(), lockName, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      now - status.st_mtime > lockLife)
    ::unlinkat(folder.get(), lockName, 0); // its owner was killed
  File lock(openAt(folder.get(), lockName, O_WRONLY | O_CREAT | O_EXCL, 0600));
  if (!lock)
    return false;
  struct Old {
    int64_t lastUse;
    uint64_t bytes;
    std::string name;
  };
  std::vector<Old> entries;
  uint64_t sum = 0;
  walk(folder.get(), [&](int inside, const std::string &shard, const std::string &name) {
    struct stat file;
    if (::fstatat(inside, name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0)
      return;
    if (llvm::StringRef(name).starts_with(temporaryPrefix)) {
      if (now - file.st_mtime > temporaryLife)
        ::unlinkat(inside, name.c_str(), 0);
      return;
    }
    sum += uint64_t(file.st_size);
    entries.push_back({file.st_mtime, uint64_t(file.st_size), shard + "/" + name});
  });
  removeOlder(folder.get(), notesName, now - noteLife);
  if (limit && sum > limit) {
    llvm::sort(entries, [](const Old &a, const Old &b) { return a.lastUse < b.lastUse; });
    // Some room, so that this is not needed again at once.
    for (const Old &entry : entries) {
      if (sum <= limit / 5 * 4)
        break;
      if (::unlinkat(folder.get(), entry.name.c_str(), 0) == 0)
        sum -= entry.bytes;
    }
  }
  ::unlinkat(folder.get(), lockName, 0);
  return true;
}

} // namespace nereid::runtime::cache

// Entries on disk, each a file under the hash of what it answers: compiled kernels, what their
// compilation asked, results of tuning.
//
// A file is written under another name, brought to the disk and renamed: readers see all of it or
// nothing, in any number of processes, also on network file systems. No lock decides what is
// right. Every file is verified: a header names its kind and key, a checksum covers every byte, and
// a file that does not match counts as absent and is written anew. Nothing
// in a file is executed while it is read.
//
// The folder is made with mode 0700 and counts only so, owned by the user: anyone else who can
// write to it could make the process run their code. It holds 256 folders, named by the first two
// digits of the hash. Every failure of the disk (full, read-only, gone) only means that there is no
// entry.
//
// Above its size limit the folder is thinned out, least recently used first (a hit renews a file's
// time, at most once an hour), by one process at a time; who has opened a file keeps it. Files of
// writers that were killed go after an hour, notes after 30 days.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace nereid::runtime::cache {

/// The key of an entry: a BLAKE3 hash.
struct Key {
  std::array<uint8_t, 32> bytes{};

  static Key of(llvm::StringRef content);
  /// The key that continues this one by `content`.
  Key then(llvm::StringRef content) const;
  std::string hex() const;
  bool operator==(const Key &) const = default;
};

enum class EntryKind : uint32_t { Questions = 1, Kernel = 2, Tuning = 3 };

/// Why a folder is not used, or that it is.
enum class FolderState : uint8_t {
  Usable,
  Missing,  ///< it is made by the first entry
  NotOurs,  ///< another user's, or open to others
  NoFolder, ///< something else is there, or it cannot be opened
};

/// Facts about an entry without verifying its content.
struct EntryInfo {
  std::string path;
  uint64_t bytes = 0;
  int64_t lastUse = 0; ///< seconds since 1970
};

class Store {
public:
  /// `limit`: bytes, 0 for any number.
  explicit Store(std::string folder, uint64_t limit = 0);

  /// The store of this process as the settings say; nothing when it is switched off or there is no
  /// place for it.
  static std::optional<Store> current();
  /// Its folder, whether it is switched on or not; empty when there is no place for it.
  static std::string defaultFolder();

  const std::string &folder() const { return path; }
  /// Where the target keeps notes of what it assembles within this process: a folder in this one,
  /// which goes with the entries.
  std::string assemblyNotes() const { return path + "/" + notesName; }
  FolderState state() const;
  /// Whether entries could be kept: the folder, or where it would be made, can be written.
  bool isWritable() const;

  /// The content of an entry, checked; one that this process is about to write, as it is.
  std::optional<std::string> read(const Key &key, EntryKind kind) const;
  /// The same where several kinds may answer.
  std::optional<std::string> readAny(const Key &key, EntryKind &kind) const;
  /// Whether there is an entry now.
  bool write(const Key &key, EntryKind kind, llvm::StringRef content) const;
  /// The same without waiting for the disk (writer.h): this process finds the entry at once, others
  /// when it is written. False when it cannot be.
  bool writeLater(const Key &key, EntryKind kind, const std::string &content) const;
  void remove(const Key &key) const;

  /// Every file of an entry, in no order.
  void forEach(llvm::function_ref<void(const EntryInfo &)> each) const;
  /// The content of a file that `forEach` has named, checked.
  std::optional<std::string> open(const EntryInfo &entry, EntryKind &kind) const;
  /// How many files of writers that are at work or were killed there are.
  size_t temporaryFiles() const;
  /// Removes all entries and the notes; returns how many entries.
  size_t clear() const;
  /// Removes what is too old and, above the limit, what was least recently used. False when another
  /// process is at it.
  bool thinOut() const;

  /// A file that holds all of an entry and is not yet one. It has to be given to `commit`.
  struct Staged {
    int folder = -1, file = -1; ///< descriptors
    std::string temporary, name;
    uint64_t bytes = 0;
  };
  /// The two halves of `write`.
  std::optional<Staged> stage(const Key &key, EntryKind kind, llvm::StringRef content) const;
  bool commit(const Staged &staged) const;

private:
  static constexpr char notesName[] = "assembling";

  int openFolder(FolderState *why = nullptr) const;
  int openForWriting() const;
  bool makeFolder() const;
  bool failed(int error) const;
  void noteWritten(uint64_t bytes) const;

  std::string path;
  uint64_t limit;
};

} // namespace nereid::runtime::cache

// A note on disk that one kernel is being assembled within this process.
//
// NVIDIA's assemblers that are libraries run in the user's process, and a defect of theirs can end
// it: a segmentation fault leaves nobody to report an error or to try another way. So a note is
// made before and removed after. One that no living process holds was left by a process that ended
// between, by that crash or because somebody stopped it; who finds it knows that the same may
// happen again.
//
// A note is a file named by the hash of what is assembled and by what. It holds a byte for each
// process that began and did not come back. Who works on it holds a lock (flock), which ends with
// the process, whatever its number and machine. Making and removing one takes some 50 microseconds,
// assembling tens of milliseconds and more. Where the folder cannot be written there are no notes.
#pragma once
#include "llvm/ADT/StringRef.h"

#include <string>

namespace nereid::nvidia {

class AssemblyNote {
public:
  /// `folder` is made, for this user alone, where it is missing; without one there is no note.
  /// Nothing is noted yet.
  AssemblyNote(llvm::StringRef folder, llvm::StringRef what);
  AssemblyNote(const AssemblyNote &) = delete;
  AssemblyNote &operator=(const AssemblyNote &) = delete;
  /// What was begun has come back: removes the note. One that was only looked at stays.
  ~AssemblyNote();

  /// How many processes have ended at it. None while another process or thread is at it.
  int ended() const { return count; }
  /// Notes that this process is at it.
  void begin();
  /// It has crashed, though the process lives: counts as one that ended.
  void keep() { begun = false; }

  const std::string &path() const { return name; }

private:
  std::string name;
  int file = -1;
  int count = 0;
  bool begun = false;
  bool isEmpty = false;
};

} // namespace nereid::nvidia

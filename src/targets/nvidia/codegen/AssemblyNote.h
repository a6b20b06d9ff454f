// A note on disk that one kernel is being assembled within this process.
//
// NVIDIA's assemblers that are libraries run in the user's process, and a defect of theirs can end
// it: after a segmentation fault the process can neither report an error nor try another assembler.
// So a note is made before and removed after. A note without a lock by a living process was left by
// a process that ended in between, by that crash or because it was killed; a process that finds it
// expects another crash.
//
// A note is a file named by the hash of what is assembled and by what. It holds a byte for each
// process that began and did not finish. The assembling process holds a lock (flock), which ends
// with the process; no process id or host name is needed. Making and removing one takes some 50
// microseconds, assembling tens of milliseconds and more. Where the folder cannot be written there
// are no notes.
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
  /// Removes the note if this process made it.
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

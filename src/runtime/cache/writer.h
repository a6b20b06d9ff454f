// Writes entries of the cache to the disk in the background.
//
// Bringing a file to the disk (fsync) takes milliseconds, which no compilation has to wait for: a
// thread of this process writes, in the order in which entries came, and ends when there is nothing
// left. Until then this process finds them here. A process that is killed meanwhile leaves no
// partial entry.
//
// A process that exits waits until its entries are written, a few seconds at most. A forked child
// often ends without saying so (`_exit`, as the workers of Python's multiprocessing do), so it
// writes by itself, at once; so does a program that says it will (`writeAtOnce`), and one whose
// entries on the way take more than 64 MiB.
#pragma once

#include "runtime/cache/store.h"

#include <chrono>

namespace nereid::runtime::cache {

namespace writer {

/// Takes an entry that is to be written to a folder that was found usable. False: the caller
/// writes.
bool take(const Store &store, const Key &key, EntryKind kind, std::string content);

/// An entry of a folder that is on its way.
std::optional<std::string> find(const std::string &folder, const Key &key, EntryKind &kind);

/// Waits until everything that is on its way is written or has failed; false when that takes
/// longer.
bool flush(std::chrono::milliseconds limit);

/// From now on nothing is on its way: who compiles writes.
void writeAtOnce();

/// Around a fork (fork.cpp): waits for what is on its way, so that the child finds it.
void beforeFork();
void afterFork(bool isChild);

} // namespace writer

} // namespace nereid::runtime::cache

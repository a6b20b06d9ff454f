// Turns running out of memory in a compilation into an error instead of the end of the process.
#pragma once

namespace nereid::runtime {

/// From now on it throws std::bad_alloc, as `new` does. Once a library that has a copy of LLVM's.
void throwWithoutMemory();

/// Calls `work(data)`; false when there was not enough memory for it. What it had allocated by then
/// is lost (its frames are left without destructors: nothing of ours is compiled with exceptions),
/// and locks that it held stay locked: it must hold none that others wait for.
bool withinMemory(void (*work)(void *data), void *data);

} // namespace nereid::runtime

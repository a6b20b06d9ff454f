// What LLVM does when it finds no memory.
#pragma once

namespace nereid::runtime {

/// From now on it throws std::bad_alloc, as `new` does. Once a library that has a copy of LLVM's.
void throwWithoutMemory();

} // namespace nereid::runtime

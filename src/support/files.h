// Reading files that a user names.
#pragma once
#include <cstddef>
#include <string>

namespace nereid {

/// Appends what the file holds to `out`, a little more than `most` bytes at the most: devices
/// without an end are files, too. False when it cannot be read, with the reason in errno.
bool readFile(const std::string &path, size_t most, std::string &out);

} // namespace nereid

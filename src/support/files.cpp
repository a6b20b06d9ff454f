#include "support/files.h"

#include <cerrno>
#include <cstdio>

namespace nereid {

bool readFile(const std::string &path, size_t most, std::string &out) {
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    return false;
  char chunk[1 << 16];
  size_t begin = out.size();
  errno = 0;
  while (out.size() - begin <= most) {
    size_t count = std::fread(chunk, 1, sizeof chunk, file);
    if (!count)
      break;
    out.append(chunk, count);
  }
  int problem = std::ferror(file) ? (errno ? errno : EIO) : 0; // a folder, for one
  std::fclose(file);
  errno = problem;
  return !problem;
}

} // namespace nereid

#include "support/file_identity.h"

#include "support/first_use.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace nereid {
namespace {

std::string hex(const uint8_t *bytes, size_t count) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

/// The linker's note among these, or nothing.
std::string buildNumber(const std::vector<uint8_t> &notes) {
  size_t at = 0;
  while (at + sizeof(Elf64_Nhdr) <= notes.size()) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    size_t name = at + sizeof note;
    size_t content = name + ((size_t(note.n_namesz) + 3) & ~size_t(3));
    size_t next = content + ((size_t(note.n_descsz) + 3) & ~size_t(3));
    if (content > notes.size() || content + note.n_descsz > notes.size())
      return {};
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz > 0 &&
        std::memcmp(notes.data() + name, "GNU", 4) == 0)
      return hex(notes.data() + content, note.n_descsz);
    at = next;
  }
  return {};
}

std::string readBuildNumber(int file) {
  Elf64_Ehdr header;
  if (::pread(file, &header, sizeof header, 0) != ssize_t(sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > 256)
    return {};
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  size_t size = segments.size() * sizeof(Elf64_Phdr);
  if (::pread(file, segments.data(), size, off_t(header.e_phoff)) != ssize_t(size))
    return {};
  for (const Elf64_Phdr &segment : segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > 65536)
      continue;
    std::vector<uint8_t> notes(segment.p_filesz);
    if (::pread(file, notes.data(), notes.size(), off_t(segment.p_offset)) == ssize_t(notes.size()))
      if (std::string number = buildNumber(notes); !number.empty())
        return number;
  }
  return {};
}

} // namespace

std::string buildIdentity(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return {};
  std::string identity = readBuildNumber(file);
  struct stat status;
  if (identity.empty() && ::fstat(file, &status) == 0)
    identity = path + ":" + std::to_string(status.st_size) + ":" +
               std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
  ::close(file);
  return identity;
}

const std::string &compilerIdentity() {
  static constinit FirstUse<const std::string> identity;
  return identity.get([] {
    std::string text;
    Dl_info own;
    if (::dladdr(reinterpret_cast<const void *>(&compilerIdentity), &own) && own.dli_fname) {
      std::string path = own.dli_fname;
      text = buildIdentity(path);
      // The compiler beside the run time (runtime/compiler.h), which need not be loaded.
      path.erase(path.rfind('/') + 1);
      if (std::string compiler = buildIdentity(path + "libnereid_compiler.so.1"); !compiler.empty())
        text += "+" + compiler;
    }
    if (text.empty()) // the program itself, called without its path
      text = buildIdentity("/proc/self/exe");
    // MLIR comes with it, and may not be loaded yet.
    ::dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *data) {
          const char *name = info->dlpi_name ? std::strrchr(info->dlpi_name, '/') : nullptr;
          if (name && std::strncmp(name, "/libLLVM", 8) == 0)
            *static_cast<std::string *>(data) += "+" + buildIdentity(info->dlpi_name);
          return 0;
        },
        &text);
    return text;
  });
}

} // namespace nereid

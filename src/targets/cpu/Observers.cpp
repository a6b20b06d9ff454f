#include "targets/cpu/Observers.h"

#include "support/settings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderGDB.h"

#include <cstdio>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <unistd.h>

// The list and the place where debuggers stop, as "JIT Compilation Interface" in GDB's manual has
// them. LLVM's JIT brings them along; nothing else in this library uses them.
extern "C" {
extern jit_descriptor __jit_debug_descriptor;
void __jit_debug_register_code();
}

namespace nereid::cpu {

namespace {

std::mutex &listMutex() {
  static auto *mutex = new std::mutex(); // kernels may be released during exit
  return *mutex;
}

template <typename T> T readAt(llvm::ArrayRef<char> bytes, uint64_t offset) {
  T value{};
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof(T))
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

llvm::StringRef textAt(llvm::ArrayRef<char> bytes, uint64_t offset) {
  if (offset >= bytes.size())
    return "";
  const char *start = bytes.data() + offset;
  return {start, strnlen(start, bytes.size() - offset)};
}

/// One line for each function; a line is written at once, because other threads write, too.
void writePerfMap(llvm::ArrayRef<PlacedObject::Function> functions) {
  std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0)
    return;
  for (const PlacedObject::Function &function : functions) {
    char numbers[48];
    std::snprintf(numbers, sizeof(numbers), "%llx %llx ", (unsigned long long)function.address,
                  (unsigned long long)function.size);
    std::string line = numbers + function.name + "\n";
    if (write(file, line.data(), line.size()) < 0)
      break;
  }
  close(file);
}

} // namespace

PlacedObject placeObject(llvm::ArrayRef<char> object, llvm::StringRef symbol, uint64_t address) {
  PlacedObject placed;
  auto header = readAt<Elf64_Ehdr>(object, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_shentsize != sizeof(Elf64_Shdr))
    return placed;
  std::vector<Elf64_Shdr> sections;
  for (unsigned i = 0; i < header.e_shnum; ++i)
    sections.push_back(
        readAt<Elf64_Shdr>(object, header.e_shoff + uint64_t(i) * sizeof(Elf64_Shdr)));
  std::vector<Elf64_Sym> functions;
  uint64_t names = 0;
  unsigned code = 0;
  uint64_t base = 0;
  for (const Elf64_Shdr &table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size())
      continue;
    names = sections[table.sh_link].sh_offset;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      auto entry = readAt<Elf64_Sym>(object, table.sh_offset + at);
      if (ELF64_ST_TYPE(entry.st_info) != STT_FUNC || entry.st_shndx >= sections.size())
        continue;
      functions.push_back(entry);
      if (textAt(object, names + entry.st_name) == symbol) {
        code = entry.st_shndx;
        base = address - entry.st_value;
      }
    }
  }
  if (!code)
    return placed;
  for (const Elf64_Sym &entry : functions)
    if (entry.st_shndx == code)
      placed.functions.push_back(
          {textAt(object, names + entry.st_name).str(), base + entry.st_value, entry.st_size});
  placed.image.assign(object.begin(), object.end());
  for (auto [i, section] : llvm::enumerate(sections)) {
    // Addresses of the other sections are not needed.
    if (i == code)
      section.sh_addr = base;
    else
      section.sh_flags &= ~uint64_t(SHF_ALLOC);
    uint64_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
    if (at + sizeof(section) > placed.image.size())
      return {};
    std::memcpy(placed.image.data() + at, &section, sizeof(section));
  }
  return placed;
}

struct Observed::Entry {
  jit_code_entry link{};
  std::vector<char> image;
};

Observed::Observed(llvm::ArrayRef<char> object, llvm::StringRef symbol, uint64_t address) {
  PlacedObject placed = placeObject(object, symbol, address);
  if (placed.image.empty())
    return;
  if (Settings::current().perf)
    writePerfMap(placed.functions);
  entry = std::make_unique<Entry>();
  entry->image = std::move(placed.image);
  entry->link.symfile_addr = entry->image.data();
  entry->link.symfile_size = entry->image.size();
  std::lock_guard lock(listMutex());
  jit_descriptor &list = __jit_debug_descriptor;
  entry->link.next_entry = list.first_entry;
  if (list.first_entry)
    list.first_entry->prev_entry = &entry->link;
  list.first_entry = list.relevant_entry = &entry->link;
  list.action_flag = JIT_REGISTER_FN;
  __jit_debug_register_code();
}

Observed::~Observed() {
  if (!entry)
    return;
  std::lock_guard lock(listMutex());
  jit_descriptor &list = __jit_debug_descriptor;
  if (entry->link.prev_entry)
    entry->link.prev_entry->next_entry = entry->link.next_entry;
  else
    list.first_entry = entry->link.next_entry;
  if (entry->link.next_entry)
    entry->link.next_entry->prev_entry = entry->link.prev_entry;
  list.relevant_entry = &entry->link;
  list.action_flag = JIT_UNREGISTER_FN;
  __jit_debug_register_code();
}

} // namespace nereid::cpu

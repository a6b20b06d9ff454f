// Runs kernels for tests/emulated.py, which starts it in an emulator of AArch64: it reads launches
// from standard input and writes their results to standard output, until the input ends.
//
// All numbers are little-endian, and a text is its length (u32) and its bytes. A launch:
//
//   text path of a shared object, text name of the kernel in it
//   i32 grid[3], u32 order (NRD_PROGRAMS_...), u64 bytes of scratch memory
//   u32 count, u64 slots[count]
//   u32 count, sites: text file, text message, i32 line, i32 column, u32 hexadecimal,
//       u32 count, operands: u32 kind, u32 rank, i64 shape[rank]
//   u32 count, memory: u64 address, u64 bytes; and then the bytes of each
//
// Its memory is there under the same addresses while it runs, so slots, and memory itself, may hold
// any of them. The answer:
//
//   u32 status: 0 done; 1 a program failed; 2 anything else
//   text what went wrong, for status 2
//   i32 kind of failure, i32 site, i64 program, for status 1
//   text what the kernel printed
//   the bytes of each memory, for status 0 and 1
#include "nereid/embedded.h"

#include "targets/cpu/executor/Executor.h"
#include "targets/cpu/support_library/SupportLibrary.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace nereid::cpu;

namespace {

/// False at the end of the input; a launch that ends in its middle ends the program.
bool readInput(void *to, size_t size, bool mayEnd = false) {
  if (std::fread(to, 1, size, stdin) == size)
    return true;
  if (!mayEnd)
    std::exit(3);
  return false;
}
template <typename Number> Number number() {
  Number value;
  readInput(&value, sizeof value);
  return value;
}
std::string rest(uint32_t length) {
  std::string value(length, '\0');
  readInput(value.data(), length);
  return value;
}
std::string text() {
  return rest(number<uint32_t>());
}

template <typename Number> void give(Number value) {
  std::fwrite(&value, sizeof value, 1, stdout);
}
void giveText(const std::string &value) {
  give(uint32_t(value.size()));
  std::fwrite(value.data(), 1, value.size(), stdout);
}

SiteTable readSites() {
  SiteTable table;
  table.sites.resize(number<uint32_t>());
  for (Site &site : table.sites) {
    SitePlace &place = site.places.emplace_back();
    place.file = text();
    site.text = text();
    place.line = number<int32_t>();
    place.column = number<int32_t>();
    site.hex = number<uint32_t>() != 0;
    site.operands.resize(number<uint32_t>());
    for (PrintOperand &operand : site.operands) {
      operand.kind = ElementKind(number<uint32_t>());
      operand.shape.resize(number<uint32_t>());
      for (int64_t &size : operand.shape)
        size = number<int64_t>();
    }
  }
  return table;
}

/// The memory of a launch under its addresses.
class Memory {
public:
  void read() {
    regions.resize(number<uint32_t>());
    for (Region &region : regions) {
      region.address = number<uint64_t>();
      region.bytes = number<uint64_t>();
    }
    for (const Region &region : regions)
      if (region.bytes)
        map(region);
    for (const Region &region : regions) {
      if (problem.empty())
        readInput(reinterpret_cast<void *>(region.address), region.bytes);
      else
        rest(uint32_t(region.bytes));
    }
  }
  void write() const {
    for (const Region &region : regions)
      std::fwrite(reinterpret_cast<void *>(region.address), 1, region.bytes, stdout);
  }
  ~Memory() {
    for (auto [first, end] : mapped)
      munmap(reinterpret_cast<void *>(first), end - first);
  }

  std::string problem;

private:
  struct Region {
    uint64_t address, bytes;
  };

  // The pages of a region that no other region has mapped.
  void map(const Region &region) {
    uint64_t page = uint64_t(sysconf(_SC_PAGESIZE));
    uint64_t first = region.address / page * page;
    uint64_t end = (region.address + region.bytes + page - 1) / page * page;
    while (first < end) {
      auto next = mapped.upper_bound(first);
      if (next != mapped.begin() && std::prev(next)->second > first) {
        first = std::prev(next)->second;
        continue;
      }
      uint64_t until = next == mapped.end() ? end : std::min(end, next->first);
      void *wanted = reinterpret_cast<void *>(first);
      void *got =
          mmap(wanted, until - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (got != wanted) {
        if (got != MAP_FAILED)
          munmap(got, until - first);
        problem = "address taken";
        return;
      }
      mapped[first] = until;
      first = until;
    }
  }

  std::vector<Region> regions;
  std::map<uint64_t, uint64_t> mapped; // first address and end
};

KernelFn find(const std::string &path, const std::string &name, std::string &problem) {
  void *object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); // once for each path
  void *entry = object ? dlsym(object, name.c_str()) : nullptr;
  if (!entry)
    problem = dlerror();
  return reinterpret_cast<KernelFn>(entry);
}

std::string describe(LaunchStatus status) {
  switch (status) {
  case LaunchStatus::BadGrid:
    return "bad grid";
  case LaunchStatus::TooManyPrograms:
    return "too many programs for a launch of all at once";
  case LaunchStatus::NoThreads:
    return "too few threads";
  case LaunchStatus::NoMemory:
    return "no memory";
  case LaunchStatus::Ok:
  case LaunchStatus::ProgramFailed:
    break;
  }
  return "";
}

void serveLaunch(uint32_t lengthOfPath) {
  std::string path = rest(lengthOfPath), name = text();
  int32_t grid[3];
  for (int32_t &size : grid)
    size = number<int32_t>();
  LaunchOptions options;
  uint32_t order = number<uint32_t>();
  options.cooperative = order == NRD_PROGRAMS_TOGETHER;
  options.independent = order == NRD_PROGRAMS_INDEPENDENT;
  options.scratchBytes = number<uint64_t>();
  std::vector<uint64_t> slots(number<uint32_t>());
  for (uint64_t &slot : slots)
    slot = number<uint64_t>();
  SiteTable sites = readSites();
  options.sites = &sites;
  std::string printed;
  options.print.user = &printed;
  options.print.write = [](void *user, const char *text, size_t length) {
    static_cast<std::string *>(user)->append(text, length);
  };
  Memory memory;
  memory.read();
  std::string problem = memory.problem;
  KernelFn kernel = problem.empty() ? find(path, name, problem) : nullptr;
  LaunchResult result;
  if (kernel) {
    result = run(kernel, slots.data(), grid, options);
    problem = describe(result.status);
  }
  if (!problem.empty()) {
    give(uint32_t(2));
    giveText(problem);
    return giveText(printed);
  }
  bool hasFailed = result.status == LaunchStatus::ProgramFailed;
  give(uint32_t(hasFailed));
  if (hasFailed) {
    give(int32_t(result.failure.kind));
    give(result.failure.site);
    give(result.failure.program);
  }
  giveText(printed);
  memory.write();
}

} // namespace

int main() {
  uint32_t length;
  while (readInput(&length, sizeof length, true)) {
    serveLaunch(length);
    std::fflush(stdout);
  }
  return 0;
}

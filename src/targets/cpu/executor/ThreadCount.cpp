// How many cores the process may use: affinity first, then the control group's quota (version 2,
// else 1).
#include "targets/cpu/executor/Executor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <thread>

namespace nereid::cpu {
namespace {

int affinityCores() {
  // Machines with more than 1024 CPUs need a longer mask than cpu_set_t's.
  for (int capacity = CPU_SETSIZE; capacity <= (1 << 18); capacity *= 4) {
    cpu_set_t *set = CPU_ALLOC(capacity);
    if (!set)
      break;
    size_t bytes = CPU_ALLOC_SIZE(capacity);
    CPU_ZERO_S(bytes, set);
    int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0)
      return count;
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

bool readText(const std::string &path, char *buffer, size_t size) {
  std::FILE *file = std::fopen(path.c_str(), "re");
  if (!file)
    return false;
  size_t length = std::fread(buffer, 1, size - 1, file);
  std::fclose(file);
  buffer[length] = 0;
  return length > 0;
}

// Cores granted by the quota file(s) in `folder`, or 0 when there is no limit.
double quotaOf(const std::string &folder) {
  char text[128];
  long long quota = -1, period = 0;
  if (readText(folder + "/cpu.max", text, sizeof text)) {
    char *end = text;
    quota = std::strtoll(text, &end, 10);
    if (end == text)
      return 0; // "max 100000"
    period = std::strtoll(end, nullptr, 10);
  } else {
    if (!readText(folder + "/cpu.cfs_quota_us", text, sizeof text))
      return 0;
    quota = std::strtoll(text, nullptr, 10);
    if (!readText(folder + "/cpu.cfs_period_us", text, sizeof text))
      return 0;
    period = std::strtoll(text, nullptr, 10);
  }
  return quota > 0 && period > 0 ? double(quota) / double(period) : 0;
}

// The tightest quota on the way from the process's group up to the root.
int quotaCores() {
  char text[4096];
  if (!readText("/proc/self/cgroup", text, sizeof text))
    return 0;
  double tightest = 0;
  char *rest = text;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(nullptr, "\n", &rest)) {
    // "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1).
    char *controllers = std::strchr(line, ':');
    char *path = controllers ? std::strchr(controllers + 1, ':') : nullptr;
    if (!path)
      continue;
    std::string names(controllers + 1, path);
    bool unified = names.empty();
    if (!unified && ("," + names + ",").find(",cpu,") == std::string::npos)
      continue;
    std::string mount = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + names;
    for (std::string group = path + 1;;) {
      double cores = quotaOf(mount + group);
      if (cores > 0 && (tightest == 0 || cores < tightest))
        tightest = cores;
      if (group.empty() || group == "/")
        break;
      group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
  }
  return int(std::ceil(tightest));
}

} // namespace

int visibleCores() {
  int cores = affinityCores();
  if (int quota = quotaCores(); quota > 0)
    cores = std::min(cores, quota);
  return std::max(1, cores);
}

} // namespace nereid::cpu

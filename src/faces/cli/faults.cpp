// Kernels that end the process, reported by another process.
#include "faces/cli/commands.h"
#include "faces/cli/timing.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace nereid;
using namespace nereid::cli;

namespace {

constexpr int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
int namesOut = -1; ///< where the measuring process writes what it measures, else -1

/// Everything until the other end is closed; each text ends with a zero.
std::string lastText(int in) {
  std::string all;
  char buffer[4096];
  for (;;) {
    ssize_t size = ::read(in, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      break;
    all.append(buffer, size_t(size));
  }
  if (all.empty() || all.back() != '\0')
    return "-";
  all.pop_back();
  return all.substr(all.rfind('\0') + 1);
}

} // namespace

void cli::nameMeasured(const std::string &configuration) {
  const char *text = configuration.c_str();
  for (size_t left = configuration.size() + 1; namesOut >= 0 && left > 0;) {
    ssize_t written = ::write(namesOut, text, left);
    if (written < 0 && errno != EINTR)
      return;
    text += std::max<ssize_t>(written, 0);
    left -= size_t(std::max<ssize_t>(written, 0));
  }
}

int cli::reportingFaults(bool apart, llvm::function_ref<int()> work) {
  int ends[2];
  if (!apart || ::pipe2(ends, O_CLOEXEC) != 0)
    return work();
  std::fflush(nullptr);
  pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return work();
  }
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
      ::_exit(1);
    ::close(ends[0]);
    namesOut = ends[1];
    return work();
  }
  ::close(ends[1]);
  std::string configuration = lastText(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  int signal = WTERMSIG(status);
  if (std::ranges::find(faults, signal) == std::end(faults)) { // not the kernel's doing
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    return 128 + signal;
  }
  DiagnosticEngine diagnostics;
  diagnostics.report(diag::CliKernelFaulted, {}, strsignal(signal), configuration);
  std::fputs(diagnostics.renderAll().c_str(), stderr);
  return 1;
}

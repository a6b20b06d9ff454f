#include "targets/nvidia/codegen/Subprocess.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace nereid::nvidia {
namespace {

/// Reads until the other side closes; false when the time ran out first.
bool drain(int fd, std::string &output, int seconds) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  char buffer[4096];
  while (true) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd wait{fd, POLLIN, 0};
    int ready = left.count() <= 0 ? 0 : poll(&wait, 1, int(left.count()));
    if (ready == 0)
      return false;
    if (ready < 0) {
      if (errno == EINTR)
        continue;
      return true;
    }
    ssize_t size = read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      return true;
    output.append(buffer, size_t(size));
  }
}

} // namespace

llvm::Expected<ProcessResult> runProgram(const std::string &program,
                                         llvm::ArrayRef<std::string> args, int seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return llvm::createStringError("cannot run `" + program + "`: " + std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  std::vector<char *> argv{const_cast<char *>(program.c_str())};
  for (const std::string &arg : args)
    argv.push_back(const_cast<char *>(arg.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed) {
    close(ends[0]);
    return llvm::createStringError("cannot run `" + program + "`: " + std::strerror(failed));
  }
  ProcessResult result;
  bool inTime = drain(ends[0], result.output, seconds);
  close(ends[0]);
  if (!inTime)
    kill(child, SIGKILL);
  int status = 0;
  pid_t waited = 0;
  while ((waited = waitpid(child, &status, 0)) < 0 && errno == EINTR)
    ;
  if (!inTime)
    return llvm::createStringError("`" + program + "` did not finish within " +
                                   llvm::Twine(seconds) + " seconds");
  result.status = waited == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.signal = waited == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return result;
}

llvm::Expected<TemporaryFile> TemporaryFile::create(llvm::StringRef suffix,
                                                    llvm::StringRef content) {
  llvm::SmallString<128> path;
  int fd = -1;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile("nereid", suffix, fd, path))
    return llvm::createStringError("cannot create a temporary file: " + error.message());
  TemporaryFile file(path.str().str());
  llvm::raw_fd_ostream out(fd, /*shouldClose=*/true);
  out << content;
  out.close();
  if (out.has_error()) {
    std::error_code error = out.error();
    out.clear_error();
    return llvm::createStringError("cannot write `" + path + "`: " + error.message());
  }
  return file;
}

TemporaryFile::~TemporaryFile() {
  if (!name.empty())
    ::unlink(name.c_str());
}

llvm::Expected<std::string> TemporaryFile::read() const {
  auto buffer = llvm::MemoryBuffer::getFile(name, /*IsText=*/false, false);
  if (!buffer)
    return llvm::createStringError("cannot read `" + name + "`: " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

} // namespace nereid::nvidia

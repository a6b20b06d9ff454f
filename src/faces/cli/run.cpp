// nereid run, nereid opt: hand over to another program.
#include "faces/cli/commands.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <unistd.h>

using namespace nereid;
using namespace nereid::cli;

int cli::execute(std::vector<std::string> words) {
  std::vector<char *> argv;
  argv.reserve(words.size() + 1);
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  DiagnosticEngine diagnostics;
  diagnostics.report(diag::CannotRunProgram, {}, words[0], std::strerror(errno));
  usageError(diagnostics);
  return 127;
}

int cli::runCommand(const Command &command, std::vector<std::string> args) {
  // What follows the script belongs to the script.
  std::string python = "python3";
  size_t script = 0;
  for (; script < args.size() && args[script].starts_with("-"); ++script) {
    std::vector<std::string> own{args[script]};
    if (args[script] == "--python" && script + 1 < args.size())
      own.push_back(args[++script]);
    DiagnosticEngine diagnostics;
    Arguments parsed = parse(command, own, diagnostics);
    if (diagnostics.hasErrors())
      return usageError(diagnostics);
    python = parsed.get("--python", python);
  }
  if (script == args.size()) {
    DiagnosticEngine diagnostics;
    diagnostics.report(diag::CliMissingArgument, {}, command.name, "SCRIPT");
    return usageError(diagnostics);
  }
  std::vector<std::string> words{python, "-m", "nereid"};
  words.insert(words.end(), args.begin() + script, args.end());
  return execute(std::move(words));
}

int cli::optCommand(const Command &, std::vector<std::string> args) {
  std::string program = "nereid-opt";
  char self[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", self, sizeof self);
  if (size > 0) {
    std::string folder(self, size_t(size));
    folder.resize(folder.rfind('/'));
    // Beside it where installed, in the next folder of a build tree.
    for (const char *place : {"/nereid-opt", "/../opt/nereid-opt"})
      if (access((folder + place).c_str(), X_OK) == 0) {
        program = folder + place;
        break;
      }
  }
  args.insert(args.begin(), program);
  return execute(std::move(args));
}

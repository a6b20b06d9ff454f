// nereid run, nereid opt: arguments are passed on to the script and to the opt tool.
#include "faces/cli/commands.h"
#include "faces/cli/signature.h"
#include "nereid/nereid.h"

#include <cerrno>
#include <cstdio>
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
    if (parsed.has("--help")) {
      std::fputs(helpText(command).c_str(), stdout);
      return 0;
    }
    python = parsed.get("--python", python);
  }
  if (script == args.size()) {
    DiagnosticEngine diagnostics;
    diagnostics.report(diag::CliMissingArgument, {}, command.name, "SCRIPT");
    return usageError(diagnostics);
  }
  std::vector<std::string> words{python, "-m", "nereid"};
  words.push_back("--"); // a script, whatever it is called
  words.insert(words.end(), args.begin() + script, args.end());
  return execute(std::move(words));
}

int cli::optCommand(const Command &, std::vector<std::string> args) {
  args.insert(args.begin(), "nereid opt");
  std::vector<char *> argv;
  for (std::string &word : args)
    argv.push_back(word.data());
  int count = int(argv.size()), status = 1;
  argv.push_back(nullptr);
  if (nrd_error *error = nrd_opt(count, argv.data(), &status))
    return failed(error);
  return status;
}

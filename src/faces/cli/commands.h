// The commands of `nereid`. Each gives the exit status: 0, 1 (the work failed), 2 (a wrong command
// line).
#pragma once

#include "faces/cli/options.h"

namespace nereid::cli {

int benchCommand(const Command &command, std::vector<std::string> args);
int cacheCommand(const Command &command, std::vector<std::string> args);
int compileCommand(const Command &command, std::vector<std::string> args);
int completionCommand(const Command &command, std::vector<std::string> args);
int disasmCommand(const Command &command, std::vector<std::string> args);
int doctorCommand(const Command &command, std::vector<std::string> args);
int embedCommand(const Command &command, std::vector<std::string> args);
int explainCommand(const Command &command, std::vector<std::string> args);
int optCommand(const Command &command, std::vector<std::string> args);
int runCommand(const Command &command, std::vector<std::string> args);

/// Replaces this process by a program found in PATH; returns only when that fails, with status 127.
int execute(std::vector<std::string> words);

} // namespace nereid::cli

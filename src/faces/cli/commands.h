// The commands of `nereid`. Each gives the exit status: 0, 1 (the work failed), 2 (a wrong command
// line).
#pragma once

#include "faces/cli/options.h"

namespace nereid::cli {

int benchCommand(const Command &command, const Arguments &parsed);
int cacheCommand(const Command &command, const Arguments &parsed);
int compileCommand(const Command &command, const Arguments &parsed);
int completionCommand(const Command &command, const Arguments &parsed);
int disasmCommand(const Command &command, const Arguments &parsed);
int doctorCommand(const Command &command, const Arguments &parsed);
int embedCommand(const Command &command, const Arguments &parsed);
int explainCommand(const Command &command, const Arguments &parsed);
int gradCommand(const Command &command, const Arguments &parsed);
int optCommand(const Command &command, std::vector<std::string> args);
int runCommand(const Command &command, std::vector<std::string> args);

/// Replaces this process by a program found in PATH; returns only when that fails, with status 127.
int execute(std::vector<std::string> words);

} // namespace nereid::cli

// The command line's options: one list serves parsing, `--help` and "did you mean".
#pragma once

#include "support/diagnostics.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nereid::cli {

struct Option {
  std::string_view name;  ///< "--emit", or "-o"
  std::string_view value; ///< what it takes, as help shows it ("FILE"); empty for a switch
  std::string_view help;
  std::string_view choices = {}; ///< values that a shell may offer, with blanks or commas between
};

struct Command;

/// A parsed command line.
struct Arguments {
  std::vector<std::string> positional;
  std::multimap<std::string, std::string, std::less<>> options; ///< name -> value, "" for switches

  bool has(std::string_view name) const { return options.count(name) != 0; }
  /// The last value given, or `otherwise`.
  std::string get(std::string_view name, std::string_view otherwise = "") const;
  std::vector<std::string> all(std::string_view name) const;
};

/// How many arguments a command takes that are no options.
struct Positional {
  unsigned least = 0, most = 0;
  std::string_view name;         ///< of one, for the message that it is missing
  std::string_view choices = {}; ///< as those of an option; empty where it is a file
};
inline constexpr Positional kOneFile{1, 1, "FILE"};

struct Command {
  std::string_view name;
  std::string_view arguments; ///< "FILE [options]"
  std::string_view summary;   ///< one line for the list of commands
  std::string_view details;   ///< text below the options, may be empty
  std::span<const Option> options;
  Positional positional;
  int (*run)(const Command &, const Arguments &parsed);
  /// Instead of `run`: for commands that hand their arguments over.
  int (*handOver)(const Command &, std::vector<std::string> args) = nullptr;
};

/// Parses `args`; problems go to `diagnostics`. `--name=value` and `--name value` are the same;
/// what follows `--` is positional.
Arguments parse(const Command &command, const std::vector<std::string> &args,
                DiagnosticEngine &diagnostics);

/// Parses `args` and runs the command, or prints its help or what is wrong with them.
int runParsed(const Command &command, const std::vector<std::string> &args);

/// Usage, options and details of one command.
std::string helpText(const Command &command);

/// All commands, for the list in the general help.
std::span<const Command> allCommands();

/// Prints the diagnostics to standard error; gives the exit status of a wrong command line, 2.
int usageError(const DiagnosticEngine &diagnostics);

} // namespace nereid::cli

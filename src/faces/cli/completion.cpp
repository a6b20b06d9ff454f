// nereid completion: a script that completes commands and options in a shell, made of the same
// tables as the help.
#include "faces/cli/commands.h"
#include "faces/cli/signature.h"

#include <cstdio>

using namespace nereid;
using namespace nereid::cli;

namespace {

/// For single quotes of a shell.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string bash() {
  std::string commands, cases;
  for (const Command &command : allCommands()) {
    commands += std::string(command.name) + " ";
    cases += "    " + std::string(command.name) + ") words=\"";
    for (const Option &option : command.options)
      cases += std::string(option.name) + " ";
    cases += "\" ;;\n";
  }
  return "_nereid() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} words=\"\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         commands +
         "--help --version\" -- \"$current\"))\n    return\n  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  case $current in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n"
         "  esac\n}\ncomplete -o filenames -F _nereid nereid\n";
}

std::string zsh() {
  std::string out = "#compdef nereid\n_nereid() {\n  local -a commands\n  commands=(\n";
  for (const Command &command : allCommands())
    out += "    " + quoted(std::string(command.name) + ":" + std::string(command.summary)) + "\n";
  out += "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
         "  local -a options\n  case $words[2] in\n";
  for (const Command &command : allCommands()) {
    out += "    " + std::string(command.name) + ") options=(";
    for (const Option &option : command.options)
      out += quoted(std::string(option.name) + ":" + std::string(option.help)) + " ";
    out += ") ;;\n";
  }
  return out + "  esac\n  if [[ $words[CURRENT] == -* ]]; then\n    _describe option options\n"
               "  else\n    _files\n  fi\n}\ncompdef _nereid nereid\n";
}

std::string fish() {
  std::string out = "complete -c nereid -n __fish_use_subcommand -f\n";
  for (const Command &command : allCommands()) {
    std::string name(command.name);
    out += "complete -c nereid -n __fish_use_subcommand -f -a " + name + " -d " +
           quoted(command.summary) + "\n";
    for (const Option &option : command.options) {
      std::string word(option.name);
      out += "complete -c nereid -n '__fish_seen_subcommand_from " + name + "' " +
             (word.starts_with("--") ? "-l " + word.substr(2) : "-s " + word.substr(1)) +
             (option.value.empty() ? "" : " -r") + " -d " + quoted(option.help) + "\n";
    }
  }
  return out;
}

} // namespace

int cli::completionCommand(const Command &command, const Arguments &parsed) {
  DiagnosticEngine diagnostics;
  std::string text;
  const std::string &shell = parsed.positional[0];
  if (shell == "bash")
    text = bash();
  else if (shell == "zsh")
    text = zsh();
  else if (shell == "fish")
    text = fish();
  else
    diagnostics.report(diag::CliSurplusArgument, {}, command.name, shell);
  if (diagnostics.hasErrors())
    return usageError(diagnostics);
  return writeFile("-", text.data(), text.size()) ? 0 : 1;
}

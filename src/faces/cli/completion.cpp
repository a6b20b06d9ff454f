// nereid completion: a script that completes commands and options in a shell, made of the same
// tables as the help.
#include "faces/cli/commands.h"
#include "faces/cli/signature.h"

#include <algorithm>
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

/// Choices with blanks between.
std::string words(std::string_view choices) {
  std::string out;
  for (char c : choices)
    if (c != ',')
      out += c;
  return out;
}

std::string bash() {
  std::string commands, cases, values;
  for (const Command &command : allCommands()) {
    std::string name(command.name);
    commands += name + " ";
    cases += "    " + name + ") words=\"";
    for (const Option &option : command.options) {
      cases += std::string(option.name) + " ";
      if (!option.choices.empty())
        values += "    " + name + ":" + std::string(option.name) + ") choices=\"" +
                  words(option.choices) + "\" ;;\n";
    }
    cases += "\" arguments=\"" + words(command.positional.choices) + "\" ;;\n";
  }
  return "_nereid() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} words=\"\" arguments=\"\" choices=\"\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         commands +
         "--help --version\" -- \"$current\"))\n    return\n  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  case ${COMP_WORDS[1]}:${COMP_WORDS[COMP_CWORD-1]} in\n" +
         values +
         "  esac\n"
         "  case $choices$arguments:$current in\n"
         "    :-*|*:-*) ;;\n"
         "    ?*:*) COMPREPLY=($(compgen -W \"${choices:-$arguments}\" -- \"$current\")); return "
         ";;\n"
         "  esac\n"
         "  case $current in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$current\")) ;;\n"
         "    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n"
         "  esac\n}\ncomplete -o filenames -F _nereid nereid\n";
}

/// Choices as words of a shell, where `cpu:avx2` and the like are quoted.
std::string quotedWords(std::string_view choices) {
  std::string out, all = words(choices);
  for (size_t begin = 0; begin < all.size();) {
    size_t end = std::min(all.find(' ', begin), all.size());
    out += (out.empty() ? "" : " ") + quoted(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string zsh() {
  std::string values, arguments;
  for (const Command &command : allCommands()) {
    for (const Option &option : command.options)
      if (!option.choices.empty())
        values += "    " + std::string(command.name) + ":" + std::string(option.name) +
                  ") choices=(" + quotedWords(option.choices) + ") ;;\n";
    if (!command.positional.choices.empty())
      arguments += "    " + std::string(command.name) + ") choices=(" +
                   quotedWords(command.positional.choices) + ") ;;\n";
  }
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
  out += "  esac\n  local -a choices\n  case $words[2]:$words[CURRENT-1] in\n" + values +
         "  esac\n  if (( ! $#choices )); then\n    case $words[2] in\n" + arguments +
         "    esac\n  fi\n";
  return out + "  if [[ $words[CURRENT] == -* ]]; then\n    _describe option options\n"
               "  elif (( $#choices )); then\n    compadd -a choices\n"
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
             (option.value.empty() ? "" : " -r") +
             (option.choices.empty() ? "" : " -f -a " + quoted(words(option.choices))) + " -d " +
             quoted(option.help) + "\n";
    }
    if (!command.positional.choices.empty())
      out += "complete -c nereid -n '__fish_seen_subcommand_from " + name + "' -f -a " +
             quoted(words(command.positional.choices)) + "\n";
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

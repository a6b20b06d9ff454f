#include "faces/cli/options.h"

#include "support/text.h"

#include <algorithm>
#include <cstdio>

using namespace nereid;
using namespace nereid::cli;

std::string Arguments::get(std::string_view name, std::string_view otherwise) const {
  auto [first, last] = options.equal_range(name);
  return first == last ? std::string(otherwise) : std::prev(last)->second;
}

std::vector<std::string> Arguments::all(std::string_view name) const {
  std::vector<std::string> values;
  auto [first, last] = options.equal_range(name);
  for (; first != last; ++first)
    values.push_back(first->second);
  return values;
}

Arguments cli::parse(const Command &command, const std::vector<std::string> &args,
                     DiagnosticEngine &diagnostics) {
  Arguments result;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string_view arg = args[i];
    if (arg == "--") {
      result.positional.insert(result.positional.end(), args.begin() + i + 1, args.end());
      break;
    }
    if (arg.size() < 2 || arg[0] != '-') {
      result.positional.push_back(args[i]);
      continue;
    }
    size_t equals = arg.find('=');
    std::string_view name = arg.substr(0, equals);
    auto row = std::ranges::find(command.options, name, &Option::name);
    if (row == command.options.end()) {
      std::vector<std::string_view> names;
      for (const Option &option : command.options)
        names.push_back(option.name);
      std::string_view near = nearestName(name, names);
      if (near.empty())
        diagnostics.report(diag::CliUnknownOption, {}, command.name, name);
      else
        diagnostics.report(diag::CliUnknownOptionNear, {}, command.name, name, near);
      continue;
    }
    std::string value;
    if (row->value.empty()) {
      if (equals != std::string_view::npos)
        diagnostics.report(diag::CliSwitchTakesNoValue, {}, name);
    } else if (equals != std::string_view::npos) {
      value = arg.substr(equals + 1);
    } else if (i + 1 < args.size()) {
      value = args[++i];
    } else {
      diagnostics.report(diag::CliMissingValue, {}, name, row->value);
    }
    result.options.emplace(std::string(name), std::move(value));
  }
  return result;
}

int cli::runParsed(const Command &command, const std::vector<std::string> &args) {
  DiagnosticEngine diagnostics;
  Arguments parsed = parse(command, args, diagnostics);
  if (parsed.has("--help")) {
    std::fputs(helpText(command).c_str(), stdout);
    return 0;
  }
  const Positional &takes = command.positional;
  if (parsed.positional.size() < takes.least)
    diagnostics.report(diag::CliMissingArgument, {}, command.name, takes.name);
  else if (parsed.positional.size() > takes.most)
    diagnostics.report(diag::CliSurplusArgument, {}, command.name, parsed.positional[takes.most]);
  return diagnostics.hasErrors() ? usageError(diagnostics) : command.run(command, parsed);
}

std::string cli::helpText(const Command &command) {
  std::string text = "usage: nereid " + std::string(command.name) + " " +
                     std::string(command.arguments) + "\n\n" + std::string(command.summary) + "\n";
  if (!command.options.empty())
    text += "\noptions:\n";
  for (const Option &option : command.options) {
    std::string left = "  " + std::string(option.name);
    if (!option.value.empty())
      left += " " + std::string(option.value);
    left.resize(std::max<size_t>(left.size() + 2, 28), ' ');
    text += left + std::string(option.help) + "\n";
  }
  if (!command.details.empty())
    text += "\n" + std::string(command.details) + "\n";
  return text;
}

int cli::usageError(const DiagnosticEngine &diagnostics) {
  std::fputs(diagnostics.renderAll().c_str(), stderr);
  return 2;
}

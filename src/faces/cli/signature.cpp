#include "faces/cli/signature.h"

#include "faces/cli/options.h"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace nereid;
using namespace nereid::cli;

std::vector<std::string> cli::splitSignature(const std::string &text) {
  std::vector<std::string> parts(1);
  char quote = 0;
  int depth = 0;
  for (char c : text) {
    if (quote)
      quote = c == quote ? 0 : quote;
    else if (c == '\'' || c == '"')
      quote = c;
    else if (c == '(' || c == '[')
      ++depth;
    else if (c == ')' || c == ']')
      --depth;
    if (c == ',' && !quote && depth == 0)
      parts.emplace_back();
    else if (!(parts.back().empty() && std::isspace(static_cast<unsigned char>(c))))
      parts.back() += c;
  }
  for (std::string &part : parts)
    while (!part.empty() && std::isspace(static_cast<unsigned char>(part.back())))
      part.pop_back();
  if (parts.size() == 1 && parts[0].empty())
    parts.clear();
  return parts;
}

ValueHandle cli::optionValue(const std::string &text) {
  if (text == "True" || text == "true" || text == "False" || text == "false")
    return ValueHandle(nrd_value_bool(text[0] == 'T' || text[0] == 't'));
  char *end = nullptr;
  errno = 0;
  long long number = std::strtoll(text.c_str(), &end, 10);
  if (!text.empty() && !*end && !errno)
    return ValueHandle(nrd_value_int(number));
  return ValueHandle(nrd_value_str(text.data(), text.size()));
}

int cli::failed(nrd_error *error) {
  std::fprintf(stderr, "%s\n", nrd_error_message(error));
  int status = nrd_error_get_kind(error) == NRD_ERROR_ARGUMENT ? 2 : 1;
  nrd_error_free(error);
  return status;
}

bool cli::writeFile(const std::string &path, const void *data, size_t size) {
  FILE *file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  bool good = file && std::fwrite(data, 1, size, file) == size;
  if (file)
    good &= (file == stdout ? std::fflush(file) : std::fclose(file)) == 0;
  if (!good) {
    DiagnosticEngine diagnostics;
    diagnostics.report(diag::CannotWriteFile, {}, path == "-" ? "standard output" : path,
                       std::strerror(errno));
    usageError(diagnostics);
  }
  return good;
}

int cli::chooseKernel(const ModuleHandle &module, const std::string &name,
                      FunctionHandle &function) {
  size_t count = nrd_module_function_count(module.get());
  if (name.empty() && count > 1) {
    std::string names;
    for (size_t i = 0; i < count; ++i)
      names += std::string(i ? ", " : "") + "`" + nrd_module_function_name(module.get(), i) + "`";
    DiagnosticEngine diagnostics;
    diagnostics.report(diag::CliWhichKernel, {}, names);
    return usageError(diagnostics);
  }
  nrd_error *error = nrd_function_create(module.get(), name.empty() ? nullptr : name.c_str(),
                                         nullptr, nullptr, function.out());
  return error ? failed(error) : 0;
}

// nereid disasm: machine code as text, of a cubin, of an object file, of a kernel.
#include "faces/cli/commands.h"
#include "faces/cli/lines.h"
#include "faces/cli/selection.h"
#include "support/files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

using namespace nereid;
using namespace nereid::cli;

namespace {

int readWhole(const std::string &path, std::string &out) {
  constexpr size_t most = size_t(1) << 30;
  errno = 0;
  bool good = readFile(path, most, out);
  if (good && out.size() <= most)
    return 0;
  DiagnosticEngine diagnostics;
  diagnostics.report(diag::CannotReadFile, {}, path, std::strerror(good ? EFBIG : errno));
  return usageError(diagnostics);
}

/// The text with the source's lines in front of the instructions made from them, in place of the
/// comments that name them.
std::string withSource(const std::string &text) {
  std::map<std::string, std::vector<std::string>> files;
  std::string out;
  for (const std::string &line : splitLines(text)) {
    size_t at = line.find("//## File \"");
    size_t end = at == std::string::npos ? at : line.find('"', at + 11);
    size_t number = end == std::string::npos ? end : line.find("line ", end);
    if (number == std::string::npos) {
      out += line + "\n";
      continue;
    }
    std::string file = line.substr(at + 11, end - at - 11);
    auto [known, isNew] = files.try_emplace(file);
    // File names in debug information may be invalid.
    std::error_code none;
    std::string source;
    if (isNew && std::filesystem::is_regular_file(file, none) && readFile(file, 1 << 26, source))
      known->second = splitLines(source);
    size_t count = std::strtoull(line.c_str() + number + 5, nullptr, 10);
    out += "// " + file + ":" + std::to_string(count);
    if (count >= 1 && count <= known->second.size())
      out += ": " + known->second[count - 1].substr(
                        std::min(known->second[count - 1].find_first_not_of(" \t"),
                                 known->second[count - 1].size()));
    out += "\n";
  }
  return out;
}

/// The machine code of a kernel in a file of source, compiled for it.
int compiled(const Command &command, const Arguments &parsed, std::string &image) {
  Selection selection;
  OptionsHandle options;
  if (int status = select(parsed, DefaultTarget::OfLaunches, selection, options))
    return status;
  if (!parsed.has("--signature") && nrd_function_param_count(selection.function.get())) {
    DiagnosticEngine diagnostics;
    diagnostics.report(diag::CliMissingSignature, {}, command.name);
    return usageError(diagnostics);
  }
  KernelHandle kernel;
  if (nrd_error *error =
          compileKernel(selection.function.get(), splitSignature(parsed.get("--signature")),
                        options.get(), kernel))
    return failed(error);
  for (const char *stage : {"cubin", "obj"}) {
    const void *data = nullptr;
    size_t size = 0;
    if (nrd_error *error = nrd_kernel_read_stage(kernel.get(), stage, &data, &size))
      return failed(error);
    if (!data)
      continue;
    image.assign(static_cast<const char *>(data), size);
    return 0;
  }
  return 1;
}

} // namespace

int cli::disasmCommand(const Command &command, const Arguments &parsed) {
  std::string out;
  for (const std::string &path : parsed.positional) {
    std::string image;
    if (int status = readWhole(path, image))
      return status;
    bool source = !image.starts_with("\x7f"
                                     "ELF") &&
                  (path.ends_with(".py") || parsed.has("--kernel") || parsed.has("--signature"));
    if (source)
      if (int status = compiled(command, parsed, image))
        return status;
    char *text = nullptr;
    if (nrd_error *error = nrd_disassemble(image.data(), image.size(), path.c_str(), &text))
      return failed(error);
    if (parsed.positional.size() > 1)
      out += (out.empty() ? "" : "\n") + path + ":\n";
    out += parsed.has("--no-source") ? std::string(text) : withSource(text);
    nrd_string_free(text);
  }
  return writeFile(parsed.get("-o", "-"), out.data(), out.size()) ? 0 : 1;
}

// Which line of the kernel's source each line of a stage's text stands for.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace nereid::cli {

/// Lines without their ends, `\n` or `\r\n`.
std::vector<std::string> splitLines(std::string_view text);

/// A number per line, 0 for none: of assembly (PTX, of the CPU) by its `.loc` directives, of a
/// disassembly by nvdisasm by its comments `//## File "kernels.py", line 12`. Only lines of `file`
/// count. Other kinds give zeros.
std::vector<unsigned> sourceLines(std::string_view kind, const std::vector<std::string> &lines,
                                  std::string_view file);

/// Removes a disassembly's comments that name lines of the source, with their `places`, and the
/// wide space around addresses.
void tidyDisassembly(std::vector<std::string> &lines, std::vector<unsigned> &places);

} // namespace nereid::cli

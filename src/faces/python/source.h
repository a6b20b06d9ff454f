// Where a function ends in a file of Python: what `inspect.getsource` finds with Python's
// tokenizer, without loading it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace nereid::python {

/// Takes the lines of a file one after another, from the first decorator or the `def` on.
class BlockFinder {
public:
  struct Block {
    size_t lines = 0;   ///< with comments behind that are indented like the body
    size_t defLine = 0; ///< the line of `def` or `async def` among them
  };

  /// Whether another line is wanted. It ends with its newline.
  bool take(std::string_view line);
  /// The function; nothing when it is none, does not end, or holds what is not looked into: an
  /// f-string, whose quotes mean different things to different versions of Python.
  std::optional<Block> found() const;

private:
  enum class Where : unsigned char { BeforeDef, Header, Body, Ended, Unclear };

  bool beginLogicalLine(std::string_view line, size_t &position);
  bool scan(std::string_view line, size_t position);
  size_t openString(std::string_view line, size_t quote);
  size_t closeString(std::string_view line, size_t position);

  Where where = Where::BeforeDef;
  size_t count = 0; ///< lines taken
  Block block;
  size_t depth = 0;         ///< of open brackets
  bool isContinued = false; ///< by a backslash
  char quote = 0;           ///< of the string that is open
  bool isTriple = false;
  size_t defColumn = 0, bodyColumn = 0, bodyOffset = 0;
  bool hasBody = false;
};

} // namespace nereid::python

// Programs made of any bytes, for the evaluation in the front end: numbers, strings, tuples,
// formatted strings, comprehensions, unrolled loops and calls, all of them growing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace nereid::fuzz {

/// The text of a module with a function `kernel(p, n)`. Every sequence of bytes means one. Bytes
/// that begin with "text:" are the module's text themselves.
std::string programOf(const uint8_t *data, size_t size);

/// Builds the kernel of a module with a small budget, in the extended and in the strict language:
/// tile IR or errors of the author's, never a defect of ours. Ends the process (abort) otherwise,
/// and when evaluation took more than `seconds`.
void evaluate(const std::string &text, double seconds);

} // namespace nereid::fuzz

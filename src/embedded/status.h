// How the small run time says what went wrong: a status, and a text kept for the thread.
#pragma once

#include "nereid/device.h"

namespace nereid::embedded {

/// Keeps the text (as of printf) for nrd_status_message and gives the status back.
[[gnu::format(printf, 2, 3)]] nrd_status fail(nrd_status status, const char *format, ...);

} // namespace nereid::embedded

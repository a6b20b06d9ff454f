// What the files that implement the C ABI share.
#pragma once

#include "nereid/nereid.h"
#include "runtime/error.h"
#include "runtime/options.h"

struct nrd_options {
  nereid::runtime::Options values;
};

namespace nereid::runtime {

/// Hands an error over to the caller of the ABI; null stays null.
nrd_error *wrap(ErrorPtr error);
/// The other way.
ErrorPtr taken(nrd_error *error);

} // namespace nereid::runtime

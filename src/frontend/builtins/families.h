// What the files of builtins share: the lists of rows, and helpers to write builders with.
#pragma once

#include "frontend/builtin.h"
#include "frontend/semantic.h"

#include <vector>

namespace nereid::frontend {

#define FAMILY(Name) std::vector<Builtin> Name##Builtins();
#include "frontend/builtins/families.def"
#undef FAMILY

using llvm::failure;
using llvm::FailureOr;
using Shape = llvm::SmallVector<int64_t, 4>;

/// A tensor as the result of a builder.
inline FailureOr<Value> result(FailureOr<Tensor> tensor) {
  if (failed(tensor))
    return failure();
  return Value(std::move(*tensor));
}

/// The argument as a tensor.
inline FailureOr<Tensor> tensorArg(Semantic &s, const BoundArgs &args, llvm::StringRef name) {
  return s.toTensor(args[name], args.span(name));
}

/// The items of a `*dims` parameter, which may also be given as one tuple.
inline Value spread(const Value &rest) {
  auto *tuple = rest.getIf<Tuple>();
  bool isOneTuple = tuple && tuple->items.size() == 1 && tuple->items[0].is<Tuple>();
  return isOneTuple ? tuple->items[0] : rest;
}

/// A known optional string, checked against a list: its index, `fallback` for None or "".
FailureOr<int> choice(Semantic &s, const BoundArgs &args, llvm::StringRef name,
                      llvm::ArrayRef<const char *> names, int fallback);

/// "[16, 32]".
std::string shapeText(llvm::ArrayRef<int64_t> shape);

} // namespace nereid::frontend

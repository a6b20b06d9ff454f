// Where the author's assembly stands in the source, noted on its calls in LLVM IR for LLVM's
// complaints, which name a call by the number of its `srcloc`.
#pragma once
#include "targets/generator.h"

#include "mlir/IR/Location.h"

namespace llvm {
class CallBase;
class Module;
} // namespace llvm

namespace nereid::targets {

/// The place of an operation, and those of the calls that led there, innermost first.
std::vector<explain::SourcePlace> placesOf(mlir::Location location);

/// Notes the places of `location` on a call of assembly; they are kept in the call's module.
void notePlaces(llvm::CallBase &call, mlir::Location location);
/// The places that were noted under the number of a `srcloc`; none for another number.
std::vector<explain::SourcePlace> notedPlaces(const llvm::Module &module, uint64_t number);

} // namespace nereid::targets

// Sources that read MLIR's headers carry functions that nothing calls: `dump` of values and
// attributes, for debuggers, and, without optimisation, what stands inline. These call what only
// the compiler has. There is no IR here.
#include "mlir/IR/Attributes.h"
#include "mlir/IR/BlockSupport.h"
#include "mlir/IR/Value.h"

void mlir::Value::print(llvm::raw_ostream &) const {}
void mlir::Attribute::print(llvm::raw_ostream &, bool) const {}
mlir::SuccessorRange::SuccessorRange(Operation *)
    : SuccessorRange(static_cast<BlockOperand *>(nullptr), 0) {}

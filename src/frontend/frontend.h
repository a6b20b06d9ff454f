// The front end: one specialisation of a kernel, from syntax tree to tile IR.
#pragma once

#include "frontend/host.h"
#include "frontend/limits.h"
#include "frontend/value.h"
#include "support/diagnostics.h"
#include "support/triton_version.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace nereid::frontend {

/// How one parameter of the kernel is specialised.
struct ParamSpec {
  enum class Kind : uint8_t {
    Runtime,  ///< an argument of the compiled kernel, of type `type`
    Constant, ///< known: a constexpr parameter, an integer folded because it is 1, or None
    Tuple     ///< a tuple given for a run-time parameter: each of `items` has a kind of its own
  } kind = Kind::Runtime;
  /// A descriptor is several arguments of the kernel: base (a multiple of 16), one i32 size a
  /// dimension, one i64 stride a dimension but the last (a multiple of 16 bytes).
  Type type;
  /// Of the integer's value or the pointer's address; of a descriptor's last size.
  int64_t divisibility = 1;
  /// Of a pointer: offsets into its memory may come near 2^31 (transforms/WidenOffsets.cpp).
  bool isLarge = false;
  Value constant;
  /// Of a tuple; with the names of its fields and the host's handle of its class when it is a named
  /// one, as in `frontend::Tuple`.
  std::vector<ParamSpec> items;
  std::vector<std::string> fields;
  uint64_t hostClass = 0;
  /// Not null: a value of this class instead of a tuple.
  std::shared_ptr<const Class> cls;

  /// What messages and the IR call item `index` of the tuple parameter `name`: "name[0]", or
  /// "name.field".
  std::string itemName(llvm::StringRef name, size_t index) const;
};

struct FrontendOptions {
  bool strict = false;                        ///< refuse what Triton refuses (design decision 15)
  TritonVersion tritonVersion = oldestTriton; ///< whose rules hold where releases differ
  bool debug = false; ///< compile `assert` and `device_assert`, check integer overflow
  bool sanitizeOverflow = true;
  bool checked = false;           ///< what a masked load without `other` leaves undefined shows
  std::string targetName = "cpu"; ///< what `tl.target_info` answers
  /// The target copies blocks of tensors in hardware (`desc.atomic_max` of 16-bit floats is its).
  bool hasTensorCopies = false;
  std::string defaultDotPrecision = "tf32";
  BudgetLimits budget;   ///< what the compilation may take
  unsigned numWarps = 4; ///< what `tl.extra.cuda.num_warps` answers
};

/// Builds the module of `kernel` for these parameters (one entry per parameter of the function, in
/// order, then one per tangent of its derivative). The module holds the kernel, `func.func @name`
/// with the attribute `tile.kernel` and one argument per run-time parameter, and a private function
/// per specialisation of every function it calls. Failure means that `diagnostics` holds at least
/// one error.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
buildTileModule(mlir::MLIRContext &context, const Function &kernel,
                llvm::ArrayRef<ParamSpec> params, const FrontendOptions &options, Host &host,
                DiagnosticEngine &diagnostics);

} // namespace nereid::frontend

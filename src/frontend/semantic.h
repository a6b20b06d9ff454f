// The type rules of the language, and the IR that its operators stand for.
//
// One Semantic serves one compilation. It knows where in the source the interpreter stands, so that
// every operation gets a location and every error a place; it promotes, converts and broadcasts
// operands the way the language says (docs/reference/language.md), folds known values with Python's
// own arithmetic, and emits arith, math and tile operations through one builder.
//
// Functions that can fail report a diagnostic and return failure. None of them inspects the tree:
// control flow, scopes and calls are the interpreter's, which is reached through `Evaluator`.
#pragma once

#include "frontend/frontend.h"
#include "frontend/host.h"
#include "frontend/value.h"
#include "support/diagnostics.h"
#include "syntax/tree.h"

#include "mlir/IR/Builders.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nereid::frontend {

using llvm::FailureOr;
using syntax::BinaryOp;
using syntax::CompareOp;
using syntax::UnaryOpKind;

using Keywords = llvm::ArrayRef<std::pair<std::string, Value>>;

/// What builtins need of the interpreter.
class Evaluator {
public:
  virtual ~Evaluator() = default;
  /// Calls anything callable: a function of the language, a builtin, an object of the host. IR goes
  /// to the builder's insertion point, which may be inside the region of a reduction: functions are
  /// evaluated in place there.
  virtual FailureOr<Value> call(const Value &callee, llvm::ArrayRef<Value> args, Keywords keywords,
                                SourceSpan call) = 0;
  /// `object.name` for any value.
  virtual FailureOr<Value> getAttribute(const Value &object, llvm::StringRef name,
                                        SourceSpan span) = 0;
  /// The same; nothing when there is no such attribute.
  virtual FailureOr<std::optional<Value>> findAttribute(const Value &object, llvm::StringRef name,
                                                        SourceSpan span) = 0;
  /// Whether the expression being evaluated is the prelude's own, not the author's.
  virtual bool insidePrelude() const = 0;
};

/// How a cast behaves beyond its types.
struct CastOptions {
  enum class Rounding : uint8_t { Default, ToNearest, TowardsZero } rounding = Rounding::Default;
  bool bitcast = false;
};

class Semantic {
public:
  Semantic(mlir::OpBuilder &builder, const FrontendOptions &options, Host &host,
           DiagnosticEngine &diagnostics, Evaluator &evaluator)
      : builder(builder), options(options), host(host), diagnostics(diagnostics),
        evaluator(evaluator) {}

  mlir::OpBuilder &builder;
  const FrontendOptions &options;
  Host &host;
  DiagnosticEngine &diagnostics;
  Evaluator &evaluator;

  /// Whether the rules of this release of Triton hold, or those of a later one: `since(309)`.
  bool since(TritonVersion release) const { return options.tritonVersion >= release; }

  //===--- where we are
  //-------------------------------------------------------------------------===//

  /// The expression being evaluated; operations and errors are placed there.
  SourceSpan span() const { return currentSpan; }
  void setSpan(SourceSpan span);
  mlir::Location loc();

  /// The chain of calls that led here: notes of errors, and the locations of operations.
  /// `inPlace`: the callee's operations go where the caller's go, and their locations say so; else
  /// into a function of their own.
  void enterCall(SourceSpan call, bool inPlace = true);
  void leaveCall();
  llvm::ArrayRef<SourceSpan> callStack() const { return calls; }

  /// Sets the span for a scope, and restores it.
  class At {
  public:
    At(Semantic &semantic, SourceSpan span) : semantic(semantic), before(semantic.span()) {
      if (span)
        semantic.setSpan(span);
    }
    ~At() { semantic.setSpan(before); }

  private:
    Semantic &semantic;
    SourceSpan before;
  };

  /// Reports at `span` (or, when that is empty, at the current one), with a note per call; returns
  /// failure.
  template <typename... Params>
  llvm::LogicalResult error(diag::Def<Params...> def, SourceSpan span,
                            std::type_identity_t<Params>... args) {
    addCallNotes(diagnostics.report(def, span ? span : currentSpan, args...));
    return llvm::failure();
  }
  template <typename... Params>
  void warning(diag::Def<Params...> def, SourceSpan span, std::type_identity_t<Params>... args) {
    addCallNotes(diagnostics.report(def, span ? span : currentSpan, args...));
  }

  /// Adds a note per call that led here, innermost first.
  Diagnostic &addCallNotes(Diagnostic &diagnostic);

  //===--- known values and tensors
  //-------------------------------------------------------------===//

  /// A number, bool or tensor as a tensor. Numbers take the literal types: int32, else uint32,
  /// int64, uint64; float32, or float64 where that cannot hold it; int1.
  FailureOr<Tensor> toTensor(const Value &value, SourceSpan at = {});
  /// The same for what is only passed on, round a loop or out of a branch: also a descriptor.
  FailureOr<Tensor> toCarried(const Value &value);
  /// The value that a plain assignment stores: a known number becomes a tensor that remembers it.
  /// Tuples are converted item by item; dtypes, None and everything else stays what it is.
  FailureOr<Value> assigned(const Value &value, SourceSpan at = {});
  /// The literal type of a number, as `toTensor` gives it.
  FailureOr<Type> literalType(const Value &number, SourceSpan at = {});
  /// A number as a constant of this type (a block is filled with it). Integers wrap, floats are
  /// rounded.
  Tensor constant(const Value &number, const Type &type);
  Tensor constant(int64_t number, const Type &type) {
    return constant(Value::integer(number), type);
  }

  /// `value` converted to a known integer (a literal behind a plain name counts); `what` names it
  /// in the error.
  FailureOr<int64_t> knownInt(const Value &value, llvm::StringRef what, SourceSpan at = {});
  FailureOr<bool> knownBool(const Value &value, llvm::StringRef what, SourceSpan at = {});
  FailureOr<std::string> knownString(const Value &value, llvm::StringRef what, SourceSpan at = {});
  FailureOr<Type> knownType(const Value &value, llvm::StringRef what, SourceSpan at = {});
  /// A shape: a tuple of known positive integers, or one integer. Checks the number of elements.
  FailureOr<llvm::SmallVector<int64_t, 4>> knownShape(const Value &value, SourceSpan at = {});
  FailureOr<bool> checkShape(llvm::ArrayRef<int64_t> shape, SourceSpan at = {});

  //===--- operators
  //----------------------------------------------------------------------------===//

  /// `a op b`. Known values are folded as Python does; a tensor on either side emits IR by the
  /// rules of promotion. With `debug`, overflow of + - * on integers narrower than 64 bits is
  /// asserted against where the author wrote the operation, or where `checksOverflow` asks for it.
  FailureOr<Value> binary(BinaryOp op, const Value &a, const Value &b, SourceSpan atA = {},
                          SourceSpan atB = {}, std::optional<bool> checksOverflow = {});
  FailureOr<Value> compare(CompareOp op, const Value &a, const Value &b, SourceSpan atA = {},
                           SourceSpan atB = {});
  FailureOr<Value> unary(UnaryOpKind op, const Value &a, SourceSpan at = {});
  /// `and`/`or` of two values when at least one is a tensor: both are evaluated, the result is an
  /// int1.
  FailureOr<Value> logical(bool isAnd, const Value &a, const Value &b, SourceSpan atA = {},
                           SourceSpan atB = {});

  /// Python's truth of a known value; nothing for a run-time tensor (also one with a literal).
  /// Failure: a host error.
  FailureOr<std::optional<bool>> knownTruth(const Value &value, SourceSpan at = {});
  /// The truth of anything as an int1 tensor: `!= 0` of numbers. Shape is kept. Pointers are
  /// refused.
  FailureOr<Tensor> truth(const Value &value, SourceSpan at = {});
  /// The condition of `if`, `while`, `a if c else b`, `not`: a scalar int1. A block of one element
  /// is accepted with a warning, larger blocks are refused.
  FailureOr<Tensor> condition(const Value &value, SourceSpan at = {});

  /// `value[index]`: tensors take None and full slices; tuples, strings take integers and slices.
  FailureOr<Value> subscript(const Value &value, const Value &index, SourceSpan at = {});

  /// `object.name` for values of our own: tensors (attributes and member functions), types, named
  /// tuples, modules of the language, slices. Nothing when there is no such attribute; the caller
  /// reports.
  FailureOr<std::optional<Value>> attribute(const Value &object, llvm::StringRef name);

  //===--- pieces that builtins are made of
  //-----------------------------------------------------===//

  /// `x.to(type)`: no conversion between a pointer and a float; see CastOptions.
  FailureOr<Tensor> cast(const Tensor &value, const Type &element, CastOptions how = {},
                         SourceSpan at = {});
  FailureOr<Tensor> cast(const Tensor &value, DType element, SourceSpan at = {}) {
    return cast(value, Type::of(element), {}, at);
  }
  /// In strict mode: reports an 8-bit float that Triton does not convert on this target.
  llvm::LogicalResult checkConvertible(DType type, SourceSpan at = {});
  /// Repeats a scalar or size-1 dimensions; the rank is raised by leading 1s.
  FailureOr<Tensor> broadcastTo(const Tensor &value, llvm::ArrayRef<int64_t> shape,
                                SourceSpan at = {});
  /// Both operands with their common shape.
  llvm::LogicalResult broadcastPair(Tensor &a, Tensor &b, SourceSpan at = {});
  FailureOr<llvm::SmallVector<int64_t, 4>>
  commonShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b, SourceSpan at = {});

  struct PromoteOptions {
    bool numbersAdapt =
        true; ///< a Python number takes the tensor's type (else it becomes a tensor first)
    bool isDivOrMod = false;    ///< 16-bit floats (8-bit ones since 3.9) become fp32; mixed
                                ///< signedness is refused
    bool allowPointers = false; ///< equal pointer types pass
    const char *operation = ""; ///< in messages
  };
  /// Promotes two operands to one element type and one shape.
  FailureOr<std::pair<Tensor, Tensor>> promote(const Value &a, const Value &b, PromoteOptions how,
                                               SourceSpan atA = {}, SourceSpan atB = {});
  /// Promotes three operands at once, as Triton does since 3.9: a number takes the type of the
  /// tensors, wherever it stands among them.
  FailureOr<llvm::SmallVector<Tensor, 3>> promoteThree(llvm::ArrayRef<const Value *> values,
                                                       PromoteOptions how,
                                                       llvm::ArrayRef<SourceSpan> places);
  /// The common type of two tensors' elements. Failure: mixed signedness of a division (reported).
  FailureOr<DType> commonType(DType a, bool aIsNumber, DType b, bool bIsNumber, bool isDivOrMod,
                              SourceSpan at = {});

  /// Arithmetic on operands of one type and shape, without promotion.
  Tensor emitBinary(BinaryOp op, const Tensor &a, const Tensor &b);
  Tensor emitCompare(CompareOp op, const Tensor &a, const Tensor &b);
  FailureOr<Tensor> where(const Value &condition, const Value &a, const Value &b,
                          SourceSpan atC = {}, SourceSpan atA = {}, SourceSpan atB = {});
  /// `pointer + offset`, both broadcast.
  FailureOr<Tensor> addPointer(const Tensor &pointer, Tensor offset, SourceSpan at = {});

  FailureOr<Tensor> expandDims(const Tensor &value, int64_t axis, SourceSpan at = {});
  FailureOr<Tensor> reshape(const Tensor &value, llvm::ArrayRef<int64_t> shape, bool canReorder,
                            SourceSpan at = {});
  FailureOr<Tensor> permute(const Tensor &value, llvm::ArrayRef<int64_t> order, SourceSpan at = {});
  /// A box of a block: `offsets` of its first elements, `steps` from one to the next.
  Tensor slice(const Tensor &value, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> offsets,
               llvm::ArrayRef<int64_t> steps);
  /// result[.., i, ..] = source[.., indices[.., i, ..], ..]; the operands have been checked.
  Tensor gather(const Tensor &source, const Tensor &indices, int64_t axis);
  /// The elements of a block at one index of an axis, a run-time scalar; the axis keeps size 1.
  FailureOr<Tensor> elementsAlong(const Tensor &value, int64_t axis, const Tensor &number);
  /// The axis of a tensor of this rank, negative ones wrapped.
  FailureOr<int64_t> axisOf(const Value &value, int64_t rank, SourceSpan at = {});

  /// `tile.reduce`/`tile.scan` of tensors of one shape, combined by calling `combine`.
  FailureOr<std::vector<Tensor>> reduce(llvm::ArrayRef<Tensor> inputs, int64_t axis,
                                        const Value &combine, SourceSpan at = {});
  FailureOr<std::vector<Tensor>> scan(llvm::ArrayRef<Tensor> inputs, int64_t axis,
                                      const Value &combine, bool reverse, SourceSpan at = {});

  /// A tensor of this type around an IR value.
  static Tensor wrap(mlir::Value ir, const Type &type) { return Tensor{ir, type, nullptr}; }

private:
  llvm::LogicalResult combineRegion(mlir::Region &region, llvm::ArrayRef<Tensor> inputs,
                                    const Value &combine, SourceSpan at);
  FailureOr<Tensor> bitcast(const Tensor &value, const Type &target, SourceSpan at);
  FailureOr<Tensor> castSoftware(const Tensor &value, DType to, CastOptions how, SourceSpan at);
  FailureOr<Tensor> castPointer(const Tensor &value, const Type &target, SourceSpan at);
  void checkOverflow(BinaryOp op, const Tensor &a, const Tensor &b, std::optional<bool> asked);

  SourceSpan currentSpan;
  std::optional<mlir::Location> currentLoc;
  std::vector<SourceSpan> calls;
  std::vector<mlir::LocationAttr> callers; ///< null for a call that is not in place
};

/// A member of one of our own modules: `languageMember("triton.language", "float32")`,
/// `("triton.language.math", "exp")`. Builtins, functions of the prelude, dtypes, constants,
/// submodules. Nothing when there is none.
std::optional<Value> languageMember(llvm::StringRef module, llvm::StringRef name);

/// Python's builtin functions that kernels may use: `len`, `range`, `float`, `min`... Nothing when
/// it is none of them.
std::optional<Value> pythonBuiltin(llvm::StringRef name);

//===--- known values (known.cpp)
//-----------------------------------------------------------------===//

/// Why an operation on known values cannot be done; becomes a diagnostic.
enum class KnownError : uint8_t {
  Unsupported, ///< these operands do not have this operator
  DivisionByZero,
  NegativeShift,
  TooLarge,     ///< the result would be larger than budget.h allows, or a float overflows
  ComplexPower, ///< a negative number to a fractional power
};
/// Python's `a op b` of known values of any kind.
std::variant<Value, KnownError> foldBinary(BinaryOp op, const Value &a, const Value &b);
std::variant<Value, KnownError> foldCompare(CompareOp op, const Value &a, const Value &b);
std::variant<Value, KnownError> foldUnary(UnaryOpKind op, const Value &a);
/// Python's truth; nothing for objects of the host.
std::optional<bool> truthOfKnown(const Value &value);
/// Python's str(): repr, but strings without quotes.
std::string strOfKnown(const Value &value);

} // namespace nereid::frontend

// The abstract interpreter: walks the tree of a function once and builds tile IR.
//
// Known values are computed, run-time values become operations (through Semantic). Control flow
// over known conditions is executed; over run-time conditions it becomes scf.if, scf.for and
// scf.while, nothing else (docs/frontend.md tells how). A call of another function of the language
// makes (once per specialisation) a private func.func and a func.call; functions of the prelude and
// combiners of reductions are walked in place.
//
// Every function that can fail has reported a diagnostic when it does.
#pragma once

#include "frontend/budget.h"
#include "frontend/builtin.h"
#include "frontend/class.h"
#include "frontend/frontend.h"
#include "frontend/function.h"
#include "frontend/scope.h"
#include "frontend/semantic.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace nereid::frontend {

using llvm::LogicalResult;

class Interpreter final : public Evaluator {
public:
  Interpreter(mlir::ModuleOp module, const FrontendOptions &options, Host &host,
              DiagnosticEngine &diagnostics);

  LogicalResult buildKernel(const Function &kernel, llvm::ArrayRef<ParamSpec> params);
  /// The texts of all functions that have been walked.
  std::vector<SourceFilePtr> sources() const;

  // Evaluator: what builtins and foreign code need.
  FailureOr<Value> call(const Value &callee, llvm::ArrayRef<Value> args, Keywords keywords,
                        SourceSpan call) override;
  FailureOr<Value> getAttribute(const Value &object, llvm::StringRef name,
                                SourceSpan span) override;
  FailureOr<std::optional<Value>> findAttribute(const Value &object, llvm::StringRef name,
                                                SourceSpan span) override;
  bool insidePrelude() const override { return frame && frame->function->isPrelude; }

private:
  /// One function being walked.
  struct Frame {
    const Function *function;
    Scope scope;
    bool isKernel = false;
    Frame *caller = nullptr;
    unsigned loops = 0; ///< run-time loops around the current statement
    /// This call's number: what functions defined in it refer to.
    uint64_t activation = 0;
    /// Of a function defined inside another one: the call whose names it sees.
    Frame *enclosing = nullptr;
    /// In `__init__` of a class whose text we read: attributes of `self` may be assigned.
    bool constructs = false;
    unsigned conditionals = 0; ///< `if`s around the current statement
  };

  /// One specialisation of a called function.
  struct Instance {
    mlir::func::FuncOp function; ///< null when a call does nothing but give known values
    Value result;                ///< its tensors stand for the function's results, in order
    uint64_t operations = 0;     ///< of a call, with all that is inlined into it
    bool inProgress = false;
  };

  /// A condition: known, or a run-time i1.
  struct Condition {
    std::optional<bool> known;
    mlir::Value runtime;
  };

  //===--- calls (calls.cpp)
  //--------------------------------------------------------------------===//
  FailureOr<Value> visitCall(const syntax::Call &node);
  /// Of a call in strict mode: an error where the release of Triton whose rules hold lacks the
  /// function, or a parameter that is given. `positional` arguments, the tensor of a member among
  /// them.
  LogicalResult checkRelease(llvm::StringRef name, size_t positional,
                             llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call);
  FailureOr<Value> callValue(const Value &callee, llvm::ArrayRef<Argument> args,
                             llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call);
  FailureOr<Value> callHost(const HostObject &callee, llvm::ArrayRef<Argument> args,
                            llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call);
  FailureOr<Value> callFunction(const FunctionValue &callee, llvm::ArrayRef<Argument> args,
                                llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call);
  LogicalResult bindArguments(const Function &function, const Value *self,
                              llvm::ArrayRef<Argument> args,
                              llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call,
                              std::vector<Value> &bound);
  FailureOr<Value> defaultValue(const Function &place, llvm::StringRef name,
                                const syntax::Expr &node);
  FailureOr<Value> callInPlace(const FunctionValue &callee, llvm::ArrayRef<Value> bound,
                               SourceSpan call);
  /// The running call of this number; null when it has ended.
  Frame *activationOf(uint64_t number);
  /// What a function defined here means: `def` in a `def`, `lambda`.
  FailureOr<Value> localFunction(const syntax::Node &node);
  LogicalResult checkResultUsed(const syntax::Call &node, const Value &callee);
  FailureOr<Value> callInstance(const Function &function, llvm::ArrayRef<Value> bound,
                                SourceSpan call);
  LogicalResult buildInstance(const Function &function, llvm::ArrayRef<Value> bound,
                              SourceSpan call, Instance &instance);
  /// Walks the body of the current frame's function; the value it returns.
  FailureOr<Value> walkFunction();
  void bindParameters(Frame &frame, llvm::ArrayRef<Value> values);
  bool insideCombiner();

  //===--- values of classes (aggregates.cpp)
  //-----------------------------------------------------//
  /// Calls a class whose text we read: its `__init__`, or the one that its fields imply.
  FailureOr<Value> construct(const ClassPtr &cls, llvm::ArrayRef<Argument> args,
                             llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call);
  FailureOr<std::vector<Value>> fieldsFromArguments(const Class &cls, llvm::ArrayRef<Argument> args,
                                                    llvm::ArrayRef<KeywordArgument> keywords,
                                                    SourceSpan call);
  LogicalResult checkFields(const Class &cls, std::vector<Value> &items, SourceSpan call);
  FailureOr<Value> evaluateIn(const Function &place, const syntax::Expr &node);
  /// A member that is no field; nothing when there is none.
  FailureOr<std::optional<Value>> member(const Value &self, llvm::StringRef name, SourceSpan span);
  /// Operators of aggregates by their methods (`__add__`, `__radd__`), else the language's own.
  FailureOr<Value> binary(syntax::BinaryOp op, const Value &a, const Value &b, SourceSpan atA,
                          SourceSpan atB);
  FailureOr<std::optional<Value>> callSpecial(const Value &self, llvm::StringRef name,
                                              llvm::ArrayRef<Value> args, SourceSpan at);
  /// `self.name = value` in `__init__`; false where that is not allowed.
  FailureOr<bool> assignField(const syntax::Attribute &target, const Value &value);

  //===--- statements (statements.cpp)
  //----------------------------------------------------------===//
  using Body = syntax::NodeList<syntax::Stmt>;
  /// `tail`: nothing of this function is walked after it, so that its names need not be joined.
  LogicalResult visitBody(Body body, size_t from, bool tail);
  /// Whether names are compared after an `if` also where one side has left.
  bool comparesAllSides() const { return options.strict && !frame->function->isPrelude; }
  bool isWalkedBehind(const syntax::Stmt &left);
  LogicalResult visit(const syntax::Stmt &node, bool tail);
  LogicalResult visitReturn(const syntax::Return &node);
  LogicalResult tensorsOf(Value &value, SourceSpan at);
  LogicalResult visitAssign(const syntax::Assign &node);
  LogicalResult visitAugAssign(const syntax::AugAssign &node);
  LogicalResult visitAnnAssign(const syntax::AnnAssign &node);
  LogicalResult visitAssert(const syntax::Assert &node);
  LogicalResult visitWith(const syntax::With &node);
  /// Binds a target (a name, or nested tuples of them) to a value.
  LogicalResult assign(const syntax::Expr &target, const Value &value, bool keepKnown = false);
  LogicalResult unpack(syntax::NodeList<syntax::Expr> targets, const Value &value, SourceSpan span,
                       bool keepKnown);
  LogicalResult setName(llvm::StringRef name, Value value, SourceSpan span, bool constant = false);

  //===--- control flow (control_flow.cpp, loops.cpp)
  //---------------------------------------------===//
  using Walk = llvm::function_ref<LogicalResult()>;
  struct BranchOptions {
    bool guard = false; ///< the else side is the path that has already left
    bool tail = false;
  };
  LogicalResult visitIf(const syntax::If &node, bool tail);
  /// `scf.if condition` around two walks, each starting from the current scope; joins what they
  /// leave.
  LogicalResult branch(mlir::Value condition, Walk thenWalk, Walk elseWalk, SourceSpan construct,
                       BranchOptions options);
  struct Joiner;
  LogicalResult joinScopes(Joiner &joiner, const Scope &before, Scope &thenScope, Scope &elseScope,
                           mlir::Value condition, SourceSpan construct, BranchOptions options);
  LogicalResult joinNames(Joiner &joiner, const Scope &before, Scope &thenScope, Scope &elseScope,
                          SourceSpan construct, bool guard);
  Flag joinFlag(Joiner &joiner, const Flag &a, const Flag &b, mlir::Value condition, bool guard);
  /// Walks `rest` only on the path that has not left.
  LogicalResult guarded(Walk rest, SourceSpan construct, bool tail);
  mlir::Value notLeft();
  mlir::Value constantBool(bool value);
  mlir::Value negate(mlir::Value flag);

  /// A name whose value goes round a loop.
  struct CarriedName {
    llvm::StringRef name;
    Value initial; ///< flattened: its tensors are the initial values, in order
  };
  /// The bounds of a `for`, of one integer type, counting upwards.
  struct LoopBounds {
    mlir::Value start, stop, step;
    Type type;
    mlir::Value mirror; ///< of a negative step: the author's index is `mirror - iv`
  };
  LogicalResult visitFor(const syntax::For &node);
  LogicalResult visitWhile(const syntax::While &node);
  LogicalResult unroll(const syntax::For &node, const Items &items, size_t from);
  FailureOr<LoopBounds> loopBounds(const RangeValue &range, SourceSpan at);
  LogicalResult bindInduction(const syntax::For &node, const LoopBounds &bounds, mlir::Value iv);
  /// A loop that runs to its end: scf.for.
  LogicalResult structuredFor(const syntax::For &node, const RangeValue &range,
                              const LoopBounds &bounds);
  /// The general loop, scf.while. Either `loop` with `bounds`, or `test`; `mayLeave`: the body has
  /// a `break` or `return`.
  LogicalResult generalLoop(Body body, const syntax::For *loop, const LoopBounds *bounds,
                            const syntax::Expr *test, bool mayLeave);
  class GeneralLoop;
  /// The condition in the before-region of a general loop. Known only when it was never evaluated
  /// in the run.
  FailureOr<Condition> loopCondition(const syntax::Expr &test, mlir::Value left);
  /// Names to carry of those that the loop may assign: they exist before it. Numbers become
  /// tensors.
  FailureOr<std::vector<CarriedName>> carriedNames(llvm::SetVector<llvm::StringRef> assigned,
                                                   const syntax::For *loop,
                                                   const LoopBounds *bounds);
  /// Gives the carried names the loop's values of one iteration (or its results).
  void bindCarried(llvm::ArrayRef<CarriedName> carried, mlir::ValueRange values, size_t &next);
  /// Appends the carried names' values of now; reports a type that changed.
  LogicalResult collectCarried(llvm::ArrayRef<CarriedName> carried,
                               llvm::SmallVectorImpl<mlir::Value> &values);
  /// After a loop: names that its body made mean nothing, and say why.
  void forgetBodyNames(const Scope &body, SourceSpan loop);
  void endIteration();

  //===--- expressions (expressions.cpp)
  //--------------------------------------------------------===//
  FailureOr<Value> visit(const syntax::Expr &node);
  FailureOr<Value> visitConstant(const syntax::Constant &node);
  FailureOr<Value> visitName(const syntax::Name &node);
  FailureOr<Value> captured(const syntax::Name &node, const Value &value);
  FailureOr<Value> visitBoolOp(const syntax::BoolOp &node);
  FailureOr<Value> visitCompare(const syntax::Compare &node);
  FailureOr<Value> compareOnce(syntax::CompareOp op, const Value &a, const Value &b, SourceSpan atA,
                               SourceSpan atB);
  FailureOr<Value> visitIfExp(const syntax::IfExp &node);
  FailureOr<Value> visitAttribute(const syntax::Attribute &node);
  FailureOr<Value> visitSubscript(const syntax::Subscript &node);
  FailureOr<Value> visitBlockIndex(const syntax::Expr &node, const Tensor &block);
  FailureOr<Value> visitListComp(const syntax::ListComp &node);
  /// The generators of a comprehension from `from` on; `element` is evaluated for each combination.
  LogicalResult generate(syntax::NodeList<syntax::Comprehension> generators, size_t from,
                         llvm::function_ref<LogicalResult()> element);
  FailureOr<Value> visitJoinedStr(const syntax::JoinedStr &node);
  FailureOr<Value> visitElements(syntax::NodeList<syntax::Expr> elements);
  /// The members of a tuple, or the numbers of a range with known bounds.
  FailureOr<Items> knownItems(const Value &value, SourceSpan at);
  FailureOr<Value> resolveGlobal(llvm::StringRef name, SourceSpan at);
  FailureOr<Condition> visitCondition(const syntax::Expr &node);
  FailureOr<Condition> conditionOf(const Value &value, SourceSpan at);

  //===--- the budget of the compilation (budget.cpp)
  //---------------------------------------------//
  /// Counts steps; reports at `at`, or at the current place, what there is too much of.
  LogicalResult spend(uint64_t steps, SourceSpan at = {});
  /// Counts the steps of walking over a value once.
  LogicalResult spendOver(const Value &value, SourceSpan at = {});
  LogicalResult withinBudget(SourceSpan at);
  /// A value that was made here: counts its bytes, and refuses one that is too large.
  FailureOr<Value> made(FailureOr<Value> value);
  LogicalResult growing(const Tuple &tuple);
  Diagnostic &reportExceeded(Resource resource, SourceSpan at);

  //===--- small things
  //-------------------------------------------------------------------------===//
  SourceSpan spanOf(const syntax::Node &node) const { return frame->function->module().span(node); }
  SourceSpan spanOf(SourceRange range) const { return frame->function->module().span(range); }
  template <typename... Params>
  LogicalResult error(diag::Def<Params...> def, SourceSpan span,
                      std::type_identity_t<Params>... args) {
    return semantic.error(def, span, args...);
  }
  LogicalResult unsupported(std::string_view what, SourceSpan span);
  LogicalResult hostFailed(const HostError &failure, SourceSpan span);
  Scope &scope() { return frame->scope; }

  /// A loop or comprehension that is being unrolled.
  struct Unrolled {
    SourceSpan at;
    size_t index, count;
  };

  Budget budget;
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  const FrontendOptions &options;
  Host &host;
  DiagnosticEngine &diagnostics;
  Semantic semantic;
  Frame *frame = nullptr;
  llvm::StringMap<Instance> instances;
  /// Functions defined inside functions, by their node.
  llvm::DenseMap<const syntax::Node *, std::unique_ptr<Function>> localFunctions;
  llvm::SetVector<const SourceFile *> walkedSources;
  uint64_t nextBinding = 0;
  uint64_t nextActivation = 0;
  llvm::SmallVector<Unrolled, 4> unrolledLoops; ///< around the current place, innermost last
  const syntax::Expr *unusedCallee = nullptr;   ///< of the call that is a whole statement
  unsigned depth = 0;                           ///< of nested visits: the C++ stack is finite
  unsigned callDepth = 0;
  unsigned branchDepth = 0; ///< run-time branches around the current place, those of callers too
};

/// The tensors inside a value, in order, appended to `out`.
void flattenTensors(const Value &value, llvm::SmallVectorImpl<Tensor> &out);
/// A copy of `value` whose tensors are `values`, in order, from `next` on; their types stay.
Value replaceTensors(const Value &value, mlir::ValueRange values, size_t &next);
/// The type of a tensor or number, else what the author would call the value: for messages about
/// types.
std::string describeType(const Value &value);
/// Adds the names that a statement or expression may assign, `:=` included.
void collectAssigned(const syntax::Node &node, llvm::SetVector<llvm::StringRef> &names);
/// Names that statements may assign, in order of appearance, not looking into nested functions.
llvm::SetVector<llvm::StringRef> assignedNames(syntax::NodeList<syntax::Stmt> body);
/// The names in a target: `a`, `(a, (b, c))`.
llvm::SmallVector<llvm::StringRef, 4> assignedTargets(const syntax::Expr &target);
/// Whether a `break` of this loop, or a `return`, occurs in the body of a loop.
bool mayLeaveLoop(syntax::NodeList<syntax::Stmt> body);

} // namespace nereid::frontend

// A compilation without an interpreter: a function with arguments of chosen types, and a Semantic
// that builds into it.
#pragma once

#include "frontend/builtin.h"
#include "frontend/class.h"
#include "frontend/function.h"
#include "frontend/semantic.h"
#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"

#include "gtest/gtest.h"

namespace nereid::frontend::test {

/// A host that knows nothing, and remembers what was printed.
struct EmptyHost : Host {
  HostResult<Value> lookup(const Function &, llvm::StringRef) override { return {}; }
  HostResult<Value> getAttribute(const HostObject &, llvm::StringRef) override { return {}; }
  HostResult<Value> getItem(const HostObject &, const Value &) override {
    return {{}, {"no items"}};
  }
  HostResult<Value> call(const HostObject &, llvm::ArrayRef<Value>,
                         llvm::ArrayRef<std::pair<std::string, Value>>, Semantic &) override {
    return {};
  }
  HostResult<HostMember> getMember(const Class &, llvm::StringRef) override { return {}; }
  HostResult<bool> truth(const HostObject &) override { return {{}, {"no truth"}}; }
  void print(llvm::StringRef text) override { printed += text; }

  std::string printed;
};

class Fixture : public ::testing::Test, public Evaluator {
public:
  Fixture() : builder(&context) {
    tile::loadDialects(context);
    module = mlir::ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToStart(module->getBody());
    auto type = builder.getFunctionType({}, {});
    function = mlir::func::FuncOp::create(builder, builder.getUnknownLoc(), "test", type);
    builder.setInsertionPointToStart(function.addEntryBlock());
    semantic = std::make_unique<Semantic>(builder, options, host, diagnostics, *this);
  }

  ~Fixture() override {
    if (diagnostics.errorCount() == 0) {
      mlir::func::ReturnOp::create(builder, builder.getUnknownLoc());
      EXPECT_TRUE(succeeded(mlir::verify(*module)));
    }
  }

  /// Calls builtins; a number stands for a combiner that gives its first argument, or both.
  FailureOr<Value> call(const Value &callee, llvm::ArrayRef<Value> args, Keywords,
                        SourceSpan at) override {
    if (auto *builtin = callee.getIf<BuiltinValue>()) {
      std::vector<Argument> list;
      for (const Value &arg : args)
        list.push_back({arg, at});
      return callBuiltin(*semantic, *builtin->builtin, builtin->self.get(), list, {}, at);
    }
    return callee.isNone() ? args[0] : callee;
  }
  FailureOr<Value> getAttribute(const Value &object, llvm::StringRef name, SourceSpan) override {
    auto found = semantic->attribute(object, name);
    if (failed(found) || !*found)
      return llvm::failure();
    return **found;
  }
  FailureOr<std::optional<Value>> findAttribute(const Value &object, llvm::StringRef name,
                                                SourceSpan) override {
    return semantic->attribute(object, name);
  }
  bool insidePrelude() const override { return inPrelude; }
  bool inPrelude = false;

  /// A new argument of the function.
  Value argument(const Type &type) {
    mlir::Block &entry = function.getBody().front();
    mlir::Type ir = type.toIR(context);
    auto value = entry.addArgument(ir, builder.getUnknownLoc());
    function.setType(builder.getFunctionType(entry.getArgumentTypes(), {}));
    return Value(Semantic::wrap(value, type));
  }
  Value argument(DType type, llvm::ArrayRef<int64_t> shape = {}) {
    return argument(Type::of(type, shape));
  }
  Value pointer(DType type, llvm::ArrayRef<int64_t> shape = {}, bool isConst = false) {
    return argument(Type::pointerTo(type, isConst).withShape(shape));
  }

  using NamedArgs = std::vector<std::pair<std::string, Value>>;
  /// Calls a builtin by name.
  FailureOr<Value> callNamed(llvm::StringRef name, std::vector<Value> args,
                             NamedArgs keywords = {}) {
    const Builtin *builtin = findBuiltin(name);
    EXPECT_NE(builtin, nullptr) << name.str();
    std::vector<Argument> list;
    for (Value &arg : args)
      list.push_back({arg, {}});
    std::vector<KeywordArgument> named;
    for (auto &[key, value] : keywords)
      named.push_back({key, value, {}});
    return callBuiltin(*semantic, *builtin, nullptr, list, named, {});
  }

  /// The type of a result, "error" after a failure (whose message is in `message()`), or the kind
  /// of a known value.
  static std::string typeOf(const FailureOr<Value> &value) {
    if (failed(value))
      return "error";
    if (auto *tensor = value->getIf<Tensor>())
      return tensor->type.str();
    return value->kindName();
  }

  /// The last diagnostic reported, "Name: message"; it is taken away.
  std::string message() {
    std::string text;
    if (!diagnostics.diagnostics().empty()) {
      const Diagnostic &last = diagnostics.diagnostics().back();
      text = std::string(last.name()) + ": " + last.message();
    }
    diagnostics.clear();
    return text;
  }

  /// Text of the operations built so far.
  std::string ir() {
    std::string text;
    llvm::raw_string_ostream out(text);
    for (mlir::Operation &op : function.getBody().front())
      out << op << "\n";
    return text;
  }

  mlir::MLIRContext context;
  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  FrontendOptions options;
  EmptyHost host;
  DiagnosticEngine diagnostics;
  std::unique_ptr<Semantic> semantic;
};

inline Value integer(int64_t value) {
  return Value::integer(value);
}
inline Value tuple(std::vector<Value> items) {
  return Value(Tuple{std::move(items), {}, 0});
}
inline Value shape(std::vector<int64_t> sizes) {
  std::vector<Value> items;
  for (int64_t size : sizes)
    items.push_back(integer(size));
  return tuple(std::move(items));
}
inline Value type(DType scalar) {
  return Value(TypeValue{Type::of(scalar)});
}

} // namespace nereid::frontend::test

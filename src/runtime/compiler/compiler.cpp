#include "runtime/compiler.h"

#include "frontend/builtin.h"
#include "frontend/inventory.h"
#include "frontend/prelude.h"
#include "frontend/semantic.h"
#include "opt/Opt.h"
#include "runtime/compiler/build.h"
#include "runtime/compiler/out_of_memory.h"
#include "runtime/compiler/tile_module.h"
#include "runtime/error.h"
#include "runtime/function.h"
#include "runtime/request.h"
#include "targets/disassemble.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace nereid::runtime {
namespace {

using frontend::Value;

struct BinaryRow {
  std::string_view name;
  syntax::BinaryOp op;
};
constexpr BinaryRow binaryOps[] = {
    {"add", syntax::BinaryOp::Add},           {"sub", syntax::BinaryOp::Sub},
    {"mul", syntax::BinaryOp::Mult},          {"truediv", syntax::BinaryOp::Div},
    {"floordiv", syntax::BinaryOp::FloorDiv}, {"mod", syntax::BinaryOp::Mod},
    {"and", syntax::BinaryOp::BitAnd},        {"or", syntax::BinaryOp::BitOr},
    {"xor", syntax::BinaryOp::BitXor},        {"lshift", syntax::BinaryOp::LShift},
    {"rshift", syntax::BinaryOp::RShift},     {"pow", syntax::BinaryOp::Pow},
};
struct CompareRow {
  std::string_view name;
  syntax::CompareOp op;
};
constexpr CompareRow compareOps[] = {
    {"eq", syntax::CompareOp::Eq}, {"ne", syntax::CompareOp::NotEq},
    {"lt", syntax::CompareOp::Lt}, {"le", syntax::CompareOp::LtE},
    {"gt", syntax::CompareOp::Gt}, {"ge", syntax::CompareOp::GtE},
};

/// Out of memory is an error of the compilation like others.
ErrorPtr buildWithinMemory(const CompileRequest &request, const targets::CompileOptions &options,
                           CHost *host, llvm::BitVector &written, nrd_kernel &kernel) {
  struct Work {
    const CompileRequest &request;
    const targets::CompileOptions &options;
    CHost *host;
    llvm::BitVector &written;
    nrd_kernel &kernel;
    ErrorPtr error;
  } work{request, options, host, written, kernel, nullptr};
  bool enough = withinMemory(
      [](void *data) {
        auto &work = *static_cast<Work *>(data);
        work.error = build(work.request, work.options, work.host, work.written, work.kernel);
      },
      &work);
  if (enough)
    return std::move(work.error);
  return makeError(NRD_ERROR_COMPILE, "MemoryError", diag::CompilationTooLarge,
                   request.function->name);
}

class Linked final : public Compiler {
public:
  ErrorPtr compile(const CompileRequest &request, const targets::CompileOptions &options,
                   CHost *host, llvm::BitVector &written, nrd_kernel &kernel) const override {
    return buildWithinMemory(request, options, host, written, kernel);
  }
  ErrorPtr readTileSource(llvm::StringRef file, std::string text,
                          TileSourcePtr &out) const override {
    return runtime::readTileSource(file, std::move(text), out);
  }

  const frontend::Builtin *findBuiltin(llvm::StringRef name) const override {
    return frontend::findBuiltin(name);
  }
  const frontend::Function *findPrelude(llvm::StringRef name) const override {
    const frontend::PreludeFunction *found = frontend::findPrelude(name);
    return found ? found->function : nullptr;
  }
  frontend::ClassPtr findPreludeClass(llvm::StringRef name) const override {
    return frontend::findPreludeClass(name);
  }
  std::optional<Value> languageMember(llvm::StringRef module, llvm::StringRef name) const override {
    return frontend::languageMember(module, name);
  }

  std::optional<llvm::FailureOr<Value>> callOperator(frontend::Semantic &semantic,
                                                     std::string_view name,
                                                     llvm::ArrayRef<Value> args) const override {
    if (args.size() == 2) {
      for (const BinaryRow &row : binaryOps)
        if (row.name == name)
          return semantic.binary(row.op, args[0], args[1]);
      for (const CompareRow &row : compareOps)
        if (row.name == name)
          return semantic.compare(row.op, args[0], args[1]);
      if (name == "getitem")
        return semantic.subscript(args[0], args[1]);
      if (name == "getattr")
        if (auto *attribute = args[1].getIf<std::string>())
          return semantic.evaluator.getAttribute(args[0], *attribute, semantic.span());
    }
    if (args.size() == 1) {
      if (name == "neg")
        return semantic.unary(syntax::UnaryOpKind::USub, args[0]);
      if (name == "pos")
        return semantic.unary(syntax::UnaryOpKind::UAdd, args[0]);
      if (name == "invert")
        return semantic.unary(syntax::UnaryOpKind::Invert, args[0]);
    }
    return std::nullopt;
  }

  std::string inventory() const override {
    std::string text;
    llvm::raw_string_ostream(text) << llvm::json::Value(frontend::inventoryJson());
    return text;
  }
  std::optional<std::string> disassemble(llvm::StringRef image, std::string &why) const override {
    auto text = targets::disassemble(image);
    if (text)
      return std::move(*text);
    why = llvm::toString(text.takeError());
    return std::nullopt;
  }
  int opt(int argc, char **argv) const override { return runOpt(argc, argv); }
};

} // namespace

const Compiler &linkedCompiler() {
  static const Linked compiler;
  throwWithoutMemory();
  return compiler;
}

} // namespace nereid::runtime

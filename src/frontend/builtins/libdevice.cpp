// `tl.extra.libdevice`: the functions of NVIDIA's device library. Those that the IR has an
// operation for are that operation, on every target; the others are calls of the library's symbols,
// which the CPU target has under the same names.
#include "frontend/builtins/families.h"
#include "frontend/frontend.h"
#include "ir/tile/Dialect.h"
#include "ir/tile/InlineAsm.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace nereid::frontend {
namespace {

namespace arith = mlir::arith;

struct Row {
  const char *name, *arguments, *result, *symbol;
};
constexpr Row rows[] = {
#define OVERLOAD(Name, Arguments, Result, Symbol) {#Name, Arguments, Result, Symbol},
#define FLOATS(Name, Count)                                                                        \
  {#Name, &"fp32,fp32,fp32,fp32"[20 - 5 * Count], "fp32", "__nv_" #Name "f"},                      \
      {#Name, &"fp64,fp64,fp64,fp64"[20 - 5 * Count], "fp64", "__nv_" #Name},
#include "frontend/builtins/libdevice.def"
#undef FLOATS
#undef OVERLOAD
};

/// Functions that are one operation of the IR on fp32 and fp64.
struct FloatOperation {
  const char *name, *operation;
};
constexpr FloatOperation operations[] = {
    {"abs", "math.absf"},          {"ceil", "math.ceil"},
    {"copysign", "math.copysign"}, {"cos", "math.cos"},
    {"div_rn", "tile.div_rn"},     {"erf", "math.erf"},
    {"exp", "math.exp"},           {"exp2", "math.exp2"},
    {"expm1", "math.expm1"},       {"floor", "math.floor"},
    {"fma", "math.fma"},           {"fma_rn", "math.fma"},
    {"log", "math.log"},           {"log1p", "math.log1p"},
    {"log2", "math.log2"},         {"nearbyint", "math.roundeven"},
    {"rint", "math.roundeven"},    {"round", "math.round"},
    {"rsqrt", "math.rsqrt"},       {"sin", "math.sin"},
    {"sqrt", "math.sqrt"},         {"sqrt_rn", "tile.sqrt_rn"},
    {"tanh", "math.tanh"},         {"trunc", "math.trunc"},
};

llvm::SmallVector<DType, 4> argumentsOf(const Row &row) {
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(row.arguments).split(names, ',');
  llvm::SmallVector<DType, 4> types;
  for (llvm::StringRef name : names)
    types.push_back(*dtypeByName(name));
  return types;
}

/// What a conversion of an argument costs; nothing when it would lose something.
std::optional<unsigned> conversionCost(const Tensor &value, bool isNumber, DType to) {
  DType from = value.type.scalar;
  if (value.type.isPointer)
    return std::nullopt;
  if (from == to)
    return 0;
  if (isNumber) // a literal takes the type of the others
    return isFloat(to) ? std::optional(isFloat(from) ? 1 : 2)
                       : (isInt(from) && !isBool(from) ? std::optional(1) : std::nullopt);
  if (isFloat(to))
    return isFloat(from) ? (info(from).bits < info(to).bits ? std::optional(4) : std::nullopt)
                         : std::optional(6);
  bool widens =
      isInt(from) && info(from).bits < info(to).bits && (isSignedInt(to) || !isSignedInt(from));
  return widens ? std::optional(4) : std::nullopt;
}

struct Call {
  const Row *row = nullptr;
  std::vector<Tensor> operands;
};

/// The overload that fits the arguments best. One argument must have its type already, unless all
/// are numbers; so a function of one argument converts nothing.
FailureOr<Call> resolve(Semantic &s, const BoundArgs &args, llvm::StringRef name) {
  Call call;
  llvm::SmallVector<bool> isNumber;
  for (size_t i = 0; i < parametersOf(args.row()).size(); ++i) {
    auto tensor = s.toTensor(args[i], args.span(parametersOf(args.row())[i].name));
    if (failed(tensor))
      return failure();
    call.operands.push_back(*tensor);
    isNumber.push_back(args[i].isNumber());
  }
  std::string accepted, listed; // "fp32 or fp64", and Triton's "['fp32', 'fp64']"
  unsigned best = ~0u;
  for (const Row &row : rows) {
    if (name != row.name)
      continue;
    llvm::SmallVector<DType, 4> types = argumentsOf(row);
    accepted += (accepted.empty() ? "" : " or ") + std::string(row.arguments);
    listed += (listed.empty() ? "['" : ", '") + std::string(row.arguments) + "'";
    unsigned cost = 0;
    bool fits = true, exact = llvm::all_of(isNumber, [](bool number) { return number; });
    for (auto [operand, number, type] : llvm::zip(call.operands, isNumber, types)) {
      auto conversion = conversionCost(operand, number, type);
      fits &= conversion.has_value();
      cost += conversion.value_or(0);
      exact |= !number && operand.type.scalar == type && !operand.type.isPointer;
    }
    if (fits && exact && cost < best) {
      best = cost;
      call.row = &row;
    }
  }
  if (!call.row) {
    std::string found;
    for (const Tensor &operand : call.operands)
      found += (found.empty() ? "" : ",") + operand.type.element().str();
    return s.error(diag::ExpectedDtype, args.call(), name, accepted, found, listed + "]");
  }
  Shape shape;
  for (const Tensor &operand : call.operands) {
    auto common = s.commonShape(shape, operand.type.shape, args.call());
    if (failed(common))
      return failure();
    shape = *common;
  }
  for (auto [operand, type] : llvm::zip(call.operands, argumentsOf(*call.row))) {
    auto converted = s.cast(operand, type, args.call());
    auto shaped = failed(converted) ? converted : s.broadcastTo(*converted, shape, args.call());
    if (failed(shaped))
      return failure();
    operand = *shaped;
  }
  return call;
}

/// Functions that are an operation or two; nothing for those of the library.
std::optional<Tensor> asOperation(Semantic &s, const Call &call, const Type &result) {
  llvm::StringRef name = call.row->name;
  const Tensor &x = call.operands.front();
  auto emit = [&](llvm::StringRef operation) {
    llvm::SmallVector<mlir::Value, 4> values;
    for (const Tensor &operand : call.operands)
      values.push_back(operand.ir);
    mlir::OperationState state(s.loc(), operation, values, {x.ir.getType()});
    return Semantic::wrap(s.builder.create(state)->getResult(0), x.type);
  };
  auto ordered = [&](arith::CmpFPredicate predicate, const Tensor &a, const Tensor &b) {
    return Semantic::wrap(arith::CmpFOp::create(s.builder, s.loc(), predicate, a.ir, b.ir), result);
  };
  auto infinity = [&] {
    return s.constant(Value(std::numeric_limits<double>::infinity()), x.type);
  };
  bool onFloats = isFloat(x.type.scalar);
  for (const FloatOperation &each : operations)
    if (onFloats && name == each.name)
      return emit(each.operation);
  if (name == "pow" && isFloat(call.operands[1].type.scalar))
    return emit("math.powf");
  if (name == "abs") {
    Tensor zero = s.constant(0, x.type);
    Tensor negative = s.emitBinary(BinaryOp::Sub, zero, x);
    Tensor isNegative = s.emitCompare(CompareOp::Lt, x, zero);
    return Semantic::wrap(
        arith::SelectOp::create(s.builder, s.loc(), isNegative.ir, negative.ir, x.ir), x.type);
  }
  if (name == "clz" || name == "popc")
    return *s.cast(emit(name == "clz" ? "math.ctlz" : "math.ctpop"), result.scalar);
  if (name.contains("_as_")) // the same bits
    return *s.cast(x, result.element(), {.bitcast = true});
  if (name == "isnan")
    return ordered(arith::CmpFPredicate::UNO, x, x);
  if (name == "isinf")
    return ordered(arith::CmpFPredicate::OEQ, emit("math.absf"), infinity());
  if (name == "finitef" || name == "isfinited")
    return ordered(arith::CmpFPredicate::OLT, emit("math.absf"), infinity());
  if (name == "signbit") {
    Type bits = x.type.withScalar(info(x.type.scalar).bits == 64 ? DType::UInt64 : DType::UInt32);
    Tensor whole = *s.cast(x, bits.element(), {.bitcast = true});
    Tensor last = s.constant(int64_t(info(bits.scalar).bits) - 1, bits);
    auto sign = arith::ShRUIOp::create(s.builder, s.loc(), whole.ir, last.ir);
    return *s.cast(Semantic::wrap(sign, bits), result.scalar);
  }
  if (name == "fast_tanhf" && s.options.targetName != "cpu")
    return Semantic::wrap(tile::InlineAsmOp::create(s.builder, s.loc(),
                                                    mlir::TypeRange(x.ir.getType()),
                                                    "tanh.approx.f32 $0, $1;", "=f,f",
                                                    tile::ptxAssembly, x.ir, 1, /*pure=*/true)
                              .getResult()
                              .front(),
                          x.type);
  return std::nullopt;
}

FailureOr<Value> callFunction(Semantic &s, const BoundArgs &args) {
  auto call = resolve(s, args, args.row().row);
  if (failed(call))
    return failure();
  bool isTest = llvm::StringRef(call->row->result) == "int1";
  Type result = Type::of(*dtypeByName(call->row->result), call->operands.front().type.shape);
  if (auto tensor = asOperation(s, *call, result))
    return Value(*tensor);
  llvm::SmallVector<mlir::Value, 4> values;
  for (const Tensor &operand : call->operands)
    values.push_back(operand.ir);
  Type returned = isTest ? result.withScalar(DType::Int32) : result;
  auto op = tile::ExternOp::create(s.builder, s.loc(), returned.toIR(*s.builder.getContext()),
                                   values, call->row->symbol, "libdevice", /*pure=*/true,
                                   /*path=*/nullptr);
  Tensor tensor = Semantic::wrap(op.getResult(), returned);
  return isTest ? Value(s.emitCompare(CompareOp::NotEq, tensor, s.constant(0, returned)))
                : Value(tensor);
}

} // namespace

std::vector<Builtin> libdeviceBuiltins() {
  static constexpr const char *signatures[] = {"(arg0)", "(arg0, arg1)", "(arg0, arg1, arg2)",
                                               "(arg0, arg1, arg2, arg3)"};
  struct Text {
    std::string name, doc;
    const Row *row;
  };
  static const auto *texts = [] {
    auto *all = new std::vector<Text>();
    for (const Row &row : rows) {
      if (all->empty() || all->back().name != std::string("libdevice.") + row.name)
        all->push_back({std::string("libdevice.") + row.name, "", &row});
      std::string &doc = all->back().doc;
      doc += (doc.empty() ? "" : ", ") + llvm::StringRef(row.arguments).str() + " → " + row.result;
    }
    return all;
  }();
  std::vector<Builtin> builtins;
  for (const Text &text : *texts)
    builtins.push_back({.name = text.name.c_str(),
                        .signature = signatures[llvm::StringRef(text.row->arguments).count(',')],
                        .doc = text.doc.c_str(),
                        .build = &callFunction,
                        .category = "Device library",
                        .row = text.row->name});
  return builtins;
}

} // namespace nereid::frontend

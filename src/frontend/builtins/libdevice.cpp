// `tl.extra.libdevice`: functions of NVIDIA's device library that the language has none for. On a
// GPU they are libdevice's (`__nv_tanhf`), on the CPU the C library's, where it has them. Names
// that `tl.math` has too mean that function (attributes.cpp).
#include "frontend/builtins/families.h"
#include "frontend/frontend.h"
#include "ir/tile/Dialect.h"

namespace nereid::frontend {
namespace {

struct DeviceFunction {
  const char *name;
  unsigned arity;
  const char *device32, *device64; ///< symbols on GPUs for fp32 and fp64; null where there is none
  const char *host32, *host64;     ///< on the CPU
  bool isTest = false;             ///< an int, not zero for true
};

#define BOTH(Name, Arity) {Name, Arity, "__nv_" Name "f", "__nv_" Name, Name "f", Name}
#define DEVICE(Name, Arity) {Name, Arity, "__nv_" Name "f", "__nv_" Name, nullptr, nullptr}
#define FAST(Name, Arity, Host) {Name, Arity, "__nv_" Name, nullptr, Host, nullptr}
constexpr DeviceFunction functions[] = {
    BOTH("acos", 1),
    BOTH("acosh", 1),
    BOTH("asin", 1),
    BOTH("asinh", 1),
    BOTH("atan", 1),
    BOTH("atan2", 2),
    BOTH("atanh", 1),
    BOTH("cbrt", 1),
    BOTH("copysign", 2),
    BOTH("cosh", 1),
    DEVICE("cospi", 1),
    DEVICE("cyl_bessel_i0", 1),
    DEVICE("cyl_bessel_i1", 1),
    BOTH("erfc", 1),
    DEVICE("erfcinv", 1),
    DEVICE("erfcx", 1),
    DEVICE("erfinv", 1),
    BOTH("exp10", 1),
    BOTH("expm1", 1),
    FAST("fast_cosf", 1, "cosf"),
    FAST("fast_exp10f", 1, "exp10f"),
    FAST("fast_expf", 1, "expf"),
    FAST("fast_log10f", 1, "log10f"),
    FAST("fast_log2f", 1, "log2f"),
    FAST("fast_logf", 1, "logf"),
    FAST("fast_powf", 2, "powf"),
    FAST("fast_sinf", 1, "sinf"),
    FAST("fast_tanf", 1, "tanf"),
    BOTH("fdim", 2),
    {"finitef", 1, "__nv_finitef", nullptr, "finitef", nullptr, true},
    BOTH("fmod", 2),
    BOTH("hypot", 2),
    {"isfinited", 1, nullptr, "__nv_isfinited", nullptr, "finite", true},
    {"isinf", 1, "__nv_isinff", "__nv_isinfd", "isinff", "isinf", true},
    {"isnan", 1, "__nv_isnanf", "__nv_isnand", "isnanf", "isnan", true},
    BOTH("j0", 1),
    BOTH("j1", 1),
    BOTH("lgamma", 1),
    BOTH("log10", 1),
    BOTH("log1p", 1),
    BOTH("logb", 1),
    BOTH("nearbyint", 1),
    BOTH("nextafter", 2),
    DEVICE("norm3d", 3),
    DEVICE("norm4d", 4),
    DEVICE("normcdf", 1),
    DEVICE("normcdfinv", 1),
    BOTH("pow", 2),
    DEVICE("rcbrt", 1),
    BOTH("remainder", 2),
    DEVICE("rhypot", 2),
    BOTH("rint", 1),
    DEVICE("rnorm3d", 3),
    DEVICE("rnorm4d", 4),
    BOTH("round", 1),
    {"signbit", 1, "__nv_signbitf", "__nv_signbitd", "__signbitf", "__signbit", true},
    BOTH("sinh", 1),
    DEVICE("sinpi", 1),
    BOTH("tan", 1),
    BOTH("tanh", 1),
    BOTH("tgamma", 1),
    BOTH("trunc", 1),
    BOTH("y0", 1),
    BOTH("y1", 1),
};
#undef BOTH
#undef DEVICE
#undef FAST

const DeviceFunction &functionOf(const BoundArgs &args) {
  llvm::StringRef name = args.row().row;
  return *llvm::find_if(functions, [&](const DeviceFunction &each) { return name == each.name; });
}

/// The arguments as tensors of one type and shape.
FailureOr<llvm::SmallVector<Tensor, 4>> operands(Semantic &s, const BoundArgs &args,
                                                 const DeviceFunction &function) {
  Semantic::PromoteOptions how;
  how.operation = function.name;
  llvm::SmallVector<Tensor, 4> found;
  for (unsigned i = 0; i < function.arity; ++i) {
    std::string name = "arg" + std::to_string(i);
    if (i == 0 && function.arity > 1)
      continue; // comes with the second
    if (function.arity == 1) {
      auto only = tensorArg(s, args, name);
      if (failed(only))
        return failure();
      found.push_back(*only);
      continue;
    }
    auto pair = s.promote(i == 1 ? args["arg0"] : Value(found.back()), args[name], how,
                          args.span("arg0"), args.span(name));
    if (failed(pair))
      return failure();
    if (i == 1)
      found.push_back(pair->first);
    found.push_back(pair->second);
  }
  // Later ones may have widened the type or the shape.
  for (Tensor &each : found) {
    auto pair = s.promote(Value(each), Value(found.back()), how);
    if (failed(pair))
      return failure();
    each = pair->first;
  }
  return found;
}

FailureOr<Value> call(Semantic &s, const BoundArgs &args) {
  const DeviceFunction &function = functionOf(args);
  auto found = operands(s, args, function);
  if (failed(found))
    return failure();
  Type type = found->front().type;
  bool isSingle = type.scalar == DType::Float32;
  const char *device = isSingle ? function.device32 : function.device64;
  const char *host = isSingle ? function.host32 : function.host64;
  if ((!isSingle && type.scalar != DType::Float64) || !device) {
    const char *wanted = !function.device64   ? "['fp32']"
                         : !function.device32 ? "['fp64']"
                                              : "['fp32', 'fp64']";
    return s.error(diag::ExpectedDtype, args.span("arg0"), function.name, wanted,
                   type.element().str());
  }
  bool onCpu = s.options.targetName == "cpu";
  if (onCpu && !host)
    return s.error(diag::OnlyOnGpus, args.call(), function.name);
  llvm::SmallVector<mlir::Value, 4> values;
  for (const Tensor &each : *found)
    values.push_back(each.ir);
  Type result = type;
  if (function.isTest)
    result.scalar = DType::Int32;
  mlir::Type resultType = s.builder.getI32Type();
  if (auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(values[0].getType()))
    resultType = tensor.clone(function.isTest ? resultType : tensor.getElementType());
  else if (!function.isTest)
    resultType = values[0].getType();
  auto op = tile::ExternOp::create(s.builder, s.loc(), resultType, values, onCpu ? host : device,
                                   onCpu ? "libm" : "libdevice", /*pure=*/true,
                                   /*path=*/nullptr);
  Tensor tensor = Semantic::wrap(op.getResult(), result);
  if (!function.isTest)
    return Value(tensor);
  return Value(s.emitCompare(CompareOp::NotEq, tensor, s.constant(0, result)));
}

} // namespace

std::vector<Builtin> libdeviceBuiltins() {
  static constexpr const char *signatures[] = {"", "(arg0)", "(arg0, arg1)", "(arg0, arg1, arg2)",
                                               "(arg0, arg1, arg2, arg3)"};
  static auto *names = new std::vector<std::string>();
  if (names->empty())
    for (const DeviceFunction &function : functions)
      names->push_back(std::string("libdevice.") + function.name);
  std::vector<Builtin> rows;
  for (auto [function, name] : llvm::zip(functions, *names))
    rows.push_back({.name = name.c_str(),
                    .signature = signatures[function.arity],
                    .build = &call,
                    .category = "Device library",
                    .row = function.name});
  return rows;
}

} // namespace nereid::frontend

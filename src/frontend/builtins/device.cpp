// `tl.extra.cuda` and `tl.target_info`: what a kernel asks about the machine that it is compiled
// for.
#include "frontend/builtins/families.h"
#include "frontend/frontend.h"
#include "ir/tile/Dialect.h"
#include "ir/tile/InlineAsm.h"

namespace nereid::frontend {
namespace {

bool onCpu(const Semantic &s) {
  return s.options.targetName == "cpu";
}

/// 90 for "cuda:90"; 0 on the CPU.
int64_t archOf(const Semantic &s) {
  int64_t arch = 0;
  llvm::StringRef name = s.options.targetName;
  if (!name.consume_front("cuda:") || name.getAsInteger(10, arch))
    return 0;
  return arch;
}

Tensor assembly(Semantic &s, const char *text, const char *constraints, DType type, bool isPure) {
  mlir::Type ir = Type::of(type).toIR(*s.builder.getContext());
  auto op = tile::InlineAsmOp::create(s.builder, s.loc(), mlir::TypeRange(ir), text, constraints,
                                      tile::ptxAssembly, mlir::ValueRange(), 1, isPure);
  return Semantic::wrap(op.getResult().front(), Type::of(type));
}

FailureOr<Value> globaltimer(Semantic &s, const BoundArgs &) {
  if (!onCpu(s))
    return Value(assembly(s, "mov.u64 $0, %globaltimer;", "=l", DType::Int64, /*isPure=*/false));
  Type type = Type::of(DType::Int64);
  auto op = tile::ExternOp::create(s.builder, s.loc(), type.toIR(*s.builder.getContext()),
                                   mlir::ValueRange(), "nereid_cpu_clock", "cpu", /*pure=*/false,
                                   /*path=*/nullptr);
  return Value(Semantic::wrap(op.getResult(), type));
}

/// Nanoseconds, one reading for the whole program. Threads of a GPU read the time one by one, and
/// what they read differs; so every thread reads it for elements of its own (a block has at most
/// 1024 threads, so none holds a copy of another's), and the latest reading counts.
FailureOr<Value> programClock(Semantic &s, const BoundArgs &args) {
  if (onCpu(s))
    return globaltimer(s, args);
  constexpr int64_t threads = 1024;
  mlir::Type i32 = Type::of(DType::Int32, {threads}).toIR(*s.builder.getContext());
  Type type = Type::of(DType::Int64, {threads});
  mlir::Value numbers = tile::RangeOp::create(s.builder, s.loc(), i32, 0u, uint32_t(threads));
  auto op = tile::InlineAsmOp::create(
      s.builder, s.loc(), mlir::TypeRange(type.toIR(*s.builder.getContext())),
      "mov.u64 $0, %globaltimer; // $1", "=l,r", tile::ptxAssembly, mlir::ValueRange(numbers),
      /*pack=*/1, /*pure=*/false);
  return Value(Semantic::wrap(op.getResult().front(), type));
}

FailureOr<Value> smid(Semantic &s, const BoundArgs &) {
  if (onCpu(s))
    return Value(s.constant(0, Type::of(DType::Int32)));
  return Value(assembly(s, "mov.u32 $0, %smid;", "=r", DType::Int32, /*isPure=*/true));
}

template <bool isWait> FailureOr<Value> dependency(Semantic &s, const BoundArgs &) {
  // A launch on the CPU has ended before the next begins.
  if (!onCpu(s) && archOf(s) >= 90)
    assembly(s, isWait ? "griddepcontrol.wait; // $0" : "griddepcontrol.launch_dependents; // $0",
             isWait ? "=r,~{memory}" : "=r", DType::Int32, /*isPure=*/false);
  return Value();
}

template <unsigned perWarp> FailureOr<Value> warps(Semantic &s, const BoundArgs &) {
  return Value::integer(int64_t(s.options.numWarps) * perWarp);
}

FailureOr<Value> convertFloat8(Semantic &s, const BoundArgs &args) {
  auto value = tensorArg(s, args, "arg");
  auto type = s.knownType(args["dst_ty"], "`dst_ty`", args.span("dst_ty"));
  if (failed(value) || failed(type))
    return failure();
  auto rounding = choice(s, args, "fp_downcast_rounding", {"rtne", "rtz"}, -1);
  if (failed(rounding))
    return failure();
  CastOptions how;
  if (*rounding >= 0)
    how.rounding =
        *rounding ? CastOptions::Rounding::TowardsZero : CastOptions::Rounding::ToNearest;
  return result(s.cast(*value, type->element(), how, args.call()));
}

FailureOr<Value> currentTarget(Semantic &s, const BoundArgs &) {
  Tuple target;
  target.fields = {"backend", "arch", "warp_size"};
  target.items = {Value(std::string(onCpu(s) ? "cpu" : "cuda")),
                  onCpu(s) ? Value(std::string("native")) : Value::integer(archOf(s)),
                  Value::integer(onCpu(s) ? 0 : 32)};
  return Value(std::move(target));
}

FailureOr<Value> isCuda(Semantic &s, const BoundArgs &) {
  return Value(!onCpu(s));
}

FailureOr<Value> isCpu(Semantic &s, const BoundArgs &) {
  return Value(onCpu(s));
}

FailureOr<Value> no(Semantic &, const BoundArgs &) {
  return Value(false);
}

FailureOr<Value> capabilityGeq(Semantic &s, const BoundArgs &args) {
  auto major = s.knownInt(args["major"], "`major`", args.span("major"));
  auto minor = s.knownInt(args["minor"], "`minor`", args.span("minor"));
  if (failed(major) || failed(minor))
    return failure();
  return Value(!onCpu(s) && archOf(s) >= *major * 10 + *minor);
}

} // namespace

std::vector<Builtin> deviceBuiltins() {
  std::vector<Builtin> rows;
  auto add = [&](const char *name, const char *signature, BuildFn build) {
    rows.push_back({.name = name, .signature = signature, .build = build});
  };
  add("cuda.globaltimer", "()", &globaltimer);
  add("prelude.clock", "()", &programClock);
  add("cuda.smid", "()", &smid);
  add("cuda.num_warps", "()", &warps<1>);
  add("cuda.num_threads", "()", &warps<32>);
  add("cuda.gdc_wait", "()", &dependency<true>);
  add("cuda.gdc_launch_dependents", "()", &dependency<false>);
  add("cuda.convert_custom_float8_sm70", "(arg, dst_ty, fp_downcast_rounding=None)",
      &convertFloat8);
  add("cuda.convert_custom_float8_sm80", "(arg, dst_ty, fp_downcast_rounding=None)",
      &convertFloat8);
  add("target_info.current_target", "()", &currentTarget);
  add("target_info.is_cuda", "()", &isCuda);
  add("target_info.is_cpu", "()", &isCpu);
  add("target_info.cuda_capability_geq", "(major, minor=0)", &capabilityGeq);
  for (const char *name : {"target_info.is_hip", "target_info.is_hip_cdna3",
                           "target_info.is_hip_cdna4", "target_info.is_hip_gfx1250"})
    add(name, "()", &no);
  return rows;
}

} // namespace nereid::frontend

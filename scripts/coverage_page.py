"""Writes docs/reference/coverage.md: every public name of Triton with its state here, on the CPU and on NVIDIA GPUs.

    python scripts/coverage_page.py [--check]

The names are those of Triton's own documentation and of the libraries that use it. A function of the language counts as there on a target when
a kernel that calls it compiles for that target now; otherwise the page says what the compiler says. Names of the host side are looked up in the
package. `--check` compares instead of writing. What the functions compute is tested in tests/language.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import io
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs/reference/coverage.md"

PREAMBLE = """import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def combine(a, b):
    return a + b


@triton.jit
def choose(a, b):
    return a if a > b else b


@triton.jit
def kernel(fp, hp, ip, bp, lp, s, n, N: tl.constexpr):
    r = tl.arange(0, 16)
    p, q, b8 = fp + r, ip + r, bp + r
    x, i, u = tl.load(p), tl.load(q), tl.load(b8)
    l = tl.load(lp + r)
    h = tl.load(hp + r)
    m = i > 0
    a = tl.load(fp + r[:, None] * 16 + r[None, :])
    wide = tl.load(fp + r[:, None] * 64 + tl.arange(0, 64)[None, :])
    d = tl.make_tensor_descriptor(fp, [64, 64], [64, 1], [16, 16])
    rows = tl.make_tensor_descriptor(fp, [64, 64], [64, 1], [1, 16])
    ints = tl.make_tensor_descriptor(ip, [64, 64], [64, 1], [16, 16])
    k = tl.load(ip + r[:, None] * 16 + r[None, :])
    t = x.to(tl.float64)
"""

#: name -> a call of it. Names in `tl`, where nothing else is said.
CALLS = {
    "abs": "tl.abs(x)", "add": "tl.add(x, x)", "advance": "tl.load(tl.advance(tl.make_block_ptr(fp, (64, ), (1, ), (0, ), (16, ), (0, )), (16, )))",
    "arange": "tl.arange(0, 16)", "argmax": "tl.argmax(x, 0)", "argmin": "tl.argmin(x, 0)", "associative_scan": "tl.associative_scan(x, 0, combine)",
    "assume": "tl.assume(n > 0)", "atomic_add": "tl.atomic_add(p, x)", "atomic_and": "tl.atomic_and(q, i)", "atomic_cas": "tl.atomic_cas(q, i, i)",
    "atomic_load": "tl.atomic_load(p)", "atomic_poll": "tl.atomic_poll(q, i)", "atomic_store": "tl.atomic_store(p, x)", "atomic_max": "tl.atomic_max(p, x)", "atomic_min": "tl.atomic_min(q, i)", "atomic_or": "tl.atomic_or(q, i)", "atomic_xchg": "tl.atomic_xchg(p, x)",
    "atomic_xor": "tl.atomic_xor(q, i)", "bitonic_merge": "tl.bitonic_merge(x)", "broadcast": "tl.broadcast(x, s)", "broadcast_to": "tl.broadcast_to(s, (16, ))",
    "cast": "tl.cast(x, tl.int32)", "cat": "tl.cat(x, x, can_reorder=True)", "cdiv": "tl.cdiv(n, 2)", "ceil": "tl.ceil(x)", "clamp": "tl.clamp(x, 0.0, 1.0)", "cos": "tl.cos(x)",
    "cumprod": "tl.cumprod(x, 0)", "cumsum": "tl.cumsum(x, 0)", "debug_barrier": "tl.debug_barrier()", "device_assert": "tl.device_assert(m, 'text')",
    "device_print": "tl.device_print('x', x)", "div_rn": "tl.div_rn(x, x)", "dot": "tl.dot(a, a)",
    "dot_scaled": "tl.dot_scaled(tl.zeros((16, 64), tl.float8e5), None, 'e5m2', tl.zeros((64, 16), tl.float8e5), tl.zeros((16, 2), tl.uint8), 'e5m2')",
    "erf": "tl.erf(x)", "exp": "tl.exp(x)", "exp2": "tl.exp2(x)", "expand_dims": "tl.expand_dims(x, 0)", "expect_zero": "tl.expect_zero(x, m)", "fdiv": "tl.fdiv(x, x)",
    "flip": "tl.flip(x, 0)", "floor": "tl.floor(x)", "fma": "tl.fma(x, x, x)", "full": "tl.full((16, ), 1, tl.float32)", "gather": "tl.gather(x, i, 0)",
    "histogram": "tl.histogram(i, 16)", "inline_asm_elementwise": "tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r', [x], tl.float32, True, 1)",
    "interleave": "tl.interleave(x, x)", "join": "tl.join(x, x)", "load": "tl.load(p)", "load_tensor_descriptor": "tl.load_tensor_descriptor(d, [0, 0])",
    "log": "tl.log(x)", "log2": "tl.log2(x)", "make_block_ptr": "tl.load(tl.make_block_ptr(fp, (64, ), (1, ), (0, ), (16, ), (0, )))",
    "make_tensor_descriptor": "tl.make_tensor_descriptor(fp, [64, 64], [64, 1], [16, 16]).load([0, 0])", "map_elementwise": "tl.map_elementwise(choose, x, x)", "max": "tl.max(x, 0)",
    "max_constancy": "tl.max_constancy(i, 16)", "max_contiguous": "tl.max_contiguous(i, 16)", "maximum": "tl.maximum(x, x, propagate_nan=tl.PropagateNan.ALL)", "min": "tl.min(x, 0)",
    "minimum": "tl.minimum(x, x)", "mul": "tl.mul(x, x)", "multiple_of": "tl.multiple_of(i, 16)", "num_programs": "tl.num_programs(0)", "pair_uniform_to_normal": "tl.pair_uniform_to_normal(x, x)",
    "permute": "tl.permute(a, (1, 0))", "philox": "tl.philox(n, i, i, i, i)", "philox_impl": "tl.philox_impl(i.to(tl.uint32), i.to(tl.uint32), i.to(tl.uint32), i.to(tl.uint32), n.to(tl.uint32), n.to(tl.uint32))",
    "program_id": "tl.program_id(0)", "rand": "tl.rand(n, i)", "rand4x": "tl.rand4x(n, i)", "randint": "tl.randint(n, i)", "randint4x": "tl.randint4x(n, i)", "randn": "tl.randn(n, i)", "randn4x": "tl.randn4x(n, i)",
    "ravel": "tl.ravel(a)", "reduce": "tl.reduce(x, 0, combine)", "reduce_or": "tl.reduce_or(i, 0)", "reshape": "tl.reshape(a, 256)", "rsqrt": "tl.rsqrt(x)", "sigmoid": "tl.sigmoid(x)", "sin": "tl.sin(x)",
    "softmax": "tl.softmax(x)", "sort": "tl.sort(x)", "split": "tl.split(tl.join(x, x))", "sqrt": "tl.sqrt(x)", "sqrt_rn": "tl.sqrt_rn(x)", "squeeze": "tl.squeeze(tl.expand_dims(x, 0), 0)",
    "static_assert": "tl.static_assert(N > 0)", "static_print": "tl.static_print('text')", "store": "tl.store(p, x)", "store_tensor_descriptor": "tl.store_tensor_descriptor(d, [0, 0], a)",
    "sub": "tl.sub(x, x)", "sum": "tl.sum(x, 0)", "swizzle2d": "tl.swizzle2d(n, n, 4, 4, 2)", "to_tensor": "tl.to_tensor(3)", "topk": "tl.topk(x, 4)", "trans": "tl.trans(a)", "uint_to_uniform_float": "tl.uint_to_uniform_float(i)",
    "umulhi": "tl.umulhi(i, i)", "unsqueeze": "tl.unsqueeze(x, 0)", "view": "tl.view(a, 256)", "where": "tl.where(m, x, 0)", "xor_sum": "tl.xor_sum(i, 0)", "zeros": "tl.zeros((16, ), tl.float32)", "zeros_like": "tl.zeros_like(x)",
    "range": "[v for v in tl.static_range(2)]", "static_range": "[v for v in tl.static_range(2)]", "condition": "None",
}
STATEMENTS = {"range": "for v in tl.range(0, n, num_stages=2, loop_unroll_factor=2, disallow_acc_multi_buffer=True, flatten=True, warp_specialize=False, disable_licm=True):\n        tl.store(p + v, x)",
              "condition": "while tl.condition(n > 100, disable_licm=True):\n        n += 1"}
VALUES = ("void int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 float8e5 float8e4nv float8e4b15 float8e5b16 float8e4b8 pi32_t "
          "TRITON_MAX_TENSOR_NUMEL PropagateNan").split()
CLASSES = "dtype dtype.kind dtype.is_dtype dtype.SIGNEDNESS dtype.KIND dtype.cache_key_part pointer_type block_type tuple_type tuple slice constexpr constexpr_type const tensor tensor_descriptor tensor_descriptor_type str_to_ty".split()
PRIVATE = ("core.builtin core.extern core.extern_elementwise core.is_builtin core._unwrap_if_constexpr core.CONSTEXPR_0 core.get_int_dtype core._promote_bfloat16_to_float32 "
           "core.aggregate_replace standard._log2 standard._sum_combine standard._argmax_combine_tie_break_left").split()
MATH = "umulhi exp exp2 log log2 cos sin sqrt sqrt_rn rsqrt abs fdiv div_rn erf floor ceil fma".split()
DTYPE_MEMBERS = ("name primitive_bitwidth itemsize int_bitwidth  scalar is_fp8 is_fp8e4nv is_fp8e4b8 is_fp8e4b15 is_fp8e5 is_fp8e5b16 is_fp16 is_bf16 "
                 "is_fp32 is_fp64 is_int1 is_int8 is_int16 is_int32 is_int64 is_uint8 is_uint16 is_uint32 is_uint64 is_floating is_standard_floating is_int_signed is_int_unsigned is_int is_bool is_block is_ptr is_const "
                 "is_void get_int_max_value get_int_min_value codegen_name mangle with_element_ty").split()
MEMBERS = {
    "dtype": "x.dtype", "type": "x.type", "shape": "x.shape", "numel": "x.numel", "T": "a.T", "to": "x.to(tl.int32)", "cast": "x.cast(tl.int32)", "broadcast_to": "x.broadcast_to(16, 16)" if False else "x.broadcast_to(16)",
    "trans": "a.trans()", "permute": "a.permute(1, 0)", "split": "tl.join(x, x).split()", "view": "a.view(256)", "reshape": "a.reshape(256)", "expand_dims": "x.expand_dims(0)", "ravel": "a.ravel()", "item": "tl.full((1, ), 1, tl.int32).item()",
    "store": "p.store(x)", "atomic_load": "p.atomic_load()", "atomic_poll": "q.atomic_poll(i)", "atomic_store": "p.atomic_store(x)", "atomic_cas": "q.atomic_cas(i, i)", "atomic_xchg": "p.atomic_xchg(x)", "atomic_add": "p.atomic_add(x)", "atomic_max": "p.atomic_max(x)", "atomic_min": "p.atomic_min(x)", "atomic_and": "q.atomic_and(i)",
    "atomic_or": "q.atomic_or(i)", "atomic_xor": "q.atomic_xor(i)", "exp": "x.exp()", "exp2": "x.exp2()", "log": "x.log()", "log2": "x.log2()", "cos": "x.cos()", "sin": "x.sin()", "sqrt": "x.sqrt()", "sqrt_rn": "x.sqrt_rn()",
    "rsqrt": "x.rsqrt()", "abs": "x.abs()", "erf": "x.erf()", "floor": "x.floor()", "ceil": "x.ceil()", "cdiv": "n.cdiv(2)", "sigmoid": "x.sigmoid()", "softmax": "x.softmax()", "reduce": "x.reduce(0, combine)",
    "associative_scan": "x.associative_scan(0, combine)", "gather": "x.gather(i, 0)", "histogram": "i.histogram(16)", "max": "x.max(0)", "argmax": "x.argmax(0)", "min": "x.min(0)", "argmin": "x.argmin(0)", "sum": "x.sum(0)",
    "xor_sum": "i.xor_sum(0)", "reduce_or": "i.reduce_or(0)", "cumsum": "x.cumsum(0)", "cumprod": "x.cumprod(0)", "flip": "x.flip(0)", "logical_and": "m.logical_and(m)", "logical_or": "m.logical_or(m)",
    "advance": "tl.make_block_ptr(fp, (64, ), (1, ), (0, ), (16, ), (0, )).advance((16, ))",
}
DESCRIPTOR_MEMBERS = {
    "load": "d.load([0, 0])", "store": "d.store([0, 0], a)", "atomic_add": "d.atomic_add([0, 0], a)", "atomic_min": "ints.atomic_min([0, 0], k)", "atomic_max": "ints.atomic_max([0, 0], k)",
    "atomic_and": "ints.atomic_and([0, 0], k)", "atomic_or": "ints.atomic_or([0, 0], k)", "atomic_xor": "ints.atomic_xor([0, 0], k)", "gather": "rows.gather(i, 0)", "scatter": "rows.scatter(a, i, 0)",
    "dtype": "d.dtype", "block_type": "d.block_type", "block_shape": "d.block_shape", "shape": "d.shape", "strides": "d.strides",
}
EXTRA_CUDA = {"globaltimer": "()", "num_threads": "()", "num_warps": "()", "smid": "()", "convert_custom_float8_sm70": None, "convert_custom_float8_sm80": None, "gdc_wait": "()", "gdc_launch_dependents": "()"}
TARGET_INFO = {"current_target": "()", "is_cuda": "()", "cuda_capability_geq": "(9, 0)", "is_hip": "()", "is_hip_cdna3": "()", "is_hip_cdna4": "()", "is_hip_gfx1250": "()"}

#: function of libdevice -> operands of a call; families of roundings are written out below.
LIBDEVICE = {
    "x": ("rsqrt ceil trunc exp2 saturatef floor sqrt rint llrint nearbyint isnan signbit finitef isinf sin cos sinpi cospi tan log2 exp exp10 cosh sinh tanh atan asin acos log log10 log1p acosh asinh atanh expm1 cbrt rcbrt "
          "j0 j1 y0 y1 cyl_bessel_i0 cyl_bessel_i1 erf erfinv erfc erfcx erfcinv normcdfinv normcdf lgamma tgamma round llround ilogb logb rsqrt_rn float_as_int float_as_uint abs fast_sinf fast_cosf fast_log2f fast_logf "
          "fast_expf fast_tanhf fast_tanf fast_exp10f fast_log10f"),
    "x, x": "nextafter copysign hypot rhypot atan2 fmod remainder pow fdim fast_powf fast_dividef",
    "x, x, x": "fma norm3d rnorm3d", "x, x, x, x": "norm4d rnorm4d", "i": "clz popc brev ffs int_as_float int2double_rn", "i, i": "mulhi mul24 hadd rhadd hiloint2double", "i, i, i.to(tl.uint32)": "sad", "i, i, i": "byte_perm",
    "i.to(tl.uint32)": "uint_as_float uint2double_rn", "l": "longlong_as_double", "t": "double_as_longlong double2loint double2hiint isfinited rcp64h", "x, i": "ldexp scalbn", "i, x": "yn jn",
}
ROUNDINGS = {"x": "rcp sqrt float2int float2uint float2ll float2ull", "x, x": "add mul sub div", "x, x, x": "fma", "t": "double2float double2int double2uint double2ll double2ull", "i": "int2float",
             "i.to(tl.uint32)": "uint2float", "l": "ll2float ll2double", "l.to(tl.uint64)": "ull2float ull2double"}

HOST = {
    "triton": "__version__ AsyncCompileMode aggregate autotune cdiv CompilationError compile Config constexpr_function FutureKernel heuristics InterpreterError jit JITFunction KernelInterface language MockTensor must_use_result "
              "next_power_of_2 OutOfResources reinterpret runtime set_allocator TensorWrapper TritonError testing tools knobs errors compiler backends",
    "triton.runtime": "autotune Autotuner Config driver Heuristics heuristics InterpreterError JITFunction KernelInterface MockTensor OutOfResources RedisRemoteCacheBackend reinterpret RemoteCacheBackend TensorWrapper",
    "triton.runtime.jit": "JITFunction JITCallable KernelInterface KernelParam ConstexprFunction constexpr_function mangle_type native_specialize_impl create_function_from_signature compute_cache_key get_device_key "
                          "type_canonicalisation_dict MockTensor TensorWrapper reinterpret",
    "triton.runtime.cache": "triton_key get_cache_manager get_dump_manager get_override_manager CacheManager FileCacheManager RemoteCacheManager RemoteCacheBackend get_cache_key",
    "triton.runtime.autotuner": "Autotuner Heuristics Config OutOfResources PTXASError",
    "triton.runtime.errors": "InterpreterError OutOfResources PTXASError AutotunerError",
    "triton.runtime.driver": "driver", "triton.runtime.interpreter": "InterpretedFunction", "triton.runtime._allocation": "set_allocator NullAllocator",
    "triton.compiler": "compile make_backend ASTSource IRSource CompiledKernel CompilationError LazyDict get_cache_key max_shared_mem",
    "triton.compiler.compiler": "triton_key AsmDict ASTSource CompiledKernel make_backend", "triton.compiler.errors": "CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct",
    "triton.errors": "TritonError", "triton.backends": "backends Backend", "triton.backends.compiler": "GPUTarget BaseBackend Language",
    "triton.backends.driver": "DriverBase GPUDriver Benchmarker decompose_descriptor expand_signature wrap_handle_tensordesc_impl",
    "triton.testing": "do_bench do_bench_cudagraph do_bench_proton assert_close Benchmark perf_report Mark get_dram_gbps get_max_tensorcore_tflops get_max_simd_tflops set_gpu_clock cuda_memcheck nvsmi",
    "triton.tools": "compile link", "triton.tools.disasm": "get_sass extract", "triton.tools.tensor_descriptor": "TensorDescriptor",
    "triton.tools.ragged_tma": "create_ragged_descriptor load_ragged store_ragged atomic_add_ragged", "triton.tools.mxfp": "MXFP4Tensor MXScaleTensor fp8e8m0_to_float32", "triton.runtime.build": "compile_module_from_file compile_module_from_src compile_so_from_file compile_so_from_src", "triton.tools.build_extern": "main",
    "triton.knobs": "build redis cache compilation autotuning runtime language nvidia proton propagate_env refresh_knobs HookChain",
}
#: Host names that are not here, and why.
ABSENT = {
    "triton.language.core.dispatch": "a step of `extern_elementwise`, which is there",
    "triton.profiler": "Proton is a project of its own: importing it says so", "triton.experimental.gluon": "a second language, of layouts written by hand: looking for it finds nothing",
}


def functions():
    """(group, name, call) of everything that kernels may call."""
    for name, call in sorted(CALLS.items()):
        yield "tl", name, call
    for name in MATH:
        yield "tl.math", name, CALLS[name].replace("tl.", "tl.math.", 1)
    for name, call in sorted(MEMBERS.items()):
        yield "member functions and attributes of tensors", name, call
    for name, call in sorted(DESCRIPTOR_MEMBERS.items()):
        yield "member functions and attributes of tensor descriptors", name, call
    for name in DTYPE_MEMBERS:
        yield "members of dtypes", name, f"i.dtype.{name}"
    for name, call in sorted(EXTRA_CUDA.items()):
        yield "tl.extra.cuda", name, f"tl.extra.cuda.{name}{call}" if call else f"tl.extra.cuda.{name}(u, tl.float16)"
    for name, call in TARGET_INFO.items():
        yield "tl.target_info", name, f"tl.target_info.{name}{call}"
    device = {name: operands for operands, names in LIBDEVICE.items() for name in names.split()}
    device.update({f"{name}_{rounding}": operands for operands, names in ROUNDINGS.items() for name in names.split() for rounding in ("rn", "rz", "rd", "ru")})
    for name, operands in sorted(device.items()):
        yield "tl.extra.libdevice", name, f"libdevice.{name}({operands})"


def compile_for(target, body, folder):
    """None, or what the compiler says against it."""
    import nereid
    import torch
    text = PREAMBLE + body
    stem = "coverage_" + hashlib.sha1(text.encode()).hexdigest()[:16]
    path = pathlib.Path(folder, stem + ".py")
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            spec.loader.exec_module(module)
            tensors = [nereid.MockTensor(dtype) for dtype in (torch.float32, torch.float16, torch.int32, torch.uint8, torch.int64)]
            module.kernel.warmup(*tensors, 2.5, 7, 16, grid=(1, ), target=target)
    except Exception as error:
        lines = str(error).split("error: ", 1)[-1].splitlines()
        return lines[0] if lines else type(error).__name__
    return None


def probe():
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for group, name, call in functions():
            body = f"    {STATEMENTS[name]}\n" if group == "tl" and name in STATEMENTS else f"    result = {call}\n"
            if group == "members of dtypes" or name in ("dtype", "type", "shape", "numel", "block_type", "block_shape", "strides"):
                body = f"    tl.static_print({call})\n"
            rows.append((group, name, *[compile_for(target, body, folder) for target in ("cpu", "cuda:90")]))
    return rows


def exists(module, name):
    try:
        package, _, owner = module.rpartition(".")
        found = importlib.import_module(module) if owner != "dtype" else getattr(importlib.import_module(package), owner)
    except ImportError as error:
        return f"no module: {error}"
    if hasattr(found, name):
        return None
    try:
        importlib.import_module(f"{module}.{name}")
        return None
    except ImportError:
        return "missing"


def page():
    import nereid
    nereid.install_as_triton()
    lines = ["# Coverage of Triton's names", "",
             "Made by `scripts/coverage_page.py`; do not edit. *yes*: a kernel that calls it compiles for the target (`cuda:90` for GPUs); what the functions",
             "compute is tested in `tests/language`, `tests/kernels` and `tests/generator`. Otherwise the page shows what the compiler answers.", ""]
    rows = probe()
    missing = []
    state = lambda text: "yes" if text is None else "no: " + text.replace("|", "\\|")
    for group in dict.fromkeys(row[0] for row in rows):
        lines += [f"## {group}", "", "| name | cpu | cuda |", "|---|---|---|"]
        for _, name, cpu, cuda in (row for row in rows if row[0] == group):
            lines.append(f"| `{name}` | {state(cpu)} | {state(cuda)} |")
            missing += [f"{group}: {name}"] * (cpu is not None and cuda is not None)
        lines.append("")
    lines += ["## Types, constants, and names that other packages import", "", "| name | state |", "|---|---|"]
    for name in VALUES + CLASSES + PRIVATE:
        module, _, attribute = f"triton.language.{name}".rpartition(".")
        answer = exists(module, attribute)
        lines.append(f"| `tl.{name}` | {state(answer)} |")
        missing += [name] * (answer is not None)
    lines += ["", "## The host side", "", "| module | names | not there |", "|---|---|---|"]
    for module, names in HOST.items():
        absent = [name for name in names.split() if exists(module, name) is not None]
        lines.append(f"| `{module}` | {', '.join(f'`{n}`' for n in names.split() if n not in absent)} | {', '.join(absent)} |")
        missing += [f"{module}.{name}" for name in absent]
    lines += ["", "Not there, on purpose:", ""] + [f"- `{name}`: {reason}" for name, reason in ABSENT.items() if reason]
    known = {row["name"] for row in json.loads(nereid.language_json()) if row["kind"] != "type" and not row["name"].startswith("_")}
    unlisted = sorted(known - set(CALLS) - set(MEMBERS) - set(CLASSES))
    lines += ["", "Functions of the language that Triton does not have: " + (", ".join(f"`tl.{name}`" for name in unlisted) or "none") + ".", ""]
    return "\n".join(lines), missing


def main():
    text, missing = page()
    if missing:
        print(f"{len(missing)} missing: " + ", ".join(missing))
    if "--check" in sys.argv:
        if PAGE.read_text() != text:
            sys.exit("docs/reference/coverage.md is out of date: run scripts/coverage_page.py")
    else:
        PAGE.write_text(text)
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()

"""The host side against the real Triton: values, names, defaults, texts and exceptions of what `host_questions.txt` asks.

What Triton 3.6 answers is recorded (`python tests/oracle/record.py host`). Every other answer stands in DIFFERENCES with its reason, and
a reason without a difference is an error, too. An exception may say more than Triton's, and an object may have more names.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
RECORDED = json.loads((HERE / "host-3.6.0.json").read_text())

#: Reasons, and the questions: each by its text, or by the beginning of the texts of several.
DIFFERENCES = {
    "refused with a text that says what is wrong, where Triton fails somewhere inside": [
        'setattr(scale, "src"', "triton.jit(scale) is scale", "triton.jit(3)", "triton.jit(print)", 'triton.jit(type("Callable"',
        "scale.add_pre_run_hook(3)", "triton.jit(folded)", "triton.next_power_of_2(5.0)", "ASTSource(scale, {\"src\": \"*fp32\"}, {\"unknown\"",
        "ASTSource(scale, None)", 'compiled().asm["nonsense"]', 'compiled({"arch": 80})', "compiled(constants={})", "triton.compile(3)",
        'compiled(signature={"src": "*fp32", "dst": "*fp32", "n": "nonsense"', 'compiled(signature={"src": "*fp32", "dst": "*fp32", "BLOCK"',
        'triton.compile("missing.nonsense"', 'triton.compile(ASTSource(scale, {"src": "*fp32"}), target="cuda")', "launch(())",
        "launch(None)", 'launch((1, ), 5, num_warps="4")', "launch((1, ), None)", "launch((1, ), tl.float32)", "launch((1, ), (1, 2))",
        "launch((1, ), 5, fill)", "launch((1, ), 5, tl.float32)", "launch((1, ), 5, [1])", 'launch((1, ), 5, "text")',
        "launch((1, ), 5, object())", "launch((1, ), 5, torch.zeros(1))", "fill[(1, )](torch.zeros(1, dtype=torch.complex64)",
        "fill[(1, )](None, 5)", "fill[(1, )](3, 5)", "fill.warmup(torch.complex64", "triton.testing.nvsmi", "triton.testing.do_bench",
        'tl.dtype("nonsense")', "tl.void.kind()", "tl.pointer_type(tl.float32).kind()", "tl.float32.get_int_max_value()",
    ],
    "the name of the kernel, not that of Triton's generated function": [
        "launch((1, ), 5, 7, 9)", "launch((1, ), 5, dst=3)", "launch((1, ), 5, n=3)", "fill[(1, )]()", "fill[(1, )](torch.zeros(1))",
        "fill[(1, )](n=5)", "fill[(1, )](torch.zeros(1, dtype=torch.int32), 5, 3, 4)",
    ],
    "refused early": [
        "triton.Config(3)", "triton.heuristics(3)(scale).values", "launch((1, 2, 3, 4))", "launch((1, 1, 1, None))", "launch((-1, ))", 'compiled({"num_warps": 64})', 'with_knob("runtime", "debug", "nonsense"',
        "fill.warmup(torch.int32, 5, grid=(1, ))[(1, 1, 1)](torch.zeros(1, dtype=torch.int32))", "tl.block_type(tl.float16, [0])",
    ],
    "accepted: an extension, documented": [
        "launch(1)", "launch(lambda meta: 1)", "TensorDescriptor.from_tensor(torch.zeros(16, 16), [7, 8])", "tl.block_type(tl.float16, [3])",
        "tl.constexpr(torch).float32", "tl.tuple([1, 2]) * 2", 'triton.autotune([triton.Config({})], key="n")',
        'make_backend(SM90).get_codegen_implementation(make_backend(SM90).parse_options({}))["min_dot_size"]',
    ],
    "accepted": [
        'triton.Config({"A": 1}) == 3', "scale.warmup()", "fill.warmup(torch.zeros(1, dtype=torch.int32), 5)",
        "fill.warmup(torch.int32, 5, grid=(1, ))[(1, )]", "ASTSource(scale, {0", 'ASTSource(scale, {"src": "*fp32"}, {3', "ASTSource(scale, \"*fp32",
        "ASTSource(plain", 'compiled({"arch": "sm_80"})', 'compiled(signature={"src": "*fp32", "dst": "*fp32", "n": "i32"})',
        "tl.float32.is_void()", "folded.__wrapped__(1)", 'triton.testing.assert_close(torch.full((1, ), float("nan"))',
    ],
    "there before the first launch, too": ["tuned.best_config", "tuned.configs_timings", "tuned.bench_time", "tuned.nargs"],
    "loaded when it is asked for, which needs a GPU": ["compiled().module", "compiled().function"],
    "names and members of newer releases": [
        "sorted(triton.knobs.language.knobs)",
        "triton.runtime._allocation.has_profile_allocator()", "triton.knobs.autotuning.listener", "compiled().metadata.cluster_dims",
        "triton.compiler.max_shared_mem", "[field.name for field in dataclasses.fields(TensorDescriptor)]", "TensorDescriptor(torch.zeros(4)",
        "TensorDescriptor.from_tensor(torch.zeros(16, 16), [8])", "TensorDescriptor(torch.zeros(16), [16], [1, 1]", 'with_variables(lambda: triton.knobs.compilation.instrumentation_mode',
        "inspect.signature(tl.dot)", 'vars(triton.Config({"A": 1}))',
    ],
    "how a value shows itself": [
        "repr(folded)", 'triton.Config({"A": 1})', 'triton.autotune([], key=["n"])(scale).configs', "tuned.pre_hook", "tuned.post_hook",
        'repr(OutOfResources(300', "vars(OutOfResources(1", "triton.reinterpret(torch.zeros(4), tl.int32)", "triton.TensorWrapper(",
        "repr(tl.pointer_type(", "tl.block_type(tl.float16, [16, 2])", "tl.pointer_type(tl.float16, const=True)", 'tl.str_to_ty("*fp32"', 'tl.str_to_ty("*kfp32"',
        'tl.str_to_ty("tensordesc', "tl.tuple([1, 2]).type", "tl.PropagateNan.ALL", "tl.load.__module__", "tl.tuple([1, 2]) == (1, 2)",
        "triton.testing.assert_close(torch.ones(2), torch.zeros(2)", "triton.testing.assert_close(torch.ones(2), torch.full((2, ), 1.005), atol=0)",
        "triton.testing.assert_close(torch.ones(2), torch.ones(3))", "compiled().metadata.supported_fp8_dtypes",
        "compiled().metadata.deprecated_fp8_dot_operand_dtypes", "compiled().metadata.allowed_dot_input_precisions",
    ],
    "what makes it": [
        "type(scale[", "[type(item).__name__ for item in scale.create_binder()]", "scale.device_caches.__class__", "[type(item).__name__ for item in fill.device_caches[0]]",
        "type(triton.cdiv)", "type(triton.next_power_of_2)", "isinstance(triton.compiler.compiler.AsmDict", "isinstance(compiled().asm, dict)",
        "triton.compiler.compiler.AsmDict(", "inspect.isabstract(triton.runtime.cache.RemoteCacheBackend)", "BaseBackend(SM90)",
        "[c.__name__ for c in InterpreterError", "tl.range(3)", "tl.static_range(", "tl.condition(3)", "list(tl.PropagateNan)",
    ],
    "without a kernel there is one error for all of the language": ["tl.zeros((4, )", "tl.sum(3)", "tl.cdiv(7, 2)"],
    "stages of our own; `asm[name]` knows Triton's names": [
        'set(compiled().asm) >=', '"sass" in compiled().asm', "names(make_backend(SM90))", "make_backend(SM90).get_codegen_implementation(make_backend(SM90).parse_options({})).keys()",
    ],
    "NumPy's arrays and others know no device": ["triton.reinterpret(torch.zeros(2, 3), tl.int32).is_cuda"],
    "Triton's strides of three dimensions are those of another shape": ["triton.MockTensor(torch.float16, [2, 3, 4]).stride()"],
    "scratch memory is aligned for every access": ["compiled().metadata.global_scratch_align"],
    "libdevice is our own": ["compiled().metadata.extern_libs", "names(tl.extra.cuda.libdevice)"],
    "the options of the CPU target, on which this runs: the number of warps makes no other kernel": [
        "fill.warmup(torch.int32, 5, grid=(1, )) is fill.warmup(torch.int32, 5, grid=(1, ), num_warps=",
    ],
    "hooks get what the caller passed": ["(lambda found: (fill.pre_run_hooks.append"],
    "the text describes all parameters": ['(lambda found: (with_knob("runtime", "jit_cache_hook", lambda **kwargs: found.append((kwargs["repr"]'],
    "another way to store ragged arrays, which `load_ragged` and `store_ragged` know": ["create_ragged_descriptor(torch.zeros(8, 16), [4, 16]).s"],
    "the compiler is no Python": ["names(tl.float32)", "names(tl.pointer_type(tl.float32))", "names(tl.block_type(tl.float32, [2]))"],
}


def same(theirs, ours):
    if theirs.startswith("names: ") and ours.startswith("names: "):
        return set(theirs.split()) <= set(ours.split())
    if theirs.startswith("!") and ours.startswith("!"):
        kind, text = theirs[1:].split(": ", 1)
        return ours[1:].startswith(kind + ": ") and text.strip("'\"") in ours
    return theirs == ours


def asked(**environment):
    """What Nereid answers with these environment variables: {question: answer}."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("NEREID_AS_TRITON", "NEREID_STRICT", "NEREID_TRITON_VERSION")}
    done = subprocess.run([sys.executable, HERE / "host.py", "nereid"], env={**inherited, **environment}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers():
    found = asked()
    assert set(found) == set(RECORDED), "run tests/oracle/record.py host"
    return found


def reasons(question):
    return [start for starts in DIFFERENCES.values() for start in starts if (question == start if start in RECORDED else question.startswith(start))]


def test_the_same_answers(answers):
    unexpected = [question for question, theirs in RECORDED.items() if not same(theirs, answers[question]) and not reasons(question)]
    assert not unexpected, "\n\n".join(f"{question}\n    Triton {RECORDED[question]}\n    here   {answers[question]}" for question in unexpected)


def test_every_reason_has_its_difference(answers):
    used = {start for question, theirs in RECORDED.items() if not same(theirs, answers[question]) for start in reasons(question)}
    listed = {start for starts in DIFFERENCES.values() for start in starts}
    assert listed == used, listed - used

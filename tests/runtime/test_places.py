"""Where a kernel runs is decided by where its arguments lie: on a machine with GPUs, which the stand-in for the driver has three of."""

import pathlib
import textwrap

import pytest
from fake_driver import LAUNCHES, fake, needs_compiler, run  # noqa: F401  (`fake` is a fixture)

pytestmark = needs_compiler
BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"

PLACES = textwrap.dedent(LAUNCHES) + textwrap.dedent("""
    import numpy as np

    @nereid.jit
    def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x + y, mask=mask)

    @nereid.jit
    def nothing():
        pass

    def add(*arrays, kernel=add_kernel, **options):
        return kernel[(4, )](*arrays, 1000, BLOCK=256, **options)

    def host(make=torch.rand):
        return make(1000), make(1000), make(1000)

    def on_cpu(*arrays, **options):
        x, y, out = arrays or host()
        out[:] = 0
        used = add(x, y, out, **options)
        assert (np.asarray(out) == np.asarray(x) + np.asarray(y)).all()
        return used.metadata.target.backend

    def on_gpu(*arrays, call=add, **options):
        fake.fake_reset()
        fake.fake_params(6)
        used = call(*arrays, **options)
        return used.metadata.target.backend, fake.fake_record().decode().split("launch")[-1].split(" grid")[0].strip()

    def launched_without_arguments():
        fake.fake_params(2)
        return nothing[(1, )]().metadata.target.backend

    def gpu(number=0):
        return tuple(Array(f"cuda:{number}", 0x10000 * i) for i in (1, 2, 3))

    def memory(device=0, pinned=0):
        fake.fake_memory(ctypes.c_uint64(device), ctypes.c_uint64(pinned))
""")


def program(code, fake, tmp_path, **environment):
    """What a program prints on a machine with three GPUs; skipped where no kernel for one can be assembled."""
    check = """
        try:
            add_kernel.warmup(*gpu(), 1000, BLOCK=256, grid=(1, )).asm["cubin"]
        except (RuntimeError, nereid.TritonError) as missing:
            if "there is no assembler" not in str(missing):
                raise
            print("no assembler:", missing)
            raise SystemExit
    """
    lines = run(PLACES + textwrap.dedent(check) + textwrap.dedent(code), tmp_path, NEREID_LIBCUDA=fake, **environment)
    if lines and lines[0].startswith("no assembler"):
        pytest.skip(lines[0])
    return lines


def test_host_arrays_run_on_the_cpu_without_waking_the_gpus(fake, tmp_path):
    """README's first example, with PyTorch's tensors and with NumPy's arrays; CUDA is not initialised for it."""
    lines = run(
        PLACES + textwrap.dedent("""
        print(on_cpu(), on_cpu(*host(lambda n: np.ones(n, np.float32))))
        for _ in range(5):
            on_cpu()
        x = torch.ones(1000)
        print(on_cpu(x, np.ones(1000, np.float32), torch.empty(1000)))
        empty = torch.empty(0)
        print(add_kernel[(4, )](empty, empty, empty, 0, BLOCK=256).metadata.target.backend)
        count = ctypes.c_int()
        print(fake.cuDeviceGetCount(ctypes.byref(count)))  # 3: not initialised
        print(driver.active.name)
        """), tmp_path, NEREID_LIBCUDA=fake)
    assert lines == ["cpu cpu", "cpu", "cpu", "3", "cuda"]


def test_one_function_takes_turns(fake, tmp_path):
    lines = program(
        """
        import collections
        seen = collections.Counter()
        tensors, arrays = host(), host(lambda n: np.ones(n, np.float32))
        for turn in range(12):
            seen[on_cpu(*tensors)] += 1
            seen[on_gpu(*gpu())] += 1
            seen[on_gpu(*gpu(1))] += 1
            seen[on_cpu(*arrays)] += 1
            if turn > 6:  # the same kind twice, as most launches are
                seen[on_gpu(*gpu())] += 1
                seen[on_cpu(*tensors)] += 1
        print(sorted(seen.items(), key=str))
        """, fake, tmp_path)
    assert lines == ["[('cpu', 29), (('cuda', 'on 0'), 17), (('cuda', 'on 1'), 12)]"]


def test_mixed_places_name_both_arguments(fake, tmp_path):  # PointersInTwoPlaces, PointersOnTwoGpus
    lines = program(
        """
        x, y, out = host()
        a, b, c = gpu()
        for arrays in ((x, b, c), (a, y, c), (a, b, out), (x, y, c), (np.zeros(1000, np.float32), b, c)):
            print(text(lambda: add(*arrays)))
        print(text(lambda: add(a, b, gpu(1)[2])))
        print(text(lambda: add(gpu(1)[0], b, c)))
        on_gpu(a, b, c), on_gpu(a, b, c), on_gpu(a, b, c)  # and after launches that the path knows
        print(text(lambda: add(a, y, c)))
        from nereid.tools.tensor_descriptor import TensorDescriptor
        @nereid.jit
        def through(d, out):
            tl.store(out, tl.sum(d.load([0])))
        print(text(lambda: through[(1, )](TensorDescriptor(torch.zeros(64), [64], [1], [16]), a)))
        @nereid.jit
        def pair(both):
            tl.store(both[0], tl.load(both[1]))
        print(text(lambda: pair[(1, )]((a, y))))
        """, fake, tmp_path)
    text = ("ValueError: error: argument `{}` is on the CPU and argument `{}` on cuda:0: expected all arguments on one device (pinned host "
            "memory may be mixed with a GPU's), move one with `.to(...)` | note: in Triton's words: Pointer argument (at {}) cannot be accessed "
            "from Triton (cpu tensor?)")
    places = [("x_ptr", "y_ptr", 0), ("y_ptr", "x_ptr", 1), ("out_ptr", "x_ptr", 2), ("x_ptr", "out_ptr", 0), ("x_ptr", "y_ptr", 0)]
    assert lines[:5] == [text.format(*place) for place in places]
    for line, words in zip(lines[5:7], (("`out_ptr` is on cuda:1", "`x_ptr` on cuda:0"), ("`x_ptr` is on cuda:1", "`y_ptr` on cuda:0"))):
        assert line.startswith("ValueError") and all(word in line for word in words), line
    assert lines[7] == text.format("y_ptr", "x_ptr", 1)
    assert lines[8] == text.format("d", "out", 0)
    assert "is on the CPU and argument" in lines[9] and "both" in lines[9], lines[9]


def test_memory_of_another_gpu_that_can_be_reached(fake, tmp_path):
    lines = program(
        """
        a, b, c = gpu()
        there = Array("cuda:1", 0x50000)
        def with_peer(*arrays):
            fake.fake_peer(ctypes.c_uint64(0x50000))
            return add(*arrays)
        print(on_gpu(a, b, there, call=with_peer))
        """, fake, tmp_path)
    assert lines == ["('cuda', 'on 0')"]


def test_pinned_memory(fake, tmp_path):
    """Alone to the GPU, with an address of the GPU's own; else along with what decides."""
    lines = program(
        """
        torch_pinned, (x, y, out) = torch.rand(1000), host()
        address = torch_pinned.data_ptr()
        @nereid.jit
        def double(p, BLOCK: tl.constexpr):
            tl.store(p + tl.arange(0, BLOCK), tl.load(p + tl.arange(0, BLOCK)) * 2)
        def pinned(*arrays, **options):
            memory(pinned=address)
            return double[(1, )](*arrays, BLOCK=256, **options)
        driver.active.get_current_target()
        for _ in range(4):
            fake.fake_reset()
            fake.fake_params(3)
            memory(pinned=address)
            used = double[(1, )](torch_pinned, BLOCK=256)
            print(used.metadata.target.backend, f"params {address + 4096:x} " in fake.fake_record().decode())
            double[(1, )](x, BLOCK=256)  # pageable, with the same head
        before = x.clone()
        print(double[(1, )](x, BLOCK=256).metadata.target.backend, bool((x[:256] == before[:256] * 2).all()))
        memory(pinned=address)
        print(on_cpu(torch_pinned, y, out))
        a, b, c = gpu()
        def along(*arrays):
            memory(pinned=address)
            return add(*arrays)
        for _ in range(3):
            print(on_gpu(a, torch_pinned, c, call=along), f" {address + 4096:x} " in fake.fake_record().decode())
        fake.fake_reset()  # it is not pinned any more
        print("PointersInTwoPlaces" if "is on the CPU and argument" in text(lambda: add(a, torch_pinned, c)) else "launched")
        """, fake, tmp_path)
    assert lines[:4] == ["cuda True"] * 4
    assert lines[4:6] == ["cpu True", "cpu"]
    assert lines[6:9] == ["('cuda', 'on 0') True"] * 3
    assert lines[9] == "PointersInTwoPlaces"


def test_what_overrides_the_arguments(fake, tmp_path):
    code = """
        print(text(lambda: on_cpu()), text(lambda: on_gpu(*gpu())), launched_without_arguments())
        print(on_cpu(target="cpu"), text(lambda: add(*gpu(), target="cpu")), text(lambda: add(*host(), target="cuda")))
        driver.set_active_to_cpu()
        print(text(lambda: on_cpu()), text(lambda: on_gpu(*gpu())), launched_without_arguments())
        driver.set_active_to_gpu()
        print(text(lambda: on_cpu()), text(lambda: on_gpu(*gpu())), launched_without_arguments())
    """
    host, gpu, both = "'cpu'", "('cuda', 'on 0')", ("argument `x_ptr` is on device cuda:0, but the kernel runs on the CPU", "cpu tensor?")
    lines = program(code, fake, tmp_path)
    assert lines[0] == f"{host} {gpu} cuda" and lines[2] == f"{host} {gpu} cpu" and lines[3] == f"{host} {gpu} cuda"
    assert lines[1].startswith("cpu ") and all(text in lines[1] for text in both)
    lines = program(code, fake, tmp_path, NEREID_STRICT="1")
    refused = "ValueError: error: argument `x_ptr` is in memory of the CPU, and the kernel runs on the GPU: move it with `.to(\"cuda\")` | " \
        "note: in Triton's words: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"
    assert lines[0] == f"{refused} {gpu} cuda" and lines[2] == f"{host} {gpu} cpu" and lines[3] == f"{refused} {gpu} cuda"


@pytest.mark.parametrize("wanted", ["cpu", "cuda"])
def test_the_setting_overrides_the_arguments(fake, tmp_path, wanted):
    lines = run(PLACES + textwrap.dedent("""
        print(text(lambda: on_cpu()))
        print(text(lambda: add(*gpu(), target=None) and "launched"))
        print(nothing.warmup(grid=(1, )).metadata.target.backend)
        """).replace(", target=None", ""), tmp_path, NEREID_LIBCUDA=fake, NEREID_TARGET=wanted)
    if wanted == "cpu":
        assert lines[0] == "'cpu'" and "is on device cuda:0, but the kernel runs on the CPU" in lines[1]
    else:
        assert "cpu tensor?" in lines[0]
    assert lines[2] == wanted


def test_tuners_and_rules_tell_kinds_of_devices_apart(fake, tmp_path):
    lines = program(
        """
        measured = []
        def bench(call, quantiles):
            measured.append(call() or len(measured))
            return [float(len(measured))] * 3
        tuned = nereid.autotune([nereid.Config({"BLOCK": size}) for size in (256, 512)], key=["n"], do_bench=bench)(
            nereid.heuristics({"n": lambda args: 1000})(add_kernel))
        def both(*arrays):
            return tuned[(4, )](*arrays)
        x, y, out = host()
        def cpu():
            out[:] = 0
            used = both(x, y, out)
            assert (out == x + y).all()
            return used.metadata.target.backend
        for _ in range(6):
            print(cpu(), on_gpu(*gpu(), call=both), cpu(), cpu())
        print(len(measured), len(tuned.cache))
        fake.fake_params(3)  # `one` has a pointer, and two to scratch memory
        @nereid.autotune([nereid.Config({"BLOCK": size}) for size in (16, 32)], key=[], do_bench=bench)
        @nereid.jit
        def one(p, BLOCK: tl.constexpr):
            tl.store(p + tl.arange(0, BLOCK), 1.0)
        def launch_one():
            return one[(1, )](x).metadata.target.backend
        print(launch_one(), launch_one(), launch_one())
        memory(pinned=x.data_ptr())
        print(launch_one(), launch_one(), launch_one(), len(one.cache))
        memory()
        print(launch_one(), len(one.cache))
        """, fake, tmp_path)
    assert lines[:6] == ["cpu ('cuda', 'on 0') cpu cpu"] * 6
    assert lines[6] == "4 2"
    assert lines[7:] == ["cpu cpu cpu", "cuda cuda cuda 2", "cpu 2"]


def test_the_other_ways_to_launch_and_to_compile(fake, tmp_path):
    lines = program(
        """
        from nereid.compiler import ASTSource
        x, y, out = host()
        used = add(x, y, out)
        a, b, c = gpu()
        print(text(lambda: used[(4, )](x, y, out, 1000, 256)), text(lambda: used[(4, )](a, b, c, 1000, 256)))
        there = add(a, b, c)
        print(text(lambda: there[(4, )](x, y, out, 1000, 256)))
        print(add_kernel.warmup(x, y, out, 1000, BLOCK=256, grid=(4, )).metadata.target.backend,
              add_kernel.warmup(torch.float32, torch.float32, torch.float32, 1000, BLOCK=256, grid=(4, )).metadata.target.backend)
        source = ASTSource(add_kernel, {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
                           {"BLOCK": 256})
        from nereid.backends.compiler import GPUTarget
        print(nereid.compile(source).metadata.target.backend, nereid.compile(source, target=GPUTarget("cpu", "native", 1)).metadata.target.backend)

        class Mine(type(add_kernel)):
            def run(self, *args, **kwargs):
                return super().run(*args, **kwargs)
        mine = Mine(add_kernel.fn)
        print(on_cpu(x, y, out, kernel=mine), on_gpu(a, b, c, kernel=mine), on_cpu(x, y, out, kernel=mine))
        with nereid.knobs.runtime.scope():
            nereid.knobs.runtime.launch_enter_hook = lambda metadata: None
            print(on_cpu(x, y, out), on_gpu(a, b, c))
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(2) as executor, nereid.AsyncCompileMode(executor):
            futures = [add_kernel.warmup(*arrays, 1000, BLOCK=128, grid=(4, )) for arrays in ((x, y, out), (a, b, c), (x, y, out))]
        print([future.result().metadata.target.backend for future in futures], futures[0] is futures[2])
        """, fake, tmp_path)
    assert lines[0].startswith("None ValueError") and "is on device cuda:0, but the kernel runs on the CPU" in lines[0]
    assert "cpu tensor?" in lines[1]
    assert lines[2] == "cpu cuda" and lines[3] == "cuda cpu"
    assert lines[4] == "cpu ('cuda', 'on 0') cpu" and lines[5] == "cpu ('cuda', 'on 0')"
    assert lines[6] == "['cpu', 'cuda', 'cpu'] True"


def test_torch_compile_for_the_cpu_beside_a_gpu(fake, tmp_path):
    lines = run(
        """
        nereid.install_as_triton()
        import torch._inductor.config as config
        config.cpu_backend = "triton"
        config.compile_threads = 1
        compiled = torch.compile(lambda x: torch.softmax(x * 2 + 1, -1))
        x = torch.rand(37, 61)
        print(torch.allclose(compiled(x), torch.softmax(x * 2 + 1, -1), atol=1e-6))
        y = torch.ones(8)
        kernel[(1, )](y, 2, BLOCK=8)
        print(y.sum().item())
        """, tmp_path, NEREID_LIBCUDA=fake, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"), NEREID_TRITON_VERSION="3.7.1")
    assert lines == ["True", "16.0"]


def test_the_main_job_says_why_it_does_not_run_on_a_gpu(fake, tmp_path):
    """`benchmarks/main_job.py`, the README's first command."""
    code = f"""
        import pathlib, sys
        sys.path.insert(0, {str(BENCHMARKS)!r})
        import main_job
        print(main_job.why_no_gpu())
    """
    assert run(code, tmp_path, NEREID_LIBCUDA="/nowhere/libcuda.so.1") == ["no GPU was found"]
    [line] = run(code, tmp_path, NEREID_LIBCUDA=fake)
    assert line.startswith("there is a GPU, but PyTorch ") and line.endswith(" cannot use it (install a build for CUDA)") or line == "None"

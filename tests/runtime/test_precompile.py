"""`nereid.precompile` and `nereid.record`."""

import json
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import nereid
import nereid.language as tl
import numpy as np
import pytest


@nereid.jit
def scale(x, y, n, factor, B: tl.constexpr, MODE: tl.constexpr = "plain"):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n) * factor
    if MODE == "negative":
        v = -v
    tl.store(y + i, v, mask=i < n)


@nereid.jit
def pair(x, both, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, both[0] + both[1])


@nereid.jit(repr=lambda specialization: f"named_{specialization.constants['B']}")
def named(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B), 1.0)


@pytest.fixture(autouse=True)
def forget():
    yield
    for kernel in (scale, pair, named):
        kernel._clear_cache()


def test_launches_find_what_was_compiled():
    x, y = np.ones(64, dtype=np.float32), np.zeros(64, dtype=np.float32)
    compiled = nereid.precompile([(scale, "*fp32:16, *fp32:16, i32:16, fp32, 64"), (scale, "*fp32:16, *fp32:16, i32:16, fp32, 64, 'negative'"),
                                  (scale, ["*fp32:16", "*fp32:16", "i32:16", "fp32", 128], {"debug": True})])
    assert scale[(1, )](x, y, 64, 2.0, B=64) is compiled[0]
    assert scale[(1, )](x, y, 64, 2.0, B=64, MODE="negative") is compiled[1]
    assert scale[(1, )](x, y, 64, 2.0, B=128, debug=True) is compiled[2]


def test_folded_integers_tuples_and_names():
    x = np.zeros(16, dtype=np.float32)
    one, both, called = nereid.precompile([(scale, "*fp32:16, *fp32:16, i32:1, fp32, 16"), (pair, "*fp32:16, (i32, fp32), 16"),
                                           (named, "*fp32:16, 16")], threads=2)
    assert scale[(1, )](x, x, 1, 2.0, B=16) is one
    assert pair[(1, )](x, (3, 0.5), B=16) is both and x[0] == 3.5
    assert named[(1, )](x, B=16) is called and called.name == "named_16"


def test_tuned_kernels_and_targets():
    tuned = nereid.autotune([nereid.Config({"B": 64})], key=["n"])(scale)
    with ThreadPoolExecutor(2) as executor:
        host, device = nereid.precompile([(tuned, "*fp32, *fp32, i32, fp32, 64", {"target": "cpu"}), (tuned, "*fp32, *fp32, i32, fp32, 64")],
                                         target="cuda:80", executor=executor)
    assert host.metadata.target.backend == "cpu"
    assert ".target sm_80" in device.asm["ptx"]


@pytest.mark.parametrize("signature, message", [
    ("*fp32", "the signature of scale() lacks `y`"),
    ("*fp32, *fp32, i32, fp32, 64, 'plain', 1", "scale() has 6 parameters, the signature 7"),
    ("*fp32, *fp32, i32, fp32, fp32", "`B` is a constexpr: a value such as `1024` or `'tf32'` is expected, found `fp32`"),
])
def test_wrong_signatures(signature, message):
    with pytest.raises(ValueError) as caught:
        nereid.precompile([(scale, signature)])
    assert str(caught.value) == message


def test_errors_come_out_when_all_is_done():
    jobs = [(scale, "*fp32, *fp32, i32, *fp32, 64"), (scale, "*fp32, *fp32, i32, fp32, 64")]
    with pytest.raises(nereid.CompilationError):
        nereid.precompile(jobs)
    failed, compiled = nereid.precompile(jobs, ignore_errors=True)
    assert failed is None and compiled.name == "scale"
    with pytest.raises(TypeError, match="a kernel made with @jit is expected, found function"):
        nereid.precompile([(lambda: 1, "")])


def test_recordings(tmp_path):
    """A program is recorded, its kernels are compiled by another process, and a third one finds them on disk."""
    program = tmp_path / "program.py"
    program.write_text("""
import sys
import nereid
import nereid.language as tl
import numpy as np

@nereid.jit
def kernel(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x + i, 1.0, mask=i < n)

def main():
    x = np.zeros(64, dtype=np.float32)
    return [kernel[(1, )](x, n, B=64).times for n in (64, 1, 7)]

if __name__ == "__main__":
    if "record" in sys.argv:
        with nereid.record("kernels.jsonl"):
            main()
    else:
        print(["kernel cache" in times for times in main()])
""")

    def run(folder, *command):
        environment = {**os.environ, "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(tmp_path / folder)}
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("first", program, "record")
    lines = (tmp_path / "kernels.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["kernel"] * 3
    assert run("second", program) == "[False, False, False]\n"
    run("third", "-c", "import nereid; assert len(nereid.precompile('kernels.jsonl')) == 3")
    assert run("third", program) == "[True, True, True]\n"


def test_wrong_recordings(tmp_path):
    file = tmp_path / "kernels.jsonl"
    file.write_text('{"module": 1}\n')
    with pytest.raises(ValueError, match=r"kernels.jsonl:1: this is no recording of `nereid.record`"):
        nereid.precompile(pathlib.Path(file))

"""Thousands of damaged entries: none is taken for one, and kernels whose entries they are compile again."""

import json
import os
import pathlib
import random
import stat
import subprocess
import sys

COUNT = int(os.environ.get("NEREID_DAMAGED_ENTRIES", "600"))

PROGRAM = """
import sys
import nereid
import nereid.language as tl
import numpy as np

OFFSET = tl.constexpr(3)

@nereid.jit
def add(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + OFFSET, mask=i < n)

@nereid.jit
def total(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.device_assert(n >= 0, "negative")
    tl.store(y, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))

x, y = np.ones(64, dtype=np.float32), np.zeros(64, dtype=np.float32)
hits = []
for n in (64, 33, 1):
    hits.append("kernel cache" in add[(1, )](x, y, n, B=64).times)
    assert (y[:n] == 4).all()
    hits.append("kernel cache" in total[(1, )](x, y, n, B=64, debug=True).times)
    assert y[0] == n
print(hits)
"""


def damaged(content, others, rng):
    """One of the ways in which a file can be wrong."""
    content = bytearray(content)
    kind = rng.randrange(8)
    if kind == 0:  # a flipped bit
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == 1:  # several
        for _ in range(rng.randrange(2, 50)):
            content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
    elif kind == 2:
        del content[rng.randrange(len(content)):]
    elif kind == 3:
        content += bytes(rng.randrange(1, 200))
    elif kind == 4:  # of another version, of another length
        at = rng.choice([8, 12, 16])
        content[at:at + 4] = rng.randrange(3, 2**32).to_bytes(4, "little")
    elif kind == 5:  # a page that was never written
        at = rng.randrange(len(content))
        end = min(len(content), at + 512)
        if any(content[at:end]):
            content[at:end] = bytes(end - at)
        else:
            content = bytearray()
    elif kind == 6:  # what belongs elsewhere
        return rng.choice(others)
    else:
        content = bytearray(rng.randbytes(rng.randrange(300)))
    return bytes(content)


def test_damaged_entries(tmp_path):
    folder = tmp_path / "kernels"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(tmp_path)}

    def run():
        done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.lower())

    from nereid import _native
    assert run() == [False] * 6 and run() == [True] * 6
    entries = sorted(path for path in folder.glob("*/*"))
    good = {path: path.read_bytes() for path in entries}
    rng = random.Random(7)

    # Under names of their own, all at once.
    made = set()
    for _ in range(COUNT):
        content = damaged(rng.choice(list(good.values())), list(good.values()), rng)
        place = folder / f"{rng.randrange(256):02x}" / rng.randbytes(31).hex()
        place.parent.mkdir(mode=0o700, exist_ok=True)
        place.write_bytes(content)
        made.add(str(place))
    report = json.loads(_native.cache_json(str(folder)))
    assert set(report["damaged"]) == made
    assert {entry["path"] for entry in report["entries"]} == {str(path) for path in good}
    for place in made:
        pathlib.Path(place).unlink()

    # In place of the kernels' own: compiled again, and whole afterwards.
    for _ in range(max(3, COUNT // 200)):
        for path, content in good.items():
            others = [other for name, other in good.items() if name != path]
            path.write_bytes(damaged(content, others, rng))
            path.chmod(rng.choice([0o600, 0o400, 0o644]))
        assert run() == [False] * 6
        assert {path: path.read_bytes() for path in folder.glob("*/*")} == good
    for path in good:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

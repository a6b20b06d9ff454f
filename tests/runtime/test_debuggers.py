"""What debuggers and profilers see of kernels on the CPU: names in gdb and perf, lines of the source."""

import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

import nereid
import pytest
import torch
from nereid import knobs

import debugged

SCRIPT = pathlib.Path(debugged.__file__)
PACKAGES = str(pathlib.Path(nereid.__file__).absolute().parent.parent)
DWARFDUMP = shutil.which("llvm-dwarfdump-22") or shutil.which("llvm-dwarfdump", path="/usr/lib/llvm-22/bin")


def environment(**variables):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [PACKAGES, os.environ.get("PYTHONPATH")])), **variables}


def compiled(lines):
    debugged.observed_kernel._clear_cache()
    with knobs.nereid.scope():
        knobs.nereid.cpu_line_info = lines
        return debugged.observed_kernel.warmup(torch.float32, torch.float32, 1 << 40, N=64, grid=(1, ), target="cpu").asm["obj"]


def section(image, wanted):
    offset, = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", image, offset + i * size) for i in range(count)]
    for header in headers:
        start = headers[names][4] + header[0]
        if image[start:image.index(b"\0", start)] == wanted:
            return image[header[4]:header[4] + header[5]]
    return None


def test_lines_change_no_instruction():
    with_lines, without = compiled(True), compiled(False)
    code = [section(image, b".ltext") or section(image, b".text") for image in (with_lines, without)]
    assert code[0] == code[1] and len(code[0]) > 64
    assert section(with_lines, b".debug_line") and section(without, b".debug_line") is None


@pytest.mark.skipif(DWARFDUMP is None, reason="llvm-dwarfdump is not installed")
def test_line_table(tmp_path):
    file = tmp_path / "kernel.o"
    file.write_bytes(compiled(True))
    text = subprocess.run([DWARFDUMP, "--debug-line", "--debug-info", file], check=True, capture_output=True, text=True).stdout
    assert 'DW_AT_name	("observed_kernel")' in text and SCRIPT.name in text
    numbers = {int(number) for number in re.findall(r"^0x[0-9a-f]{16}\s+(\d+)", text, re.MULTILINE)}
    for mark in "ABCD":
        assert debugged.line(mark) in numbers, mark
    # Nothing but lines of the file: the language's own library stands at the lines that called it.
    assert numbers <= set(range(len(SCRIPT.read_text().splitlines()) + 1))


def test_names_for_perf():
    process = subprocess.Popen([sys.executable, SCRIPT, "run"], env=environment(NEREID_PERF="1"), stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=120)
    names = pathlib.Path(f"/tmp/perf-{process.pid}.map")
    assert out == "ran\n" and names.exists()
    rows = names.read_text().splitlines()
    names.unlink()
    assert len(rows) == 1
    address, size, name = rows[0].split(" ")
    assert name == "observed_kernel" and int(address, 16) > 4096 and 16 < int(size, 16) < 1 << 16


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_crash_in_gdb():
    command = ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "run", "-ex", "bt 1", "-ex", "info symbol $pc",
               "--args", sys.executable, str(SCRIPT), "crash"]
    text = subprocess.run(command, env=environment(NEREID_CPU_THREADS="1", NEREID_CPU_LINE_INFO="1"), capture_output=True, text=True, timeout=120).stdout
    if "ptrace" in text or "SIGSEGV" not in text:
        pytest.skip(f"gdb cannot run programs here: {text[-300:]}")
    assert re.search(rf"#0 .*observed_kernel \(\) at \S*{SCRIPT.name}:{debugged.line('D')}\b", text), text[-2000:]

"""Machine code of NVIDIA GPUs as text, with the barriers and stalls of its instructions.

Needs `cuobjdump` (`knobs.nvidia.cuobjdump`): a CUDA toolkit, or the pip package `triton`.
"""

import os
import re
import subprocess
import tempfile

_CODE = re.compile(r"^\s*/\*(?P<address>[0-9a-f]{4,5})\*/\s+(?P<text>.*?)\s*;\s*/\*\s*(?P<low>0x[0-9a-f]{16})\s*\*/\s*$")
_HIGH = re.compile(r"^\s*/\*\s*(0x[0-9a-f]{16})\s*\*/\s*$")
_FUNCTION = re.compile(r"^\s*Function : (\S+)\s*$")
_BRANCH = re.compile(r"(?:BRA|BSSY|CALL)[\w.]*\s[^;]*?(0x[0-9a-f]+)\s*;")


def path_to_cuobjdump():
    """The program and its version; RuntimeError when there is none."""
    from .. import knobs
    tool = knobs.nvidia.cuobjdump
    return tool.path, tool.version


def parseCtrl(sline):
    """What the upper half of an instruction says to the scheduler: "waits:read barrier:write barrier:yield:stall".

    waits: a mask of the barriers it waits for, two digits; a barrier that it sets; "Y" when the warp may give way; clocks until
    the next one, hexadecimal. "-" stands for none.
    """
    control = int(_HIGH.match(sline).group(1), 16) >> 41
    stall, gives_way = control & 15, control >> 4 & 1
    write, read, waits = control >> 5 & 7, control >> 8 & 7, control >> 11 & 63
    return ":".join([f"{waits:02d}" if waits else "--", "-" if read == 7 else str(read), "-" if write == 7 else str(write),
                     "-" if gives_way else "Y", f"{stall:x}"])


def processSassLines(fline, sline, labels):
    """One instruction: its text with the control codes before it; targets of branches become keys of `labels`. Two lines go in: the
    second one is the upper half of the code."""
    match = _CODE.match(fline)
    if not match:
        return None, None
    text = match["text"] + ";"
    branch = _BRANCH.search(text)
    if branch:
        labels.setdefault(int(branch[1], 16), len(labels))
    return parseCtrl(sline) + "\t" + text, int(match["address"], 16)


def extract(file_path, fun):
    """The machine code of a file: of all functions, or of `fun`. Lines are control codes, a tab, an instruction; `LBB<n>:` stands before what is
    branched to."""
    path, _ = path_to_cuobjdump()
    done = subprocess.run([path, "-sass", *(["-fun", fun] if fun else []), file_path], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"`{path}` failed: {(done.stderr or done.stdout).strip()}")
    out, function, lines, labels = [], None, [], {}

    def finish():
        if function is None:
            return
        out.append(f"Function:{function}")
        for text, address in lines:
            if address in labels:
                out.append(f"LBB{labels[address]}:")
            for target, number in labels.items():
                text = re.sub(rf"\b{target:#x}\b(?=\s*;)", f"LBB{number}", text)
            out.append(text)
        out.append("")

    before = None
    for line in done.stdout.splitlines():
        named = _FUNCTION.match(line)
        if named:
            finish()
            function, lines, labels = named[1], [], {}
        elif before and _HIGH.match(line):
            lines.append(processSassLines(before, line, labels))
        before = line if _CODE.match(line) else None
    finish()
    return "\n".join(out)


def get_sass(cubin_asm, fun=None):
    """The machine code in a cubin (bytes), as `extract` writes it."""
    handle, path = tempfile.mkstemp(suffix=".cubin")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(cubin_asm)
        return extract(path, fun)
    finally:
        os.remove(path)

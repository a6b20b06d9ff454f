"""Stages of a compilation taken from files: `ir_override`, TRITON_KERNEL_OVERRIDE."""

import nereid
import nereid.language as tl
import numpy as np
import pytest
from nereid import knobs


@nereid.jit
def kernel(out):
    tl.store(out, 41)


@pytest.mark.cpu_only("the stages of the CPU; PTX: tests/device")
@pytest.mark.parametrize("stage, ending", [("tile", "tile"), ("tile", "ttir"), ("llir", "llir")])
def test_an_edited_stage(target, tmp_path, stage, ending):
    text = kernel.warmup(nereid.MockTensor(tl.int32), grid=(1, )).asm[stage]
    assert "41" in text
    file = tmp_path / f"edited.{ending}"
    file.write_text(text.replace("41", "42"))
    out = np.zeros(1, np.int32)
    compiled = kernel[(1, )](out, ir_override=str(file))
    assert out[0] == 42 and "42" in compiled.asm["llir"]
    kernel[(1, )](out, ir_override=None)
    assert out[0] == 41


@pytest.mark.cpu_only("files of the CPU's stages")
def test_the_override_folder(target, tmp_path):

    @nereid.jit
    def mine(out):
        tl.store(out, 51)

    out = np.zeros(1, np.int32)
    with knobs.compilation.scope(), knobs.cache.scope():
        knobs.cache.dump_dir = knobs.cache.override_dir = str(tmp_path)
        knobs.compilation.dump_ir = True
        first = mine[(1, )](out)
        file = tmp_path / first.hash / "mine.llir"
        file.write_text(file.read_text().replace("51", "52"))
        knobs.compilation.dump_ir = False
        for other in tmp_path.rglob("*"):
            if other.is_file() and other != file:
                other.unlink()
        knobs.compilation.override = True
        again = nereid.JITFunction(mine.fn)
        again[(1, )](out)
        assert out[0] == 52


def test_ptx_of_a_gpu(tmp_path):
    ptx = kernel.warmup(nereid.MockTensor(tl.int32), grid=(1, ), target="cuda:90").asm["ptx"]
    file = tmp_path / "edited.ptx"
    file.write_text("// by hand\n" + ptx)
    assert kernel.warmup(nereid.MockTensor(tl.int32), grid=(1, ), target="cuda:90",
                         ir_override=str(file)).asm["ptx"].startswith("// by hand\n")


@pytest.mark.cpu_only("files of the CPU's stages")
def test_files_that_cannot_be_used(target, tmp_path):
    with pytest.raises(ValueError, match="option `ir_override` expects a file that ends in `.tile`, `.llir` or `.ptx`, found `kernel.txt`"):
        kernel[(1, )](np.zeros(1, np.int32), ir_override="kernel.txt")
    with pytest.raises(ValueError, match="cannot read `.*missing.llir`"):
        kernel[(1, )](np.zeros(1, np.int32), ir_override=str(tmp_path / "missing.llir"))
    for stage, kind in (("llir", "LLVM IR"), ("tile", "tile IR")):
        (tmp_path / f"wrong.{stage}").write_text("hello")
        with pytest.raises(nereid.CompilationError, match=f"the text that replaces the stage `{stage}` is no {kind}"):
            kernel[(1, )](np.zeros(1, np.int32), ir_override=str(tmp_path / f"wrong.{stage}"))


@pytest.mark.cpu_only("files of the CPU's stages")
def test_a_config_with_a_file(target, tmp_path):
    text = kernel.warmup(nereid.MockTensor(tl.int32), grid=(1, )).asm["llir"]
    (tmp_path / "edited.llir").write_text(text.replace("41", "43"))
    tuned = nereid.autotune([nereid.Config({}, ir_override=str(tmp_path / "edited.llir"))], key=[])(kernel)
    out = np.zeros(1, np.int32)
    tuned[(1, )](out)
    assert out[0] == 43

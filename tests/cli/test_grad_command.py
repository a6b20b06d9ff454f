"""`nereid grad`: derivatives of kernels from the command line."""

import json
import pathlib

import pytest
from test_cli import SEED, fails, nereid


GIOU = ("grad", SEED, "--kernel", "giou_kernel", "--wrt", "preds_ptr", "--out", "output_ptr", "--signature", "*fp32:16, *fp32:16, *fp32:16, *i1:16, 256")
ADD = ("grad", SEED, "--kernel", "add_kernel", "--wrt", "x_ptr, y_ptr", "--out", "output_ptr", "--target", "cpu")
SIGNATURE = ("--signature", "*fp16:16, *kfp32:16, *fp16:16, i32, 1024")
OWNED = ("the gradient of `{}` is stored by the program that owns it where the grid has one program along axis 1 and the grid has one program along axis 2, "
         "and summed by atomic additions elsewhere\n")


def test_how_gradients_are_summed():
    result = nereid(*ADD, *SIGNATURE)
    assert result.returncode == 0, result.stderr
    assert result.stdout == OWNED.format("x_ptr") + OWNED.format("y_ptr")


def test_parameters_of_gradients():
    """16-bit floats are summed in fp32; pointers to const have gradients that are written."""
    params = json.loads(nereid(*ADD, *SIGNATURE, "--emit", "meta").stdout)["params"]
    assert [(param["name"], param["signature"], param["written"]) for param in params[5:]] == [
        ("dx_ptr", "*fp32:16", True), ("dy_ptr", "*fp32:16", True), ("doutput_ptr", "*fp16:16", False)]
    given = nereid(*ADD, SIGNATURE[0], SIGNATURE[1] + ", *fp16:16, *fp32, *fp16:16", "--emit", "meta").stdout
    assert [param["signature"] for param in json.loads(given)["params"][5:]] == ["*fp16:16", "*fp32", "*fp16:16"]


@pytest.mark.parametrize("machine, kind, part", [("cpu", "tile", "tile.store"), ("cpu", "asm", "retq"), ("cuda:90", "tile", "tile.load"), ("cuda:90", "ptx", ".target sm_90"),
                                                ("cuda:80", "gpu", "func")])
def test_stages(machine, kind, part):
    result = nereid(*ADD, *SIGNATURE, "--target", machine, "--emit", kind)
    assert result.returncode == 0, result.stderr
    assert part in result.stdout


def test_report(tmp_path):
    file = tmp_path / "report.json"
    assert nereid(*GIOU, "--target", "cpu", "--emit", "explain", "-o", str(file)).returncode == 0
    assert [fact["text"] for fact in json.loads(file.read_text())["gradients"]] == [
        OWNED.format("preds_ptr").rstrip()]


def test_partial_sums():
    result = nereid(*ADD, *SIGNATURE, "--partial", "y_ptr")
    assert result.returncode == 0, result.stderr
    assert "the gradient of `y_ptr` is summed in partial sums, one of each launched program, which a second launch adds" in result.stdout
    params = json.loads(nereid(*ADD, *SIGNATURE, "--partial", "y_ptr", "--emit", "meta").stdout)["params"]
    assert [(param["name"], param["signature"]) for param in params[8:]] == [
        ("dy_ptr_row", "i64"), ("programs_0", "i32"), ("programs_1", "i32"), ("programs_2", "i32")]
    assert [param.get("shared_axes") for param in json.loads(nereid(*ADD, *SIGNATURE, "--emit", "meta").stdout)["params"][5:7]] == [6, 6]
    fails(2, "error: argument `gradients->roles` of `nrd_function_set_gradients`: expected partial sums only of gradients of inputs, found NRD_TANGENT_PARTIAL of "
          "`output_ptr`", *ADD, *SIGNATURE, "--partial", "output_ptr")


def test_outputs():
    for more, written in (((), False), (("--outputs", ), True)):
        params = json.loads(nereid(*ADD, *SIGNATURE, *more, "--emit", "meta").stdout)["params"]
        assert [(param["name"], param["written"]) for param in params[:3]] == [("x_ptr", False), ("y_ptr", False), ("output_ptr", written)]
    fails(2, "error: option `--mode` expects `reverse` beside --outputs, found `forward`", *ADD, *SIGNATURE, "--mode", "forward", "--outputs")


def test_forward_mode():
    result = nereid(*ADD, "--mode", "forward", *SIGNATURE, "--emit", "tile")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("tile.load") == 4 and result.stdout.count("tile.store") == 2
    params = json.loads(nereid(*ADD, "--mode=forward", *SIGNATURE, "--emit", "meta").stdout)["params"]
    assert [param["signature"] for param in params[5:]] == ["*fp16:16", "*fp32:16", "*fp16:16"]


def test_wrong_command_lines():
    fails(2, "error: `nereid grad` needs the argument `--wrt`\nerror: `nereid grad` needs the argument `--out`\nerror: `nereid grad` needs the argument `--signature`"
          ": the type of each parameter, or its value where it is a constexpr, as in `*fp32, *fp32, i32, 1024`",
          "grad", SEED)
    fails(2, "error: option `--mode` expects `reverse` or `forward`, found `both`", *ADD, *SIGNATURE, "--mode", "both")
    result = nereid(*GIOU[:4], "--wrt", "boxes", *GIOU[6:])
    assert result.returncode == 2
    assert result.stderr.startswith("error: `giou_kernel` has no parameter `boxes` to differentiate: it has `preds_ptr`, ")
    assert nereid(*ADD, *SIGNATURE, "--emit", "bytes").stderr.startswith("error: there is no stage `bytes`: expected one of `tile`, ")


def test_refusals_show_the_source(tmp_path):
    file = pathlib.Path(tmp_path) / "kernels.py"
    file.write_text("import triton.language as tl\n\ndef twice(x, y):\n    v = tl.load(x)\n    tl.store(y, v)\n    tl.store(y, v * v)\n")
    result = nereid("grad", str(file), "--wrt", "x", "--out", "y", "--signature", "*fp32, *fp32")
    assert result.returncode == 1
    assert f"{file}:6:" in result.stderr and "`y` is stored to in more than one place" in result.stderr

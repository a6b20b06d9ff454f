"""The closing lines of a test run: counts, and why something failed."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "summary.py"

PYTHON = """<testsuites><testsuite>
<testcase classname="a" name="good"/>
<testcase classname="a" name="left_out"><skipped/></testcase>
<testcase classname="a" name="bad"><failure message="assert">def bad():
&gt;       assert 1 == 2
E       assert 1 == 2

a.py:3: AssertionError</failure></testcase>
</testsuite></testsuites>"""

UNITS = """<testsuite>
<testcase name="unit" classname="unit"><failure message=""/><system-out>exp 0.5 ulp
Test.cpp:12: Failure
Expected: 3, actual: 4
more
and more
far away
</system-out></testcase>
</testsuite>"""


def summary(folder):
    run = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
    assert run.stderr == ""
    return run.returncode, run.stdout.splitlines()


def test_all_good(tmp_path):
    (tmp_path / "python.xml").write_text('<testsuite><testcase classname="a" name="good"/></testsuite>')
    assert summary(tmp_path) == (0, ["1 passed, 0 failed, 0 skipped"])


def test_no_test(tmp_path):
    assert summary(tmp_path) == (1, ["no test ran", "0 passed, 1 failed, 0 skipped"])


def test_reasons(tmp_path):
    (tmp_path / "python.xml").write_text(PYTHON)
    (tmp_path / "ctest.xml").write_text(UNITS)
    code, lines = summary(tmp_path)
    assert code == 1 and lines[-1] == "1 passed, 2 failed, 1 skipped"
    assert "failed: python: a::bad" in lines and "    E       assert 1 == 2" in lines
    assert "    Expected: 3, actual: 4" in lines
    assert not any("0.5 ulp" in line or "far away" in line for line in lines)


def test_failed_step(tmp_path):
    """A step without a record: where the error is told, and the last lines."""
    output = ["nothing"] * 30 + ["x.cpp:3: runtime error: overflow"] + ["frame"] * 40 + ["artifact: crash-1"]
    (tmp_path / "failed-steps").write_text("fuzz\n")
    (tmp_path / "failed-1.txt").write_text("\n".join(output))
    (tmp_path / "python.xml").write_text('<testsuite><testcase classname="a" name="good"/></testsuite>')
    code, lines = summary(tmp_path)
    assert code == 1 and lines[0] == "end of the step that failed: fuzz"
    assert "    x.cpp:3: runtime error: overflow" in lines and "    artifact: crash-1" in lines
    assert lines[-2:] == ["failed steps: fuzz", "1 passed, 1 failed, 0 skipped"]
    assert len(lines) < 20


def test_left_out(tmp_path):
    """What there was no time for is no failure, and named just before the last line."""
    (tmp_path / "ops.xml").write_text('<testsuite><testcase classname="a" name="good"/></testsuite>')
    (tmp_path / "left-out").write_text("clang-tidy\nfused operators\n")
    code, lines = summary(tmp_path)
    assert code == 0
    assert lines == ["LEFT OUT: clang-tidy; fused operators (time); `scripts/test.sh --all` runs them", "1 passed, 0 failed, 0 skipped"]

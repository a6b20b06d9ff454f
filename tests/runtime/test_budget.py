"""scripts/budget.sh: a test run keeps to its budget of time, and says what it left out."""

import os
import pathlib
import re
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]

#: `ran K` notes the sample that a step took; SECONDS is the shell's clock, which `takes K` moves on.
SETTING = """
set -u
results={folder} budget={budget}
. {root}/scripts/budget.sh
ran() {{ echo "$@" >> {folder}/ran; }}
takes() {{ SECONDS=$((SECONDS + $1)); done_spent=$((done_spent + $1)); }}
export -f ran
{steps}
"""


def run(folder, budget, steps):
    """What ran, what was left out, what failed, and the output."""
    script = SETTING.format(folder=folder, budget=budget, root=ROOT, steps=steps)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    files = [folder / name for name in ("ran", "left-out", "failed-steps")]
    return *(file.read_text().splitlines() if file.exists() else [] for file in files), done.stdout


LIST = """
list() {
  step 60 units ran units
  [ -n "$planning" ] || takes SPENT
  sampled 100 first ran first $(shrunk 10)
  step 30 second ran second
  sampled 200 third ran third $(shrunk 10)
}
planning=quiet; list
planning=
list
"""


def listed(folder, budget, spent):
    return run(folder, budget, LIST.replace("SPENT", str(spent)))


def test_where_there_is_time(tmp_path):
    ran, left_out, failed, output = listed(tmp_path, 1000, 60)
    assert ran == ["units", "first 10", "second", "third 10"] and not left_out and not failed
    assert "third: ok (" in output and "divided" not in output


def test_without_a_budget(tmp_path):
    ran, left_out, _, _ = listed(tmp_path, 0, 100000)
    assert ran == ["units", "first 10", "second", "third 10"] and not left_out


def test_samples_become_smaller(tmp_path):
    """Twice as slow as expected: of the 380 s left `second` takes 60, and samples for 600 s have to fit into the rest. What comes then is as fast as
    expected, so the next sample is larger again."""
    ran, left_out, _, output = listed(tmp_path, 500, 120)
    assert ran == ["units", "first 19", "second", "third 10"] and not left_out
    assert "first (sample divided by 1." in output


def test_what_does_not_fit_is_left_out(tmp_path):
    """Four times as slow: a sixth of `third` does not fit either; `second`, which is quicker, still runs."""
    ran, left_out, failed, output = run(tmp_path, 350, LIST.replace("SPENT", "240").replace("sampled 200", "sampled 1000"))
    assert ran == ["units", "first 60", "second"] and left_out == ["third"] and not failed
    assert "third: LEFT OUT (time: " in output


def test_after_the_end_everything_is_left_out(tmp_path):
    ran, left_out, failed, _ = listed(tmp_path, 150, 240)
    assert ran == ["units"] and left_out == ["first", "second", "third"] and not failed


def test_a_machine_that_is_fast_does_more_of_nothing(tmp_path):
    ran, left_out, _, _ = listed(tmp_path, 10000, 1)
    assert ran == ["units", "first 10", "second", "third 10"] and not left_out


SPARE = "list() {{ step 60 units ran units; [ -n \"$planning\" ] || takes {spent}; spare 200 long ran long; sampled 300 samples ran $(shrunk 10); }}\nplanning=quiet; list\nplanning=; list"


@pytest.mark.parametrize("spent, expected", [(60, ["units", "long", "10"]), (90, ["units", "long", "10"]), (120, ["units", "13"])])
def test_spare_time(spent, expected, tmp_path):
    """What is long runs where a sixth of the samples still fits after it; samples need not become smaller for it beforehand."""
    ran, left_out, _, _ = run(tmp_path, 575, SPARE.format(spent=spent))
    assert ran == expected and left_out == ["long"] * (len(expected) == 2)


def test_hangs_and_cuts(tmp_path):
    """A step without an end is a failure; one that is cut off with the run, after no longer than it may take, was left out."""
    _, left_out, failed, output = run(tmp_path, 1000, "hang=1\nstep 0 hangs sleep 60")
    assert failed == ["hangs"] and not left_out and "hangs: FAILED (" in output
    assert re.fullmatch(r"no end after \d s\n", (tmp_path / "failed-1.txt").read_text())
    _, left_out, failed, output = run(tmp_path, 1000, "SECONDS=990 beyond=-8\nstep 1 cut sleep 60")
    assert left_out == ["cut"] and failed == ["hangs"] and "cut: LEFT OUT (time: cut off after " in output


@pytest.mark.parametrize("seen, fails", [("...s. [ 12%]", False), ("..F.s [ 12%]", True), ("..E", True), ("3/39 Test #3: a ...***Failed", True), ("[gw0] FAILED tests/a.py::b", True)])
def test_a_failure_that_was_seen_counts(seen, fails, tmp_path):
    """Also where the step is cut off with the run."""
    _, left_out, failed, _ = run(tmp_path, 1000, f"SECONDS=990 beyond=-8\nstep 1 cut bash -c 'echo \"{seen}\"; sleep 60'")
    assert (failed, left_out) == ((["cut"], []) if fails else ([], ["cut"]))


def test_no_process_stays(tmp_path):
    """With a step that hangs its processes end."""
    run(tmp_path, 1000, f"hang=1\nstep 0 hangs bash -c 'sleep 60 & echo $! > {tmp_path}/pid; wait'")
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):
        if not pathlib.Path(f"/proc/{pid}").exists() or "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} still runs")


def test_failures_are_failures(tmp_path):
    _, left_out, failed, _ = run(tmp_path, 1000, "step 1 good true\nstep 1 bad false\nstep 1 'good again' true")
    assert failed == ["bad"] and not left_out


@pytest.mark.parametrize("seed, long", [(3, "address sanitizer"), (4, "thread sanitizer"), (5, "libFuzzer programs")])
def test_the_plan(seed, long):
    done = subprocess.run(["bash", "scripts/test.sh", "--plan"], cwd=ROOT, env={**os.environ, "NEREID_TEST_SEED": str(seed)}, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    names = [line.partition(" s  ")[2] for line in done.stdout.splitlines()[:-1]]
    assert names[:4] == ["repository checks", "wheel checks", "unit and IR tests", "Python tests"] and names[-1] == "PTX assembles"
    assert long in names and len(names) == len(set(names))
    total = int(done.stdout.splitlines()[-1].split()[0])
    assert total == sum(int(line.split()[0]) for line in done.stdout.splitlines()[:-1]) < 35 * 60


@pytest.mark.parametrize("name", ["NEREID_TEST_SEED", "NEREID_TEST_MINUTES"])
def test_settings_are_numbers(name):
    done = subprocess.run(["bash", "scripts/test.sh"], cwd=ROOT, env={**os.environ, name: "many"}, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == f"{name} is no number: many\n" and not done.stdout

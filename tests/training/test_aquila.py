"""The training example: the same losses however it is spread, and nothing lost when a process is killed or a disk is full."""

import csv
import gzip
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="this build of PyTorch has no torch.distributed; those of the package index for Linux do")
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "train" / "aquila"
SMALL = ["--size", "tiny", "--device", "cpu", "--dtype", "fp32", "--batch", "8", "--steps", "20", "--warmup", "5", "--report-every", "1", "--save-every", "5", "--threads", "1", "--lr", "2e-3"]
TIMEOUT = 240


def command(out, *options, processes=1, launcher=()):
    start = [sys.executable] if processes == 1 else [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), *launcher]
    return [*start, str(EXAMPLE / "train.py"), *SMALL, "--out", str(out), *options]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """All runs share the kernels that one has compiled."""
    names = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**names, "OMP_NUM_THREADS": "1", "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(tmp_path_factory.mktemp("kernels"))}


@pytest.fixture(scope="module")
def train(environment):
    """A function that runs the example and returns its output."""

    def run(out, *options, processes=1, status=0, **named):
        done = subprocess.run(command(out, *options, processes=processes), capture_output=True, text=True, env=environment, timeout=TIMEOUT, **named)
        assert done.returncode == status, (done.stdout + done.stderr)[-4000:]
        return done.stdout

    return run


@pytest.fixture(scope="module")
def alone(tmp_path_factory, train):
    """The folder of a run of one process, on PyTorch's operators."""
    out = tmp_path_factory.mktemp("alone")
    train(out, "--operators", "aten")
    return out


@pytest.fixture(scope="module")
def sharded(tmp_path_factory, train):
    """The folder of a run of FSDP2 on two processes, which adds up gradients of two micro-batches."""
    out = tmp_path_factory.mktemp("sharded")
    train(out, "--operators", "fused", "--micro", "2", processes=2)
    return out


def losses(out):
    with open(out / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == list(range(1, len(rows) + 1))
    return [float(row["loss"]) for row in rows]


def close(found, wanted, tolerance=2e-5):
    assert len(found) == len(wanted)
    for step, (a, b) in enumerate(zip(found, wanted), 1):
        assert abs(a - b) <= tolerance, f"step {step}: {a} and {b}"


def test_it_learns(alone):
    found = losses(alone)
    assert abs(found[0] - 6.94) < 0.1, "ln(1032) at the start"
    assert found[-1] < 6.2
    assert "entropy of the grammar" in (alone / "curves.svg").read_text()
    xml.etree.ElementTree.parse(alone / "curves.svg")


def test_fully_sharded(alone, sharded):
    close(losses(sharded), losses(alone))


def test_profile(train, tmp_path):
    assert "profile.txt" in train(tmp_path, "--operators", "aten", "--steps", "3", "--save-every", "0", "--profile", "2", processes=2)
    assert "aten::mm" in (tmp_path / "profile.txt").read_text()
    with gzip.open(tmp_path / "profile.json.gz") as file:
        assert any(event["name"] == "aten::mm" for event in json.load(file)["traceEvents"])


def test_shares_of_a_devices_time(example):
    profiles = example("profiles")
    kernels = [("product", 0, 10), ("ncclDevKernel_AllGather", 5, 14), ("sum", 12, 13), ("ncclDevKernel_ReduceScatter", 20, 22), ("add", 30, 31)]
    assert profiles.shares(kernels) == (31, 12, 5, 14)
    assert profiles.shares([]) == (0.0, 0.0, 0.0, 0.0)


def test_cheap_recomputation(sharded, train, tmp_path):
    train(tmp_path, "--operators", "fused", "--micro", "2", "--recompute", "cheap", "--steps", "6", "--save-every", "0", processes=2)
    assert losses(tmp_path)[:5] == losses(sharded)[:5]


def test_how_a_process_leaves(environment, tmp_path):
    """With its status, all that it has written, and its kernels in the cache; nothing of the interpreter's end runs, where threads of gloo may abort the process."""
    program = tmp_path / "program.py"
    program.write_text("import atexit, os, sys, torch\nfrom nereid.ops import fused\natexit.register(os.abort)\nimport parallel\n"
                       "print('asked', end='')\nfused.rms_norm(torch.randn(3, 77), torch.ones(77))\nsys.stderr.write('and')\nparallel.leave(3)\n")
    cache = tmp_path / "kernels"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=TIMEOUT,
                          env={**environment, "PYTHONPATH": os.pathsep.join([str(EXAMPLE), environment.get("PYTHONPATH", "")]), "NEREID_CACHE_DIR": str(cache)})
    assert (done.returncode, done.stdout, done.stderr) == (3, "asked", "and")
    assert any(path.is_file() and path.stat().st_size for path in cache.rglob("*"))


def test_kept_weights(sharded, train, tmp_path):
    train(tmp_path, "--operators", "fused", "--micro", "2", "--keep-weights", processes=2)
    assert losses(tmp_path) == losses(sharded), "the same numbers, gathered once"


@pytest.mark.parametrize("operators", ["aten", "fused"])
def test_gradients_with_recomputation(operators, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import model
    found = []
    for recompute in (None, "cheap", "all"):
        decoder = model.Decoder(model.SIZES["tiny"], operators, torch.bfloat16, recompute)
        decoder.begin(0, "cpu", 64)
        tokens = torch.arange(130).view(2, 65) * 37 % 1032
        decoder(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()).backward()
        found.append([parameter.grad for parameter in decoder.parameters()])
        if recompute != "all" and operators == "fused":  # and in one graph
            decoder.zero_grad()
            torch.compile(decoder, backend="aot_eager", fullgraph=True)(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()).backward()
            assert all(torch.equal(parameter.grad, x) for parameter, x in zip(decoder.parameters(), found[-1], strict=True))
    assert all(torch.equal(x, y) and torch.equal(x, z) for x, y, z in zip(*found, strict=True))


@pytest.mark.parametrize("processes,options", [(2, ["--operators", "aten", "--data-parallel", "ddp", "--micro", "2", "--recompute", "cheap"]),
                                               (2, ["--operators", "nereid", "--tensor-parallel", "2", "--recompute", "cheap"]),
                                               (4, ["--operators", "fused", "--tensor-parallel", "2", "--recompute"])], ids=["ddp", "tensor parallel", "both"])
def test_modes(processes, options, alone, train, tmp_path):
    train(tmp_path, *options, "--steps", "6", "--save-every", "0", processes=processes)
    # During the warm-up the rate does not depend on the number of steps.
    close(losses(tmp_path)[:5], losses(alone)[:5])


@pytest.mark.parametrize("micro", [4, 2, 1])
def test_gradients_in_16_bits(micro, monkeypatch):
    """What rounding does to a gradient, against fp32: no more with fused operators than with PyTorch's, and no less of a step in the gradient's direction."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import corpus
    import model
    size = model.SIZES["tiny"]
    words = corpus.Grammar(size.vocabulary, 0)
    rows = torch.stack([words.sequence(index, size.sequence + 1) for index in range(4)])

    def gradients(operators, dtype):
        decoder = model.Decoder(size, operators, dtype)
        decoder.begin(0, "cpu", size.sequence)
        for part in rows.split(micro):
            (decoder(part[:, :-1].contiguous(), part[:, 1:].contiguous()) / rows[:, 1:].numel()).backward()
        return torch.cat([parameter.grad.double().flatten() for parameter in decoder.parameters()])

    right = gradients("aten", torch.float32)
    errors = {operators: gradients(operators, torch.bfloat16) - right for operators in ("aten", "fused")}
    size_of = {operators: (error.norm() / right.norm()).item() for operators, error in errors.items()}
    along = {operators: (error @ right / (right @ right)).item() for operators, error in errors.items()}
    assert size_of["aten"] < 0.01 and size_of["fused"] < 1.1 * size_of["aten"], size_of
    assert abs(along["fused"]) < 0.002, along


def test_16_bits(alone, train, tmp_path):
    train(tmp_path, "--operators", "nereid", "--dtype", "bf16", "--save-every", "0", "--steps", "10")
    close(losses(tmp_path)[:5], losses(alone)[:5], 0.01)


def child(launcher, rank):
    """The id of the process of a rank that torchrun has started."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if int(parent) == launcher and f"RANK={rank}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError(f"there is no process of rank {rank}")


def test_killed(sharded, environment, tmp_path):
    """One of two processes is killed; torchrun starts both again, and they compute the same numbers as without."""
    output = open(tmp_path / "output", "w")
    with subprocess.Popen(command(tmp_path, "--operators", "fused", "--micro", "2", processes=2, launcher=["--max-restarts", "1"]), stdout=output, stderr=subprocess.STDOUT, env=environment) as run:
        deadline = time.monotonic() + TIMEOUT
        while not (tmp_path / "checkpoints" / "step-10").exists():
            assert run.poll() is None and time.monotonic() < deadline, (tmp_path / "output").read_text()[-4000:]
            time.sleep(0.01)
        os.kill(child(run.pid, 1), signal.SIGKILL)
        assert run.wait(TIMEOUT) == 0, (tmp_path / "output").read_text()[-4000:]
    assert re.search(r"goes on after step \d+", (tmp_path / "output").read_text())
    assert losses(tmp_path) == losses(sharded)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-15", "step-20"]


def test_another_number_of_processes(alone, sharded, train, tmp_path):
    """What two processes of FSDP2 have written, one process reads."""
    text = train(tmp_path, "--operators", "aten", "--resume", str(sharded / "checkpoints" / "step-15"))
    assert "goes on after step 15" in text and "note:" not in text
    with open(tmp_path / "log.csv", newline="") as file:
        found = [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]
    assert [step for step, _ in found] == list(range(16, 21))
    close([loss for _, loss in found], losses(alone)[15:])


def test_full_disk(alone, train, tmp_path):
    """A checkpoint that cannot be written is reported; the run goes on, and earlier checkpoints are there."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    # A stopped run: a checkpoint, what a killed process left of another one, and a folder without its last file.
    checkpoints = tmp_path / "checkpoints"
    train(tmp_path, "--operators", "aten", "--steps", "10", "--save-every", "10")
    for name in ("step-15.part", "step-17"):
        (checkpoints / name).mkdir()
    text = train(tmp_path, "--operators", "aten", "--steps", "20", "--save-every", "10", status=1, preexec_fn=small_files)
    assert "goes on after step 10" in text and "warning: the checkpoint of step 20 was not written, earlier ones are kept" in text
    assert [path.name for path in checkpoints.iterdir() if (path / ".metadata").exists()] == ["step-10"] and not list(checkpoints.glob("*.part"))
    assert len(losses(tmp_path)) == 20
    assert "goes on after step 10" in train(tmp_path, "--operators", "aten", "--steps", "20", "--save-every", "10")
    assert (checkpoints / "step-20" / ".metadata").exists()


# In this process.


@pytest.fixture
def example(monkeypatch):
    """A function that imports a module of the example."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    yield __import__
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and pathlib.Path(sys.modules[name].__file__).parent == EXAMPLE:
            del sys.modules[name]


@pytest.mark.parametrize("options,world,said", [
    (["--tensor-parallel", "3"], 4, "4 processes cannot be divided into groups of --tensor-parallel 3"),
    (["--tensor-parallel", "2"], 1, "1 process cannot be divided into groups of --tensor-parallel 2"),
    (["--batch", "0"], 1, "--batch is 0: expected at least 1"),
    (["--profile", "21"], 1, "--profile is 21: expected a step from 1 to 20 (--steps)"),
    (["--micro", "3"], 1, "--micro 3 does not divide the 8 sequences that a replica computes in a step"),
    (["--save-every", "-1"], 1, "--save-every is -1: expected 0 (never) or more"),
    (["--resume", "nowhere"], 1, "nowhere is no complete checkpoint; expected a folder step-N that has a file .metadata. Complete ones here: none"),
    (["--text", "nowhere.txt"], 1, "the text nowhere.txt cannot be read: No such file or directory"),
    (["--communicating", "8"], 1, "--communicating is 8 on cpu: expected 1 to 64 multiprocessors of a GPU, or 0"),
    (["--out", "/dev/null/run"], 1, "the folder /dev/null/run (--out) cannot be made"),
], ids=lambda value: value[0] if isinstance(value, list) else None)
def test_errors(options, world, said, example, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", str(world))
    assert example("train").main([*SMALL, "--operators", "aten", "--out", str(tmp_path), *options]) == 2
    assert f"train.py: error: {said}" in capsys.readouterr().err


def test_no_gpu(example, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert example("train").main(["--out", str(tmp_path)]) == 2
    assert "train.py: error: PyTorch finds no GPU: use --device cpu" in capsys.readouterr().err


def test_unknown_size(example, capsys):
    with pytest.raises(SystemExit) as left:
        example("train").main(["--size", "8B"])
    assert left.value.code == 2 and "invalid choice: '8B'" in capsys.readouterr().err


def test_a_checkpoint_of_another_size(example, monkeypatch, capsys, alone, tmp_path):
    sizes = example("model").SIZES
    monkeypatch.setitem(sizes, "other", sizes["tiny"])
    assert example("train").main([*SMALL, "--size", "other", "--operators", "aten", "--out", str(tmp_path), "--resume", str(alone / "checkpoints" / "step-20")]) == 2
    assert "is of a model of size tiny: expected other (--size)" in capsys.readouterr().err


@pytest.mark.parametrize("resume", ["none", "checkpoints/step-15"])
def test_checkpoints_of_an_earlier_run(resume, example, alone, capsys, monkeypatch):
    """Those of an earlier run would be taken for the newest ones of this one."""
    wanted = resume if resume == "none" else str(alone / resume)
    assert example("train").main([*SMALL, "--operators", "aten", "--out", str(alone), "--resume", wanted]) == 2
    assert re.search(r"--resume is .*, and .* has checkpoints of an earlier run, up to step 20: use another --out, or delete them", capsys.readouterr().err)
    # Started again by torchrun, it is this run's.
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert example("checkpoints").find(alone / "checkpoints", wanted) == alone / "checkpoints" / "step-20"


def test_sizes(example):
    model = example("model")
    with torch.device("meta"):
        counted = {name: sum(p.numel() for p in model.Decoder(size).parameters()) for name, size in model.SIZES.items() if name != "tiny"}
    assert counted == {"125M": 238_566_144, "1.3B": 1_642_858_496, "7B": 7_295_537_152}


def sentences(grammar, index):
    """The sentences of a sequence without their full stops, but for the last one, which is cut off."""
    found = [[]]
    for token in grammar.sequence(index, 4001)[1:].tolist():
        if token == grammar.STOP:
            found.append([])
        else:
            found[-1].append(token)
    return found[:-1]


def test_grammar(example):
    """Forms and words follow the probabilities that the entropy is computed from; genders agree; the first noun comes again."""
    grammar = example("corpus").Grammar(1032, seed=3)
    assert torch.equal(grammar.sequence(0, 4001), grammar.sequence(0, 4001)) and not torch.equal(grammar.sequence(0, 4001), grammar.sequence(1, 4001))
    word = {first + i: (kind, float(p)) for kind, (first, weights) in grammar.classes.items() for i, p in enumerate(weights)}
    information, count = 0.0, 0
    for sentence in (sentence for i in range(12) for sentence in sentences(grammar, i)):
        kinds = [word[token][0] if token in word else token for token in sentence]

        def genders(kind):
            return [kind - found for found in kinds if found in (kind, kind - 1)]

        clause, nouns = grammar.THAT in kinds, [i for i, kind in enumerate(kinds) if kind in (grammar.NOUN, grammar.NOUN - 1)]
        first, *_ = of_nouns = genders(grammar.NOUN)
        assert len(nouns) == 3 + clause and sentence[-1] == sentence[nouns[0]] and kinds[-2] == grammar.COMMA
        assert genders(grammar.VERB) == [first] * (1 + clause) and genders(grammar.ARTICLE) == of_nouns[:-1]
        last_article = max(i for i, kind in enumerate(kinds) if kind in (grammar.ARTICLE, grammar.ARTICLE - 1))
        adjectives = nouns[0] - 1, nouns[-2] - last_article - 1
        chance = 0.5**(2 + clause) * (grammar.RELATIVE if clause else 1 - grammar.RELATIVE)
        chances = [chance, *(grammar.ADJECTIVES[n] for n in adjectives), *(word[token][1] for token in sentence[:-1] if token in word)]
        information -= torch.tensor(chances).double().log().sum().item()
        count += len(sentence) + 1
    assert count > 40_000
    assert abs(information / count - grammar.entropy) < 0.02
    assert 3.5 < example("corpus").Grammar(100_008, 0).entropy < 4.5


def test_text(example, tmp_path):
    content = "the cat sat\non the mat; the end — done\n" * 40
    path = tmp_path / "text"
    path.write_text(content)
    text = example("corpus").Text(path, 262, 0, 30)
    assert len(text.pieces) == 5 and text.pieces[0] == b" the"
    for index in range(5):
        tokens = text.sequence(index, 31)
        assert len(tokens) == 31 and tokens[0] == 0 and int(tokens.max()) < 262
        assert text.text(tokens.tolist()) in content.encode()
    assert text.text(text.tokens.tolist()) == content.encode()
    with pytest.raises(ValueError, match="has 1 tokens: expected more than a sequence, 30"):
        path.write_text("abc")
        example("corpus").Text(path, 262, 0, 30)


def test_compare(example, alone, capsys, tmp_path):
    compare = example("compare")
    assert compare.main([str(alone), str(alone), "--tolerance", "0", "--plot", str(tmp_path / "a.svg")]) == 0
    assert "20 common steps; identical losses: 20" in capsys.readouterr().out
    xml.etree.ElementTree.parse(tmp_path / "a.svg")
    text = (alone / "log.csv").read_text().splitlines()
    row = text[-1].split(",")
    (tmp_path / "b.csv").write_text("\n".join([*text[:-1], ",".join([*row[:2], str(float(row[2]) + 1), *row[3:]])]) + "\n")
    assert compare.main([str(alone), str(tmp_path / "b.csv"), "--last", "5", "--tolerance", "0.1"]) == 1
    assert "largest difference: +1.000e+00 at step 20" in capsys.readouterr().out
    pairs = [str(alone), str(tmp_path / "b.csv"), str(alone), str(alone)]
    assert compare.main([*pairs, "--last", "5", "--tolerance", "0.11", "--plot", str(tmp_path / "pairs.svg")]) == 0
    said = capsys.readouterr().out  # differences of 1/5 and 0 in the last five steps
    assert "steps    16 to    20: +0.1000  0.1414  0.1000; 0.0000 and 0.1414\n" in said and "steps     1 to     4: +0.0000  0.0000" in said
    xml.etree.ElementTree.parse(tmp_path / "pairs.svg")
    assert compare.main([*pairs, "--last", "5", "--tolerance", "0.09"]) == 1
    with pytest.raises(SystemExit):
        compare.main(pairs[:3])
    assert "runs come in pairs, found 3" in capsys.readouterr().err
    (tmp_path / "c.csv").write_text("a,b\n1,2\n")
    assert compare.main([str(alone), str(tmp_path / "c.csv")]) == 2
    assert "c.csv is no record of a run" in capsys.readouterr().err


@pytest.mark.parametrize("options, said, instead", [
    (("--operators", "fused"), "--operators fused needs nereid", "--operators aten"),
    (("--operators", "aten", "--recompute", "cheap"), "--recompute cheap needs nereid", "--recompute all"),
    (("--operators", "nereid", "--recompute", "cheap"), "--operators nereid and --recompute cheap need nereid", "--operators aten --recompute all"),
])
def test_options_that_need_nereid(example, monkeypatch, options, said, instead):
    train = example("train")
    monkeypatch.setitem(sys.modules, "nereid.ops.fused", None)  # cannot be imported
    with pytest.raises(train.Unusable) as error:
        train.find_nereid(train.arguments(options))
    assert str(error.value).startswith(said + ", which cannot be imported (")
    assert str(error.value).endswith(f"): install it, or use {instead}")


def test_a_machine_without_nereid(tmp_path, environment):
    (tmp_path / "nereid.py").write_text("raise ModuleNotFoundError(\"No module named 'nereid'\")\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [environment.get("PYTHONPATH")])])
    done = subprocess.run(command(tmp_path / "run", "--operators", "aten", "--recompute", "cheap"), capture_output=True, text=True,
                          env={**environment, "PYTHONPATH": path}, timeout=TIMEOUT)
    assert done.returncode == 2
    assert done.stderr == "train.py: error: --recompute cheap needs nereid, which cannot be imported (No module named 'nereid'): install it, or use --recompute all\n"


def test_counted_memory(monkeypatch):
    """benchmarks/training_memory.py: what a forward pass keeps of each layer, counted by hand."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.syspath_prepend(str(EXAMPLE.parents[2] / "benchmarks"))
    import model
    import training_memory
    kept = {}
    for layers in (2, 3):
        size = model.Size(layers, 64, 4, 160, vocabulary=1000)
        for operators, recompute in (("aten", None), ("fused", None), ("fused", "cheap")):
            found = training_memory.count(model, size, operators, recompute, 2, 128)
            kept[operators, recompute, layers] = found["kept of all"]
            parameters = layers * (4 * 64**2 + 3 * 64 * 160 + 2 * 64) + 2 * 1000 * 64 + 64
            assert (found["parameters"], found["optimizer"], found["gradients"]) == (4 * parameters, 8 * parameters, 4 * parameters)
            assert found["most"] >= 12 * parameters + found["kept of all"]
    assert model.OPERATORS["aten"] is model.Aten  # --measure trains after counting
    tokens, weights, lse = 2 * 128, 2 * (4 * 64**2 + 3 * 64 * 160), 4 * 2 * 4 * 128
    # In elements of the width by token: two sums, q, k, v, the result of attention, gate and up of 2.5.
    fused = tokens * 64 * 2 * (2 + 4 + 2 * 2.5) + lse
    by_layer = {key[:2]: kept[*key[:2], 3] - kept[*key[:2], 2] for key in kept}
    assert by_layer["fused", "cheap"] == fused
    assert by_layer["fused", None] == fused + weights
    # Norms: normalised rows, the sums of rows in fp32, weights in bf16; silu(gate) and gated activations.
    assert by_layer["aten", None] >= fused + weights + tokens * 64 * 2 * (2 + 2 * 2.5) + 2 * (4 * tokens + 2 * 64)
    assert by_layer["aten", None] <= 1.02 * (fused + weights + tokens * 64 * 2 * (2 + 2 * 2.5) + 2 * (4 * tokens + 2 * 64))

"""Trains an Aquila-like language model on one or several devices.

    python examples/train/aquila/train.py --size tiny --device cpu --out /tmp/run
    torchrun --nproc-per-node 4 examples/train/aquila/train.py --size 1.3B --out /tmp/run
    torchrun --nproc-per-node 4 examples/train/aquila/train.py --size 7B --tensor-parallel 2 --recompute --out /tmp/run

A run that is started again with the same --out goes on from its newest checkpoint. docs/training.md says more.
"""

import argparse
import contextlib
import json
import math
import pathlib
import platform
import sys
import time

import torch

import checkpoints
import parallel
import profiles
import records
from corpus import Grammar, Text
from model import OPERATORS, SIZES, Decoder
from parallel import Unusable

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
#: Operations a second of dense bf16 products, without sparsity, from NVIDIA's data sheets. The first name that is part of the device's name counts.
PEAKS = {"H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "GH200": 989e12, "A100": 312e12, "B200": 2250e12, "L40S": 362e12}
#: What two runs must have in common to read the same sequences in the same order, and to take the same steps.
RECIPE = ("size", "text", "seed", "batch", "sequence", "steps", "lr", "warmup", "weight_decay", "clip", "dtype")


def arguments(given):
    parser = argparse.ArgumentParser(description="Trains an Aquila-like language model.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--size", default="tiny", choices=SIZES, help="of the model; the names say how large the layers are")
    add("--operators", default="nereid", choices=OPERATORS, help="aten: PyTorch's; fused: nereid.ops.fused; nereid: and ATen's operators by nereid.ops")
    add("--device", default="cuda", choices=("cuda", "cpu"))
    add("--dtype", default="bf16", choices=DTYPES, help="in which layers compute; parameters, gradients and the optimizer are in fp32")
    add("--data-parallel", default="fsdp", choices=("fsdp", "ddp"), help="how replicas of the model are kept, if there are several: FSDP2 or DDP")
    add("--tensor-parallel", type=int, default=1, metavar="N", help="processes that share a replica; the others are replicas")
    add("--keep-weights", action="store_true", help="with FSDP2: the weights that a forward step gathers stay for its backward step (2 bytes a parameter in bf16, a third less communication)")
    add("--communicating", type=int, default=0, metavar="N", help="multiprocessors of a GPU that a collective takes at most; 0: as NCCL chooses")
    add("--recompute", nargs="?", const="all", choices=("all", "cheap"), help="compute again in the backward step instead of keeping: all activations (checkpointing; default), or what is cheap")
    add("--text", metavar="FILE", help="train on a text; without it on sentences of a grammar")
    add("--batch", type=int, default=32, metavar="N", help="sequences of a step, of all processes together")
    add("--micro", type=int, metavar="N", help="sequences that a replica computes at once; a step adds up gradients over as many as are needed. Without it all")
    add("--sequence", type=int, metavar="N", help="tokens of a sequence; without it the size's own")
    add("--steps", type=int, default=200, metavar="N")
    add("--lr", type=float, default=6e-4, metavar="RATE", help="highest learning rate; it ends at a tenth")
    add("--warmup", type=int, default=20, metavar="N", help="steps in which the rate grows")
    add("--weight-decay", type=float, default=0.1, metavar="X")
    add("--clip", type=float, default=1.0, metavar="NORM", help="largest norm of the gradient")
    add("--seed", type=int, default=0)
    add("--out", type=pathlib.Path, default=pathlib.Path("aquila-run"), metavar="FOLDER", help="for the record, the plot and checkpoints")
    add("--save-every", type=int, default=100, metavar="N", help="steps between checkpoints; 0: none, also at the end")
    add("--keep", type=int, default=2, metavar="N", help="newest checkpoints that are kept")
    add("--resume", default="auto", metavar="auto|none|FOLDER", help="go on from the newest checkpoint of --out, from none, or from this one")
    add("--report-every", type=int, default=10, metavar="N", help="steps between reports")
    add("--profile", type=int, metavar="STEP", help="profile this step of the first process: profile.txt and the trace profile.json.gz in --out")
    add("--peak-tflops", type=float, metavar="X", help="the device's peak for MFU, where its name is not known")
    add("--threads", type=int, default=0, metavar="N", help="threads of a process on CPUs; 0: as PyTorch chooses")
    return parser.parse_args(given)


def check(options, world):
    """Fills in what was left out. Raises Unusable."""
    options.sequence = SIZES[options.size].sequence if options.sequence is None else options.sequence
    for name in ("batch", "sequence", "steps", "keep", "report_every"):
        if getattr(options, name) < 1:
            raise Unusable(f"--{name.replace('_', '-')} is {getattr(options, name)}: expected at least 1")
    if options.save_every < 0:
        raise Unusable(f"--save-every is {options.save_every}: expected 0 (never) or more")
    if options.profile is not None and not 1 <= options.profile <= options.steps:
        raise Unusable(f"--profile is {options.profile}: expected a step from 1 to {options.steps} (--steps)")
    if options.batch % world.replicas:
        raise Unusable(f"--batch {options.batch} cannot be divided among {world.replicas} replicas of the model")
    own = options.batch // world.replicas
    options.micro = own if options.micro is None else options.micro
    if options.micro < 1 or own % options.micro:
        raise Unusable(f"--micro {options.micro} does not divide the {own} sequences that a replica computes in a step (--batch {options.batch}, {world.replicas} replicas)")


def make_optimizer(options, parameters, device):
    """AdamW without decay of norms' weights."""
    groups = [{"params": [p for p in parameters if (p.dim() > 1) == matrix], "weight_decay": options.weight_decay * matrix} for matrix in (True, False)]
    if options.operators == "aten":
        return torch.optim.AdamW(groups, lr=options.lr, betas=(0.9, 0.95), fused=True)
    from nereid.ops import fused
    # A rate in a tensor may change without new signatures of the recorded calls.
    return fused.AdamW(groups, lr=torch.tensor(options.lr, device=device), betas=(0.9, 0.95))


def set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def rate_of(options, step):
    """The learning rate of a step, counted from 1: it grows in a line, then falls along a cosine to a tenth."""
    if step <= options.warmup:
        return options.lr * step / options.warmup
    done = (step - options.warmup) / max(1, options.steps - options.warmup)
    return options.lr * (0.55 + 0.45 * math.cos(math.pi * min(1.0, done)))


def clip(options, parameters):
    """Scales the gradients down to the norm --clip; the norm before, a tensor."""
    if options.operators == "aten":
        norm = torch.nn.utils.clip_grad_norm_(parameters, options.clip, foreach=True)
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    from nereid.ops import fused
    gradients = [parameter.grad for parameter in parameters]
    norm = fused.gradient_norm(gradients)
    fused.clip_gradients_(gradients, options.clip, norm)
    return norm


class Trainer:
    """A run: `run()` takes the steps that are left."""

    def __init__(self, options, world):
        self.options, self.world = options, world
        size = SIZES[options.size]
        self.corpus = self.read_corpus(size)
        if options.operators != "aten" and world.size > 1:
            from nereid.ops import fused
            fused.register_sharding()
        self.module, self.model = parallel.spread(lambda: Decoder(size, options.operators, DTYPES[options.dtype], options.recompute), world, options.data_parallel, options.seed, options.sequence,
                                                  options.keep_weights)
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(options, self.parameters, world.device)
        self.done = self.resume()
        self.record = records.Record(options.out / "log.csv", self.done) if world.first else None
        self.flops = size.flops(options.sequence)
        self.peak = self.find_peak()
        self.unsaved = None

    def read_corpus(self, size):
        try:
            if self.options.text:
                return Text(self.options.text, size.vocabulary, self.options.seed, self.options.sequence)
            return Grammar(size.vocabulary, self.options.seed)
        except ValueError as error:
            raise Unusable(str(error)) from error

    def find_peak(self):
        """Operations a second that the device could do, or None."""
        if self.options.peak_tflops:
            return self.options.peak_tflops * 1e12
        if self.world.device.type != "cuda" or self.options.dtype != "bf16":
            return None
        name = torch.cuda.get_device_name(self.world.device)
        return next((peak for part, peak in PEAKS.items() if part in name), None)

    def recipe(self):
        return {name: getattr(self.options, name) for name in RECIPE}

    def resume(self):
        """Reads the checkpoint that --resume names; the number of steps that were taken."""
        folder = self.options.out / "checkpoints"
        path, there = checkpoints.find(folder, self.options.resume), checkpoints.complete(folder)
        if there and (path is None or path.resolve() != there[-1][1].resolve()):
            raise Unusable(f"--resume is {self.options.resume}, and {folder} has checkpoints of an earlier run, up to step {there[-1][0]}: use another --out, or delete them")
        if path is None:
            return 0
        saved = checkpoints.load(path, self.world, self.model, self.optimizer, self.recipe())
        self.say(f"goes on after step {saved['step']} ({path})")
        other = [f"--{name.replace('_', '-')} was {saved[name]} and is {value}" for name, value in self.recipe().items() if saved[name] != value]
        if other:
            self.say("note: " + "; ".join(other))
        return saved["step"]

    def say(self, text):
        if self.world.first:
            print(text, flush=True)

    def batches(self, step):
        """The micro-batches of this process in a step, counted from 1: (tokens, the tokens that follow), (sequences, tokens)."""
        options, world = self.options, self.world
        own = options.batch // world.replicas
        for first in range(0, own, options.micro):
            begin = (step - 1) * options.batch + world.replica * own + first
            rows = torch.stack([self.corpus.sequence(index, options.sequence + 1) for index in range(begin, begin + options.micro)])
            if world.device.type == "cuda":
                rows = rows.pin_memory().to(world.device, non_blocking=True)
            yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()

    def step(self, step):
        """Takes a step; (loss, norm of the gradient), tensors on the device that the host does not wait for."""
        options, world = self.options, self.world
        micros = options.batch // world.replicas // options.micro
        tokens_of_replica = micros * options.micro * options.sequence
        total = torch.zeros((), dtype=torch.float32, device=world.device)
        for number, (tokens, targets) in enumerate(self.batches(step), 1):
            # FSDP2 reduces the gradient of every micro-batch, so that no process keeps a whole one; DDP only that of the last.
            later = number < micros and self.module is not self.model
            with self.module.no_sync() if later else contextlib.nullcontext():
                loss = self.module(tokens, targets) / tokens_of_replica
                loss.backward()
            total += loss.detach()
        parallel.finish_gradients(self.parameters)
        norm = clip(options, self.parameters)
        set_rate(self.optimizer, rate_of(options, step))
        self.optimizer.step()
        self.optimizer.zero_grad()
        # The processes of a replica have parts of its loss, replicas are averaged, as their gradients were.
        return world.sum(total) / world.replicas, norm

    def report(self, waiting, seconds):
        """waiting: [(step, loss, norm)] since the last report, which took so many seconds."""
        options, world = self.options, self.world
        each = seconds / len(waiting)
        tokens = options.batch * options.sequence
        rate, memory = tokens / each, torch.cuda.max_memory_allocated(world.device) if world.device.type == "cuda" else None
        mfu = rate * self.flops / (self.peak * world.size) if self.peak else None
        rows = [{
            "step": step, "tokens": step * tokens, "loss": float(loss), "grad_norm": float(norm), "rate": rate_of(options, step), "seconds": each, "tokens_per_second": rate, "mfu": mfu,
            "memory": memory
        } for step, loss, norm in waiting]
        if self.record:
            self.record.add(rows)
        last = rows[-1]
        self.say(f"step {last['step']:6}  loss {last['loss']:.4f}  gradient {last['grad_norm']:.3f}  {each * 1e3:.1f} ms  {rate:,.0f} tokens/s" + (f"  MFU {mfu:.1%}" if mfu else "") +
                 (f"  {memory / 2**30:.1f} GiB" if memory else ""))
        if not all(math.isfinite(row["loss"]) for row in rows):
            raise Unusable(f"the loss is not finite at step {next(row['step'] for row in rows if not math.isfinite(row['loss']))}: try a lower --lr or more --warmup")

    def save(self, step):
        try:
            checkpoints.save(self.world, self.options.out / "checkpoints", step, self.model, self.optimizer, self.recipe(), self.options.keep)
            self.unsaved = None
        except checkpoints.NotWritten as error:
            self.unsaved = str(error)
            self.say(f"warning: the checkpoint of step {step} was not written, earlier ones are kept: {error}")

    def run(self):
        """Takes the steps that are left; returns the exit status."""
        options, world = self.options, self.world
        waiting, began = [], time.perf_counter()
        for step in range(self.done + 1, options.steps + 1):
            profile = profiles.Profile(world.device) if step == options.profile and world.first else None
            with profile or contextlib.nullcontext():
                waiting.append((step, *self.step(step)))
            if profile:
                (options.out / "profile.txt").write_text(profile.report(options.out / "profile.json.gz") + "\n")
                self.say(f"the profile of step {step} is in {options.out / 'profile.txt'}")
            saves = options.save_every and (step % options.save_every == 0 or step == options.steps)
            if step % options.report_every == 0 or step == options.steps or saves or step == self.done + 1:
                if world.device.type == "cuda":
                    torch.cuda.synchronize()
                self.report(waiting, time.perf_counter() - began)
                if saves:
                    self.save(step)
                waiting, began = [], time.perf_counter()
        if world.first:
            plot(options.out / "curves.svg", self.record.rows, self.corpus.entropy)
            self.say(f"the record is in {options.out / 'log.csv'}, the plot in {options.out / 'curves.svg'}")
        return 1 if self.unsaved else 0


def plot(path, rows, entropy):
    curve = {name: [(row["step"], row[name]) for row in rows if row[name] is not None] for name in ("loss", "tokens_per_second", "grad_norm")}
    panels = [("loss (nats by token)", [("loss", curve["loss"])], [("entropy of the grammar", entropy)] if entropy else []), ("tokens a second", [("", curve["tokens_per_second"])], []),
              ("norm of the gradient", [("", curve["grad_norm"])], [])]
    records.plot(path, panels)


def find_nereid(options):
    """Imports what some options need. Raises Unusable."""
    needs = {f"--operators {options.operators}": "--operators aten"} if options.operators != "aten" else {}
    if options.recompute == "cheap":
        needs["--recompute cheap"] = "--recompute all"
    if not needs:
        return
    try:
        import nereid.ops.fused  # noqa: F401
    except ImportError as error:
        raise Unusable(f"{' and '.join(needs)} {'need' if len(needs) > 1 else 'needs'} nereid, which cannot be imported ({error}): install it, or use {' '.join(needs.values())}") from error


def begin(options):
    """The world and the trainer of this process. Raises Unusable."""
    world = parallel.begin(options.device, options.tensor_parallel, options.threads, options.communicating)
    check(options, world)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(f"the folder {options.out} (--out) cannot be made: {error.strerror}") from error
    find_nereid(options)
    if options.operators == "nereid":
        import nereid.ops
        nereid.ops.enable(device=options.device)  # not for what the host prepares for a GPU: small tensors whose lengths keep changing
    trainer = Trainer(options, world)
    size, parameters = SIZES[options.size], sum(parameter.numel() for parameter in trainer.parameters)
    place = torch.cuda.get_device_name(world.device) if world.device.type == "cuda" else platform.machine()
    trainer.say(f"{options.size}: {parameters:,} parameters ({size.layers} layers of {size.width}, vocabulary {size.vocabulary:,}); operators: {options.operators}; {options.dtype} on {place}")
    trainer.say(f"{world.replicas} replica(s) of {world.tensor} process(es)" + (f", {options.data_parallel}" if world.replicas > 1 else "") +
                f"; {options.batch} sequences of {options.sequence} tokens a step, {options.micro} at once")
    trainer.say(f"reads {trainer.corpus.describe()}")
    if world.first:
        described = {**{name: str(value) if isinstance(value, pathlib.Path) else value for name, value in vars(options).items()}, "parameters": parameters, "entropy": trainer.corpus.entropy,
                     "replicas": world.replicas, "flops_per_token": trainer.flops, "place": place, "torch": torch.__version__}
        (options.out / "run.json").write_text(json.dumps(described, indent=1) + "\n")
    return world, trainer


def main(given=None):
    options = arguments(given)
    try:
        world, trainer = begin(options)
        status = trainer.run()
    except Unusable as error:
        print(f"train.py: error: {error}", file=sys.stderr, flush=True)
        return 2
    world.close()
    return status


if __name__ == "__main__":
    parallel.leave(main())

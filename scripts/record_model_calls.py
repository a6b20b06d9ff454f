#!/usr/bin/env python3
"""Which ATen overloads models call, and which of them `nereid.ops` serves: scripts/record_model_calls.py [MODEL ...]

Models of `transformers` with small configurations and random weights run on the CPU, once forward and one training step (gradients clipped, AdamW in its three
implementations). Every call that reaches a backend is recorded below autograd. An overload is

    registered    `nereid.ops` has a kernel for it
    random        registered for GPUs only: on CPUs ATen draws its random numbers
    composed      ATen computes it by other overloads, which are recorded instead, unless GPUs have a kernel of their own (WHOLE_ON_GPUS)
    view          a view or an allocation: nothing is computed
    missing       left to ATen

Printed are the overloads that are missing, by number of calls, and for each model the share of calls with floating-point tensors that is registered.
`--all` prints every overload. `--run` runs the models again with `nereid.ops.use()`, compares losses and gradients with ATen's, and prints the share of calls that ran there and why
others did not: what is registered still leaves some calls to ATen.
"""

import argparse
import collections
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples" / "models"))

import calls  # noqa: E402
import zoo  # noqa: E402
from calls import STATES, share, state  # noqa: E402
from zoo import MODELS  # noqa: E402

DTYPES = {name: zoo.DTYPES[name] for name in ("fp32", "bf16")}
#: How AdamW updates: GPUs take the first by default, CPUs the second.
OPTIMIZERS = {"foreach": {"foreach": True}, "loop": {"foreach": False}, "fused": {"fused": True}}


def step(model, inputs, optimizers=OPTIMIZERS):
    """Forward without gradients, then training steps, one for each way to update. Returns (losses, gradients of the first step by parameter)."""
    model.eval()
    with torch.no_grad():
        losses, gradients = [model(**inputs).loss.detach()], {}
    model.train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for settings in optimizers.values():
        optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, **settings)
        torch.manual_seed(1)
        loss = model(**inputs).loss
        loss.backward()
        if not gradients:
            gradients = {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=settings.get("foreach", True))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, gradients


def recorded(name, dtype):
    """{overload: [calls, those with floating-point tensors]} of a model's steps."""
    model, inputs = zoo.made(name, "tiny", dtype)
    with calls.Recorder() as recorder:
        step(model, inputs)
    return recorder.found()


def compared(name, dtype):
    """Runs a model with ATen's kernels and with `nereid.ops`: (largest difference of losses, and of gradients relative to their largest magnitude; counts of the report)."""
    import nereid.ops
    first = {"foreach": OPTIMIZERS["foreach"]}
    theirs = step(*zoo.made(name, "tiny", dtype), first)
    nereid.ops.report(clear=True)
    with nereid.ops.use():
        mine = step(*zoo.made(name, "tiny", dtype), first)
    rows = nereid.ops.report(clear=True)
    largest = max(gradient.abs().max().item() for gradient in theirs[1].values())
    off = max((mine[1][key].double() - gradient.double()).abs().max().item() for key, gradient in theirs[1].items())
    return max(abs(a.item() - b.item()) for a, b in zip(mine[0], theirs[0])), off / largest, rows


def print_table(found, states):
    total = sum(calls for calls, _ in found.values())
    rows = [(overload, *counts, state(overload)) for overload, counts in found.items() if state(overload) in states]
    for overload, calls, floats, its in sorted(rows, key=lambda row: (STATES.index(row[3]), -row[1], row[0])):
        print(f"{its:<11} {overload:<48} {calls:>7} {floats:>7} {100 * calls / total:>6.2f} %")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="beginnings of " + ", ".join(MODELS) + "; all by default")
    parser.add_argument("--all", action="store_true", help="print every overload, not only those that are missing")
    parser.add_argument("--run", action="store_true", help="run the models with nereid.ops as well")
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    chosen = parser.parse_args(arguments)
    try:
        names = zoo.chosen(chosen.models)
    except ValueError as error:
        parser.error(str(error))
    everything, lines = {}, []
    for name in names:
        for dtype in chosen.dtypes:
            found = recorded(name, DTYPES[dtype])
            served, total = share(found)
            missing = sorted(overload for overload in found if state(overload) == "missing")
            lines.append(f"{name:<8} {dtype}  {served:>6} of {total:>6} calls with floating-point tensors are registered: {100 * served / total:.1f} %; "
                         f"{len(found)} overloads, {len(missing)} missing")
            for overload, counts in found.items():
                held = everything.setdefault(overload, [0, 0])
                everything[overload] = [a + b for a, b in zip(held, counts)]
            if chosen.run:
                loss, gradient, rows = compared(name, DTYPES[dtype])
                ours = sum(row.calls for row in rows if row.route == "nereid")
                left = collections.Counter()
                for row in rows:
                    if row.route != "nereid":
                        left[f"{row.overload}: {row.reason}"] += row.calls
                lines.append(f"{'':<8} {dtype}  {ours} of {ours + sum(left.values())} calls of registered overloads ran in nereid.ops; loss off by {loss:.2g}, gradients by {gradient:.2g}; "
                             "left to ATen: " + (", ".join(f"{what} ({calls})" for what, calls in left.most_common(6)) or "none"))
    print(f"{'state':<11} {'overload':<48} {'calls':>7} {'floats':>7}  share")
    print_table(everything, STATES if chosen.all else ("missing", ))
    print()
    print("\n".join(lines))
    counts = collections.Counter(state(overload) for overload in everything)
    print(f"\n{len(everything)} overloads: " + ", ".join(f"{counts[its]} {its}" for its in STATES))


if __name__ == "__main__":
    sys.exit(main())

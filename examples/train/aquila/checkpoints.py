"""Sharded checkpoints by torch.distributed.checkpoint: each process writes its part, and any number of processes, spread in any way, can read them.

A checkpoint is a folder `step-N`. It is written under another name, and gets its own when all parts are on the disk. A process that is killed while it writes, or a full disk, therefore
leaves the earlier checkpoints as they are.
"""

import os
import pathlib
import re
import shutil
import warnings

import torch
import torch.distributed.checkpoint as dcp
from parallel import Unusable
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

# Said of a run of one process, for which that is right.
warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
_NAME = re.compile(r"step-(\d+)")


class NotWritten(Exception):
    """A checkpoint could not be written; earlier ones are still there."""


def complete(folder):
    """The checkpoints of a folder: [(step, path)], the oldest first."""
    found = [(int(match[1]), path) for path in folder.glob("step-*") if (match := _NAME.fullmatch(path.name)) and (path / ".metadata").exists()]
    return sorted(found)


def _sync(path):
    """Writes what the system holds of a folder's entries to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _agreed(world, failed):
    """Whether any process has an exception, `failed`."""
    return bool(world.sum(torch.tensor(float(failed is not None), device=world.device)))


def _states(model, optimizer):
    """The states of model and optimizer, with learning rates as numbers: an optimizer may keep its rate in a tensor."""
    of_model, of_optimizer = get_state_dict(model, optimizer)
    for group in of_optimizer["param_groups"]:
        group["lr"] = float(group["lr"])
    return of_model, of_optimizer


def save(world, folder, step, model, optimizer, state, keep):
    """Writes the checkpoint of a step; of earlier ones all but the newest `keep` are deleted then. state: {name: value} of the run beyond model and optimizer, the same in all processes.

    Raises NotWritten, in all processes.
    """
    final, partial = folder / f"step-{step}", folder / f"step-{step}.part"
    failure = None
    try:
        if world.first:
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob("step-*.part"):
                shutil.rmtree(leftover)
    except OSError as error:
        failure = error
    if not _agreed(world, failure):
        of_model, of_optimizer = _states(model, optimizer)
        try:
            dcp.save({"model": of_model, "optimizer": of_optimizer, "run": {**state, "step": step}}, checkpoint_id=partial, no_dist=world.size == 1)
        except (Exception, dcp.CheckpointException) as error:  # the latter is no Exception. Whatever storage or serialiser raise: the run goes on
            failure = error
        if not _agreed(world, failure) and world.first:
            try:
                _sync(partial)
                if final.exists():  # not complete: a run does not begin before complete checkpoints of its folder
                    shutil.rmtree(final)
                partial.rename(final)
                _sync(folder)
                for _, path in complete(folder)[:-keep]:
                    shutil.rmtree(path)
            except OSError as error:
                failure = error
    if _agreed(world, failure):
        if world.first:
            shutil.rmtree(partial, ignore_errors=True)
        raise NotWritten(_reason(failure))


def _reason(failure):
    """What to tell of an exception: for a failure in other processes, what they raised."""
    causes = getattr(failure, "failures", None)
    first = next(iter(causes.values()))[0] if causes else failure
    return f"{type(first).__name__}: {first}" if first is not None else "another process failed"


def find(folder, wanted):
    """The path of the checkpoint to go on from, or None. wanted: "auto" (the newest of `folder`, if there is one), "none", or a path. Raises Unusable.

    Processes that torchrun has started again go on from the newest of `folder`, if there is one, whatever is wanted.
    """
    there = complete(folder)
    if there and (wanted == "auto" or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))):
        return there[-1][1]
    if wanted in ("auto", "none"):
        return None
    path = pathlib.Path(wanted)
    if not (path / ".metadata").exists():
        there = ", ".join(str(other) for _, other in complete(path) or complete(folder)) or "none"
        raise Unusable(f"{path} is no complete checkpoint; expected a folder step-N that has a file .metadata. Complete ones here: {there}")
    return path


def load(path, world, model, optimizer, state):
    """Reads a checkpoint into a model and an optimizer. state: {name: value} as given to `save`; returns what was saved, with "step". Raises Unusable."""
    saved = {"run": {**state, "step": 0}}
    try:
        dcp.load(saved, checkpoint_id=path, no_dist=world.size == 1)
        if (made := saved["run"]["size"]) != state["size"]:
            raise Unusable(f"{path} is of a model of size {made}: expected {state['size']} (--size)")
        of_model, of_optimizer = _states(model, optimizer)
        read = {"model": of_model, "optimizer": of_optimizer}
        dcp.load(read, checkpoint_id=path, no_dist=world.size == 1)
    except dcp.CheckpointException as error:
        raise Unusable(f"{path} cannot be read: {_reason(error)}") from error
    rates = [group["lr"] for group in optimizer.param_groups]
    set_state_dict(model, optimizer, model_state_dict=read["model"], optim_state_dict=read["optimizer"])
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate  # each step sets it
    return saved["run"]



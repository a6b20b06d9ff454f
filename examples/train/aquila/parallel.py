"""How the model is spread over processes, all of it by torch.distributed: DDP, FSDP2 (`fully_shard`), tensor parallelism (`parallelize_module`), and FSDP2 over tensor parallelism."""

import dataclasses
import os
import sys

import torch
import torch.distributed as dist
from torch import nn


class Unusable(Exception):
    """Something that the user asked for does not fit; the message says what was expected."""


@dataclasses.dataclass
class World:
    """device: of this process. rank, size: of all processes. replicas: in how many parts the batch is cut; replica: which one this process computes. tensor: how many processes share a
    replica. mesh: None, or a DeviceMesh with the dimensions "replica" and "tensor"."""

    device: torch.device
    rank: int = 0
    size: int = 1
    replica: int = 0
    replicas: int = 1
    tensor: int = 1
    mesh: object = None

    @property
    def first(self):
        return self.rank == 0

    def sum(self, tensor):
        """The sum of the tensors of all processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def close(self):
        """Ends the processes' group, once all of them are done with it: the first one draws a plot while the others wait."""
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


def leave(status):
    """Ends this process with the exit status, and takes nothing apart.

    Gloo's threads live on after destroy_process_group, since FSDP2 and the caches of DTensor keep their groups. One that still releases the tensors of a collective while the interpreter ends asks for
    the interpreter's lock and aborts the process (PyTorch issue 190489), and torchrun then counts a run that was done as failed. So what the end of the interpreter would have written is written here.
    """
    if "nereid" in sys.modules:
        sys.modules["nereid"].flush_cache(60)  # kernels for the next run
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def begin(device, tensor, threads=0, communicating=0):
    """The `World` of this process: from torchrun's environment, or of one process without it.

    device: "cuda" or "cpu". tensor: how many processes share a replica. threads: of a process on CPUs; 0: as PyTorch chooses. communicating: how many multiprocessors of a GPU a collective
    of NCCL takes at most, for then as many fewer compute; 0: as NCCL chooses. Raises Unusable.
    """
    size, rank, local = (int(os.environ.get(name, default)) for name, default in (("WORLD_SIZE", 1), ("RANK", 0), ("LOCAL_RANK", 0)))
    if tensor < 1 or size % tensor:
        raise Unusable(f"{size} process{'es' * (size > 1)} cannot be divided into groups of --tensor-parallel {tensor}: start a multiple of it (torchrun --nproc-per-node N)")
    if communicating:
        if device != "cuda" or not 0 < communicating <= 64:
            raise Unusable(f"--communicating is {communicating} on {device}: expected 1 to 64 multiprocessors of a GPU, or 0")
        os.environ["NCCL_MAX_CTAS"] = str(communicating)  # read when a communicator begins; a block of NCCL's kernels leaves no room for one of a product
    if device == "cuda":
        if not torch.cuda.is_available():
            raise Unusable("PyTorch finds no GPU: use --device cpu")
        if local >= torch.cuda.device_count():
            raise Unusable(f"process {local} of this machine has no GPU: there are {torch.cuda.device_count()}; start as many processes as there are GPUs")
        where = torch.device("cuda", local)
        torch.cuda.set_device(where)
    else:
        where = torch.device("cpu")
        if threads:
            torch.set_num_threads(threads)
    world = World(where, rank, size, rank // tensor, size // tensor, tensor)
    if size > 1:
        if not dist.is_available():
            raise Unusable("this PyTorch was built without torch.distributed")
        # torchrun keeps its store when it starts processes again: they must not read the addresses of those before them.
        store, _, _ = next(dist.rendezvous("env://"))
        store = dist.PrefixStore(f"start-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        dist.init_process_group("nccl" if device == "cuda" else "gloo", store=store, rank=rank, world_size=size, device_id=where if device == "cuda" else None)
        world.mesh = dist.device_mesh.init_device_mesh(device, (world.replicas, tensor), mesh_dim_names=("replica", "tensor"))
    return world


def _tensor_parallel(model, mesh):
    """Megatron's scheme (Shoeybi et al. 2019) with sequence parallelism (Korthikanti et al. 2022): attention is cut by heads, feed-forward layers by their inner width, embedding and output layer
    by vocabulary; between them each process has some tokens of every sequence."""
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module
    from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, PrepareModuleInput, RowwiseParallel, parallelize_module

    class ByTokens(ParallelStyle):
        """A norm: its inputs become DTensors that are sharded by tokens, its weight a replicated one, its results are parts again."""

        def _apply(self, module, mesh):

            def wrap(module, given, mesh):
                return tuple(DTensor.from_local(x, mesh, [Shard(1)], run_check=False) for x in given)

            def unwrap(module, results, mesh):
                return tuple(x.to_local() for x in results) if isinstance(results, tuple) else results.to_local()

            return distribute_module(module, mesh, None, wrap, unwrap)

    tokens, all_of_them = Shard(1), Replicate()
    gather = PrepareModuleInput(input_layouts=(tokens, ), desired_input_layouts=(all_of_them, ))
    gather_with_tables = PrepareModuleInput(input_layouts=(tokens, None, None), desired_input_layouts=(all_of_them, None, None))
    plan = {
        "attention_norm": ByTokens(), "feed_forward_norm": ByTokens(), "attention": gather_with_tables, "feed_forward": gather,
        **{f"attention.{name}": ColwiseParallel() for name in "qkv"}, "attention.out": RowwiseParallel(output_layouts=tokens),
        "feed_forward.gate": ColwiseParallel(), "feed_forward.up": ColwiseParallel(), "feed_forward.down": RowwiseParallel(output_layouts=tokens)
    }
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=all_of_them, output_layouts=tokens), "norm": ByTokens(), "head.projection": ColwiseParallel(),
        "head": PrepareModuleInput(input_layouts=(tokens, all_of_them), desired_input_layouts=(tokens, tokens), use_local_output=True)
    })


def _fully_shard(model, mesh, dtype, keep):
    """keep: whether weights that were gathered for the forward step stay for the backward step."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=not keep)
    fully_shard(model.head, mesh=mesh, mp_policy=policy, reshard_after_forward=False)  # the backward step begins with it
    fully_shard(model, mesh=mesh, mp_policy=policy)


def spread(make, world, data_parallel, seed, sequence, keep=False):
    """(the module to call, the model): a model with parameters on the device, spread over the processes.

    make: a function that returns a `Decoder`. data_parallel: "ddp" or "fsdp", for more than one replica. sequence: tokens of a sequence. keep: of FSDP2, see `_fully_shard`. Raises Unusable.
    """
    with torch.device("meta"):
        model = make()
    if world.tensor > 1:
        if data_parallel == "ddp" and world.replicas > 1:
            raise Unusable("--data-parallel ddp does not go with --tensor-parallel: use --data-parallel fsdp")
        for name, number in (("heads of the model", model.size.heads), ("tokens of a sequence (--sequence)", sequence), ("words of the vocabulary", model.size.vocabulary)):
            if number % world.tensor:
                raise Unusable(f"--tensor-parallel {world.tensor} does not divide the {number} {name}")
        _tensor_parallel(model, world.mesh["tensor"])
    if world.replicas > 1 and data_parallel == "fsdp":
        _fully_shard(model, world.mesh["replica"], model.dtype, keep)
    model.to_empty(device=world.device)
    model.begin(seed, world.device, sequence)
    if world.replicas > 1 and data_parallel == "ddp":
        return nn.parallel.DistributedDataParallel(model, device_ids=[world.device] if world.device.type == "cuda" else None, gradient_as_bucket_view=True), model
    return model, model


def finish_gradients(parameters):
    """Sums the gradients of replicated parameters whose uses were sharded, the weights of norms under tensor parallelism: they come as DTensors of partial sums."""
    for parameter in parameters:
        gradient = parameter.grad
        if hasattr(gradient, "placements") and gradient.placements != parameter.placements:
            parameter.grad = gradient.redistribute(placements=parameter.placements)

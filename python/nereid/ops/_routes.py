"""Which calls are ATen's because its kernel is faster: measured data, in `routes/*.json` for each kind of machine, made by benchmarks/ops/kernels.py.

A *point* says how fast ours was for an operator, a dtype and a shape class: ATen's time over ours. A call goes as the nearest point of its
operator, dtype and kind says: to ATen where that is below `THRESHOLD`. Without a point ours runs. What `nereid.ops.tune` has measured on this machine goes before.
"""

import dataclasses
import functools
import json
import math
import os
import pathlib
import re
import threading
import warnings

import torch

import nereid

from . import products
from ._declare import Native

#: Below this speed (ATen's time over ours) a call is ATen's.
THRESHOLD = 0.97
#: The answer for a call that is ATen's by the data. The router counts such calls under the same reason.
FASTER = Native("ATen is faster")
_FORMAT = 1
_NAMES = {str(dtype)[6:]: dtype for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)}
#: The dtype whose points are used where a dtype has no points: its kernels do the same work.
_TWINS = {torch.float16: torch.bfloat16, torch.bfloat16: torch.float16}


def cache_folder():
    """The folder of what was built or measured on this machine (NEREID_OPS_CACHE)."""
    return pathlib.Path(nereid.knobs.nereid.ops_cache or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "nereid" / "ops")


@functools.cache
def machine(device):
    """What measurements depend on, of the current GPU ("cuda") or of the CPU ("cpu"): {"device", "name", "generation", "units"}.

    generation: compute capability times 10, or PyTorch's name of the vector instructions; units: multiprocessors, or threads of PyTorch.
    """
    if device == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return {"device": device, "name": properties.name, "generation": 10 * properties.major + properties.minor, "units": properties.multi_processor_count}
    return {"device": device, "name": _cpu_name(), "generation": torch.backends.cpu.get_cpu_capability(), "units": torch.get_num_threads()}


def _cpu_name():
    try:
        found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1) if found else "CPU"


def _distance(one, other):
    """How much another machine's measurements say about this one: the smaller, the more."""
    if one["device"] == "cuda":
        generations = abs(one["generation"] - other["generation"]) + 100 * (one["generation"] // 10 != other["generation"] // 10)
    else:
        generations = one["generation"] != other["generation"]
    return generations, abs(math.log2(one["units"] / other["units"])), one["name"] != other["name"]


def _logarithms(sizes):
    return tuple([round(math.log2(max(size, 1)), 1) for size in sizes])


class Routes:
    """Points of one machine. machine: as `machine` gives it. tiles: measured tiles of products, {"dtype batches m n k": numbers of `products.Tiles`}."""

    def __init__(self, machine):
        self.machine, self.points, self.tiles = machine, {}, {}

    def add(self, operator, dtype, kind, sizes, speed):
        """Adds a point, in place of one of the same sizes. sizes: of the shape class, not their logarithms."""
        self.points.setdefault((operator, dtype, kind), {})[_logarithms(sizes)] = speed
        self.__dict__.pop("slow", None)

    def add_tiles(self, problem, tiles):
        """Adds the tiles of a product. problem: as `products.problem` gives it."""
        _, dtype, *sizes = problem
        self.tiles[" ".join([str(dtype)[6:], *map(str, sizes)])] = dataclasses.astuple(tiles)

    def update(self, other):
        for key, points in other.points.items():
            self.points.setdefault(key, {}).update(points)
        self.__dict__.pop("slow", None)
        self.tiles.update(other.tiles)

    def speed(self, operator, dtype, kind, sizes):
        """The speed at the nearest point, or None if there are no points."""
        points = self.points.get((operator, dtype, kind)) or self.points.get((operator, _TWINS.get(dtype), kind))
        if not points:
            return None
        here = _logarithms(sizes)
        same = [place for place in points if len(place) == len(here)]
        return points[min(same, key=lambda place: sum(abs(a - b) for a, b in zip(place, here)))] if same else None

    @functools.cached_property
    def slow(self):
        """The operators of which some call is ATen's."""
        return {operator for (operator, _, _), points in self.points.items() if any(speed < THRESHOLD for speed in points.values())}

    def is_native(self, operator, form, values):
        """Whether a call is ATen's. operator: the Operator; values: as for `Operator.call`."""
        if operator.name not in self.slow:
            return False
        found = operator.shape_class(form, values)
        if found is None:
            return False
        speed = self.speed(operator.name, operator.routing_dtype(values), *found)
        return speed is not None and speed < THRESHOLD

    def pointwise_sizes(self, operator, kinds, dtypes):
        """For each kind and dtype a bit set: bit b where calls of 2^b elements are ATen's."""
        if operator not in self.slow:
            return [0] * len(kinds) * len(dtypes)
        return [sum(1 << b for b in range(48) if (speed := self.speed(operator, dtype, kind, (2**b, ))) is not None and speed < THRESHOLD)
                for kind in kinds for dtype in dtypes]

    def save(self, path, **about):
        """Writes a file, at once: other processes see the old one or the new one. about: what else to tell (PyTorch's version, the date)."""
        points = {}
        for (operator, dtype, kind), its in sorted(self.points.items(), key=str):
            points.setdefault(operator, []).extend([str(dtype)[6:], kind, list(place), round(speed, 3)] for place, speed in sorted(its.items()))
        lines = ",\n".join(f"  {json.dumps(operator)}: {json.dumps(its)}" for operator, its in points.items())
        head = {"format": _FORMAT, "machine": self.machine, "torch": torch.__version__, **about, "tiles": self.tiles}
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}.tmp")
        scratch.write_text(f'{json.dumps(head)[:-1]}, "points": {{\n{lines}\n}}}}\n')
        os.replace(scratch, path)


def read(path):
    """The `Routes` of a file. Raises ValueError, which names the file, for one that is damaged or of another format."""
    try:
        data = json.loads(path.read_text())
        if data["format"] != _FORMAT:
            raise ValueError(f"format {data['format']}")
        routes = Routes(data["machine"])
        for operator, points in data["points"].items():
            for dtype, kind, place, speed in points:
                routes.points.setdefault((operator, _NAMES[dtype], kind), {})[tuple(place)] = float(speed)
        routes.tiles = dict(data["tiles"])
        if not {"device", "name", "generation", "units"} <= set(routes.machine):
            raise ValueError("no machine")
        return routes
    except (KeyError, TypeError, ValueError, AttributeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path} is no routing data of this version ({problem}); remove it, or measure again (docs/ops.md)") from None


def own_path(device):
    """Where `tune` keeps what it has measured on this machine."""
    its = machine(device)
    return cache_folder() / f"routes-{re.sub(r'[^a-z0-9]+', '-', its['name'].lower()).strip('-')}-{its['units']}.json"


def _use_tiles(routes):
    """Measured tiles count on the machine that they were measured on."""
    if routes.machine["name"] != machine(routes.machine["device"])["name"]:
        return
    name = "cpu" if routes.machine["device"] == "cpu" else routes.machine["name"]
    for text, numbers in routes.tiles.items():
        dtype, *sizes = text.split()
        products.choose((name, _NAMES[dtype], *map(int, sizes)), products.Tiles(*numbers))


@functools.cache
def shipped(device):
    """The package's data of the machine nearest to this one, or None."""
    found = [routes for path in sorted((pathlib.Path(__file__).parent / "routes").glob("*.json")) if (routes := read(path)).machine["device"] == device]
    here = machine(device)
    return min(found, key=lambda routes: _distance(here, routes.machine), default=None)


_in_force = {}  # {device: Routes}
_lock = threading.Lock()


def load(device):
    """The `Routes` in force on this machine, the same object until `keep`: the shipped ones with those of `tune` over them. Warns of a damaged file of `tune`
    and leaves it out."""
    with _lock:
        routes = _in_force.get(device)
        if routes is None:
            routes = Routes(machine(device))
            path = own_path(device)
            try:
                for its in (shipped(device), read(path) if path.exists() else None):
                    if its is not None:
                        routes.update(its)
                        _use_tiles(its)
            except (OSError, ValueError) as problem:
                warnings.warn(f"nereid.ops: {problem}", RuntimeWarning, stacklevel=2)
            _in_force[device] = routes
        return routes


def keep(measured):
    """Adds measurements of this machine to its file, and to what is in force. A file that cannot be written is warned of: then they count in this process."""
    device = measured.machine["device"]
    path, kept, in_force = own_path(device), Routes(measured.machine), Routes(measured.machine)
    in_force.update(load(device))
    in_force.update(measured)
    _use_tiles(measured)
    with _lock:
        _in_force[device] = in_force
        try:
            if path.exists():
                kept.update(read(path))
        except (OSError, ValueError) as problem:
            warnings.warn(f"nereid.ops.tune: {problem}; it is replaced", RuntimeWarning, stacklevel=3)
        kept.update(measured)
        try:
            kept.save(path)
        except OSError as problem:
            warnings.warn(f"nereid.ops.tune: {path} could not be written ({problem}); what was measured counts in this process only", RuntimeWarning, stacklevel=3)

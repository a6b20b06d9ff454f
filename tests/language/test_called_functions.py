"""What a called function uses without being given it: program ids and grid sizes, scratch and shared memory, warps, random state. The kernels
here do nothing but call, so that all of it is the function's own need, and functions are called in every way that the language has."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import harness

GRID = (3, 2, 2)
PROGRAMS = 12
WHERE = """    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    here = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
"""

# Functions of scalars: on a GPU those marked `noinline` stay functions.
SCALARS = {
    "ids": "    tl.store(out + here, here * 1000 + tl.num_programs(2) * 100 + v)\n",
    "load": "    tl.store(out + here, tl.load(data + here + v) + here)\n",
    "atomic": "    before = tl.atomic_add(out + here, v)\n    tl.store(out + here, before * 100 + tl.load(out + here) * 10 + tl.atomic_cas(out + 12 + here, 0, 7))\n",
    "loop": "    sum = v\n    for i in range(here):\n        sum += tl.load(data + i) * tl.program_id(0)\n    tl.store(out + here, sum)\n",
    "branch": "    if x == 1:\n        tl.store(out + here, tl.num_programs(1) + v)\n    elif tl.program_id(2) == 1:\n        tl.store(out + here, -here)\n",
    "random": "    tl.store(out + here, tl.randint(v, here))\n",
    "assertion": "    tl.device_assert(tl.program_id(1) < tl.num_programs(1), 'outside')\n    tl.store(out + here, here + v)\n",
}

# Functions with tensors inside.
TENSORS = {
    "pointers": "    o = tl.arange(0, 16)\n    tl.store(out + here * 16 + o, tl.load(data + here * 16 + o) + v)\n",
    "descriptors": """    d = tl.make_tensor_descriptor(data, [12, 16], [16, 1], [1, 16])
    e = tl.make_tensor_descriptor(out, [12, 16], [16, 1], [1, 16])
    e.store([here, 0], d.load([here, 0]) + v)
""",
    "block pointers": """    d = tl.make_block_ptr(data, (12, 16), (16, 1), (here, 0), (1, 16), (1, 0))
    tl.store(tl.make_block_ptr(out, (12, 16), (16, 1), (here, 0), (1, 16), (1, 0)), tl.load(d) + v)
""",
    "reduction": "    o = tl.arange(0, 16)\n    tl.store(out + here, tl.sum(tl.load(data + here * 16 + o)) + tl.max(o + here) + v)\n",
    "sort": "    o = tl.arange(0, 16)\n    t = tl.sort(tl.load(data + here * 16 + o), descending=True)\n    tl.store(out + here * 16 + o, tl.cumsum(t) + v)\n",
    "product": """    o = tl.arange(0, 16)
    a = tl.load(data + (o[:, None] * 16 + o[None, :]) % 192).to(tl.float16)
    p = tl.dot(a, tl.trans(a) + here.to(tl.float16)).to(tl.int32)
    tl.store(out + here * 16 + o, tl.sum(p, axis=1) + v)
""",
    "gather": "    o = tl.arange(0, 16)\n    t = tl.gather(tl.load(data + here * 16 + o), 15 - o, 0)\n    tl.store(out + here * 16 + o, t + v)\n",
    "histogram": "    o = tl.arange(0, 16)\n    t = tl.histogram(tl.load(data + here * 16 + o) % 4, 4)\n    tl.store(out + here * 16 + tl.arange(0, 4), t + v)\n",
    "atomics": "    o = tl.arange(0, 16)\n    t = tl.atomic_add(out + here * 16 + o, tl.load(data + here * 16 + o))\n    tl.atomic_add(out + here * 16 + o, t + v)\n",
    "random numbers": "    o = tl.arange(0, 16)\n    tl.store(out + here * 16 + o, tl.randint(v, here * 16 + o))\n",
    "mapped": "    o = tl.arange(0, 16)\n    tl.store(out + here * 16 + o, tl.map_elementwise(mapped, tl.load(data + here * 16 + o)) + v)\n",
    "combined": "    o = tl.arange(0, 16)\n    tl.store(out + here, tl.reduce(tl.load(data + here * 16 + o), 0, combined) + v)\n",
}

HELPERS = """@triton.jit
def mapped(a):
    return a * 2 + tl.program_id(0) + other(a) if a > 2 else a - tl.num_programs(0)


@triton.jit(noinline=True)
def other(a):
    return a * tl.program_id(1)


@triton.jit
def combined(a, b):
    return tl.maximum(a, b) + tl.program_id(2) - tl.program_id(2) * 1
"""

# Each gives the text of `start`, which the kernel calls.
WAYS = {
    "inlined": "@triton.jit\ndef start(out, data, v):\n{body}",
    "noinline": "@triton.jit(noinline=True)\ndef start(out, data, v):\n{body}",
    "two levels": "@triton.jit(noinline=True)\ndef f(out, data, v):\n{body}\n\n@triton.jit(noinline=True)\ndef start(out, data, v):\n    f(out, data, v)\n",
    "noinline in inlined": "@triton.jit(noinline=True)\ndef f(out, data, v):\n{body}\n\n@triton.jit\ndef start(out, data, v):\n    f(out, data, v)\n",
    "inlined in noinline": "@triton.jit\ndef f(out, data, v):\n{body}\n\n@triton.jit(noinline=True)\ndef start(out, data, v):\n    f(out, data, v)\n",
    "through a constexpr": "@triton.jit(noinline=True)\ndef f(out, data, v):\n{body}\n\n@triton.jit(noinline=True)\ndef apply(g: tl.constexpr, out, data, v):\n"
                           "    g(out, data, v)\n\n@triton.jit\ndef start(out, data, v):\n    apply(f, out, data, v)\n",
    "recursion": "@triton.jit(noinline=True)\ndef f(out, data, v):\n{body}\n\n@triton.jit(noinline=True)\ndef again(out, data, v, N: tl.constexpr):\n"
                 "    if N == 0:\n        f(out, data, v)\n    else:\n        again(out, data, v, N - 1)\n\n"
                 "@triton.jit\ndef start(out, data, v):\n    again(out, data, v, 3)\n",
    "in a branch": "@triton.jit(noinline=True)\ndef f(out, data, v):\n{body}\n\n@triton.jit\ndef start(out, data, v):\n    if v > 0:\n        f(out, data, v)\n",
    "in a loop": "@triton.jit(noinline=True)\ndef f(out, data, v):\n{body}\n\n@triton.jit\ndef start(out, data, v):\n"
                 "    for i in range(v - 2):\n        f(out, data, v + i)\n",
    "local": "@triton.jit\ndef start(out, data, v):\n    def f():\n{indented}\n    f()\n",
}
KERNEL = "\n\n@triton.jit\ndef kernel(out, data, v):\n    start(out, data, v)\n"
BODIES = {**SCALARS, **TENSORS}


def program(way, body):
    body = WHERE + BODIES[body]
    return harness.make(HELPERS + "\n\n" + WAYS[way].format(body=body, indented=re.sub("^", "    ", body, flags=re.M)) + KERNEL)


def straight(body):
    """The same without any call."""
    return harness.make(HELPERS + "\n\n@triton.jit\ndef kernel(out, data, v):\n" + WHERE + BODIES[body])


def run(kernel, **options):
    data = torch.arange(192, dtype=torch.int32) * 7 % 5
    out = torch.zeros(192, dtype=torch.int32)
    kernel[GRID](out, data, 3, **options)
    return out


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", BODIES)
def test_everything_a_function_needs(way, body, target):
    want = run(straight(body))
    assert want.count_nonzero() >= 8
    assert torch.equal(run(program(way, body), num_warps=2), want)


def test_ids_are_right(target):
    """Against numbers, so that a kernel and what it calls cannot be wrong alike."""
    out = run(program("noinline", "ids"))
    assert out[:PROGRAMS].tolist() == [i * 1000 + 203 for i in range(PROGRAMS)]

"""Tests of `nereid.jax`. They run on the CPU, of which JAX makes four devices here. Those that take `device` run with `--target cuda` on the GPU that JAX finds; all others run on
the CPU there, too."""

import os

# Before the first use of JAX in the process.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_num_cpu_devices", 4)


@pytest.fixture(autouse=True)
def on_cpu():
    """What does not take `device` runs on the CPU also where JAX finds a GPU, which would be its default; in all threads."""
    jax.config.update("jax_default_device", jax.devices("cpu")[0])
    yield
    jax.config.update("jax_default_device", None)


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        asked = metafunc.config.getoption("--target") or ["cpu"]
        metafunc.parametrize("device", list(dict.fromkeys(asked)), indirect=True)


@pytest.fixture
def device(request, on_cpu):
    """The device of JAX that a test runs on; one that `--target` asks for and JAX lacks is an error."""
    found = jax.devices(request.param)[0]
    with jax.default_device(found):
        yield found

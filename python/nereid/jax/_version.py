"""Whether there is a JAX that `nereid.jax` works with."""

#: The oldest one whose public interface has all that is used here.
OLDEST = (0, 7, 0)


def check():
    """Raises ImportError where JAX is missing, cannot be imported, or is older than `OLDEST`."""
    wanted = ".".join(map(str, OLDEST))
    try:
        import jax
    except ImportError as error:
        raise ImportError(f"nereid.jax needs JAX {wanted} or later, which cannot be imported ({error}): pip install jax", name="jax") from error
    found = getattr(jax, "__version__", "a folder of that name")  # a folder without a package in it, on the path, can be imported, too
    if numbers(found) < OLDEST:
        raise ImportError(f"nereid.jax needs JAX {wanted} or later, found {found}: pip install --upgrade jax", name="jax")


def numbers(version):
    """(0, 7, 2) of "0.7.2.dev20250801"."""
    found = []
    for part in version.split(".")[:3]:
        digits = "".join(c for c in part if c.isdigit()) if part[:1].isdigit() else ""
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)

"""Launches in another mode: with `--mode checked` or `--mode debug` every launch of a test that takes `target` runs in that mode, and
results are compared as always. What a launch itself says (`checked=False`) stays.

`@pytest.mark.overflows("why")`: the test's integers wrap on purpose, which debug mode reports by definition; there it runs with
assertions and without checks of overflow. `@pytest.mark.not_in_mode("checked", "why")`: the test cannot hold in that mode."""

MODES = {"checked": {"checked": True}, "debug": {"debug": True}}

_added = {}  #: options that launches get now


def install():
    """From here on launches take the options of the running test's mode."""
    from nereid.runtime.jit import JITFunction
    run = JITFunction.run

    def run_in_mode(self, *arguments, grid, warmup, **options):
        return run(self, *arguments, grid=grid, warmup=warmup, **{**_added, **options})

    JITFunction.run = run_in_mode


def enter(mode, item):
    """The mode for the launches of one test."""
    _added.update(MODES[mode])
    if mode == "debug" and item.get_closest_marker("overflows"):
        _added["sanitize_overflow"] = False


def leave():
    _added.clear()


def reason_against(mode, item):
    """Why a test does not run in a mode, or None."""
    for mark in item.iter_markers("not_in_mode"):
        if mark.args[0] == mode:
            return mark.args[1]
    return None

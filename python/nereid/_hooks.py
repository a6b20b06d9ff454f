"""Hooks of launches and compilations: `knobs.runtime.launch_enter_hook` and similar ones.

While none is installed the extension launches without a look here, and this module is not loaded: `knobs` tells the extension of every
change.
"""

from . import knobs


def _compilation(function, args, kwargs, warmup):
    """Arguments of the hooks: (key, text, description of the compilation)."""
    from .backends.compiler import target_of, target_text
    from .compiler import make_backend
    from .runtime.driver import cpu, cuda, device_of, driver
    from .runtime.jit import serialize_specialization_data
    from .runtime.specialise import compute_cache_key, unprefixed
    from .runtime.tensors import MockTensor
    _, _, _, _, binder = function.create_binder()
    arguments, specialization, given = binder(*map(MockTensor.wrap_dtype, args) if warmup else args, **kwargs)
    given = unprefixed(given)
    named = given.get("target")
    if warmup and isinstance(named, str) and named.startswith("cuda:"):  # for a GPU that need not be here
        number, device, target = 0, cuda, target_of(named)
    else:
        number = device_of({**arguments, **given})
        device = cpu if number is None else cuda
        target = device.get_current_target()
    backend = make_backend(target)
    options = backend.parse_options({"debug": bool(function.debug), **given})
    key = compute_cache_key({}, specialization, given)
    signature, constants, attrs = {}, {}, {}
    for param, (kind, fact) in zip(function.params, specialization):
        signature[param.name] = kind
        _collect((param.num, ), kind, arguments[param.name] if param.is_constexpr else fact, constants, attrs, backend)
    said = {} if device.name == driver.active.name else {"target": target_text(backend.target)}  # where the types alone do not lead
    data = serialize_specialization_data(function._fn_name, signature, constants, attrs, {**said, **given}, key)
    shown = ", ".join(f"{name}: {kind}" for name, kind in signature.items())
    text = (f"{function.__qualname__}[num_warps={options.num_warps}, num_ctas={options.num_ctas}, num_stages={options.num_stages}, "
            f"enable_fp_fusion={options.enable_fp_fusion}, launch_cooperative_grid={options.launch_cooperative_grid}]({shown})")
    described = {"key": key, "signature": signature, "device": f"{device.name}:{number or 0}", "constants": constants,
                 "num_warps": options.num_warps, "num_ctas": options.num_ctas, "num_stages": options.num_stages,
                 "enable_fp_fusion": options.enable_fp_fusion, "launch_cooperative_grid": options.launch_cooperative_grid,
                 "extern_libs": options.extern_libs, "configs": [attrs], "specialization_data": data, "is_warmup": warmup}
    return key, text, described


def _collect(path, kind, fact, constants, attrs, backend):
    if isinstance(kind, tuple):
        for i, (part, item) in enumerate(zip(kind, fact)):
            _collect((*path, i), part, item, constants, attrs, backend)
    elif kind == "constexpr":
        constants[path] = fact
    elif isinstance(fact, str) and backend.parse_attr(fact):
        attrs[path] = backend.parse_attr(fact)


def _compile(function, args, kwargs, warmup):
    """Compiles, telling the hooks before and after; None when a hook takes the compilation over."""
    from .runtime.jit import JitFunctionInfo
    before, after = knobs.runtime.jit_cache_hook, knobs.runtime.jit_post_compile_hook
    info = JitFunctionInfo(function.__module__, function.__qualname__, function)

    def tell(hook):
        # `already_compiled` is False for both hooks, as in Triton: neither is called for a kernel that was there before.
        key, text, described = _compilation(function, args, kwargs, warmup)
        return hook(key=key, repr=text, fn=info, compile=described, is_manual_warmup=warmup, already_compiled=False)

    if before is not None and tell(before):
        return None
    if knobs.runtime.add_stages_inspection_hook is not None:
        _inspect_stages(knobs.runtime.add_stages_inspection_hook)
    kernel = function._launch_plain(None, args, kwargs, True)
    knobs._tell_listener(kernel)
    if after is not None:
        tell(after)
    return kernel


def _inspect_stages(hook):
    """The stages of the backend may be looked at; the library runs them all at once, so replacing one is an error."""
    from .compiler import make_backend
    from .runtime.driver import driver
    backend = make_backend(driver.active.get_current_target())
    stages = {}
    options = backend.parse_options({})
    backend.add_stages(stages, options)
    before = dict(stages)
    hook(backend, stages, options, None, getattr(backend.target, "arch", None))
    if stages != before:
        raise NotImplementedError("the stages of a compilation run inside the library and cannot be replaced: edit a stage on disk "
                                  "with `knobs.compilation.override` instead")


def launch_with_hooks(function, grid, args, kwargs, warmup):
    """A launch while hooks are installed."""
    kernel = function._find(args, kwargs, warmup)
    if kernel is None:
        kernel = _compile(function, args, kwargs, warmup)
    if kernel is None or warmup:
        return kernel
    kernel._init_handles()
    runtime = knobs.runtime
    enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
    names = set(function.arg_names)
    bound = function.signature.bind(*args, **{name: value for name, value in kwargs.items() if name in names})
    bound.apply_defaults()
    if callable(grid):
        grid = grid(dict(bound.arguments))
    from .runtime.driver import cpu, cuda
    device = cpu if kernel.metadata.target.backend == "cpu" else cuda
    stream = device.get_current_stream(device.get_current_device())
    metadata = kernel.launch_metadata(grid, stream, *bound.arguments.values())
    if enter is not None:
        enter(metadata)
    function._launch_plain(grid, args, kwargs, False)
    if leave is not None:
        leave(metadata)
    return kernel

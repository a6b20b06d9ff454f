"""Prints docs/reference/knobs.md: every knob of `triton.knobs` with its environment variable and what it does."""

from nereid import knobs

HEAD = """# Knobs

Every knob of `triton.knobs` (`nereid.knobs`), made by `scripts/knobs_table.py`. A knob takes the value that a program gives it,
else its environment variable (that of Nereid's own name first), else its default. Knobs without an effect are accepted, too.
"""

TAIL = """## Variables that Triton's compiler reads without a knob

`MLIR_ENABLE_DUMP`, `LLVM_IR_ENABLE_DUMP`, `DISABLE_LLVM_OPT` and `MLIR_ENABLE_TIMING` have the knobs `nereid.print_before`,
`nereid.print_llvm`, `nereid.llvm_optimisation` and `nereid.time_passes`. The others are not read: `LLVM_ENABLE_TIMING` (its passes are among
those of `nereid.time_passes`), `MLIR_DUMP_PATH`, `MLIR_ENABLE_DIAGNOSTICS` and `TRITON_REPRODUCER_PATH` (the stages are written by `compilation.dump_ir`),
`TRITON_ENABLE_LLVM_DEBUG`, `TRITON_LLVM_DEBUG_ONLY`, `LLVM_PASS_PLUGIN_PATH`, `TRITON_PLUGIN_PATHS`, `DISABLE_MMA_V3`, `DISABLE_MMA_V5` and
variables for passes that this compiler does not have."""


def default_text(knob):
    if isinstance(knob, knobs.env_nvidia_tool):
        return "the first one found"
    if isinstance(knob, knobs.env_str_callable_default):
        return f"`.triton/{knob.name.removesuffix('_dir').replace('dir', 'cache')}` in the home folder"
    if knob.name == "home_dir":
        return "the home folder"
    return f"`{knob.default!r}`"


def main():
    print(HEAD)
    for name in ("build", "redis", "cache", "compilation", "autotuning", "runtime", "language", "nvidia", "amd", "proton", "nereid"):
        group = getattr(knobs, name)
        print(f"## `knobs.{name}`: {type(group).__doc__[0].lower() + type(group).__doc__[1:].rstrip('.')}\n")
        print("| knob | variable | default | what it does |\n|---|---|---|---|")
        for knob in group.knob_descriptors.values():
            variables = [f"`{knob.key}`"] + [f"`{'!' * knob.opposite}{knob.setting}`"] * (knob.setting not in ("", knob.key))
            about = knob.effect or f"*nothing*: {knob.ignored}"
            print(f"| `{knob.name}` | {', '.join(variables)} | {default_text(knob)} | {about} |")
        others = [key for key, value in vars(type(group)).items()
                  if not key.startswith("_") and (value is None or isinstance(value, knobs.HookChain))]
        if others:
            print(f"\nWithout a variable: {', '.join(f'`{key}`' for key in others)}.")
        print()
    print(TAIL)


if __name__ == "__main__":
    main()

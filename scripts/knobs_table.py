"""Prints docs/reference/knobs.md: every knob of `triton.knobs` with its environment variable and what it does."""

from nereid import knobs

HEAD = """# Knobs

Every knob of `triton.knobs` (`nereid.knobs`), made by `scripts/knobs_table.py`. A knob takes the value that a program gives it,
else its environment variable (that of Nereid's own name first), else its default. What does nothing is accepted all the same.
"""


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


if __name__ == "__main__":
    main()

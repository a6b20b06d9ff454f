#!/usr/bin/env python3
"""Which of the ATen overloads that FlagGems registers `nereid.ops` has: scripts/operator_coverage.py

An overload is registered, composed (ATen computes it by other operators, which are registered where they are in this list) or missing.
Prints a line with the counts, then the missing overloads by name. docs/ops.md holds the line; tests/ops/test_operator_coverage.py compares.
"""

import argparse
import pathlib

WANTED = pathlib.Path(__file__).with_name("flaggems_overloads.txt")


def wanted():
    return [line.strip() for line in WANTED.read_text().splitlines() if line.strip() and not line.startswith("#")]


def sorted_out():
    """({"registered", "composed", "missing"}: names, number of all overloads that are registered)."""
    import torch

    import nereid.ops
    registered = {form.name for operator in nereid.ops.OPERATORS.values() for form in operator.forms}
    found = {"registered": [], "composed": [], "missing": []}
    for name in wanted():
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        composed = any(has(f"aten::{name}", key) for key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd")) and not has(f"aten::{name}", "CPU")
        found["registered" if name in registered else "composed" if composed else "missing"].append(name)
    return found, len(registered)


def line():
    found, count = sorted_out()
    return f"{count} overloads are registered. Of the {len(wanted())} of FlagGems {len(found['registered'])} are, {len(found['composed'])} are composed of others by ATen, " \
           f"{len(found['missing'])} are missing."


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(line())
    for name in sorted_out()[0]["missing"]:
        print(name)


if __name__ == "__main__":
    main()

"""Compares the losses of two runs and plots them with their difference.

    python examples/train/aquila/compare.py run-aten run-nereid --plot difference.svg

Runs are folders of train.py's --out, or their log.csv. Prints the differences of the losses of common steps, and of the tokens a second; with --tolerance the exit status is 1 where the mean of
the last --last steps differs by more.
"""

import argparse
import pathlib
import sys

import records


def rows_of(path):
    path = path / "log.csv" if path.is_dir() else path
    return {row["step"]: row for row in records.read(path)}


def mean(numbers):
    return sum(numbers) / len(numbers)


def main(given=None):
    parser = argparse.ArgumentParser(description="Compares the losses of two runs.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("first", type=pathlib.Path)
    parser.add_argument("second", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="where the plot goes, an SVG")
    parser.add_argument("--last", type=int, default=20, metavar="N", help="how many of the last steps are averaged")
    parser.add_argument("--tolerance", type=float, metavar="X", help="the most that the averages may differ by")
    options = parser.parse_args(given)
    try:
        first, second = rows_of(options.first), rows_of(options.second)
    except ValueError as error:
        print(f"compare.py: error: {error}", file=sys.stderr)
        return 2
    steps = sorted(first.keys() & second.keys())
    if not steps:
        print(f"compare.py: error: {options.first} and {options.second} have no step in common", file=sys.stderr)
        return 2
    losses = [(step, first[step]["loss"], second[step]["loss"]) for step in steps]
    differences = [(step, b - a) for step, a, b in losses]
    largest = max(differences, key=lambda entry: abs(entry[1]))
    last = losses[-options.last:]
    ends = mean([a for _, a, _ in last]), mean([b for _, _, b in last])
    print(f"{len(steps)} common steps; identical losses: {sum(a == b for _, a, b in losses)}")
    print(f"largest difference: {largest[1]:+.3e} at step {largest[0]}; mean of all: {mean([d for _, d in differences]):+.3e}, of their sizes: {mean([abs(d) for _, d in differences]):.3e}")
    print(f"mean loss of the last {len(last)} steps: {ends[0]:.5f} and {ends[1]:.5f}, difference {ends[1] - ends[0]:+.3e}")
    speeds = [sorted(rows[step]["tokens_per_second"] for step in steps[len(steps) // 4:])[(len(steps) - len(steps) // 4) // 2] for rows in (first, second)]
    print(f"median tokens a second, without the first quarter: {speeds[0]:,.0f} and {speeds[1]:,.0f}, ratio {speeds[1] / speeds[0]:.3f}")
    memory = [max((rows[step]["memory"] or 0) for step in steps) for rows in (first, second)]
    if all(memory):
        print(f"memory: {memory[0] / 2**30:.2f} and {memory[1] / 2**30:.2f} GiB, ratio {memory[1] / memory[0]:.3f}")
    if options.plot:
        curves = [(str(options.first), [(step, a) for step, a, _ in losses]), (str(options.second), [(step, b) for step, _, b in losses])]
        records.plot(options.plot, [("loss (nats by token)", curves, []), ("second minus first", [("", differences)], [("", 0.0)])])
        print(f"the plot is in {options.plot}")
    return int(options.tolerance is not None and not abs(ends[1] - ends[0]) <= options.tolerance)


if __name__ == "__main__":
    sys.exit(main())

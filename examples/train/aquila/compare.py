"""Compares the losses of two runs, or of several pairs of runs, and plots them with their differences.

    python examples/train/aquila/compare.py run-aten run-nereid --plot difference.svg
    python examples/train/aquila/compare.py aten-seed-0 nereid-seed-0 aten-seed-1 nereid-seed-1 aten-seed-2 nereid-seed-2 --plot differences.svg

Of several pairs it also prints, for each fifth of the steps and for the last --last, the mean of the differences and their standard deviation by pair, which tell whether the mean is chance.

Runs are folders of train.py's --out, or their log.csv. Prints the differences of the losses of common steps, and of the tokens a second; with --tolerance the exit status is 1 where the mean of
the last --last steps differs by more.
"""

import argparse
import math
import pathlib
import statistics
import sys

import records


def rows_of(path):
    path = path / "log.csv" if path.is_dir() else path
    return {row["step"]: row for row in records.read(path)}


def mean(numbers):
    return sum(numbers) / len(numbers)


def median_speed(rows, steps):
    return statistics.median(rows[step]["tokens_per_second"] for step in steps[len(steps) // 4:])


def compare(first, second, last):
    """Prints how two records differ. first, second: {step: row}; last: how many steps are averaged. Returns [(step, loss of the first, of the second)], ordered by step."""
    steps = sorted(first.keys() & second.keys())
    losses = [(step, first[step]["loss"], second[step]["loss"]) for step in steps]
    differences = [(step, b - a) for step, a, b in losses]
    largest = max(differences, key=lambda entry: abs(entry[1]))
    ends = mean([a for _, a, _ in losses[-last:]]), mean([b for _, _, b in losses[-last:]])
    print(f"{len(steps)} common steps; identical losses: {sum(a == b for _, a, b in losses)}")
    print(f"largest difference: {largest[1]:+.3e} at step {largest[0]}; mean of all: {mean([d for _, d in differences]):+.3e}, of their sizes: {mean([abs(d) for _, d in differences]):.3e}")
    print(f"mean loss of the last {len(losses[-last:])} steps: {ends[0]:.5f} and {ends[1]:.5f}, difference {ends[1] - ends[0]:+.3e}")
    speeds = median_speed(first, steps), median_speed(second, steps)
    print(f"median tokens a second, without the first quarter: {speeds[0]:,.0f} and {speeds[1]:,.0f}, ratio {speeds[1] / speeds[0]:.3f}")
    memory = [max((rows[step]["memory"] or 0) for step in steps) for rows in (first, second)]
    if all(memory):
        print(f"memory: {memory[0] / 2**30:.2f} and {memory[1] / 2**30:.2f} GiB, ratio {memory[1] / memory[0]:.3f}")
    return losses


def summary(pairs, last):
    """Prints means of differences over ranges of steps, of several results of `compare`. Returns the mean of the last range."""
    steps = sorted(set.intersection(*({step for step, _, _ in losses} for losses in pairs)))
    fifth = -(-len(steps) // 5)
    ranges = [steps[i:i + fifth] for i in range(0, len(steps), fifth)] + [steps[-last:]]
    print(f"\nsecond minus first, {len(pairs)} pairs: mean of the differences, their standard deviation, the mean's standard error; standard deviations of the losses of the first and of the second runs")
    for chosen in ranges:
        inside = set(chosen)
        of_first, of_second = ([mean([row[column] for row in losses if row[0] in inside]) for losses in pairs] for column in (1, 2))
        found = [b - a for a, b in zip(of_first, of_second)]
        spread = statistics.stdev(found)
        print(f"steps {chosen[0]:5} to {chosen[-1]:5}: {mean(found):+.4f}  {spread:.4f}  {spread / math.sqrt(len(pairs)):.4f}; {statistics.stdev(of_first):.4f} and {statistics.stdev(of_second):.4f}")
    return mean(found)


def smoothed(losses, count=10):
    """The differences, each the mean of up to `count` steps."""
    differences = [(step, b - a) for step, a, b in losses]
    return [(differences[i][0], mean([d for _, d in differences[max(0, i - count + 1):i + 1]])) for i in range(len(differences))]


def main(given=None):
    parser = argparse.ArgumentParser(description="Compares the losses of two runs, or of several pairs of runs.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("runs", type=pathlib.Path, nargs="+", metavar="FIRST SECOND", help="one or several pairs of runs")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="where the plot goes, an SVG")
    parser.add_argument("--last", type=int, default=20, metavar="N", help="how many of the last steps are averaged")
    parser.add_argument("--tolerance", type=float, metavar="X", help="the most that the averages may differ by")
    options = parser.parse_args(given)
    if len(options.runs) % 2:
        parser.error(f"runs come in pairs, found {len(options.runs)}")
    if options.last < 1:
        parser.error(f"--last {options.last}: expected 1 or more")
    pairs = list(zip(options.runs[::2], options.runs[1::2]))
    results = []
    for paths in pairs:
        try:
            first, second = map(rows_of, paths)
        except ValueError as error:
            print(f"compare.py: error: {error}", file=sys.stderr)
            return 2
        if not first.keys() & second.keys():
            print(f"compare.py: error: {paths[0]} and {paths[1]} have no step in common", file=sys.stderr)
            return 2
        if len(pairs) > 1:
            print(f"{paths[0]} and {paths[1]}: ", end="")
        results.append(compare(first, second, options.last))
    if len(pairs) > 1:
        if not set.intersection(*({step for step, _, _ in losses} for losses in results)):
            print("compare.py: error: the pairs have no step in common", file=sys.stderr)
            return 2
        difference = summary(results, options.last)
    else:
        difference = mean([b - a for _, a, b in results[0][-options.last:]])
    if options.plot:
        if len(pairs) > 1:
            curves = [(f"{first.name}, {second.name}", smoothed(losses)) for (first, second), losses in zip(pairs, results)]
            panels = [("second minus first: loss (nats by token), means of ten steps", curves, [("", 0.0)])]
        else:
            curves = [(str(path), [(row[0], row[column]) for row in results[0]]) for column, path in enumerate(options.runs, 1)]
            panels = [("loss (nats by token)", curves, []), ("second minus first", [("", [(step, b - a) for step, a, b in results[0]])], [("", 0.0)])]
        records.plot(options.plot, panels)
        print(f"the plot is in {options.plot}")
    return int(options.tolerance is not None and not abs(difference) <= options.tolerance)


if __name__ == "__main__":
    sys.exit(main())

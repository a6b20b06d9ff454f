"""The record of a run: a CSV file with a row for each step, and curves as SVG."""

import csv
import math

#: seconds, tokens_per_second and mfu: means over the steps between two reports. mfu: the part of the device's peak that the model's operations take, empty where the peak is unknown.
#: memory: the most bytes that tensors took on this process's GPU.
COLUMNS = ("step", "tokens", "loss", "grad_norm", "rate", "seconds", "tokens_per_second", "mfu", "memory")


class Record:
    """The file `path`; rows up to step `done` of an earlier run stay, the others are computed again."""

    def __init__(self, path, done):
        self.rows = [row for row in read(path) if row["step"] <= done] if done and path.exists() else []
        partial = path.with_suffix(".part")
        with open(partial, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows([_text(row[name]) for name in COLUMNS] for row in self.rows)
        partial.replace(path)
        self.file = open(path, "a", newline="")

    def add(self, rows):
        """rows: dicts of COLUMNS."""
        self.rows += rows
        csv.writer(self.file).writerows([_text(row[name]) for name in COLUMNS] for row in rows)
        self.file.flush()


def _text(value):
    return "" if value is None else repr(value)


def read(path):
    """The rows of a file. Raises ValueError for one that is no record."""
    try:
        with open(path, newline="") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames is None or not {"step", "loss"} <= set(reader.fieldnames):
                raise ValueError(f"{path} is no record of a run: expected a CSV file with the columns step and loss")
            return [{name: None if not text else int(text) if name in ("step", "tokens", "memory") else float(text) for name, text in row.items()} for row in reader]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


COLOURS = ("#1b6ca8", "#c8553d", "#588b3c", "#7a4f9e", "#8a6d1d", "#3a9a9a")


def _ticks(low, high, count=5):
    """Round numbers that divide the range from `low` to `high`."""
    width = 10.0**math.floor(math.log10((high - low) / count))
    width *= min((1, 2, 5, 10), key=lambda factor: abs((high - low) / (width * factor) - count))
    first = math.ceil(low / width - 1e-9)
    return [i * width for i in range(first, math.floor(high / width + 1e-9) + 1)]


def _panel(top, height, title, curves, lines):
    """The SVG of one plot. curves: [(label, [(x, y)])]; lines: [(label, y)], horizontal ones."""
    left, width = 70, 700
    points = [point for _, curve in curves for point in curve if math.isfinite(point[1])]
    xs, ys = [x for x, _ in points] or [0], [y for _, y in points] + [y for _, y in lines] or [0]
    x_low, x_high, y_low, y_high = min(xs), max(xs), min(ys), max(ys)
    x_high, y_high = x_high + (x_high == x_low), y_high + (y_high == y_low) * (abs(y_high) or 1)

    def at(x, y):
        return f"{left + (x - x_low) / (x_high - x_low) * width:.1f},{top + height - (y - y_low) / (y_high - y_low) * height:.1f}"

    out = [f'<text x="{left}" y="{top - 10}" font-weight="bold">{title}</text>', f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#888"/>']
    for y in _ticks(y_low, y_high):
        place = at(x_low, y).split(",")[1]
        out += [f'<line x1="{left}" x2="{left + width}" y1="{place}" y2="{place}" stroke="#ddd"/>', f'<text x="{left - 6}" y="{place}" dy="4" text-anchor="end">{y:.6g}</text>']
    for x in _ticks(x_low, x_high):
        out.append(f'<text x="{at(x, y_low).split(",")[0]}" y="{top + height + 16}" text-anchor="middle">{x:.6g}</text>')
    for label, y in lines:
        place = at(x_low, y).split(",")[1]
        out += [f'<line x1="{left}" x2="{left + width}" y1="{place}" y2="{place}" stroke="#444" stroke-dasharray="6 4"/>', f'<text x="{left + 6}" y="{place}" dy="-4">{label}</text>']
    for i, (label, curve) in enumerate(curves):
        colour = COLOURS[i % len(COLOURS)]
        drawn = " ".join(at(x, y) for x, y in curve if math.isfinite(y))
        out += [f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.5"/>', f'<text x="{left + width - 6}" y="{top + 18 + 16 * i}" text-anchor="end" fill="{colour}">{label}</text>']
    return out


def plot(path, panels):
    """Writes an SVG with plots one below the other. panels: [(title, [(label, [(x, y)])], [(label, y)])]: curves, and horizontal lines."""
    height = 260
    parts = [line for i, (title, curves, lines) in enumerate(panels) for line in _panel(40 + i * (height + 70), height, title, curves, lines)]
    size = f'width="800" height="{len(panels) * (height + 70) + 10}"'
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")

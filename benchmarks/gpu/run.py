"""Nereid against Triton and PyTorch on a GPU, in one run.

    python benchmarks/gpu/run.py --sections add,softmax,matmul_fp16 --seconds 40 --out results

The same kernel source runs under both, tuned over the same configurations; PyTorch (cuBLAS, SDPA) is measured in the same turns. Writes
results.json after every row, results.md, and a plot of each section where matplotlib is installed. A kernel that kills the GPU's
context, or hangs, costs its section: the rest goes on in a fresh process.
"""

import argparse
import json
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


def rate(row, library):
    ms = row["ms"].get(library)
    if not ms:
        return ""
    if "bytes" in row:
        return f"{row['bytes'] / ms / 1e6:.0f} GB/s"
    return f"{row['flop'] / ms / 1e9:.0f} TF" if "flop" in row else ""


def table(results):
    """The results as Markdown."""
    lines = [f"GPU: {results['gpu']}; " + ", ".join(f"{k} {v}" for k, v in results["versions"].items()), ""]
    for section, rows in results["sections"].items():
        others = [name for name in dict.fromkeys(n for row in rows for n in row.get("ms", {})) if name != "nereid"]
        lines += [f"## {section}", "", "| case | nereid | " + " | ".join(others) + " | speed of Triton's | error (bound) | remarks |",
                  "|---" * (5 + len(others)) + "|"]
        for row in rows:
            cell = lambda name: f"{row['ms'][name]:.4f} ms {rate(row, name)}".strip() if name in row["ms"] else "-"
            ratio = row["ms"]["triton"] / row["ms"]["nereid"] if {"triton", "nereid"} <= row["ms"].keys() else None
            error = row["error"].get("nereid")
            mark = "" if error is None else f"{error:.2e} ({row['bound']:.0e})" + ("" if error <= row["bound"] else " WRONG")
            failures = row["failures"].get("nereid", [])
            remarks = [str(row["config"]["nereid"])] if row.get("config", {}).get("nereid") is not None else []
            remarks += [f"{len(failures)} failed: {failures[0][0]} {failures[0][1]}".replace("|", "/").replace("\n", " ")] if failures else []
            lines.append(f"| {row['case']} | {cell('nereid')} | " + " | ".join(map(cell, others)) +
                         f" | {f'{ratio:.3f}' if ratio else '-'} | {mark} | {'; '.join(remarks)} |")
        lines.append("")
    for section, reason in results["lost"].items():
        lines.append(f"{section}: lost, {reason}")
    return "\n".join(lines) + "\n"


def plot(results, folder):
    """One bar chart a section: time over Nereid's."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    for section, rows in results["sections"].items():
        rows = [row for row in rows if row["ms"].get("nereid")]
        if not rows:
            continue
        names = list(dict.fromkeys(name for row in rows for name in row["ms"]))
        figure, axes = plt.subplots(figsize=(max(6, 1.5 * len(rows)), 4))
        for i, name in enumerate(names):
            axes.bar([j + i * 0.8 / len(names) for j in range(len(rows))],
                     [row["ms"]["nereid"] / row["ms"][name] if row["ms"].get(name) else 0 for row in rows], 0.8 / len(names), label=name)
        axes.set_xticks([j + 0.4 for j in range(len(rows))], [row["case"] for row in rows], rotation=30, ha="right", fontsize=7)
        axes.set_ylabel("speed, Nereid is 1")
        axes.legend()
        figure.tight_layout()
        figure.savefig(folder / f"{section}.png", dpi=120)
        plt.close(figure)


class Results:
    """What is known so far, on disk after every row."""

    def __init__(self, folder, resume):
        self.folder = folder
        self.data = {"gpu": "", "versions": {}, "sections": {}, "lost": {}}
        folder.mkdir(parents=True, exist_ok=True)
        if resume and (folder / "results.json").exists():
            self.data = json.loads((folder / "results.json").read_text())

    def save(self):
        temporary = self.folder / "results.json.new"
        temporary.write_text(json.dumps(self.data, indent=1))
        temporary.replace(self.folder / "results.json")
        (self.folder / "results.md").write_text(table(self.data))


def go_on_without(section, reason, arguments, rest, results):
    """Replaces this process by one that does the remaining sections."""
    results.data["lost"][section] = reason
    results.save()
    print(f"{section}: {reason}", flush=True)
    if not rest:
        os._exit(1)
    command = [sys.executable, __file__, "--resume", "--sections", ",".join(rest), "--seconds", str(arguments.seconds), "--out",
               str(arguments.out)] + (["--no-triton"] if arguments.no_triton else [])
    os.execv(sys.executable, command)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", default="", help="names, separated by commas; all by default (--list shows them)")
    parser.add_argument("--list", action="store_true", help="the sections' names")
    parser.add_argument("--seconds", type=float, default=60, help="about how long each section may take")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-results"), help="folder for the results")
    parser.add_argument("--no-triton", action="store_true", help="do not measure Triton")
    parser.add_argument("--resume", action="store_true", help="add to the results that are there")
    arguments = parser.parse_args()

    import torch
    from load import libraries
    from measure import Bench
    from sections import SECTIONS, Run
    if arguments.list:
        print("\n".join(SECTIONS))
        return 0
    names = [name for name in arguments.sections.split(",") if name] or list(SECTIONS)
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]!r}: there are {', '.join(SECTIONS)}")
    if not torch.cuda.is_available():
        parser.error("these benchmarks need a CUDA device")

    torch.manual_seed(0)
    results = Results(arguments.out, arguments.resume)
    found = libraries(not arguments.no_triton)
    results.data["gpu"] = torch.cuda.get_device_name()
    results.data["versions"] = {"torch": torch.__version__, **{lib.name: lib.package.__version__ for lib in found}}
    bench = Bench()
    for position, name in enumerate(names):
        rest, start = names[position + 1:], time.monotonic()
        watchdog = threading.Timer(3 * arguments.seconds + 60, go_on_without,
                                   (name, "it did not come back", arguments, rest, results))
        watchdog.daemon = True
        watchdog.start()
        rows = results.data["sections"].setdefault(name, [])
        try:
            for row in SECTIONS[name](Run(bench, found, lambda: arguments.seconds - (time.monotonic() - start))):
                rows.append(row)
                results.save()
                print(table({**results.data, "sections": {name: [row]}, "lost": {}}).splitlines()[-2], flush=True)
                if time.monotonic() - start > arguments.seconds:
                    results.data["lost"][name] = "out of time after this"
                    break
        except Exception as error:
            watchdog.cancel()
            try:
                torch.cuda.synchronize()
            except Exception:
                go_on_without(name, f"{type(error).__name__}: {error}"[:400], arguments, rest, results)
            results.data["lost"][name] = f"{type(error).__name__}: {error}"[:400]
            print(f"{name}: {results.data['lost'][name]}", flush=True)
        watchdog.cancel()
        torch.cuda.empty_cache()
    results.save()
    plot(results.data, arguments.out)
    wrong = [row["case"] for rows in results.data["sections"].values() for row in rows
             if row["error"].get("nereid") is not None and row["error"]["nereid"] > row["bound"]]
    for case in wrong:
        print(f"WRONG: {case}")
    return 1 if wrong or results.data["lost"] else 0


if __name__ == "__main__":
    sys.exit(main())

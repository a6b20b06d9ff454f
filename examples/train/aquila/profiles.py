"""What the devices did in one step: kernels of the model, communication that nothing hides, idle time."""

import gzip
import pathlib
import shutil

import torch


def _union(intervals):
    """The intervals (begin, end) merged where they touch, in order."""
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def _length(intervals):
    return sum(end - begin for begin, end in intervals)


def shares(kernels):
    """How a device spent its time between its first and its last kernel.

    kernels: [(name, begin, end)], in microseconds. Returns (span, computing, communicating, idle) in microseconds: `computing` while any kernel other than NCCL's ran, `communicating` while only NCCL's
    did, `idle` while none did.
    """
    if not kernels:
        return 0.0, 0.0, 0.0, 0.0
    everything = _union((begin, end) for _, begin, end in kernels)
    computing = _length(_union((begin, end) for name, begin, end in kernels if "nccl" not in name.lower()))
    span = everything[-1][1] - everything[0][0]
    return span, computing, _length(everything) - computing, span - _length(everything)


class Profile:
    """A context around one step; `report(path)` describes it and writes the trace for chrome://tracing or Perfetto."""

    def __init__(self, device):
        self.device = device
        kinds = torch.profiler.ProfilerActivity
        self.profile = torch.profiler.profile(activities=[kinds.CPU] + ([kinds.CUDA] if device.type == "cuda" else []))

    def _wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def __enter__(self):
        self._wait()
        self.profile.__enter__()

    def __exit__(self, *error):
        self._wait()
        self.profile.__exit__(*error)

    def report(self, path, rows=25):
        """The text of the report: the shares of the device's time, and the operators and kernels that took most. path: where the trace goes, `.json.gz`."""
        path = pathlib.Path(path)
        text = ""
        if self.device.type == "cuda":
            kernels = [(event.name, event.time_range.start, event.time_range.end) for event in self.profile.events()
                       if event.device_type == torch.autograd.DeviceType.CUDA and not getattr(event, "is_user_annotation", False)]
            span, computing, communicating, idle = shares(kernels)
            text = (f"device: {span / 1e3:.1f} ms from the first to the last of {len(kernels)} kernels: {computing / 1e3:.1f} ms computing, {communicating / 1e3:.1f} ms with communication alone, "
                    f"{idle / 1e3:.1f} ms idle\n")
        averages = self.profile.key_averages()
        text += averages.table(sort_by=f"self_{self.device.type}_time_total", row_limit=rows, max_name_column_width=80)
        if self.device.type == "cuda":
            text += "\n" + averages.table(sort_by="self_cpu_time_total", row_limit=rows, max_name_column_width=80)
        plain = path.with_suffix("")
        self.profile.export_chrome_trace(str(plain))
        with open(plain, "rb") as source, gzip.open(path, "wb", compresslevel=4) as target:
            shutil.copyfileobj(source, target)
        plain.unlink()
        return text

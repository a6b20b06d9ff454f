"""Triton's profiler: not part of Nereid."""

raise ImportError("triton.profiler (Proton) is not part of Nereid: use Nsight Systems, Nsight Compute or torch.profiler, which show "
                  "kernels under their names and lines; or knobs.runtime.launch_enter_hook")

"""Triton's second front end, with explicit layouts: not part of Nereid."""

raise ImportError("triton.experimental.gluon is not part of Nereid: layouts, shared memory and warps are the compiler's own choice. "
                  "Write the kernel with @triton.jit")

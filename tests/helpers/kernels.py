"""The kernels that this processor can run."""

from functools import cache

from plfl.training.native import compile


@cache
def instruction_sets() -> list[str]:
    """The instruction sets that this processor and its compiler have."""
    found = []
    for name in compile.INSTRUCTIONS:
        try:
            compile.load_kernel(name)
        except compile.CompileError:
            continue
        found.append(name)
    return found

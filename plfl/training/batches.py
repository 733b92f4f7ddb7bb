"""Which windows a client trains on in which step, and what its random layers draw: counter-based
streams.

A stream is fixed by (seed, client's name, round) alone, so every cell of a state sees the same
minibatches, in whatever order and stacks its clients are trained.
"""

import hashlib
from collections.abc import Callable, Iterable
from ctypes import c_int64, c_void_p
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.training.native.compile import CompileError, load_kernel


def stream(seed: int, name: str, counter: int) -> np.random.Generator:
    """The random numbers of (seed, name, counter), independent of those of any other triple."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    words = np.array([0, 0, 0, counter], dtype=np.uint64)
    return np.random.Generator(
        np.random.Philox(key=np.array([seed, key], dtype=np.uint64), counter=words)
    )


def streams(
    seed: int, purpose: str, names: Iterable[str], counter: int
) -> list[np.random.Generator]:
    """Random numbers for a `purpose`, one generator for each of the clients `names`."""
    return [stream(seed, f"/{purpose}/{name}", counter) for name in names]


def draw(seed: int, client: str, t: int, windows: int, steps: int, size: int) -> NDArray[np.int64]:
    """Minibatches of round `t`, (steps, size), each drawn without replacement."""
    random, in_kernel = stream(seed, client, t), kernel_draw()
    # For a larger share of the windows, numpy uses another algorithm, which the kernel lacks.
    if in_kernel is None or (windows > 10_000 and size > windows // 50):
        batches = [random.choice(windows, size, replace=False) for _ in range(steps)]
        return np.array(batches, np.int64).reshape(steps, size)
    positions, is_drawn = np.empty((steps, size), np.int64), np.zeros(windows, np.uint8)
    bits, arrays = random.bit_generator.ctypes, (is_drawn.ctypes.data, positions.ctypes.data)
    sizes = map(c_int64, (windows, steps, size))
    in_kernel(bits.state, bits.next_uint32, *sizes, *map(c_void_p, arrays))
    return positions


@cache
def kernel_draw() -> Callable[..., Any] | None:
    """The kernel's function that draws as numpy does, five times as fast; None without a kernel."""
    try:
        return load_kernel().plfl_draw
    except CompileError:
        return None


def draw_keys(seed: int, client: str, t: int, steps: int) -> NDArray[np.int64]:
    """Keys (steps,) from which random layers draw in the steps of round `t`, whole numbers of 63
    bits. Each key is the same, however many steps there are."""
    keys = stream(seed, f"/layers/{client}", t).bit_generator.random_raw(steps)
    return (keys >> np.uint64(1)).astype(np.int64)


def steps_of(epochs: float, windows: int, size: int) -> int:
    """Local steps in `epochs` passes over the `windows` of a client; at least one. Windows that do
    not fill a minibatch at the end of a pass are left out of that pass."""
    return max(1, int(epochs * (windows // size)))


def epoch(
    seed: int, client: str, first: int, windows: int, steps: int, size: int
) -> NDArray[np.int64]:
    """Minibatches (steps, size) from number `first` on, walking through shuffled passes over all
    windows, except those that do not fill a minibatch at the end of a pass."""
    per_pass = windows // size
    numbers = first + np.arange(steps)
    passes = {
        p: stream(seed, client, p).permutation(windows)[: per_pass * size].reshape(per_pass, size)
        for p in np.unique(numbers // per_pass).tolist()
    }
    minibatches = [passes[n // per_pass][n % per_pass] for n in numbers.tolist()]
    return np.array(minibatches, np.int64).reshape(steps, size)

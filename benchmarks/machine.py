"""The machine on which something is measured: its processor, what it can do at most, its load."""

import os
import platform
import time
from pathlib import Path

import numpy as np

SIZE, PRODUCTS = 768, 12
"""Rows of the square matrices that are multiplied, and how often: the fastest time counts."""
WIDEST = ("avx512f", "avx2", "asimd")
"""Instructions for several numbers at once, the widest first."""


def processor() -> str:
    """The processor with its family and model, which the name of a virtual one lacks."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    pairs = (line.partition(":")[::2] for line in reversed(lines) if ":" in line)
    facts = {key.strip(): value.strip() for key, value in pairs}
    name = facts.get("model name") or platform.processor() or platform.machine()
    if "cpu family" not in facts:
        return name
    flags = facts.get("flags", "").split()
    widest = next((flag for flag in WIDEST if flag in flags), "no vectors")
    return f"{name} (family {facts['cpu family']}, model {facts['model']}, {widest})"


def peak() -> float:
    """Billions of operations per second of a core in products of large matrices, in single
    precision, by the processor's clock: nothing of a training can be faster."""
    a = np.random.default_rng(0).random((SIZE, SIZE), dtype=np.float32)
    seconds = []
    for _ in range(PRODUCTS):
        start = time.process_time()
        a @ a
        seconds.append(time.process_time() - start)
    return 2 * SIZE**3 / min(seconds) / 1e9


def load() -> str:
    """How many processes wanted a core in the last minute."""
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"

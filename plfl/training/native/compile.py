"""Compiles the kernel of the fused engine with the C++ compiler of the machine it will run on.

A build lies in the user's cache folder under a name made of all it depends on, so that it is
compiled once, and anew when the source, the flags or the compiler change.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import torch

from plfl.errors import PlflError
from plfl.files import atomic

FOLDER = Path(__file__).parent
SOURCE = "kernel.cpp"
HEADERS = (
    *("vectors.h", "products.h", "model.h", "lstm.h", "mlp.h", "group.h"),
    *("contrast.h", "optimisers.h", "training.h", "prediction.h"),
)
"""What the source includes."""
# Without -ffast-math: a diverged model must show its NaN.
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread"]
INSTRUCTIONS = {
    "avx512": ["-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mavx2", "-mfma"],
    "avx2": ["-mavx2", "-mfma"],
    "plain": [],
}
"""Further flags by instruction set, best first; `plain` is what every processor of a kind has."""


class CompileError(PlflError):
    """There is no build of the kernel for this machine; the message says why."""


def supported() -> list[str]:
    """Those of INSTRUCTIONS that this processor has, best first.

    The variable ATEN_CPU_CAPABILITY (`default`, `avx2`) takes some away, as it does from torch.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    if capability.startswith(("AVX512", "AVX10")):
        return ["avx512", "avx2", "plain"]
    return ["avx2", "plain"] if capability == "AVX2" else ["plain"]


@cache
def load_kernel(instructions: str | None = None) -> ctypes.CDLL:
    """The kernel for the named instruction set, or for the best that can be had here.

    Raises:
        CompileError: it cannot be compiled, or this processor lacks the instructions.
    """
    if instructions and instructions not in supported():
        raise CompileError(f"this processor has no {instructions} instructions")
    problem = ""
    for name in [instructions] if instructions else supported():
        try:
            return ctypes.CDLL(str(build_kernel(name)))
        except (CompileError, OSError) as error:  # an old compiler may not know the newest set
            problem = str(error)
    raise CompileError(problem)


def build_kernel(instructions: str) -> Path:
    """Compile the kernel for one of INSTRUCTIONS unless that was done before; returns its file.

    Several processes may do so at once. Where there is no compiler, as on some nodes of a cluster,
    an earlier build of the same source serves.

    Raises:
        CompileError: there is no compiler, it fails, or the cache folder cannot be used.
    """
    flags = [*FLAGS, *INSTRUCTIONS[instructions]]
    sources = ((FOLDER / name).read_bytes() for name in (SOURCE, *HEADERS))
    stem = f"kernel-{instructions}-{_digest(*sources, *flags, platform.machine())}"
    try:
        compiler = _compiler()
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plfl"
        if compiler is None:
            if earlier := sorted(folder.glob(f"{stem}-*.so")):
                return earlier[0]
            raise CompileError("there is no C++ compiler (looked for $CXX, c++, g++ and clang++)")
        path = folder / f"{stem}-{_digest(*compiler, _run(*compiler, '--version'))}.so"
        if not path.exists():
            with atomic(path) as temporary:
                _run(*compiler, *flags, str(FOLDER / SOURCE), "-o", str(temporary))
    except CompileError:
        raise
    except (PlflError, OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        raise CompileError(f"{error}; XDG_CACHE_HOME can name another cache folder") from error
    except ValueError as error:
        raise CompileError(f"CXX={os.environ['CXX']}: {error}") from error
    return path


def _compiler() -> list[str] | None:
    """Command of the C++ compiler; $CXX may hold a wrapper and options too."""
    commands = map(shlex.split, [os.environ.get("CXX", ""), "c++", "g++", "clang++"])
    return next((command for command in commands if command and shutil.which(command[0])), None)


def _digest(*parts: str | bytes) -> str:
    content = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.sha256(content).hexdigest()[:16]


def _run(*command: str) -> str:
    """Output of a command; when it fails, its first line that speaks of an error is raised."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        reason = next((line for line in lines if "error" in line), lines[0])
        raise CompileError(f"{command[0]} failed: {reason}")
    return done.stdout

"""Compiles the kernels of the fused engine and of forests of trees with the C++ compiler of the
machine they will run on, and mirrors the structures that the kernel is called with.

A build is in the user's cache folder, named after everything that it depends on. It is compiled
once, and again when the source, the flags or the compiler change. A wheel contains builds, which
need no compiler. Only the headers say which fields a structure has, in which order and of which
type.
"""

import ctypes
import os
import re
import shlex
import shutil
import subprocess
from ctypes import Structure, c_double, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from plfl.base.errors import PlflError
from plfl.base.files import atomic, user_cache
from plfl.base.lazy import torch
from plfl.training.native.flags import (
    FLAGS,
    HEADER_FILES,
    INSTRUCTIONS,
    NATIVE_FOLDER,
    SOURCE,
    digest,
    stem,
)


class CompileError(PlflError):
    """There is no build of the kernel for this machine; the message says why."""


def find_supported() -> list[str]:
    """The instruction sets of INSTRUCTIONS that this processor has, best first. The variable
    ATEN_CPU_CAPABILITY (`default`, `avx2`) excludes some, as it does in torch."""
    capability = torch.backends.cpu.get_cpu_capability()
    if capability.startswith(("AVX512", "AVX10")):
        return ["avx512", "avx2", "plain"]
    return ["avx2", "plain"] if capability == "AVX2" else ["plain"]


@cache
def load_kernel(instructions: str | None = None) -> ctypes.CDLL:
    """The kernel for the named instruction set, or for the best one that works here. CompileError:
    it cannot be compiled, or this processor lacks the instructions."""
    if instructions and instructions not in find_supported():
        raise CompileError(f"this processor has no {instructions} instructions")
    problem = ""
    for name in [instructions] if instructions else find_supported():
        try:
            return ctypes.CDLL(str(build_kernel(name)))
        except (CompileError, OSError) as error:  # an old compiler may not know the newest set
            problem = str(error)
    raise CompileError(problem)


def build_kernel(instructions: str, source: str = SOURCE) -> Path:
    """Compile a kernel for one of INSTRUCTIONS unless that was done before; returns its file. A
    wheel contains it (`setup.py`). Otherwise several processes may compile it at once. Without a
    compiler, as on some nodes of a cluster, an earlier build of the same source is used.
    CompileError: there is none, the compiler fails, or the cache folder cannot be used."""
    name = stem(instructions, source)
    if (shipped := NATIVE_FOLDER / f"{name}.so").exists():
        return shipped
    flags = [*FLAGS, *INSTRUCTIONS[instructions]]
    try:
        # $CXX may contain a wrapper and options, too.
        commands = map(shlex.split, [os.environ.get("CXX", ""), "c++", "g++", "clang++"])
        compiler = next((words for words in commands if words and shutil.which(words[0])), None)
        folder = user_cache()
        if compiler is None:
            if earlier := sorted(folder.glob(f"{name}-*.so")):
                return earlier[0]
            raise CompileError("there is no C++ compiler (looked for $CXX, c++, g++ and clang++)")
        path = folder / f"{name}-{digest(*compiler, _run(*compiler, '--version'))}.so"
        if not path.exists():
            with atomic(path) as temporary:
                _run(*compiler, *flags, str(NATIVE_FOLDER / source), "-o", str(temporary))
    except CompileError:
        raise
    except (PlflError, OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        raise CompileError(f"{error}; XDG_CACHE_HOME can name another cache folder") from error
    return path


def _run(*command: str) -> str:
    """Output of a command. If it fails, the first line that mentions an error is raised."""
    finished_process = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if finished_process.returncode:
        lines = finished_process.stderr.strip().splitlines() or [
            f"exit status {finished_process.returncode}"
        ]
        reason = next((line for line in lines if "error" in line), lines[0])
        raise CompileError(f"{command[0]} failed: {reason}")
    return finished_process.stdout


TYPES = {"std::int32_t": c_int32, "std::int64_t": c_int64, "double": c_double}
"""The types of numbers in a header. Everything else is a pointer."""


class KernelStructure(Structure):
    """A structure of the kernel; setting an unknown field is an error."""

    def __init__(self, *values: Any, **fields: Any):
        if unknown := fields.keys() - {name for name, *_ in self._fields_}:
            raise TypeError(f"{type(self).__name__} has no fields {sorted(unknown)}")
        super().__init__(*values, **fields)


def structure(name: str) -> type[KernelStructure]:
    """The structure of this name. ValueError: no header declares it in the form
    `extern "C" struct name { … };`, or a field has a type that is not known."""
    text = "\n".join((NATIVE_FOLDER / header).read_text("utf-8") for header in HEADER_FILES)
    match = re.search(rf'extern "C" struct {name} {{(.*?)\n}};', text, re.DOTALL)
    if match is None:
        raise ValueError(f"no header of the kernel declares {name}")
    declarations = re.sub(r"//.*", "", match[1]).split(";")[:-1]
    fields = [field for declaration in declarations for field in _fields(declaration)]
    return type(name, (KernelStructure,), {"_fields_": fields})


def _fields(declaration: str) -> list[tuple[str, Any]]:
    """The fields of a declaration, such as `double a, *b`."""
    words = re.fullmatch(r"\s*(?:const )?([\w:]+)([\w\s,*]+)", declaration)
    if words is None:
        raise ValueError(f"the kernel declares {declaration.strip()!r}, which is not understood")
    fields = []
    for part in words[2].split(","):
        name = part.strip("* \n")
        if "*" not in part and words[1] not in TYPES:
            raise ValueError(f"the kernel declares {name} of the unknown type {words[1]}")
        fields.append((name, c_void_p if "*" in part else TYPES[words[1]]))
    return fields

"""The structures of the kernel, read from its headers."""

import subprocess
from ctypes import c_double, c_int32, c_int64, c_void_p, sizeof
from pathlib import Path
from typing import Any

import pytest

from plfl.training.native import structures
from plfl.training.native.compile import _compiler
from plfl.training.native.flags import FOLDER, SOURCE
from plfl.training.native.structures import structure
from tests.helpers.refusals import naming

NAMES = ["PlflNetwork", "PlflWindows", "PlflRule", "PlflTraining", "PlflPrediction"]


def test_fields_are_those_of_the_declaration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declared = """extern "C" struct Some {
      std::int32_t a, b;  // two; numbers
      double c;
      const float *d, *e;
      std::int64_t f;
    \n};"""
    (tmp_path / "some.h").write_text(declared)
    monkeypatch.setattr(structures, "FOLDER", tmp_path)
    monkeypatch.setattr(structures, "HEADERS", ("some.h",))
    some: Any = structure("Some")
    types = [c_int32, c_int32, c_double, c_void_p, c_void_p, c_int64]
    assert some._fields_ == list(zip("abcdef", types, strict=True))
    assert some(f=3, a=1).f == 3
    with naming(TypeError, "'g'"):
        some(g=1)
    with pytest.raises(ValueError, match="Other"):
        structure("Other")
    (tmp_path / "some.h").write_text(declared.replace("double c", "float c"))
    with pytest.raises(ValueError, match="float"):
        structure("Some")


@pytest.mark.skipif(_compiler() is None, reason="there is no C++ compiler")
def test_offsets_are_those_of_the_compiler(tmp_path: Path) -> None:
    checks = []
    for name in NAMES:
        mirrored: Any = structure(name)
        checks.append(f"static_assert(sizeof({name}) == {sizeof(mirrored)});")
        for field, _ in mirrored._fields_:
            offset = getattr(mirrored, field).offset
            checks.append(f"static_assert(offsetof({name}, {field}) == {offset});")
    source = tmp_path / "check.cpp"
    included = f'#include "{FOLDER / SOURCE}"\n#include <cstddef>\n'
    source.write_text(included + "\n".join(checks))
    compiler = _compiler()
    assert compiler is not None
    command = [*compiler, "-std=c++17", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

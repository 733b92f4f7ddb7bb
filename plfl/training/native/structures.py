"""The structures that the kernel is called with, as its headers declare them.

The headers are the only place that says which fields there are, in which order and of which type.
"""

import re
from ctypes import Structure, c_double, c_int32, c_int64, c_void_p
from typing import Any

from plfl.training.native.flags import FOLDER, HEADERS

TYPES = {"std::int32_t": c_int32, "std::int64_t": c_int64, "double": c_double}
"""The types of numbers in a header. Everything else is a pointer."""


class Mirrored(Structure):
    """A structure of the kernel; setting an unknown field is an error."""

    def __init__(self, *values: Any, **named: Any):
        if unknown := named.keys() - {name for name, *_ in self._fields_}:
            raise TypeError(f"{type(self).__name__} has no fields {sorted(unknown)}")
        super().__init__(*values, **named)


def structure(name: str) -> type[Mirrored]:
    """The structure of this name.

    Raises:
        ValueError: no header declares it in the form `extern "C" struct name { … };`, or a field
            has a type that is not known.
    """
    text = "\n".join((FOLDER / header).read_text("utf-8") for header in HEADERS)
    found = re.search(rf'extern "C" struct {name} {{(.*?)\n}};', text, re.DOTALL)
    if found is None:
        raise ValueError(f"no header of the kernel declares {name}")
    declarations = re.sub(r"//.*", "", found[1]).split(";")[:-1]
    fields = [field for declaration in declarations for field in _fields(declaration)]
    return type(name, (Mirrored,), {"_fields_": fields})


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

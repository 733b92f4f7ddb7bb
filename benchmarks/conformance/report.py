"""The libraries, and the tables of README.md from results.json.

python -m benchmarks.conformance.report writes README.md again.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conformance.probes import PROBES, Result
from plfl.base.files import write_text

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parent / "README.md"
TOLERANCE = 1e-9
"""Numbers nearer than this are equal. Deviations are at least a million times larger."""

BEGIN, END = "<!-- make conformance -->", "<!-- /make conformance -->"
"""What is between them on the page is generated."""


@dataclass(frozen=True)
class Library:
    """A library at a pinned commit, and its adapter."""

    name: str
    adapter: str
    """Module of this folder that runs the probes through it."""
    repository: str = ""
    """Empty for plfl itself."""
    commit: str = ""


LIBRARIES = (
    Library("plfl", "own"),
    Library(
        "PFLlib",
        "pfllib",
        "https://github.com/TsingZ0/PFLlib",
        "d832e76f6a23b833038949ec1e4fdefe63a4d350",
    ),
    Library(
        "FL-bench",
        "fl_bench",
        "https://github.com/KarhouTam/FL-bench",
        "06e658bca5af6ce732e25bb7c0f8be321e14a85e",
    ),
)
DEVIATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("PFLlib", ("ditto, library's λ",)),
    ("PFLlib", ("fedbabu", "fedbabu, alternating")),
    ("PFLlib", ("per-fedavg (FO)", "per-fedavg (FO), alternating")),
    ("PFLlib", ("apfl", "apfl, alternating")),
    ("PFLlib", ("apfl, adaptive",)),
    ("PFLlib", ("pfedme", "pfedme, alternating")),
    ("PFLlib", ("pfedme, library's β",)),
    ("PFLlib", ("fedala, some absent",)),
    ("PFLlib", ("fedamp", "fedamp, alternating")),
    ("PFLlib", ("fedfomo", "fedfomo, alternating")),
    ("FL-bench", ("fedper, alternating",)),
    ("FL-bench", ("fedrep, alternating",)),
    ("FL-bench", ("lg-fedavg", "lg-fedavg, alternating")),
    ("FL-bench", ("apfl", "apfl, alternating")),
    ("FL-bench", ("apfl, adaptive",)),
    ("FL-bench", ("pfedme", "pfedme, library's β", "pfedme, alternating")),
    ("FL-bench", ("fedala", "fedala, some absent")),
    ("FL-bench", ("fedfomo", "fedfomo, alternating")),
)
"""Library and probes of each explanation, as README.md numbers them."""


def stored() -> dict[str, Any]:
    """What each library made of each probe."""
    loaded: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return loaded


def store(results: dict[str, Any]) -> None:
    """Store results, a line for each probe."""

    def block(values: dict[str, Any]) -> str:
        lines = (f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in values.items())
        return "{\n" + ",\n".join(lines) + "\n}"

    by_library = (f"{json.dumps(k)}: {block(v)}" for k, v in results["results"].items())
    text = '{\n"results": {\n' + ",\n".join(by_library) + "\n}\n}\n"
    write_text(RESULTS, text)


def difference(found: dict[str, Any], expected: Result) -> float:
    """The largest absolute difference between numbers of a library and of the reference."""
    pairs = [(found["x"], expected.x), (found["personal"], expected.personal)]
    return max(float(np.abs(np.array(a) - b).max(initial=0)) for a, b in pairs)


def verdict(library: str, name: str, found: Any) -> str:
    """The cell of the table that says what `library` made of the probe `name`."""
    if isinstance(found, str):
        return "–" if found == "not there" else "failed"
    size = difference(found, PROBES[name].expected())
    if size < TOLERANCE:
        return "agrees"
    for number, (deviating, probes) in enumerate(DEVIATIONS, 1):
        if deviating == library and name in probes:
            return f"**{size:.2g}** ({number})"
    return f"**{size:.2g}** (unexplained)"


def table(results: dict[str, Any]) -> str:
    """The table probe × library."""
    lines = [f"| method | {' | '.join(results['results'])} |"]
    lines.append(f"|---|{'---|' * len(results['results'])}")
    for name in PROBES:
        cells = [verdict(who, name, found[name]) for who, found in results["results"].items()]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines) + "\n"


def page(text: str, results: dict[str, Any]) -> str:
    """The page with what is generated in it made anew."""
    lines = [BEGIN, table(results)]
    lines += ["| library | commit |", "|---|---|"]
    for library in LIBRARIES:
        if library.repository:
            name = f"[{library.name}]({library.repository})"
            lines.append(f"| {name} | `{library.commit}` |")
    before, _, rest = text.partition(BEGIN)
    return before + "\n".join([*lines, END]) + rest.partition(END)[2]


def write(results: dict[str, Any]) -> None:
    """Write the page."""
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8"), results))


if __name__ == "__main__":
    write(stored())

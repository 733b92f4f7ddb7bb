"""The tables of README.md and the printed table, from results.json.

python -m benchmarks.conformance.report writes README.md again.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.conformance.deviations import DEVIATIONS, Deviation
from benchmarks.conformance.libraries import LIBRARIES, Library
from benchmarks.conformance.probes import PROBES, Result
from plfl.base.files import write_text

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parent / "README.md"
TOLERANCE = 1e-9
"""Numbers nearer than this are equal. Deviations are at least a million times larger."""

BEGIN, END = "<!-- make conformance -->", "<!-- /make conformance -->"
"""What is between them on the page is generated."""


@dataclass(frozen=True)
class Verdict:
    """What a library made of a probe, compared with the reference."""

    state: str
    """agrees, deviates, not there or failed."""
    difference: float = 0.0
    """Largest difference from the reference."""
    deviation: Deviation | None = None
    """The deviation that explains it."""
    unexplained: float = 0.0
    """Largest difference from the reference with that change."""


def stored() -> dict[str, Any]:
    """What each library made of each probe."""
    if not RESULTS.exists():
        return {"results": {}}
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


def verdict(library: str, name: str, found: Any) -> Verdict:
    """Compare what `library` made of the probe `name`."""
    if isinstance(found, str):
        return Verdict("not there" if found == "not there" else "failed")
    probe = PROBES[name]
    size = difference(found, probe.expected())
    if size < TOLERANCE:
        return Verdict("agrees")
    for deviation in DEVIATIONS:
        if deviation.library == library and name in deviation.probes:
            variant = deviation.variant(probe.problem, **probe.arguments)
            return Verdict("deviates", size, deviation, difference(found, variant))
    return Verdict("deviates", size, None, size)


def cell(given: Verdict) -> str:
    """A verdict in the table."""
    if given.state == "not there":
        return "–"
    if given.state != "deviates":
        return given.state
    note = "unexplained" if given.deviation is None else DEVIATIONS.index(given.deviation) + 1
    return f"**{given.difference:.2g}** ({note})"


def libraries(results: dict[str, Any]) -> list[Library]:
    """The libraries with results, in their order."""
    return [library for library in LIBRARIES if library.name in results["results"]]


def table(results: dict[str, Any]) -> str:
    """The table probe × library."""
    columns = libraries(results)
    rows = []
    for name in PROBES:
        cells = (results["results"][library.name].get(name, "not there") for library in columns)
        table = zip(columns, cells, strict=True)
        rows.append([name, *(cell(verdict(library.name, name, value)) for library, value in table)])
    head = f"| method | {' | '.join(library.name for library in columns)} |"
    lines = [head, f"|---|{'---|' * len(columns)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def page(text: str, results: dict[str, Any]) -> str:
    """The page with what is generated in it made anew."""
    lines = [BEGIN, table(results)]
    lines += ["| library | commit |", "|---|---|"]
    for library in libraries(results):
        if library.repository:
            name = f"[{library.name}]({library.repository})"
            lines.append(f"| {name} | `{library.commit}` |")
    before, _, rest = text.partition(BEGIN)
    return before + "\n".join([*lines, END]) + rest.partition(END)[2]


def write(results: dict[str, Any]) -> None:
    """Write the page."""
    text = page(PAGE.read_text(encoding="utf-8"), results)
    write_text(PAGE, text)


if __name__ == "__main__":
    write(stored())

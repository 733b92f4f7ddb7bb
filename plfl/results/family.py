"""When a study named its claims: before any of its results were known, or later.

The claims of a study are written down when the workflow starts, unless a cell or a baseline has
been scored already. Claims that are added after results are thus recognised.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from plfl.base.errors import ResultsError
from plfl.base.files import write_text
from plfl.config.study import Study
from plfl.results.records import TRAINED

FILE = "claims.json"
"""The file with the claims in words, in the results folder of the whole study."""
Named = Literal["named before", "named later", "undated"]
"""When a claim was named; `undated`: the results were made without this file."""


def note(study: Study) -> None:
    """Write down the claims of a study, unless it has results."""
    known = (TRAINED, "**/baselines/*.parquet")
    if any(any(study.results.glob(pattern)) for pattern in known):
        return
    write_text(study.results / FILE, json.dumps(list(map(str, study.claims)), indent=1) + "\n")


def noted(folder: Path) -> list[str] | None:
    """The claims that a study had before its results, given its results folder; None if not
    recorded."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return TypeAdapter(list[str]).validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: not a list of claims ({error}); remove it") from None


def dated(claim: str, before: Sequence[str] | None) -> Named:
    """When a claim was named, given those that were `noted`."""
    if before is None:
        return "undated"
    return "named before" if claim in before else "named later"


def in_sentences(claims: Sequence[str], before: Sequence[str] | None) -> str:
    """When all claims of a study were named, in sentences."""
    if before is None:
        return "It is not recorded whether the study named them before it had results."
    later = [f"c{i}" for i, claim in enumerate(claims, 1) if claim not in before]
    gone = [claim for claim in before if claim not in claims]
    text = "The study named them before it had results."
    if later:
        text = f"Named when the study had results already: {', '.join(later)}."
    if gone:
        text += f" Named before it had results, and missing here: {'; '.join(gone)}."
    return text

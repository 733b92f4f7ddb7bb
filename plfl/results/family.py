"""When a study named its claims: before anything of it was known, or later.

The family of claims is written down when the workflow starts, as long as no cell and no baseline
has been scored. What is added to a study with results is therefore recognised.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from plfl.base.errors import ResultsError
from plfl.base.files import atomic
from plfl.config.study import Study
from plfl.results.records import TRAINED

FILE = "claims.json"
"""In the results folder of the whole study: the claims in words."""
Named = Literal["named before", "named later", "undated"]
"""`undated`: the results were made without this file."""


def note(study: Study) -> None:
    """Write down the claims of a study of which nothing is known yet."""
    known = (TRAINED, "**/baselines/*.parquet")
    if any(any(study.results.glob(pattern)) for pattern in known):
        return
    with atomic(study.results / FILE) as temporary:
        temporary.write_text(json.dumps(list(map(str, study.claims)), indent=1) + "\n", "utf-8")


def noted(folder: Path) -> list[str] | None:
    """The claims of a study, given its results folder, as they were before its results; None if
    that is not recorded."""
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
    """The same of all claims of a study, in sentences."""
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

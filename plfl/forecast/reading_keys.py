"""How new files of a study are read, where they differ from its own: what `--remember` keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from plfl.base.errors import PlflError, Problem
from plfl.config.meters import Meters

READING_FILE = "reading.yaml"
"""The file with these keys in a results folder."""


def read_remembered(results: Path) -> dict[str, Any]:
    """The keys of `data.meters` that a results folder remembers; none if it remembers none.
    PlflError: the file cannot be read."""
    file = results / READING_FILE
    if not file.is_file():
        return {}
    try:
        meters = Meters.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")) or {})
    except (ValueError, yaml.YAMLError) as error:
        raise PlflError(Problem(file, "cannot be read", f"correct or remove it: {error}")) from None
    return meters.model_dump(exclude_unset=True)

"""What the data of a study are: measured, simulated or generated, and under which licence."""

from __future__ import annotations

from pathlib import Path

from plfl.config.study import Study
from plfl.data.comstock.releases import BUCKET, ROOT


def address(path: str, study: Study) -> str | None:
    """Where anyone can download the file that a study read at `path`; None if nowhere."""
    if study.data.source != "comstock":
        return None
    folder = (study.data.folder / "comstock").as_posix()
    key = Path(path).as_posix().removeprefix(f"{folder}/")
    return f"https://{BUCKET}.s3.amazonaws.com/{ROOT}/{key}"

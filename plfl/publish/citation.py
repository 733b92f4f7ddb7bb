"""Authors and licence of what is published, from a CITATION.cff (https://citation-file-format.github.io)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from plfl.errors import PlflError

NAME = "CITATION.cff"
EXAMPLE = """cff-version: 1.2.0
message: Please cite these results.
title: Forecasts of our campus
authors: [{given-names: Ada, family-names: Example, orcid: https://orcid.org/0000-0000-0000-0000}]
license: CC-BY-4.0"""
"""The least that is needed, for messages."""


@dataclass(frozen=True)
class Author:
    """A person or an organisation."""

    name: str
    is_person: bool
    url: str | None
    affiliation: str | None


@dataclass(frozen=True)
class Citation:
    """What a crate needs of a CITATION.cff."""

    path: Path
    title: str
    authors: tuple[Author, ...]
    licence: str
    """An identifier of the SPDX list, such as `CC-BY-4.0`."""
    url: str | None
    """Where the results are presented, if anywhere."""

    @property
    def licence_url(self) -> str:
        """The page of the licence in the SPDX list."""
        return f"https://spdx.org/licenses/{self.licence}"


def read(path: Path) -> Citation:
    """Read a CITATION.cff.

    Raises:
        PlflError: it is missing, is not YAML, or has no title, authors or licence.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlflError(
            f"{path}: is missing; it says who the authors are and which licence holds. Write one, "
            f"or name another one with --citation. For example:\n\n{EXAMPLE}"
        ) from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise PlflError(f"{path}: cannot be read ({error}); fix it") from None
    if not isinstance(raw, dict):
        raise PlflError(f"{path}: is not a CITATION.cff. For example:\n\n{EXAMPLE}")
    licence = raw.get("license")
    licence = licence[0] if isinstance(licence, list) and licence else licence
    lacking = [
        name
        for name, value, kind in (
            ("title", raw.get("title"), str),
            ("authors", raw.get("authors"), list),
            ("license", licence, str),
        )
        if not isinstance(value, kind) or not value
    ]
    authors = raw.get("authors") if "authors" not in lacking else []
    assert isinstance(authors, list)
    people = tuple(map(_author, authors))
    if not all(people):
        lacking.append("names of all authors")
    if lacking:
        raise PlflError(f"{path}: has no {', '.join(lacking)}. For example:\n\n{EXAMPLE}")
    return Citation(path, raw["title"], tuple(filter(None, people)), str(licence), raw.get("url"))


def _author(raw: Any) -> Author | None:
    """An author; None without a name."""
    if not isinstance(raw, dict):
        return None
    parts = (raw.get(part) for part in ("given-names", "name-particle", "family-names"))
    person = " ".join(str(part) for part in parts if part)
    name = person or str(raw.get("name") or raw.get("alias") or "")
    url, affiliation = raw.get("orcid") or raw.get("website"), raw.get("affiliation")
    return Author(name, bool(person), url, affiliation) if name else None

"""Authors and licence of what is published, from a CITATION.cff (https://citation-file-format.github.io)."""

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from plfl.base.errors import PlflError

EXAMPLE = """cff-version: 1.2.0
message: Please cite these results.
title: Forecasts of our campus
authors: [{given-names: Ada, family-names: Example, orcid: https://orcid.org/0000-0000-0000-0000}]
license: CC-BY-4.0"""
"""The least that a file needs, for messages."""


class Author(BaseModel):
    """A person or an organisation."""

    name: str = Field(min_length=1)
    is_person: bool
    url: str | None

    @model_validator(mode="before")
    @classmethod
    def _of_file(cls, raw: dict[str, Any]) -> dict[str, Any]:
        """The keys of a CITATION.cff as those of this class."""
        parts = map(raw.get, ("given-names", "name-particle", "family-names"))
        person = " ".join(str(part) for part in parts if part)
        name = person or raw.get("name") or raw.get("alias") or ""
        url = raw.get("orcid") or raw.get("website")
        return {"name": name, "is_person": bool(person), "url": url}


class Citation(BaseModel):
    """The keys of a CITATION.cff that a crate needs."""

    title: str = Field(min_length=1)
    authors: list[Author] = Field(min_length=1)
    license: Annotated[str, BeforeValidator(lambda raw: raw[0] if isinstance(raw, list) else raw)]
    """An identifier of the SPDX list, such as `CC-BY-4.0`; the first, if there are several."""
    url: str | None = None
    """Where the results are presented, if anywhere."""

    @property
    def licence_url(self) -> str:
        """The page of the licence."""
        return f"https://spdx.org/licenses/{self.license}"


def read(path: Path) -> Citation:
    """Read a CITATION.cff.

    Raises:
        PlflError: it is missing, is not YAML, or has no title, authors or licence.
    """
    try:
        return Citation.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        problem = "is missing; it names the authors and the licence. Write one, or use --citation"
    except ValidationError as error:
        lacking = (
            f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in error.errors()
        )
        problem = f"cannot be used ({'; '.join(lacking)}); complete it"
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        problem = f"cannot be read ({error}); correct it"
    raise PlflError(f"{path}: {problem}. For example:\n\n{EXAMPLE}")

"""`python release/notes.py [TAG]`: print the notes of a release, its section of CHANGELOG.md.

Without a tag, it is that of the version that the package has. The program ends with an error if the
tag, the package, CITATION.cff, codemeta.json and the changelog do not agree on version and date.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(
    r"^## (?P<version>\S+) \((?P<date>[\d-]+)\)\n(?P<notes>.*?)(?=^## |\Z)", re.M | re.S
)
"""A released version in CHANGELOG.md."""


def notes(tag: str = "", root: Path = ROOT) -> str:
    """What the changelog says about the version of a tag.
    ValueError: a file has another version or date, or the changelog has none or says nothing."""
    tag = tag or "v" + _stated(root)["plfl/__init__.py"]["version"]
    version = tag.removeprefix("v")
    if tag == version:
        raise ValueError(f"{tag}: a tag is v and the version, as in v1.2.3")
    sections = {match["version"]: match for match in SECTION.finditer(_read(root, "CHANGELOG.md"))}
    if version not in sections or not sections[version]["notes"].strip():
        raise ValueError(f"CHANGELOG.md: says nothing about {version}; add '## {version} (DATE)'")
    expected = {"version": version, "date": sections[version]["date"]}
    for name, written in _stated(root).items():
        for key, value in written.items():
            if value != expected[key]:
                raise ValueError(f"{name}: the {key} is {value}, but {expected[key]} is released")
    return sections[version]["notes"].strip() + "\n"


def _stated(root: Path) -> dict[str, dict[str, str]]:
    """The version and date that each file states."""
    described = json.loads(_read(root, "codemeta.json"))
    cited = _read(root, "CITATION.cff")
    package = _read(root, "plfl/__init__.py")
    return {
        "plfl/__init__.py": {"version": _value(r'^__version__ = "(.*)"$', package)},
        "CITATION.cff": {
            "version": _value(r"^version: (.*)$", cited),
            "date": _value(r"^date-released: (.*)$", cited),
        },
        "codemeta.json": {"version": described["version"], "date": described["datePublished"]},
    }


def _value(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else "missing"


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    try:
        print(notes(*sys.argv[1:]), end="")
    except ValueError as error:
        sys.exit(str(error))

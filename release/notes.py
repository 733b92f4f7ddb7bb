"""`python release/notes.py [TAG [DATE]]`: print the notes of a release, a section of CHANGELOG.md.

Without a tag, it is that of the version that the package has. With a date, what is unreleased
becomes the tag's section first, and its version and date are written into all files that name them.
The program ends with an error if the tag, these files and the changelog do not agree.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(
    r"^## (?P<version>\S+) \((?P<date>[\d-]+)\)\n(?P<notes>.*?)(?=^## |\Z)", re.M | re.S
)
"""A released version in CHANGELOG.md."""
UNRELEASED = "## Unreleased\n"
STATED = [
    ("plfl/__init__.py", "version", r'^__version__ = "(.*)"$'),
    ("CITATION.cff", "version", r"^version: (.*)$"),
    ("CITATION.cff", "date", r"^date-released: (.*)$"),
    ("codemeta.json", "version", r'"version": "([^"]*)"'),
    ("codemeta.json", "date", r'"datePublished": "([^"]*)"'),
    ("docs/workflow.md", "version", r'tag="v([^"]*)"'),
    ("docs/workflow.md", "version", r"--tag v(\S+)"),
    ("leaderboard/croissant.json", "version", r'plfl, version ([^"]*)"'),
    ("release/recipe.yaml", "version", r"^  version: (.*)$"),
]
"""The files that state version or date, and the pattern whose group is its value."""


def notes(tag: str = "", root: Path = ROOT) -> str:
    """What the changelog says about the version of a tag.
    ValueError: a file has another version or date, or the changelog has none or says nothing."""
    tag = tag or "v" + _value(root, *STATED[0][::2])
    version = tag.removeprefix("v")
    if tag == version:
        raise ValueError(f"{tag}: a tag is v and the version, as in v1.2.3")
    sections = {match["version"]: match for match in SECTION.finditer(_read(root, "CHANGELOG.md"))}
    if version not in sections or not sections[version]["notes"].strip():
        raise ValueError(f"CHANGELOG.md: says nothing about {version}; add '## {version} (DATE)'")
    expected = {"version": version, "date": sections[version]["date"]}
    for name, key, pattern in STATED:
        if (value := _value(root, name, pattern)) != expected[key]:
            raise ValueError(f"{name}: the {key} is {value}, but {expected[key]} is released")
    return sections[version]["notes"].strip() + "\n"


def write_version(tag: str, date: str, root: Path = ROOT) -> None:
    """Write the version of a tag and its date (YYYY-MM-DD) into all files that name them, and give
    what is unreleased to it.
    ValueError: tag or date are none, or the changelog has the version already; nothing is written.
    """
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        raise ValueError(f"{tag}: a tag is v and the version, as in v1.2.3")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise ValueError(f"{date}: a date is written as in 2027-01-31")
    values = {"version": tag.removeprefix("v"), "date": date}
    heading = f"## {values['version']} ({date})\n"
    changes = _read(root, "CHANGELOG.md")
    if f"\n## {values['version']} (" in changes or UNRELEASED not in changes:
        raise ValueError(f"CHANGELOG.md: has {values['version']} already, or no '## Unreleased'")
    texts = {"CHANGELOG.md": changes.replace(UNRELEASED, f"{UNRELEASED}\n{heading}", 1)}
    for name, key, pattern in STATED:
        text = texts.get(name) or _read(root, name)
        texts[name] = re.sub(
            pattern, lambda match, key=key: _put(match, values[key]), text, flags=re.MULTILINE
        )
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")


def _put(match: re.Match[str], value: str) -> str:
    """What was found, with the value in place of the group."""
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match[0][:start] + value + match[0][end:]


def _value(root: Path, name: str, pattern: str) -> str:
    match = re.search(pattern, _read(root, name), re.MULTILINE)
    return match[1] if match else "missing"


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    try:
        if len(sys.argv) > 2:
            write_version(*sys.argv[1:])
        print(notes(*sys.argv[1:2]), end="")
    except ValueError as error:
        sys.exit(str(error))

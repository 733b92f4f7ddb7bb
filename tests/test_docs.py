"""What the documentation refers to exists: files, headings, commands, modules and keys."""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from plfl.cli.main import build_parser
from tests.helpers import repository

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "config", "docs", "plfl", "profiles", "release", "tests", "workflow")
EXAMPLES = re.compile(r"NAME|\*|signum|clipped")
"""Names in paths and keys that a reader replaces or creates."""


@cache
def tracked() -> frozenset[str]:
    """Files and folders of the repository, relative to its root."""
    listed = repository.tracked()
    return frozenset(listed) | {str(folder) for file in listed for folder in Path(file).parents}


def pages() -> list[str]:
    own = (ROOT / "docs").glob("*.md")
    others = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SUPPORT.md")]
    folders = (
        "benchmarks",
        "benchmarks/conformance",
        "config",
        "figures",
        "profiles",
        "release",
        "results",
    )
    others += [ROOT / name / "README.md" for name in folders]
    return sorted(path.relative_to(ROOT).as_posix() for path in [*own, *others])


@pytest.fixture(params=pages())
def page(request: pytest.FixtureRequest) -> Path:
    return ROOT / str(request.param)


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        if target.startswith("http"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), anchor


def test_paths_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = re.findall(rf"(?<![\w/.-])((?:{'|'.join(FOLDERS)})/[\w./*-]*\w)", text)
    missing = {path for path in paths if not EXAMPLES.search(path)} - tracked()
    assert missing == set()


def test_modules_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = re.findall(r"`((?:plfl|tests)\.[\w.]*\w)[`(]", text)
    names += re.findall(r"^::: (\S+)", text, re.MULTILINE)
    tags = {"plfl.cell", "plfl.data", "plfl.git", "plfl.version"}  # of runs in MLflow
    for name in set(names) - tags:
        assert is_defined(name), name


def is_defined(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            found = importlib.import_module(".".join(parts[:count])) if parts[count:] else None
            for part in parts[count:]:
                found = getattr(found, part, None)
            return found is not None or count == len(parts)
    return False


@cache
def commands() -> set[str]:
    """The commands that `plfl --help` lists."""
    return set(re.findall(r"^ {4}([a-z]+)\b", build_parser([]).format_help(), re.MULTILINE))


def test_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    assert set(re.findall(r"(?<![\w-])make ([a-z-]+)", code)) <= set(targets)
    assert set(re.findall(r"(?:^|`|\$ |/)plfl ([a-z]+)", code, re.MULTILINE)) <= commands()


@cache
def keys() -> tuple[set[str], set[str]]:
    """The keys of a study, and its sections."""
    reference = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    keys, section = set(), ""
    for title, key, owners in re.findall(
        r"^(?:## `(.*)`|\| `(\w+)[:`][^|]*\| ((?:`\w+`,? )*))", reference, re.MULTILINE
    ):
        section = title or section
        keys |= {section, f"{section}.{key}"}
        keys |= {f"{section}.{owner}.{key}" for owner in re.findall(r"\w+", owners)}
        keys |= {f"{section}.name"} if owners else set()
    return keys, {key.split(".")[0] for key in keys}


def test_keys_exist(page: Path) -> None:
    known, sections = keys()
    files = ("md", "yaml", "csv", "json", "parquet")
    for name in re.findall(r"`([a-z]+(?:\.[a-z_]+)+)[`:]", page.read_text(encoding="utf-8")):
        is_key = name.split(".")[0] in sections and not name.endswith(files)
        assert not is_key or EXAMPLES.search(name) or name in known, name


@pytest.mark.parametrize(
    ("name", "most"),
    [("README.md", 700), ("docs/configuration.md", 8300), ("docs/related.md", 700)],
)
def test_pages_stay_short(name: str, most: int) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").split()) <= most


def navigation() -> dict[str, list[str]]:
    """The pages of the site by their group, in order."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.safe_load(text[text.index("\nnav:") :])["nav"]  # the tags above need mkdocs
    groups = {title: part for entry in nav for title, part in entry.items()}
    return {title: re.findall(r"[\w-]+\.(?:md|ipynb)", str(part)) for title, part in groups.items()}


def test_the_site_has_every_page_once() -> None:
    listed = [page for part in navigation().values() for page in part]
    own = [path.name for path in (ROOT / "docs").iterdir() if path.suffix in (".md", ".ipynb")]
    assert sorted(listed) == sorted(own)


def test_the_start_page_has_the_groups_of_the_site() -> None:
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    sections = {
        title.split(": ")[-1]: re.findall(r"\| \[[^]]+\]\(([\w-]+\.\w+)\) \|$", part, re.MULTILINE)
        for title, part in re.findall(r"^## (.*?)$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    }
    groups = {title.lower(): part for title, part in navigation().items() if title != "Quick start"}
    assert list(groups) == ["tutorials", "how-to guides", "reference", "explanation"]
    assert sections == groups


def glossary() -> list[tuple[str, str]]:
    """The nouns of the glossary, each with the place in the code that its row names."""
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\*\*.*?) \|.*\| (.*?) \|$", text, re.MULTILINE)
    return [(noun, place) for nouns, place in rows for noun in re.findall(r"\*\*(.*?)\*\*", nouns)]


def test_the_glossary_has_few_nouns_each_once() -> None:
    nouns = [noun for noun, _ in glossary()]
    assert len(nouns) == len(set(nouns)) <= 60


def test_the_glossary_names_what_is_in_the_code() -> None:
    code = "".join((ROOT / name).read_text(encoding="utf-8") for name in tracked_modules())
    for noun, place in glossary():
        for name in re.findall(r"`(.*?)`", place):
            if "/" in name or name.endswith(".py"):
                path = name.removeprefix("plfl/").replace("NAME", "*")
                assert any((ROOT / "plfl").glob(f"**/{path}")), noun
            elif re.fullmatch(r"[A-Z]\w+", name):
                assert re.search(rf"^(class {name}\b|{name} = )", code, re.MULTILINE), noun


def tracked_modules() -> list[str]:
    """The Python files of plfl."""
    return [name for name in tracked() if name.startswith("plfl/") and name.endswith(".py")]

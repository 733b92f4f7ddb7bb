"""The files of a crate of a finished study, and what they contain.

The root of the crate corresponds to the results folder, with the figures in `figures/`.
"""

import mimetypes
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from plfl.base.errors import ResultsError
from plfl.base.files import atomic, sha256
from plfl.config.study import Study
from plfl.data.comstock.releases import BUCKET, ROOT
from plfl.data.receipts import verify
from plfl.plugins import digests_of
from plfl.report import overview, page
from plfl.report.make import figures_of, make
from plfl.report.rendering import as_yaml
from plfl.results.overview import study_of
from plfl.results.records import read_about, schema
from plfl.results.tables import Tables

SUMS = "SHA256SUMS"
CONFIGURATION = "study.yaml"
REQUIREMENTS = "requirements.txt"
_LOADS = "forecasts.parquet"
"""Endings of the names of tables with loads, or with forecasts that repeat them."""
_DESCRIPTIONS = {
    **overview.FILES,
    **page.FILES,
    "index.html": "the report: what was found, tables, figures, clients, configuration",
    CONFIGURATION: "configuration of the study, with every key",
    REQUIREMENTS: "versions of the software that ran the study",
    SUMS: "SHA-256 of the other files, for `sha256sum --check`",
    "croissant.json": "Croissant metadata of the tables and of the data",
    "targets.csv": "scores of each target of a window",
    "index.csv": "which cell each file of models belongs to",
}
"""What the files of a crate contain, by name."""
_MEDIA = {
    ".parquet": "application/vnd.apache.parquet",
    ".safetensors": "application/octet-stream",
    ".yaml": "application/yaml",
    ".csv": "text/csv",
    "": "text/plain",
}
"""Media types that Python does not know everywhere, by suffix."""


@dataclass(frozen=True)
class Source:
    """A file that the study read."""

    path: str
    """The path from the working directory of the study."""
    sha256: str
    included: str | None
    """Its path in the crate, if it is there."""


@dataclass(frozen=True)
class Published:
    """Facts about a study in the metadata, in addition to its files."""

    study: Study
    about: dict[str, Any]
    """Content of study.json."""
    sources: list[Source]
    without_readings: bool
    """Whether readings of own meters were left out."""

    @property
    def summary(self) -> str:
        """The crate in a few sentences."""
        what = self.study.data.rules.examples.capitalize()
        text = (
            f"Results of the study {self.study.name!r} of federated learning, run with plfl "
            f"{self.about['version']}. {what}: {self.study.data.rules.origin.text}."
        )
        left_out = (
            " The readings are not included: the tables of forecasts are empty, and the report "
            "shows no loads."
        )
        return text + (left_out if self.without_readings else "")


@dataclass(frozen=True)
class Entry:
    """A file of a crate."""

    path: Path
    name: str
    """From the root of the crate."""
    description: str
    sha256: str
    size: int
    """In bytes."""

    @property
    def media_type(self) -> str:
        """Its media type, by its suffix."""
        return media_type(self.path)


def gather(
    results: Path, folder: Path, models: bool, data: bool, outside: Iterable[Path] = ()
) -> Published:
    """Copy the files of a finished study into an empty folder; see `plfl.publish.crate.publish`."""
    study, about = study_of(results), read_about(results)
    places = [results / label for label in about.get("variants", [])] or [results]
    for place in places:
        _require(place, _tables(place))
        _ = Tables(place).summary  # refuses a damaged one
    _require(results, ["index.html"])
    figures = figures_of(results, study)
    private = study.data.source == "meters" and not data  # readings are left out
    kinds = ["*.csv", "*.parquet", "study.json"]
    kinds += [] if private else ["index.html"]
    kinds += ["models/*"] if models else []
    copied = {
        path.relative_to(results).as_posix(): path
        for place in dict.fromkeys([results, *places])
        for kind in kinds
        for path in place.glob(kind)
    }
    if models and not any(Path(name).parent.name == "models" for name in copied):
        raise ResultsError(f"{results}: holds no models; leave out --models, or run the study")
    if not private:
        drawn = [path for path in figures.glob("*") if path.suffix in (".pdf", ".png", ".svg")]
        if not drawn:
            raise ResultsError(f"{figures}: holds no figures; `plfl report` draws them")
        copied |= {f"figures/{path.name}": path for path in drawn}
    copied |= _code(about["study"])
    sources = _sources(places, data)
    copied |= {source.included: Path(source.path) for source in sources if source.included}
    _refuse_outside(copied.values(), [results, figures, Path(), *outside])
    for name, path in copied.items():
        _copy(path, folder / name, private and name.endswith(_LOADS))
    if private:
        make(folder, folder / "figures", folder / "index.html")
    (folder / CONFIGURATION).write_text(as_yaml(about["study"]), encoding="utf-8")
    (folder / REQUIREMENTS).write_text(_requirements(about), encoding="utf-8")
    return Published(study, about, sources, private)


def entries(folder: Path, published: Published) -> list[Entry]:
    """All files of a crate, in order."""
    return [
        Entry(path, name, _described(name, published), sha256(path), path.stat().st_size)
        for path in files(folder)
        for name in [path.relative_to(folder).as_posix()]
    ]


def files(folder: Path) -> list[Path]:
    """The paths of all files of a crate, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def media_type(path: Path) -> str:
    """The media type of a file, by its suffix."""
    known = _MEDIA.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return known or "application/octet-stream"


def address(path: str, study: Study) -> str | None:
    """Public address of the file that a study read at `path`; None if there is none."""
    if study.data.source != "comstock":
        return None
    folder = (study.data.folder / "comstock").as_posix()
    key = Path(path).as_posix().removeprefix(f"{folder}/")
    return f"https://{BUCKET}.s3.amazonaws.com/{ROOT}/{key}"


def _described(name: str, published: Published) -> str:
    """What a file of the crate contains, given its path there."""
    path = Path(name)
    if path.parts[0] == "figures":
        return f"figure {path.stem}, see the report"
    if path.parts[0] == "data":
        return f"data that the study read: {published.study.data.rules.origin.text}"
    if path.suffix == ".py":
        return "Python file that the study names: a plug-in or a model"
    is_model = path.suffix == ".safetensors"
    text = _DESCRIPTIONS.get(path.name, "trained models" if is_model else path.name)
    if published.without_readings and name.endswith(_LOADS):
        return f"{text}; without its rows, which would show readings"
    return text


def _tables(place: Path) -> list[str]:
    """The tables that a finished study without variants has."""
    about = read_about(place)
    deployed = about.get("engine", "simulator") != "simulator"
    return [name for name in page.FILES if not (deployed and name.startswith("baseline"))]


def _require(place: Path, names: list[str]) -> None:
    missing = [name for name in names if not (place / name).is_file()]
    if missing:
        raise ResultsError(
            f"{place}: the study is not finished; {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Run it to its end with `plfl study`"
        )


def _refuse_outside(paths: Iterable[Path], folders: Iterable[Path]) -> None:
    """Refuse files that are in none of the folders, also as targets of links."""
    roots = [folder.resolve() for folder in folders]
    found = [path for path in paths if not any(map(path.resolve().is_relative_to, roots))]
    if found:
        listed = ", ".join(str(path) for path in found[:3]) + (", …" if len(found) > 3 else "")
        raise ResultsError(
            f"{listed}: outside of the results, the figures and the current folder. To publish "
            f"what lies there, name its folder with --outside {found[0].resolve().parent}"
        )


def _copy(path: Path, to: Path, without_rows: bool) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if without_rows:
        with atomic(to) as temporary:
            pq.write_table(schema(path).empty_table(), temporary)
    else:
        shutil.copyfile(path, to)


def _requirements(about: dict[str, Any]) -> str:
    """The versions that the study noted, in the form that pip reads."""
    versions = dict(about.get("versions", {}))
    python = versions.pop("python", "unknown")
    commit = f"  # commit {about['git']}" if about.get("git") else ""
    lines = [f"# Python {python}", f"plfl=={about['version']}{commit}"]
    return "\n".join([*lines, *(f"{name}=={number}" for name, number in versions.items())]) + "\n"


def _code(study: dict[str, Any]) -> dict[str, Path]:
    """The Python files that a study names, at the paths where its configuration finds them."""
    code = digests_of(study)
    for name in code:
        if Path(name).is_absolute():  # others are below the current folder
            raise ResultsError(
                f"{name}: is outside the current folder, so {CONFIGURATION} in the crate could not "
                "find it; move it beside the study, correct its path in the study, and run the "
                "study again"
            )
    return {name: Path(name) for name in code}


def _sources(places: list[Path], data: bool) -> list[Source]:
    """The files that the study read, each once, with its place in the crate if `data` is set.

    The files of a state keep their paths relative to their common folder.
    """
    digests: dict[str, dict[str, str]] = {}
    for place in places:
        for state, receipt in read_about(place).get("sources", {}).items():
            if data:
                verify(receipt)
            digests.setdefault(state, {}).update(receipt["files"])
    sources: dict[str, Source] = {}
    for state, of_state in digests.items():
        whole = {path: Path(os.path.abspath(path)) for path in of_state}  # noqa: PTH100 - without links
        top = os.path.commonpath([path.parent for path in whole.values()]) if whole else ""
        for path, digest in of_state.items():
            target = f"data/{state}/{whole[path].relative_to(top).as_posix()}"
            sources.setdefault(path, Source(path, digest, target if data else None))
    return list(sources.values())

"""The files of a crate: which ones a finished study has, and what they are.

The root of the crate corresponds to the results folder, with the figures in `figures/`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from plfl.config.study import Study
from plfl.data.source import verify
from plfl.errors import ResultsError
from plfl.files import atomic, sha256
from plfl.report.extras import EXTRAS
from plfl.report.make import figures_of, make
from plfl.report.page import FILES
from plfl.results.overview import study_of
from plfl.results.records import read_about

SUMS = "SHA256SUMS"
CONFIGURATION = "study.yaml"
REQUIREMENTS = "requirements.txt"
_LOADS = ("forecasts.parquet", "baseline_forecasts.parquet")
"""Tables that hold readings: the loads themselves, and forecasts that repeat them."""
_DESCRIPTIONS = {
    **FILES,
    **EXTRAS,
    "index.html": "the report: what was found, tables, figures, clients, configuration",
    CONFIGURATION: "configuration of the study, with every key",
    REQUIREMENTS: "versions of the software that ran the study",
    SUMS: "SHA-256 of the other files, for `sha256sum --check`",
    "croissant.json": "Croissant metadata of the tables and of the data",
    "best.csv": "the best cell of each variant, state, sharing scheme and method",
    "effects.csv": "differences between variants that differ on one axis",
    "targets.csv": "scores of each target of a window",
    "index.csv": "which cell each file of models belongs to",
}
"""What the files of a crate contain, by name."""


@dataclass(frozen=True)
class Source:
    """A file that the study read."""

    path: str
    """From the working directory of the study."""
    sha256: str
    included: str | None
    """Its path in the crate, if it is there."""


@dataclass(frozen=True)
class Published:
    """What the metadata say about a study beside its files."""

    study: Study
    about: dict[str, Any]
    """Content of study.json."""
    sources: list[Source]
    without_readings: bool
    """Whether readings of own meters were left out."""


def gather(results: Path, folder: Path, models: bool, data: bool) -> Published:
    """Copy the files of a finished study into an empty folder; see `plfl.publish.publish`.

    Raises:
        ResultsError: a file is missing or damaged.
        DataError: a file that the study read is missing or has changed, with `data`.
    """
    study, about = study_of(results), read_about(results)
    places = [results / label for label in about.get("variants", [])] or [results]
    for place in places:
        _require(place, _tables(place))
    figures = figures_of(results, study)
    _require(results, ["index.html"])
    private = study.data.source == "meters" and not data
    for place in dict.fromkeys([results, *places]):
        for path in _found(place):
            _copy(path, folder / path.relative_to(results), private)
    if private:
        make(folder, folder / "figures", folder / "index.html")
    else:
        _copy_figures(figures, folder / "figures")
        for place in dict.fromkeys([results, *places]):
            if (page := place / "index.html").is_file():  # the pages of variants are optional
                _copy(page, folder / page.relative_to(results), private)
    for path in _models(places) if models else []:
        _copy(path, folder / path.relative_to(results), False)
    configuration = yaml.safe_dump(about["study"], sort_keys=False, allow_unicode=True, width=100)
    (folder / CONFIGURATION).write_text(configuration, encoding="utf-8")
    (folder / REQUIREMENTS).write_text(_requirements(about), encoding="utf-8")
    return Published(study, about, _sources(places, folder, data), private)


def described(name: str, published: Published) -> str | None:
    """What a file of the crate contains, by its name; None if the name does not say it."""
    text = _DESCRIPTIONS.get(name)
    if published.without_readings and name in _LOADS:
        return f"{text}; without its rows, which would show readings"
    return text


def files(folder: Path) -> list[Path]:
    """All files of a crate, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def write_checksums(folder: Path) -> None:
    """Write the SHA-256 of all files, in the form of `sha256sum`."""
    lines = [f"{sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files(folder)]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def _tables(place: Path) -> list[str]:
    """The tables that a finished study without variants has."""
    about = read_about(place)
    deployed = about.get("engine", "simulator") != "simulator"
    return [name for name in FILES if not (deployed and name.startswith("baseline"))]


def _require(place: Path, names: list[str]) -> None:
    missing = [name for name in names if not (place / name).is_file()]
    if missing:
        raise ResultsError(
            f"{place}: the study is not finished; {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Run it to its end with `plfl study`"
        )


def _found(place: Path) -> Iterator[Path]:
    """The tables of a results folder."""
    for pattern in ("*.csv", "*.parquet", "study.json"):
        yield from sorted(place.glob(pattern))


def _models(places: list[Path]) -> list[Path]:
    found = [path for place in places for path in sorted((place / "models").glob("*"))]
    if not found:
        raise ResultsError(f"{places[0]}: holds no models; leave out --models, or run the study")
    return found


def _copy(path: Path, to: Path, private: bool) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if private and path.name in _LOADS:
        with atomic(to) as temporary:
            pq.write_table(pq.read_schema(path).empty_table(), temporary)
    else:
        shutil.copyfile(path, to)


def _copy_figures(figures: Path, to: Path) -> None:
    drawn = [path for path in sorted(figures.glob("*")) if path.suffix in (".pdf", ".png", ".svg")]
    if not drawn:
        raise ResultsError(f"{figures}: holds no figures; `plfl report` draws them")
    to.mkdir()
    for path in drawn:
        shutil.copyfile(path, to / path.name)


def _requirements(about: dict[str, Any]) -> str:
    """The versions that the study noted, in the form that pip reads."""
    versions = dict(about.get("versions", {}))
    python = versions.pop("python", "unknown")
    lines = [f"# Python {python}", f"plfl=={about['version']}"]
    if about.get("git"):
        lines[1] += f"  # commit {about['git']}"
    return "\n".join([*lines, *(f"{name}=={number}" for name, number in versions.items())]) + "\n"


def _sources(places: list[Path], folder: Path, data: bool) -> list[Source]:
    """The files that the study read, each once; copied if `data` is set."""
    sources: dict[str, Source] = {}
    for place in places:
        for state, receipt in read_about(place).get("sources", {}).items():
            if data:
                verify(receipt)
            for path, digest in receipt["files"].items():
                target = f"data/{state}/{Path(path).name}" if data else None
                if target and path not in sources:
                    _copy(Path(path), folder / target, False)
                sources.setdefault(path, Source(path, digest, target))
    return list(sources.values())

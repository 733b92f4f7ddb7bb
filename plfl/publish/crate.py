"""A finished study as a folder or an archive that others can cite, check and repeat.

It is an RO-Crate (https://w3id.org/ro/crate): the files of the study, and `ro-crate-metadata.json`,
which says what each of them is, who made it and under which licence. Authors and licence are those
of a CITATION.cff (https://citation-file-format.github.io).
"""

import mimetypes
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from plfl.base.errors import PlflError, ResultsError
from plfl.base.files import sha256
from plfl.base.text import some
from plfl.data.comstock.releases import BUCKET, ROOT
from plfl.data.sources import verify
from plfl.plugins import digests_of
from plfl.report import overview, page
from plfl.report.rendering import as_yaml
from plfl.report.reporting import figures_of, make
from plfl.results import comparisons
from plfl.results.overview import study_of
from plfl.results.records import read_about, schema
from plfl.results.tables import Tables
from plfl.study import Study

CONFIGURATION = "study.yaml"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
"""The profile Process Run Crate: which software made which files from which others."""
LOADS = "forecasts.parquet"
"""Endings of the names of tables with loads, or with forecasts that repeat them."""
DESCRIPTIONS = {
    **overview.FILES,
    **page.FILES,
    "index.html": "the report: what was found, tables, figures, clients, configuration",
    CONFIGURATION: "configuration of the study, with every key",
    "requirements.txt": "versions of the software that ran the study",
    "index.csv": "which cell each file of models belongs to",
}
"""What the files of a crate contain, by name."""
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


def read_citation(path: Path) -> Citation:
    """Read a CITATION.cff; PlflError if it is no YAML, or has no title, authors or licence."""
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


def publish(
    results: Path,
    to: Path,
    citation: Citation,
    published: date,
    models: bool = False,
    data: bool = False,
) -> bool:
    """Write the crate of a finished study into a new folder or, if its name ends in `.zip`, a new
    file, with models and the files that the study read (`data`) if wanted; return whether readings
    of own meters were left out.

    They are left out unless `data` is set. The tables of forecasts, which also contain loads, are
    then empty, and page and figures are made again without them. Records of a private study whose
    participants are drawn have no rows of `train`, which name the participants. A file outside of
    the results, the figures and the current folder is refused, also as the target of a link.

    Raises:
        PlflError: `to` exists or cannot be written, or rocrate is not installed.
        ResultsError: the study is not finished, or a file is damaged or lies outside.
        DataError: a file that the study read is missing or has changed, with `data`.
    """
    if find_spec("rocrate") is None:
        raise PlflError("rocrate is not installed; run pip install 'plfl[publish]'")
    if to.exists() or to.is_symlink():
        raise PlflError(f"{to}: exists already; remove it first, or name another folder or file")
    study, about = study_of(results), read_about(results)
    private = study.data.source == "meters" and not data
    with _written(to) as folder:
        sources = _gather(results, folder, private, models, data)
        origin = study.data.rules.origin
        text = (
            f"Results of the study {study.name!r} of federated learning, run with plfl "
            f"{about['version']}. {study.data.rules.examples.capitalize()}: {origin.text}."
        )
        if private:
            text += " The readings are not included: the tables of forecasts are empty, and the "
            text += "report shows no loads."
        (folder / CONFIGURATION).write_text(as_yaml(about["study"]), encoding="utf-8")
        (folder / "requirements.txt").write_text(_requirements(about), encoding="utf-8")
        _write_crate(folder, study, about, text, citation, published, sources)
    return private


@contextmanager
def _written(to: Path) -> Iterator[Path]:
    """A temporary folder beside `to` that becomes `to` when the block succeeds."""
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tmp-", dir=to.parent) as temporary:
            folder = Path(temporary, to.stem)
            folder.mkdir()
            yield folder
            if to.suffix == ".zip":
                folder = Path(shutil.make_archive(str(folder), "zip", folder))
            folder.rename(to)
    except OSError as error:
        raise PlflError(
            f"{to}: cannot be written ({error}); check the disk and the path"
        ) from error


def _files(folder: Path) -> list[str]:
    """The files of a crate, relative to its root, in order."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path.relative_to(folder).as_posix() for path in paths]


def _gather(
    results: Path, folder: Path, private: bool, models: bool, data: bool
) -> dict[str, tuple[str, str | None]]:
    """Copy the files of a finished study into an empty folder. Returns the files that the study
    read, by path: their SHA-256, and their place if they are included."""
    study, about = study_of(results), read_about(results)
    places = [results / label for label in about.get("variants", [])] or [results]
    _refuse_unfinished(results, places)
    kinds = ["*.csv", "*.parquet", "study.json", *["models/*"] * models]
    copied = {
        path.relative_to(results).as_posix(): path
        for place in dict.fromkeys([results, *places])
        for kind in (kinds if private else [*kinds, "index.html"])
        for path in place.glob(kind)
    }
    if models and not any(Path(name).parent.name == "models" for name in copied):
        raise ResultsError(f"{results}: holds no models; leave out --models, or run the study")
    figures = figures_of(results, study)
    if not private:
        drawn = [path for path in figures.glob("*") if path.suffix in (".pdf", ".png", ".svg")]
        if not drawn:
            raise ResultsError(f"{figures}: holds no figures; `plfl report` draws them")
        copied |= {f"figures/{path.name}": path for path in drawn}
    own_code = {name: Path(name) for name in digests_of(about["study"])}
    sources = _sources(places, data)
    copied |= own_code
    copied |= {place: Path(path) for path, (_, place) in sources.items() if place}
    _refuse_outside(copied.values(), own_code.values(), (results, figures, Path()))
    for name, path in copied.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        columns = schema(path) if name.endswith(".parquet") else None  # refuses a damaged one
        if columns and private and name.endswith(LOADS):
            pq.write_table(columns.empty_table(), target)
        else:
            shutil.copyfile(path, target)
    if private:
        make(folder, folder / "figures", folder / "index.html")
    if study.federation.privacy.clip is not None and study.federation.participation < 1:
        for path in folder.rglob("records.parquet"):
            _without_participants(path)
    return sources


def _refuse_unfinished(results: Path, places: list[Path]) -> None:
    needed = {results / "index.html"}
    for place in places:
        deployed = read_about(place).get("engine", "simulator") != "simulator"
        for name in page.FILES.keys() - {comparisons.FILE}:  # those can be computed again
            if not (deployed and name.startswith("baseline")):
                needed.add(place / name)
    if missing := sorted(str(path) for path in needed if not path.is_file()):
        raise ResultsError(
            f"{results}: the study is not finished, because these files are missing: "
            f"{', '.join(missing)}. Run it to its end with `plfl study`"
        )
    for place in places:
        _ = Tables(place).summary  # refuses a damaged one


def _refuse_outside(
    paths: Iterable[Path], own_code: Iterable[Path], folders: Iterable[Path]
) -> None:
    """Refuse files that are in none of the folders, also as targets of links, and code with an
    absolute path, which the study in the crate could not find."""
    allowed = [folder.resolve() for folder in folders]
    outside = [path for path in paths if not any(map(path.resolve().is_relative_to, allowed))]
    outside += [path for path in own_code if path.is_absolute()]
    if outside:
        raise ResultsError(
            f"{some(list(map(str, outside)), 3)}: outside of the results, the figures and the "
            "current folder; to publish it, move it there, correct its path in the study, and run "
            "the study again"
        )


def _without_participants(path: Path) -> None:
    """Remove the rows that say who took part in which round: ε counts on secret draws."""
    records = pq.read_table(path)
    scores = pc.not_equal(pc.cast(records["split"], pa.string()), "train")
    pq.write_table(records.filter(scores), path)


def _sources(places: list[Path], data: bool) -> dict[str, tuple[str, str | None]]:
    """See `_gather`."""
    sources: dict[str, tuple[str, str | None]] = {}
    for place in places:
        for state, receipt in read_about(place).get("sources", {}).items():
            if data:
                verify(receipt)
            for path, digest in receipt["files"].items():
                # The digest tells files of one name in several folders apart.
                target = f"data/{state}/{digest[:8]}-{Path(path).name}"
                sources.setdefault(path, (digest, target if data else None))
    return sources


def _requirements(about: dict[str, Any]) -> str:
    """The versions that the study noted, in the form that pip reads."""
    versions = dict(about.get("versions", {}))
    lines = [f"# Python {versions.pop('python', 'unknown')}", f"plfl=={about['version']}"]
    lines[1] += f"  # commit {about['git']}" if about.get("git") else ""
    return "\n".join([*lines, *(f"{name}=={number}" for name, number in versions.items())]) + "\n"


def _described(name: str) -> str:
    """What a file of a crate contains, by its path there."""
    path = Path(name)
    kinds = {"figures": f"figure {path.stem}, see the report", "data": "read by the study"}
    kinds |= {".py": "Python file that the study names", ".safetensors": "trained models"}
    known = kinds.get(path.parts[0]) or DESCRIPTIONS.get(path.name) or kinds.get(path.suffix)
    return known or path.name


def _write_crate(
    folder: Path,
    study: Study,
    about: dict[str, Any],
    text: str,
    citation: Citation,
    day: date,
    sources: dict[str, tuple[str, str | None]],
) -> None:
    """Describe all files of a crate in `ro-crate-metadata.json`."""
    from rocrate.model import ContextEntity
    from rocrate.rocrate import ROCrate

    crate = ROCrate(version="1.1")

    def add(id: str, kind: str, **about: Any) -> Any:
        return crate.add(ContextEntity(crate, id, {"@type": kind, **about}))

    def licence(url: str) -> Any:
        return add(url, "CreativeWork", name=Path(url).name, description="A licence")

    origin = study.data.rules.origin
    of_data = {"license": licence(origin.licence)} if origin.licence else {}
    authors = []
    for author in citation.authors:
        kind = "Person" if author.is_person else "Organization"
        authors.append(add(author.url or f"#{author.name}", kind, name=author.name))
    files = {}
    for name in _files(folder):
        path = folder / name
        about_file = {
            "name": name,
            "description": _described(name),
            "encodingFormat": mimetypes.guess_type(name)[0] or "application/octet-stream",
            "contentSize": str(path.stat().st_size),
            "sha256": sha256(path),
            **(of_data if name.startswith("data/") else {}),
        }
        files[name] = crate.add_file(path, name, properties=about_file)
    store = f"{(study.data.folder / 'comstock').as_posix()}/"
    public = f"https://{BUCKET}.s3.amazonaws.com/{ROOT}/"
    elsewhere = [
        add(
            path.replace(store, public) if path.startswith(store) else f"#{path}",
            "CreativeWork",
            name=Path(path).name,
            description=f"read by the study, not included: {origin.text}",
            sha256=digest,
            **of_data,
        )
        for path, (digest, place) in sources.items()
        if place is None
    ]
    read = [n for n in files if n == CONFIGURATION or n.endswith(".py") or n.startswith("data/")]
    url, version = "https://arxiv.org/abs/2404.01517", about["version"]
    run = crate.add_action(
        add("#plfl", "SoftwareApplication", name="plfl", url=url, softwareVersion=version),
        identifier="#run",
        object=[*map(files.get, read), *elsewhere],
        result=[files[name] for name in files if name not in read],
        properties={"name": f"plfl study {CONFIGURATION}"},
    )
    run["agent"] = authors[0]
    profile = {"name": "Process Run Crate", "version": PROFILE.rpartition("/")[2]}
    root = {
        "name": f"{citation.title}: study {study.name}",
        "description": text,
        "datePublished": day.isoformat(),
        "license": licence(citation.licence_url),
        "author": authors,
        "conformsTo": add(PROFILE, "CreativeWork", **profile),
        "mainEntity": files["index.html"],
        "mentions": [run, *elsewhere],
    }
    for key, value in root.items():
        crate.root_dataset[key] = value
    crate.metadata.extra_terms["sha256"] = "https://schema.org/sha256"
    crate.write(folder)

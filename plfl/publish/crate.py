"""A finished study as a folder or an archive that others can cite, check and repeat.

It is an RO-Crate (https://w3id.org/ro/crate): the files of the study, and `ro-crate-metadata.json`,
which says what each of them is, who made it and under which licence. Authors and licence are those
of a CITATION.cff (https://citation-file-format.github.io).
"""

import mimetypes
import shutil
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator

from plfl.base.errors import PlflError, Problem, ResultsError
from plfl.base.files import sha256
from plfl.base.text import list_names
from plfl.experiments.scoring import scoring_of
from plfl.federated.privacy.statement import state_for_readers
from plfl.forecast.kept_errors import LEADS_FILE, NEW_FILE, SUMS_FILE
from plfl.plugins import digest_named_files
from plfl.report import page, variants_page
from plfl.report.rendering import as_yaml
from plfl.report.reporting import figures_of, make
from plfl.results.overview import study_of
from plfl.results.records import read_facts, schema, write_arrow
from plfl.results.tables import Tables
from plfl.study import Study

CONFIGURATION = "study.yaml"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
"""The profile Process Run Crate: which software made which files from which others."""
OF_OWN_METERS = (
    "left out: readings of the meters, in tables of forecasts, report and figures; file names, "
    "mean, standard deviation and span of each load remain: look at index.html before you publish "
    "it"
)
"""What the publisher of results of own meters has to know."""
LOADS_ENDING = "forecasts.parquet"
"""Endings of the names of tables with loads, or with forecasts that repeat them."""
TABLES = {**variants_page.OVERVIEW_FILES, **page.STUDY_FILES}
"""What the tables of a study contain, by name."""
DESCRIPTIONS = {
    **TABLES,
    "index.html": "the report: what was found, tables, figures, clients, configuration",
    CONFIGURATION: "configuration of the study, with every key",
    "requirements.txt": "versions of the software that ran the study",
    "index.csv": "which cell each file of models belongs to",
    LEADS_FILE: "errors of the kept forecasters by lead time",
    SUMS_FILE: "errors of the kept forecasters for the sum of the meters",
    NEW_FILE: "errors of the kept forecasters for each meter as if it were new",
}
"""What the files of a crate contain, by name."""


class Citation(BaseModel):
    """The keys of a CITATION.cff that a crate needs."""

    title: str = Field(min_length=1)
    authors: list[dict[str, Any]] = Field(min_length=1)
    """Persons, with their names and perhaps `orcid`, or organisations."""
    license: str
    """An identifier of the SPDX list, such as `CC-BY-4.0`."""

    @field_validator("authors")
    @classmethod
    def _parse_authors(cls, authors: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not all(map(_name, authors)):
            raise ValueError("each needs a name")
        return authors


def _name(author: dict[str, Any]) -> str:
    """The name of a person or an organisation."""
    parts = map(author.get, ("given-names", "name-particle", "family-names"))
    return " ".join(str(part) for part in parts if part) or str(author.get("name") or "")


def read_citation(path: Path) -> Citation:
    """Read a CITATION.cff; PlflError if it is no YAML, or has no title, authors or licence."""
    try:
        return Citation.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError) as error:
        errors = error.errors() if isinstance(error, ValidationError) else []
        keys = [f"{'.'.join(map(str, e['loc'])) or 'the file'}: {e['msg']}" for e in errors]
        reason = "; ".join(keys) or error
        raise PlflError(
            Problem(
                path,
                f"cannot be used as a citation ({reason})",
                "write the title, the authors and the licence as docs/publish.md shows, or name "
                "another file with --citation",
            )
        ) from None


def publish(
    results: Path, to: Path, citation: Citation, published: date, includes_models: bool = False
) -> list[str]:
    """Write the crate of a finished study into a new folder or, if its name ends in `.zip`, a new
    file, with models if wanted; return what its publisher has to know, in sentences.

    Readings of own meters are left out: the tables of forecasts, which contain them, are empty, and
    page and figures are made again without them. The crate of a private study states the ε that its
    readers face. A file outside of the results, the figures and the current folder is refused, also
    as the target of a link.

    Raises:
        PlflError: `to` exists or cannot be written.
        ResultsError: the study is not finished, or a file is damaged or lies outside.
    """
    if to.exists() or to.is_symlink():
        raise PlflError(
            Problem(to, "exists already", "remove it first, or name another folder or file")
        )
    study, facts = study_of(results), read_facts(results)
    own_meters = study.data.source == "meters"
    places = [results / label for label in facts.get("variants", [])] or [results]
    for place in places:
        _ = Tables(place).summary  # refuses a damaged one
    files = _choose_files(results, places, study, own_meters, includes_models)
    is_simulated = facts.get("engine", "simulator") == "simulator"
    privacy = state_for_readers([*study.variants.values()], is_simulated=is_simulated)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tmp-", dir=to.parent) as temporary:
            folder = Path(temporary, to.stem)
            _gather(files, folder, own_meters)
            (folder / "requirements.txt").write_text(list_requirements(facts), encoding="utf-8")
            (folder / CONFIGURATION).write_text(as_yaml(facts["study"]), encoding="utf-8")
            _describe(places, folder, study, facts, citation, published, privacy)
            if to.suffix == ".zip":
                folder = Path(shutil.make_archive(str(folder), "zip", folder))
            folder.rename(to)
    except OSError as error:
        raise PlflError(
            Problem(to, f"cannot be written ({error})", "check the disk and the path")
        ) from error
    left_out = [OF_OWN_METERS] if own_meters else []
    return [*left_out, privacy] if privacy else left_out


def _choose_files(
    results: Path, places: list[Path], study: Study, has_own_meters: bool, includes_models: bool
) -> dict[str, Path]:
    """The files of a finished study, by their paths in a crate; `places` are the folders of its
    variants, or its own."""
    if not (results / "index.html").is_file():
        raise ResultsError(
            Problem(
                results / "index.html",
                "is missing, so the study is not finished",
                "run it with `plfl study`",
            )
        )
    # Other files, such as forecasts of a home, are none of the study's.
    kinds = [*TABLES, *scoring_of(study).further.values()]
    kinds += [f"models/{name}" for name in (LEADS_FILE, SUMS_FILE, NEW_FILE)]
    kinds += ["models/*"] * includes_models
    kinds += [] if has_own_meters else ["index.html"]
    files = {
        path.relative_to(results).as_posix(): path
        for place in dict.fromkeys([results, *places])
        for kind in kinds
        for path in place.glob(kind)
    }
    if includes_models and not any(name.endswith(".safetensors") for name in files):
        raise ResultsError(
            Problem(results, "holds no models", "leave out --models, or run the study")
        )
    figures, own_code = figures_of(results, study), digest_named_files(study.description())
    figure_files = [] if has_own_meters else figures.glob("*.*")
    files |= {f"figures/{path.name}": path for path in figure_files}
    files |= {name: Path(name) for name in own_code}
    allowed = [place.resolve() for place in (results, figures, Path())]
    outside_files = [name for name in own_code if Path(name).is_absolute()]
    outside_files += [
        str(path) for path in files.values() if not any(map(path.resolve().is_relative_to, allowed))
    ]
    if outside_files:
        raise ResultsError(
            Problem(
                list_names(outside_files, 3),
                "outside of the results, the figures and the current folder",
                "to publish it, move it there, correct its path in the study, and run the study "
                "again",
            )
        )
    return files


def _gather(files: dict[str, Path], folder: Path, has_own_meters: bool) -> None:
    """Copy files into a new folder, without what must not be published."""
    for name, path in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        columns = schema(path) if name.endswith(".parquet") else None  # refuses a damaged one
        if columns and has_own_meters and name.endswith(LOADS_ENDING):
            write_arrow(columns.empty_table(), target)
        else:
            shutil.copyfile(path, target)
    if has_own_meters:
        make(folder, folder / "figures", folder / "index.html")


def list_requirements(facts: dict[str, Any]) -> str:
    """The versions that the study noted, in the form that pip reads: if cells were trained with
    several versions of a library, the last of them, with all in a comment."""
    versions = dict(facts.get("versions", {}))
    lines = [f"# Python {versions.pop('python', 'unknown')}", f"plfl=={facts['version']}"]
    lines[1] += f"  # commit {facts['git']}" if facts.get("git") else ""
    for name, numbers in versions.items():
        *earlier, last = numbers.split(", ")
        remark = f"  # trained with {numbers}" if earlier else ""
        lines.append(f"{name}=={last}{remark}")
    return "\n".join(lines) + "\n"


def _describe(
    places: list[Path],
    folder: Path,
    study: Study,
    facts: dict[str, Any],
    citation: Citation,
    day: date,
    privacy: str,
) -> None:
    """Describe all files of a crate in `ro-crate-metadata.json`."""
    from rocrate.model import ContextEntity
    from rocrate.rocrate import ROCrate

    crate = ROCrate(version="1.1")

    def add(id: str, kind: str, **properties: Any) -> Any:
        return crate.add(ContextEntity(crate, id, {"@type": kind, **properties}))

    def licence(url: str) -> Any:
        return add(url, "CreativeWork", name=Path(url).name, description="A licence")

    authors = []
    for author in citation.authors:
        name = _name(author)
        kind = "Person" if "family-names" in author else "Organization"
        authors.append(add(author.get("orcid") or f"#{name}", kind, name=name))
    files = {}
    kinds = {".py": "Python file that the study names", ".safetensors": "trained models"}
    kinds |= dict.fromkeys((".pdf", ".png", ".svg"), "a figure of the report")
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        about_file = {
            "name": name,
            "description": DESCRIPTIONS.get(path.name) or kinds.get(path.suffix) or name,
            "encodingFormat": mimetypes.guess_type(name)[0] or "application/octet-stream",
            "sha256": sha256(path),
        }
        files[name] = crate.add_file(path, name, properties=about_file)
    origin = study.data.source_class.provenance
    licence_fields = {"license": licence(origin.licence)} if origin.licence else {}
    digests: dict[str, str] = {}
    for place in places:
        for receipt in read_facts(place).get("sources", {}).values():
            digests |= receipt["files"]
    read_files = [
        add(
            f"#{path}",
            "CreativeWork",
            name=Path(path).name,
            description=f"read by the study, not included: {origin.text}",
            sha256=digest,
            **licence_fields,
        )
        for path, digest in digests.items()
    ]
    inputs = [name for name in files if name == CONFIGURATION or name.endswith(".py")]
    url, version = "https://arxiv.org/abs/2404.01517", facts["version"]
    run = crate.add_action(
        add("#plfl", "SoftwareApplication", name="plfl", url=url, softwareVersion=version),
        identifier="#run",
        object=[*map(files.get, inputs), *read_files],
        result=[files[name] for name in files if name not in inputs],
        properties={"name": f"plfl study {CONFIGURATION}"},
    )
    run["agent"] = authors[0]
    text = (
        f"Results of the study {study.name!r} of federated learning, run with plfl {version}. "
        f"{study.data.source_class.examples.capitalize()}: {origin.text}."
    )
    if study.data.source == "meters":
        text += " The readings are not included: the tables of forecasts are empty, and report and "
        text += "figures were made again without them. Mean, standard deviation and span of each "
        text += "load remain."
    text += f" {privacy}" if privacy else ""
    profile = {"name": "Process Run Crate", "version": PROFILE.rpartition("/")[2]}
    root = {
        "name": f"{citation.title}: study {study.name}",
        "description": text,
        "datePublished": day.isoformat(),
        "license": licence(f"https://spdx.org/licenses/{citation.license}"),
        "author": authors,
        "conformsTo": add(PROFILE, "CreativeWork", **profile),
        "mainEntity": files["index.html"],
        "mentions": [run, *read_files],
    }
    for key, value in root.items():
        crate.root_dataset[key] = value
    crate.metadata.extra_terms["sha256"] = "https://schema.org/sha256"
    crate.write(folder)

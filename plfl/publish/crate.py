"""The metadata of a crate: `ro-crate-metadata.json`, as RO-Crate 1.1 defines it."""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from plfl.files import atomic, sha256
from plfl.publish import origins
from plfl.publish.citation import Author, Citation
from plfl.publish.contents import CONFIGURATION, Published, Source, described, files

NAME = "ro-crate-metadata.json"
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
"""Process Run Crate: which software made these files from which others."""
CONTEXT = [f"{SPECIFICATION}/context", {"sha256": "https://schema.org/sha256"}]
MEDIA = {
    ".parquet": "application/vnd.apache.parquet",
    ".safetensors": "application/octet-stream",
    ".yaml": "application/yaml",
    ".csv": "text/csv",
    "": "text/plain",
}
"""Media types that Python does not know everywhere, by suffix."""
PLFL = "#plfl"
RUN = "#run"

Entity = dict[str, Any]


def write(folder: Path, published: Published, citation: Citation, day: date) -> None:
    """Describe all files of a crate in its `ro-crate-metadata.json`.

    Args:
        folder: the crate.
        published: what its files say about the study.
        citation: authors and licence.
        day: the date of publication.
    """
    entities = [_descriptor(), *_contents(folder, published, citation, day)]
    graph = {entity["@id"]: entity for entity in entities}  # an author may be listed twice
    with atomic(folder / NAME) as temporary:
        document = {"@context": CONTEXT, "@graph": list(graph.values())}
        text = json.dumps(document, indent=1, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def _contents(folder: Path, published: Published, citation: Citation, day: date) -> list[Entity]:
    entries = [_file(folder, path, published) for path in files(folder)]
    data = [_data(source, published) for source in published.sources if not source.included]
    made = [entity["@id"] for entity in entries if not entity["@id"].startswith("data/")]
    read = [source.included or _data(source, published)["@id"] for source in published.sources]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{citation.title}: study {published.study.name}",
        "description": origins.about(published),
        "datePublished": day.isoformat(),
        "license": {"@id": citation.licence_url},
        "author": _references(map(_id, citation.authors)),
        "conformsTo": {"@id": PROFILE},
        "hasPart": _references(entity["@id"] for entity in entries),
        "mentions": _references([RUN, *(entity["@id"] for entity in data)]),
        "mainEntity": {"@id": "index.html"},
    }
    licence = {
        "@id": citation.licence_url,
        "@type": "CreativeWork",
        "name": citation.licence,
        "description": f"The licence {citation.licence} of the SPDX list",
    }
    profile = {
        "@id": PROFILE,
        "@type": "CreativeWork",
        "name": "Process Run Crate",
        "version": PROFILE.rpartition("/")[2],
    }
    authors = [_author(author) for author in citation.authors]
    run = {
        "@id": RUN,
        "@type": "CreateAction",
        "name": f"plfl study {CONFIGURATION}",
        "description": "The run of the study that made these files",
        "instrument": {"@id": PLFL},
        "agent": {"@id": _id(citation.authors[0])},
        "object": _references([CONFIGURATION, *read]),
        "result": _references(name for name in made if name != CONFIGURATION),
    }
    return [root, licence, profile, *authors, run, *_software(published), *entries, *data]


def _descriptor() -> Entity:
    return {
        "@id": NAME,
        "@type": "CreativeWork",
        "conformsTo": {"@id": SPECIFICATION},
        "about": {"@id": "./"},
    }


def _file(folder: Path, path: Path, published: Published) -> Entity:
    name = path.relative_to(folder).as_posix()
    entity = {
        "@id": name,
        "@type": "File",
        "name": name,
        "description": described(path.name, published) or _by_place(name, published),
        "encodingFormat": media_type(path),
        "contentSize": str(path.stat().st_size),
        "sha256": sha256(path),
    }
    licence = origins.of(published.study).licence if name.startswith("data/") else None
    return entity | ({"license": {"@id": licence}} if licence else {})


def _by_place(name: str, published: Published) -> str:
    if name.startswith("figures/"):
        return f"figure {Path(name).stem}, see the report"
    if name.startswith("data/"):
        return f"data that the study read: {origins.of(published.study).text}"
    return "trained models" if name.endswith(".safetensors") else Path(name).name


def _data(source: Source, published: Published) -> Entity:
    """A file that the study read and that is not in the crate."""
    origin = origins.of(published.study)
    entity = {
        "@id": origins.address(source, published.study) or f"#{source.path}",
        "@type": "CreativeWork",
        "name": Path(source.path).name,
        "description": f"read by the study, not included: {origin.text}",
        "sha256": source.sha256,
    }
    return entity | ({"license": {"@id": origin.licence}} if origin.licence else {})


def _software(published: Published) -> list[Entity]:
    """plfl, and what it ran with."""
    about = published.about
    versions: dict[str, str] = about.get("versions", {})
    own = {
        "@id": PLFL,
        "@type": "SoftwareApplication",
        "name": "plfl",
        "url": "https://arxiv.org/abs/2404.01517",
        "description": "Benchmark harness for personalised federated load forecasting"
        + (f", commit {about['git']}" if about.get("git") else ""),
        "softwareVersion": about["version"],
        "license": {"@id": "https://spdx.org/licenses/MIT"},
        "softwareRequirements": _references(map(_package, versions.items())),
    }
    mit = {"@id": "https://spdx.org/licenses/MIT", "@type": "CreativeWork", "name": "MIT"}
    others = [
        {
            "@id": _package((name, number)),
            "@type": "SoftwareApplication",
            "name": name,
            "softwareVersion": number,
            "url": _package((name, number)),
        }
        for name, number in versions.items()
    ]
    return [own, mit, *others]


def _package(version: tuple[str, str]) -> str:
    """The address of a version of a package of Python, or of Python itself."""
    name, number = version
    public = number.partition("+")[0]  # without the kind of build
    if name == "python":
        return f"https://docs.python.org/release/{public}/"
    return f"https://pypi.org/project/{name}/{public}/"


def _author(author: Author) -> Entity:
    entity = {
        "@id": _id(author),
        "@type": "Person" if author.is_person else "Organization",
        "name": author.name,
    }
    return entity | ({"affiliation": author.affiliation} if author.affiliation else {})


def _id(author: Author) -> str:
    return author.url or f"#{author.name.replace(' ', '-')}"


def _references(ids: Iterable[str]) -> list[Entity] | Entity:
    """References to entities; a single one is no list, as RO-Crate recommends."""
    references = [{"@id": name} for name in ids]
    return references[0] if len(references) == 1 else references


def media_type(path: Path) -> str:
    """The media type of a file, by its suffix."""
    known = MEDIA.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    return known or "application/octet-stream"

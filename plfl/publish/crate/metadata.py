"""The metadata of a crate: `ro-crate-metadata.json`, as RO-Crate 1.1 defines it."""

import json
from datetime import date
from pathlib import Path
from typing import Any

from plfl.base.files import write_text
from plfl.publish.crate.citation import Citation
from plfl.publish.crate.contents import CONFIGURATION, Published, address, entries

NAME = "ro-crate-metadata.json"
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
"""The profile Process Run Crate: which software made which files from which others."""
CONTEXT = [f"{SPECIFICATION}/context", {"sha256": "https://schema.org/sha256"}]
MIT = "https://spdx.org/licenses/MIT"

Reference = dict[str, str]


class Graph:
    """The entities of a crate."""

    def __init__(self) -> None:
        """Begin without entities."""
        self.entities: dict[str, dict[str, Any]] = {}

    def add(self, name: str, kind: str, /, **properties: Any) -> Reference:
        """Add an entity, once for each name, without empty properties.

        A list of one element is replaced by the element, as RO-Crate recommends.

        Returns:
            A reference to it.
        """
        single = {
            key: value[0] if isinstance(value, list) and len(value) == 1 else value
            for key, value in properties.items()
            if value
        }
        self.entities[name] = {"@id": name, "@type": kind, **single}
        return {"@id": name}


def write(folder: Path, published: Published, citation: Citation, day: date) -> None:
    """Describe all files of a crate in its `ro-crate-metadata.json`."""
    graph = Graph()
    graph.add(NAME, "CreativeWork", conformsTo={"@id": SPECIFICATION}, about={"@id": "./"})
    text = f"The licence {citation.license} of the SPDX list"
    licence = graph.add(
        citation.licence_url, "CreativeWork", name=citation.license, description=text
    )
    profile = {"name": "Process Run Crate", "version": PROFILE.rpartition("/")[2]}
    authors = [
        graph.add(
            author.url or f"#{author.name.replace(' ', '-')}",
            "Person" if author.is_person else "Organization",
            name=author.name,
            affiliation=author.affiliation,
        )
        for author in citation.authors
    ]
    made, data = _files(graph, folder, published)
    given = [file for file in made if file["@id"] == CONFIGURATION or file["@id"].endswith(".py")]
    run = graph.add(
        "#run",
        "CreateAction",
        name=f"plfl study {CONFIGURATION}",
        description="The run of the study that made these files",
        instrument=_software(graph, published.about),
        agent=authors[0],
        object=[*given, *data],
        result=[file for file in made if file not in given],
    )
    parts = [*made, *(file for file in data if _is_included(file))]
    graph.add(
        "./",
        "Dataset",
        name=f"{citation.title}: study {published.study.name}",
        description=published.summary,
        datePublished=day.isoformat(),
        license=licence,
        author=authors,
        conformsTo=graph.add(PROFILE, "CreativeWork", **profile),
        hasPart=parts,
        mentions=[run, *(file for file in data if not _is_included(file))],
        mainEntity={"@id": "index.html"},
    )
    document = {"@context": CONTEXT, "@graph": list(graph.entities.values())}
    write_text(folder / NAME, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _is_included(data: Reference) -> bool:
    return data["@id"].startswith("data/")


def _files(
    graph: Graph, folder: Path, published: Published
) -> tuple[list[Reference], list[Reference]]:
    """The files that the run made, and those that it read."""
    origin = published.study.data.rules.origin
    licence = {}
    if origin.licence:
        name = Path(origin.licence).name
        licence = {"license": graph.add(origin.licence, "CreativeWork", name=name)}
    files = {
        entry.name: graph.add(
            entry.name,
            "File",
            name=entry.name,
            description=entry.description,
            encodingFormat=entry.media_type,
            contentSize=str(entry.size),
            sha256=entry.sha256,
            **(licence if entry.name.startswith("data/") else {}),
        )
        for entry in entries(folder, published)
    }
    data = [
        files[source.included]
        if source.included
        else graph.add(
            address(source.path, published.study) or f"#{source.path}",
            "CreativeWork",
            name=Path(source.path).name,
            description=f"read by the study, not included: {origin.text}",
            sha256=source.sha256,
            **licence,
        )
        for source in published.sources
    ]
    return [file for file in files.values() if not _is_included(file)], data


def _software(graph: Graph, about: dict[str, Any]) -> Reference:
    """plfl, and the software that it ran with."""
    commit = f", commit {about['git']}" if about.get("git") else ""
    packages = []
    for name, number in about.get("versions", {}).items():
        public = number.partition("+")[0]  # without the kind of build
        url = f"https://pypi.org/project/{name}/{public}/"
        if name == "python":
            url = f"https://docs.python.org/release/{public}/"
        described = {"name": name, "softwareVersion": number, "url": url}
        packages.append(graph.add(url, "SoftwareApplication", **described))
    return graph.add(
        "#plfl",
        "SoftwareApplication",
        name="plfl",
        url="https://arxiv.org/abs/2404.01517",
        description=f"Benchmark harness for personalised federated load forecasting{commit}",
        softwareVersion=about["version"],
        license=graph.add(MIT, "CreativeWork", name="MIT"),
        softwareRequirements=packages,
    )

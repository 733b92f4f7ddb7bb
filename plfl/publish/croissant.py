"""The tables of a study and the data that it read, as Croissant 1.0 describes them.

See https://docs.mlcommons.org/croissant/docs/croissant-spec.html. Libraries for machine learning
load the tables from this description.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plfl.files import atomic, sha256
from plfl.publish import origins
from plfl.publish.citation import Citation
from plfl.publish.contents import Published, Source, described, files
from plfl.publish.crate import media_type

NAME = "croissant.json"
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "equivalentProperty": "cr:equivalentProperty",
    "samplingRate": "cr:samplingRate",
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification prescribes."""


def write(folder: Path, published: Published, citation: Citation, day: date) -> None:
    """Describe the tables of a crate, and the files that the study read, in `croissant.json`.

    Args:
        folder: the crate, complete but for its checksums and metadata.
        published: what its files say about the study.
        citation: authors and licence.
        day: the date of publication.
    """
    study, origin = published.study, origins.of(published.study)
    tables = [path for path in files(folder) if _of_study(folder, path)]
    authors = [
        {"@type": "sc:Person" if author.is_person else "sc:Organization", "name": author.name}
        for author in citation.authors
    ]
    document = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": re.sub(r"[^\w-]", "-", study.name),
        "description": origins.about(published),
        "conformsTo": [
            "http://mlcommons.org/croissant/1.0",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "url": citation.url or "./",
        "citeAs": _cite(citation, day),
        "creator": authors,
        "datePublished": day.isoformat(),
        "license": citation.licence_url,
        "version": "1.0.0",
        "rai:dataCollection": f"The study read {origin.text}."
        + (f" See {origin.citation}." if origin.citation else ""),
        "rai:dataCollectionType": origin.kind,
        "distribution": [
            *(_table(folder, path, published) for path in tables),
            *(_source(source, published) for source in published.sources),
        ],
        "recordSet": [_records(folder, path, published) for path in tables],
    }
    with atomic(folder / NAME) as temporary:
        text = json.dumps(document, indent=1, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def _cite(citation: Citation, day: date) -> str:
    names = ", ".join(author.name for author in citation.authors)
    return f"{names} ({day.year}): {citation.title}"


def _of_study(folder: Path, path: Path) -> bool:
    """Whether a file is a table of the study, not one that it read."""
    return path.suffix == ".parquet" and path.relative_to(folder).parts[0] != "data"


def _table(folder: Path, path: Path, published: Published) -> dict[str, Any]:
    name = path.relative_to(folder).as_posix()
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "description": described(path.name, published),
        "contentUrl": name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": sha256(path),
    }


def _source(source: Source, published: Published) -> dict[str, Any]:
    address = source.included or origins.address(source, published.study)
    where = "" if address else " Its owner keeps it; the address is that on the owner's machine."
    path = Path(source.path)
    kind = "application/x-parquet" if path.suffix == ".parquet" else media_type(path)
    return {
        "@type": "cr:FileObject",
        "@id": f"data:{source.path}",
        "name": path.name,
        "description": f"Read by the study: {origins.of(published.study).text}.{where}",
        "contentUrl": address or source.path,
        "encodingFormat": kind,
        "sha256": source.sha256,
    }


def _records(folder: Path, path: Path, published: Published) -> dict[str, Any]:
    """The columns of a table."""
    name = path.relative_to(folder).as_posix()
    key = name.removesuffix(".parquet")
    return {
        "@type": "cr:RecordSet",
        "@id": key,
        "name": key,
        "description": described(path.name, published),
        "field": list(_fields(key, name, pq.read_schema(path))),
    }


def _fields(key: str, name: str, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    for column in schema:
        yield {
            "@type": "cr:Field",
            "@id": f"{key}/{column.name}",
            "name": column.name,
            "dataType": _type(column.type),
            "source": {"fileObject": {"@id": name}, "extract": {"column": column.name}},
        }


def _type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:DateTime" if pa.types.is_timestamp(kind) else "sc:Text"

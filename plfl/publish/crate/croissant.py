"""The tables of a study and the data that it read, as Croissant 1.0 describes them.

See https://docs.mlcommons.org/croissant/docs/croissant-spec.html. Libraries for machine learning
load the tables from this description.
"""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from plfl.base.files import write_text
from plfl.publish.crate.citation import Citation
from plfl.publish.crate.contents import Entry, Published, Source, address, entries, media_type
from plfl.results.records import schema

NAME = "croissant.json"
_TERMS = (
    "citeAs column equivalentProperty samplingRate extract field fileProperty fileObject fileSet "
    "format includes isLiveDataset jsonPath key md5 parentField path recordSet references regex "
    "repeated replace separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
"""The context that the specification prescribes."""
_PARQUET = "application/x-parquet"
"""The media type of Parquet in Croissant."""


def write(folder: Path, published: Published, citation: Citation, day: date) -> None:
    """Describe the tables of a crate, and the files that the study read, in `croissant.json`."""
    study, origin = published.study, published.study.data.rules.origin
    tables = [
        entry
        for entry in entries(folder, published)
        if entry.path.suffix == ".parquet" and not entry.name.startswith("data/")
    ]
    names = ", ".join(author.name for author in citation.authors)
    document = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": re.sub(r"[^\w-]", "-", study.name),
        "description": published.summary,
        "conformsTo": [
            "http://mlcommons.org/croissant/1.0",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "url": citation.url or "./",
        "citeAs": f"{names} ({day.year}): {citation.title}",
        "creator": [
            {"@type": "sc:Person" if author.is_person else "sc:Organization", "name": author.name}
            for author in citation.authors
        ],
        "datePublished": day.isoformat(),
        "license": citation.licence_url,
        "version": "1.0.0",
        "rai:dataCollection": f"The study read {origin.text}."
        + (f" See {origin.citation}." if origin.citation else ""),
        "rai:dataCollectionType": origin.kind,
        "distribution": [
            *map(_table, tables),
            *(_source(source, published) for source in published.sources),
        ],
        "recordSet": list(map(_records, tables)),
    }
    write_text(folder / NAME, json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _table(entry: Entry) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": entry.name,
        "name": entry.name,
        "description": entry.description,
        "contentUrl": entry.name,
        "contentSize": f"{entry.size} B",
        "encodingFormat": _PARQUET,
        "sha256": entry.sha256,
    }


def _source(source: Source, published: Published) -> dict[str, Any]:
    """A file that the study read."""
    url = source.included or address(source.path, published.study)
    where = "" if url else " Its owner keeps it; the address is that on the owner's machine."
    path = Path(source.path)
    return {
        "@type": "cr:FileObject",
        "@id": f"data:{source.path}",
        "name": path.name,
        "description": f"Read by the study: {published.study.data.rules.origin.text}.{where}",
        "contentUrl": url or source.path,
        "encodingFormat": _PARQUET if path.suffix == ".parquet" else media_type(path),
        "sha256": source.sha256,
    }


def _records(entry: Entry) -> dict[str, Any]:
    """The columns of a table."""
    key = entry.name.removesuffix(".parquet")
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{key}/{column.name}",
            "name": column.name,
            "dataType": _type(column.type),
            "source": {"fileObject": {"@id": entry.name}, "extract": {"column": column.name}},
        }
        for column in schema(entry.path)
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": key,
        "name": key,
        "description": entry.description,
        "field": fields,
    }


def _type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "sc:Boolean"
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:DateTime" if pa.types.is_timestamp(kind) else "sc:Text"

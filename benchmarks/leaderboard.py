"""Writes docs/leaderboard.md and leaderboard/croissant.json from the tasks and their leaderboards.

    python -m benchmarks.leaderboard [verified]

With `verified`, all rows without predictions are listed anew as they are, in
leaderboard/predictions/verified.csv: for maintainers, after a change of names that they have read.
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd

from plfl import __version__
from plfl.base.files import sha256, write_text
from plfl.outside import submissions
from plfl.outside.frozen import BenchmarkTask, open_task

ROOT = Path(__file__).resolve().parents[1]
SHOWN = 3
"""Rows of a leaderboard on the page, besides the best that exchanges nothing."""
INTRODUCTION = """# Leaderboard

A *task* is a question whose data, test sets, seeds and budget never change.
[Your own loop](benchmark.md#4-add-a-row) says how to submit a row,
[Measured meters](measured-meters.md#from-the-originals) where the data come from (`plfl data fetch
TASK`). `plfl leaderboard check` scores kept predictions again, `plfl leaderboard table` compares
methods over tasks. Scores of different versions of a task cannot be compared. `python -m
benchmarks.leaderboard` wrote this page.

Score: MASE, the [CRPS](scores.md) of quantiles in its place (`scaled_crps`), or the fraction of
wrong labels (`error`), with a 95 % interval over clients, weeks and seeds. *sums*: of gradients,
from which [trees](baselines.md#federated-trees) grow. Bytes: sent + received by a client in all
its training, a mean over clients; –: not counted. *all*: all parameters are shared (P1). *unseen*:
clients that receive the model of others; *trials*: settings that are compared on validation. The
tables have the three best rows and, if it is not among them, the best that exchanges nothing; the
CSV files have all rows with their commands. Seasons, seeds and trials are those of the task, so
scores and bytes differ from those of the [map](map.md).
"""
_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated "
    "replace samplingRate separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
"""The terms of Croissant 1.0."""
NUMBERS = {"score", "low", "high", "wape", "scaled_crps", "bytes_up", "bytes_down"}


def repository() -> str:
    """The address of the repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"])


def boards() -> list[tuple[BenchmarkTask, pd.DataFrame | None]]:
    """Every task with its leaderboard, if it has one."""
    boards = []
    for path in sorted((ROOT / "tasks").glob("*.yaml")):
        task = open_task(path)[1]
        assert task is not None
        file = ROOT / "leaderboard" / f"{task.name}.csv"
        board = pd.read_csv(file, keep_default_na=False, dtype=str) if file.exists() else None
        boards.append((task, board))
    return boards


def page() -> str:
    """The text of docs/leaderboard.md."""
    parts = [INTRODUCTION]
    for task, board in boards():
        budget = f"{task.trials} trials" + (f", {task.bytes:,} bytes" if task.bytes else "")
        seeds = f"seeds {', '.join(map(str, task.seeds))}"
        version = f"[Version {task.version}](../tasks/{task.name}.yaml)"
        about = f"{task.question} {version}, {seeds}; {budget}."
        if task.digest is None:
            about += (
                " A draft without rows: its data, in a bucket of NREL, could not be reached here."
            )
        parts.append(f"## {task.name}\n\n{about}\n")
        if board is None:
            parts.append("No rows yet.\n")
            continue
        alone = board.index[board["exchanged"] == "nothing"][:1]
        rows = board.loc[sorted({*board.index[:SHOWN], *alone})]
        head = f"| rank and method ({len(board)} in all) | {task.metric} | exchanged | bytes |"
        lines = [head, "|---|---|---|---|"]
        for place, row in rows.iterrows():
            score, low, high = (f"{float(row[name]):.3f}" for name in ("score", "low", "high"))
            sent = [
                f"{float(row[way]):,.0f}" if row[way] else "–" for way in ("bytes_up", "bytes_down")
            ]
            lines.append(
                f"| {int(str(place)) + 1}. {row['method']} | {score} [{low}, {high}] | "
                f"{row['exchanged']} | {' + '.join(sent)} |"
            )
        parts.append("\n".join(lines) + f"\n\n[All rows](../leaderboard/{task.name}.csv)\n")
    return "\n".join(parts)


def croissant() -> dict[str, Any]:
    """The leaderboards as Croissant describes tables."""
    files, records = [], []
    for task, board in boards():
        if board is None:
            continue
        name = f"{task.name}.csv"
        about = {"name": task.name, "description": f"{task.question} Version {task.version}."}
        digest = sha256(ROOT / "leaderboard" / name)
        file = {"contentUrl": name, "encodingFormat": "text/csv", "sha256": digest}
        files.append({"@type": "cr:FileObject", "@id": name, **about, **file})
        fields = [
            {
                "@type": "cr:Field",
                "@id": f"{task.name}/{column}",
                "name": column,
                "dataType": "sc:Float" if column in NUMBERS else "sc:Text",
                "source": {"fileObject": {"@id": name}, "extract": {"column": column}},
            }
            for column in board
        ]
        records.append({"@type": "cr:RecordSet", "@id": task.name, **about, "field": fields})
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": "plfl-leaderboards",
        "description": "Scores of forecasters and classifiers on the frozen tasks of plfl.",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "url": f"{repository()}/tree/main/leaderboard",
        "citeAs": f"The plfl developers (2026): plfl, version {__version__}",
        "creator": [{"@type": "sc:Organization", "name": "The plfl developers"}],
        "datePublished": "2026-11-25",
        "license": "https://spdx.org/licenses/MIT",
        "version": "1.0.0",
        "distribution": files,
        "recordSet": records,
    }


def list_verified() -> None:
    """Write the digests of all rows whose predictions are not kept."""
    (ROOT / "leaderboard" / submissions.VERIFIED_TABLE).unlink()
    for task, board in boards():
        file = ROOT / "leaderboard" / f"{task.name}.csv"
        rows = [] if board is None else board.to_dict("records")
        values = [{str(column): value for column, value in row.items()} for row in rows]
        kept = [submissions.find_kept(file, str(row["predictions"])) for row in values]
        listed = [row for row, path in zip(values, kept, strict=True) if path is None]
        submissions.note_verified(listed, task.name, file)


if __name__ == "__main__":
    if sys.argv[1:] == ["verified"]:
        list_verified()
    write_text(ROOT / "docs" / "leaderboard.md", page())
    text = json.dumps(croissant(), indent=1, ensure_ascii=False)
    write_text(ROOT / "leaderboard" / "croissant.json", f"{text}\n")

"""The description of the leaderboards is what MLCommons' own library reads."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "leaderboard" / "croissant.json"


@pytest.fixture(scope="module")
def described() -> Any:
    return mlcroissant.Dataset(jsonld=str(FILE))  # raises on errors


def test_the_description_is_valid_and_complete(described: Any) -> None:
    issues = described.metadata.ctx.issues
    assert not issues.errors and not issues.warnings, issues.report()
    assert described.metadata.url.endswith("/tree/main/leaderboard")
    boards = {path.stem for path in FILE.parent.glob("*.csv")}
    assert {record.name for record in described.metadata.record_sets} == boards


def test_records_are_the_rows_of_the_files(described: Any) -> None:
    board = pd.read_csv(FILE.parent / "sample.csv", keep_default_na=False)
    records = pd.DataFrame(described.records(record_set="sample"))
    assert len(records) == len(board)
    assert [name.decode() for name in records["sample/method"]] == board["method"].tolist()
    assert records["sample/score"].tolist() == board["score"].tolist()


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    """The digests are those of the files."""
    text = json.loads(FILE.read_text(encoding="utf-8"))
    for file in text["distribution"]:
        content = (FILE.parent / file["contentUrl"]).read_bytes()
        (tmp_path / file["contentUrl"]).write_bytes(content + b" ")
    (tmp_path / FILE.name).write_text(json.dumps(text), encoding="utf-8")
    changed = mlcroissant.Dataset(jsonld=str(tmp_path / FILE.name))
    with pytest.raises(Exception, match=r"sample\.csv") as error:
        list(changed.records(record_set="sample"))
    reasons, cause = "", error.value.__cause__ or error.value.__context__
    while cause is not None:
        reasons, cause = reasons + str(cause).lower(), cause.__cause__ or cause.__context__
    assert "hash" in reasons or "sha256" in reasons or "checksum" in reasons

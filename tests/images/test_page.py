"""A small study of classifiers, from its cells to its tables, figures and page."""

import json
from pathlib import Path

import pandas as pd
import pytest

from plfl.base.files import write_text
from plfl.config.claims import Claim
from plfl.experiments.scoring import scoring_of
from plfl.experiments.train import train
from plfl.report import reporting
from plfl.results.collect import JobFiles, collect
from plfl.results.records import BaselineFiles, RecordFiles
from plfl_images.report import page, paper
from plfl_images.report.figures import render_all
from tests.helpers.image_studies import make_images, make_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    named = Claim(better=["all-fedadc-global"], than=["all-fedopt-global"])
    study = make_study(grid={"method": ["fedopt", "fedadc"], "seeds": [0, 1]})
    study = study.model_copy(update={"claims": [named]})
    data = make_images(study)
    data.pool.save(folder / "pool.npz")
    cells = {}
    for cell, result in train(study, study.cells, data).items():
        cells[cell] = RecordFiles.in_folder(folder, str(cell))
        result.write(cells[cell], "digest")
    baselines = RecordFiles.in_folder(folder, "baselines.of")
    tables = scoring_of(study).baselines(study, "digits", folder / "pool.npz")
    tables.write(BaselineFiles(*baselines, folder / "fitted"))
    receipt = folder / "digits.files.json"
    write_text(receipt, json.dumps({"source": "digits", "files": {}}))
    pool = {"digits": folder / "pool.npz"}
    files = JobFiles(cells, [baselines], pool, {"digits": receipt})
    collect(study, files, folder, None, scoring_of(study).collect)
    return folder


def test_tables(folder: Path) -> None:
    summary = pd.read_csv(folder / "summary.csv")
    assert len(summary) == 2 * 2 * 2  # methods, seeds, models
    assert summary["accuracy"].between(0, 1).all()
    clients = pd.read_parquet(folder / "clients.parquet")
    assert clients.groupby("seed")["images"].sum().tolist() == [200, 200]
    baselines = pd.read_parquet(folder / "baselines.parquet")
    majority = baselines.query("baseline == 'majority' and split == 'test'")
    assert majority["error"].mean() == pytest.approx(0.9)
    pooled = baselines.query("baseline == 'logistic_pooled' and split == 'test'")
    assert pooled["error"].mean() < 0.9


def test_the_page_shows_standings_claims_and_figures(folder: Path) -> None:
    assert list(render_all(folder, folder)) == list(
        reporting.reporting_of(make_study()).captions(make_study())
    )
    page.write(folder, folder, folder / "index.html")
    text = (folder / "index.html").read_text(encoding="utf-8")
    for shown in ("FedADC", "FedAvg", "logistic pooled", "(c1)", "FedADC is more accurate"):
        assert shown in text
    assert text.count("<img") == 2
    assert "MASE" not in text


def test_the_column_of_the_paper() -> None:
    column = paper.column_of(make_study(federation={"participation": 0.2}))
    assert column is not None
    assert column.title == "CIFAR-10, s = 2, C = 0.2"
    assert column.find_accuracy("fedadc_plus", "fedavg") == (81.42, 0.35)
    assert column.find_accuracy("fedadc_plus", "slowmo") is None
    assert paper.column_of(make_study(federation={"participation": 0.3})) is None
    # FedRS was trained on CIFAR-10 only.
    assert [len(column.accuracy) for column in paper.PUBLISHED_COLUMNS] == [9, 9, 8, 8, 8, 8]

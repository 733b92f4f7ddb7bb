"""The table of the map: the range of a site that took no part, the public rows and their models."""

import re
import shutil

import pandas as pd
import pytest
from scipy.stats import t

from benchmarks import map_public, starter
from benchmarks.map import ROOT, predict_new_site
from benchmarks.map_public import train_models
from benchmarks.public import TABLES, kind_of
from benchmarks.starter import Booster, shipped, write_shipped
from plfl.baselines.public import Public
from plfl.outside.score import score
from plfl.public.models import file_of
from plfl.public.packing import unpack
from plfl.study import Study
from tests.helpers.projects import OWN_DATA


def test_the_range_of_a_new_site_is_that_of_a_prediction() -> None:
    leads = {"fox": 0.10, "panther": 0.14, "bear": 0.08, "new seasons": 9.0, "all": 9.0}
    common = {"study": "map", "weeks": 4, "way": "combined"}
    rows = [{"site": site, "lead": lead, **common} for site, lead in leads.items()]
    rows.append({"site": "all", "lead": 0.12, **common, "study": "map-cambridge"})
    rows.append({"site": "all", "lead": 9.0, **common, "study": "map-cambridge", "weeks": 1})
    (told,) = predict_new_site(pd.DataFrame(rows)).to_dict("records")
    # By hand: mean 0.11, deviation sqrt(0.002 / 3).
    half = t.isf(0.025, 3) * (0.002 / 3) ** 0.5 * 1.25**0.5
    assert (told["lead"], told["high"]) == (pytest.approx(0.11), pytest.approx(0.11 + half))
    assert told["low"] == pytest.approx(0.11 - half)
    assert len(predict_new_site(pd.DataFrame(rows[:3]))) == 0


def test_models_for_a_row_are_trained_if_their_tables_are_there(tmp_path, monkeypatch):
    trained: list[list[str]] = []
    monkeypatch.setattr(starter, "main", trained.append)
    data, models = tmp_path / "data", tmp_path / "models"
    sydney = data / TABLES["sydney"]
    assert train_models(["london"], data, models) == [str(sydney)]
    sydney.parent.mkdir(parents=True)
    sydney.touch()
    assert train_models(["london"], data, models) == []
    assert trained == [[str(data), str(models), "--without", "london"]]
    models.mkdir()
    (models / "without-london.xz").touch()
    assert train_models(["london"], data, models) == []
    assert len(trained) == 1


def test_forecasts_of_quantiles_are_those_that_are_scored(tmp_path, write_study):
    task = {"name": "quantiles", "levels": [0.1, 0.5, 0.9]}
    study = Study.load(
        write_study(data=OWN_DATA | {"origins": ["2024-03-04"]}, task=task, days=100)
    )
    for state in study.data.states:
        shutil.copy(file_of("buildings"), tmp_path / f"without-{state}.xz")
    rows = map_public.predictions(study, tmp_path, "buildings")
    assert (rows["forecast"] == rows["forecast_50"]).all()
    assert (rows["forecast_10"] < rows["forecast_90"]).any()
    rows.to_parquet(tmp_path / "rows.parquet")
    scored = score(study, tmp_path / "rows.parquet", metric="scaled_crps", with_rivals=False)
    assert 0 < scored.own_row["scaled_crps"] < scored.own_row["mase"]


def test_models_are_made_for_studies_that_list_the_public_one(tmp_path, monkeypatch):
    trained = []

    def train(states, data, models):
        trained.append(states)
        return ["a table that is missing"]

    monkeypatch.setattr(map_public, "train_models", train)
    options = ["channel-meters", "map-size", "--data", "data", "--out", str(tmp_path / "out.csv")]
    monkeypatch.setattr("sys.argv", ["map_public", str(tmp_path), *options])
    map_public.main()
    assert trained == [["fox", "panther", "bear"]]


def test_the_table_of_the_public_model_may_be_in_a_new_folder(tmp_path, monkeypatch):
    row = {"study": "map-homes", "state": "a", "weeks": 1, "mase": 0.75, "wape": 0.25}
    monkeypatch.setattr(map_public, "scores", lambda study, models: pd.DataFrame([row]))
    out = tmp_path / "docs" / "out.csv"
    monkeypatch.setattr("sys.argv", ["map_public", "models", "map-homes", "--out", str(out)])
    map_public.main()
    assert pd.read_csv(out)["mase"].eq(0.75).all()


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("map*.yaml")), ids=lambda f: f.stem)
def test_a_study_of_the_map_lists_a_public_model_of_each_site(file):
    study = Study.load(file)
    public, grown = (b for b in study.baselines.further if isinstance(b, Public))
    assert (public.name, grown.name) == ("public", "lightgbm_on_public")
    assert (grown.kind, grown.file) == (public.kind, public.file)
    files = public.file if isinstance(public.file, list) else [public.file]
    assert [path.stem for path in files] == [f"without-{state}" for state in study.data.states]
    assert public.kind == kind_of(study.data.states[0])


def test_a_starter_model_that_is_made_again_is_recognised(tmp_path, monkeypatch, capsys):
    models, marks = unpack(file_of("homes").read_bytes())
    monkeypatch.setattr(starter, "marks", lambda sites: marks)
    texts = {}
    for name, text in models.items():
        ahead, _, level = name.partition("_")
        texts[Booster(shipped("homes"), ahead, int(level) / 100)] = text
    write_shipped("homes", texts, tmp_path)
    assert (tmp_path / "homes.xz").read_bytes() == file_of("homes").read_bytes()
    booster = next(iter(texts))
    write_shipped("homes", {booster: texts[booster]}, tmp_path)
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("bytes, the file that comes with plfl")
    assert second.endswith("bytes, not the file that comes with plfl")


def test_the_gains_over_the_public_model_are_those_of_the_tables():
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    begin = text.index("**A federation against the public model alone**")
    paragraph = text[begin : text.index("have no interval")]
    ways = pd.read_csv(ROOT / "docs" / "map.csv").query("site == 'all' and in_federation.isna()")
    public = pd.read_csv(ROOT / "docs" / "map_public.csv").query("site == 'all'")
    errors = ways.merge(public, on=["study", "weeks"], suffixes=("", "_public"))
    gains = (errors["mase_public"] - errors["mase"]).groupby(
        [errors["weeks"], errors["way"], errors["study"].str.removesuffix("-40")]
    )
    means = gains.first()
    studies = ("map-homes", "map", "map-cambridge")
    wanted = [
        means[weeks, "received" if weeks == 1 else "combined", study]
        for weeks in (1, 4, 16, 40)
        for study in studies
    ]
    numbers = [float(n.replace("−", "-")) for n in re.findall(r"(?:[+−])?\d\.\d{3}", paragraph)]
    assert numbers == pytest.approx(wanted, abs=6e-4)


LABELS = {
    "own": "alone",
    "public": "baseline-public",
    "own and public": "baseline-combined_public",
    "others'": "received",
    "own and others'": "combined",
    "own, others' and public": "baseline-combined_received_public",
    "plain mean of others' trees and public": "baseline-mean_received",
    "others' trees on public": "baseline-lightgbm_on_public",
}
"""Ways by their names in the first table of docs/map.md."""


def test_the_first_table_has_all_ways_with_the_lowest_marked():
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    table = text[text.index("| MASE with") : text.index("*Bold: the lowest")]
    lines = table.strip().splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines]
    errors = pd.read_csv(ROOT / "docs" / "map.csv").query("site == 'all' and in_federation.isna()")
    errors["study"] = errors["study"].str.removesuffix("-40")
    by_week = errors.drop_duplicates(["study", "way", "weeks"]).set_index(["study", "way", "weeks"])
    wanted = [
        by_week["mase"].unstack("weeks").loc[study].loc[list(LABELS.values()), [1, 4, 16, 40]]
        for study in ("map-homes", "map", "map-cambridge")
    ]
    assert [row[0] for row in rows] == [*LABELS] * len(wanted)
    numbers = [float(cell.strip("*")) for row in rows for cell in row[1:]]
    assert numbers == pytest.approx(pd.concat(wanted).to_numpy().ravel(), abs=6e-4)
    marks = [cell.startswith("*") for row in rows for cell in row[1:]]
    assert marks == [mark for site in wanted for mark in (site == site.min()).to_numpy().ravel()]


def test_the_public_rows_by_number_of_others_are_those_of_the_table():
    text = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
    section = text[text.index("## With how many others?") :]
    rows = re.findall(r"^\| \*\*\[public model\].*? \| (.*) \|$", section, re.MULTILINE)
    public = pd.read_csv(ROOT / "docs" / "map_public.csv").query("site == 'all'")
    errors = public.set_index(["study", "weeks"])["mase"]
    sizes = {"map-homes-size": 3, "map-size": 2}
    for row, (study, count) in zip(rows, sizes.items(), strict=True):
        wanted = [errors[study, weeks] for weeks in (1, 4) for _ in range(count)]
        assert [float(cell.strip("*")) for cell in row.split(" | ")] == pytest.approx(
            wanted, abs=6e-4
        )

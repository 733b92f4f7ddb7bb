"""The variants of a study side by side."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import ResultsError
from plfl.config.baselines import BASELINE
from plfl.report import variants_page as page
from plfl.report.figures.style import colour
from plfl.results.overview import Overview, gather, study_of
from plfl.results.tables import Tables
from plfl.study import Study
from plfl.study.forecaster_names import USE_NAMES
from tests.helpers import fake_results
from tests.helpers.fake_results import plausible
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT

STATES = ("CA", "NY")
CONFIG = {
    "name": "swept",
    "data": {"states": list(STATES), "clients": 3, "source": "sample"},
    "grid": {
        "client_opt": ["adam", "sgd"],
        "server_opt": ["fedavg"],
        "method": ["fedopt", "scaffold"],
        "seeds": [1, 2],
        "refused": "skip",
        "federation.batch_size": [8, 16],
        "model": {"lstm_mlp": {"name": "lstm_mlp"}, "gru": {"name": "gru"}},
    },
    "federation": {"rounds": 4, "evaluate_every": 2},
}
PLACE = ["federation.batch_size", "model.*"]


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A study whose variants have synthetic results, with `results` in the current folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("swept"))
        study = Study.parse(CONFIG, "swept")
        # One variant is better than the others.
        factors = dict.fromkeys(study.variants, 1.0) | {"batch_size=16,model=gru": 0.5}
        for label, variant in study.variants.items():
            fake_results.write(
                variant.paths.results,
                variant.description(),
                lambda *cell, by=factors[label]: by * plausible(*cell),
            )
            summary = pd.read_csv(variant.paths.results / "summary.csv")
            scores = {"scaled_crps_mean": summary["mase_mean"] / 2, "coverage_90_mean": 0.9}
            summary.assign(**scores).to_csv(variant.paths.results / "summary.csv", index=False)
            baselines = pd.read_parquet(variant.paths.results / "baselines.parquet")
            scores = {"scaled_crps": baselines["mase"] / 3, "coverage_90": 0.8}
            baselines.assign(**scores).to_parquet(variant.paths.results / "baselines.parquet")
        gather(study, study.paths.results, "0123abc")
        page.illustrate(study.paths.results, study.paths.figures)
        page.write(study.paths.results, study.paths.figures, study.paths.results / "index.html")
        yield study


def test_all_rows_of_all_variants_are_there(gathered: Study) -> None:
    for name, read in (("records.parquet", pd.read_parquet), ("summary.csv", pd.read_csv)):
        whole = read(gathered.paths.results / name)
        assert list(whole.columns[:3]) == ["variant", *PLACE]
        for label, variant in gathered.variants.items():
            part = whole[whole["variant"] == label].drop(columns=["variant", *PLACE])
            own = read(variant.paths.results / name)
            pd.testing.assert_frame_equal(part.reset_index(drop=True), own, check_dtype=False)


def test_best_cells_are_those_of_each_variant(gathered: Study) -> None:
    best = Overview(gathered.paths.results).table("best.csv")
    label = "batch_size=8,model=gru"
    tables = Tables(gathered.variants[label].paths.results)
    for state in STATES:
        cell = tables.best("local", state=state, sharing="P2", method="scaffold")
        assert cell is not None
        keys = (label, state, "P2", "scaffold", "local")
        columns = ["variant", "state", "sharing", "method", "model"]
        (row,) = best.set_index(columns).loc[[keys]].to_dict("records")
        assert row["cell"] == str(cell).rpartition("-")[0]
        own = {"state": state, "sharing": "P2", "method": "scaffold", "model": "local"}
        own |= {"client_opt": cell.client_opt}
        scores = tables.records(["mase"], split="test", round=4, **own)["mase"]
        assert row["mase"] == pytest.approx(scores.mean(), rel=1e-5)
        assert row["low"] <= row["mase"] <= row["high"]
        traffic = tables.records(["bytes_down", "bytes_up"], split="train", **own)
        assert row["bytes"] == traffic.to_numpy().sum() / 2  # two seeds
        assert (row["federation.batch_size"], row["model.*"]) == ("8", "gru")
    # Without a server, methods are one training, and so are local and global models.
    alone = best[(best["sharing"] == "P3") & (best["variant"] == label)]
    assert alone[["method", "model"]].drop_duplicates().to_numpy().tolist() == [["fedopt", "local"]]
    assert (best.groupby("variant")["method"].apply(lambda m: "lightgbm" in set(m))).all()


def test_best_cells_have_the_scores_of_their_intervals(gathered: Study) -> None:
    best = Overview(gathered.paths.results).table("best.csv")
    best = best[best["variant"] == "batch_size=8,model=gru"]
    best = best[~best["sharing"].isin(USE_NAMES)]  # these synthetic records have no intervals
    is_baseline = best["sharing"] == "baseline"
    crps = best["mase"] / np.where(is_baseline, 3, 2)
    np.testing.assert_allclose(best["scaled_crps"], crps, rtol=1e-3)
    assert (best["coverage_90"] == np.where(is_baseline, 0.8, 0.9)).all()
    written = (gathered.paths.results / "index.html").read_text("utf-8")
    assert ">CRPS</th>" in written and ">Coverage, 90 %</th>" in written


def effects(folder: Path) -> pd.DataFrame:
    table = Overview(folder).comparisons
    return table[table["about"] == "axis"]


def test_an_effect_is_the_mean_difference_of_the_best_cells(gathered: Study) -> None:
    found = effects(gathered.paths.results)
    rows = found[(found["place"] == "batch size 16")]
    # P1, P2 with two methods and two models, P3 with one of each
    assert len(rows) == 2 * 2 * 2 + 1
    assert rows["text"].str.startswith("model gru instead of model lstm mlp: ").all()
    np.testing.assert_allclose(
        rows["difference"], rows["error_than"] - rows["error"], rtol=1e-3, atol=1e-5
    )
    assert (rows["difference"] > 0).all()
    # Only variants that differ in one axis are compared, in both directions of the square.
    assert len(found) == 4 * len(rows)


def test_the_page_shows_every_variant(gathered: Study) -> None:
    text = (gathered.paths.results / "index.html").read_text(encoding="utf-8")
    for label in gathered.variants:
        assert label in text
    assert "Sample data" in text
    assert "batch size 16 instead of batch size 8" in text
    assert "model gru instead of model lstm mlp" in text
    assert "<img" in text
    page.write(
        gathered.paths.results, gathered.paths.figures, gathered.paths.results / "twice.html"
    )
    assert (gathered.paths.results / "twice.html").read_text(encoding="utf-8") == text
    # A variant with a page of its own is linked.
    own = gathered.variants["batch_size=8,model=gru"].paths.results / "index.html"
    own.write_text("the page")
    page.write(
        gathered.paths.results, gathered.paths.figures, gathered.paths.results / "twice.html"
    )
    own.unlink()
    linked = (gathered.paths.results / "twice.html").read_text(encoding="utf-8")
    assert 'href="batch_size%3D8%2Cmodel%3Dgru/index.html"' in linked


def test_commands_take_variants(gathered, invoke, monkeypatch):
    drawn = {"ranks": ("ranks",)}
    monkeypatch.setattr("plfl.report.figures.available", lambda *_: drawn)  # drawing all takes long
    monkeypatch.setattr(page, "illustrate", lambda *_: None)  # its figures are there
    folder = gathered.paths.results
    assert study_of(folder) == gathered
    told = invoke("claims", folder).out
    assert "names no claims" in told
    sides = [f"{folder}:batch_size={size},model=gru/NY-P2-fedopt-adam-fedavg" for size in (8, 16)]
    assert "A: NY-P2-fedopt-adam-fedavg" in invoke("compare", *sides).out
    for one in (folder, folder / "batch_size=8,model=gru"):
        (one / "index.html").unlink(missing_ok=True)
        assert invoke("report", one).out.strip() == str(one / "index.html")
        assert (one / "index.html").is_file()
    assert (gathered.paths.figures / "batch_size=8,model=gru" / "ranks.png").is_file()
    assert "holds 4 variants" in invoke("compare", folder, folder, status=2).err
    with naming(ResultsError, "4 variants"):
        _ = Tables(folder).summary


def test_privacy_stands_above_the_panels_and_codecs_are_lines() -> None:
    study = Study.load(ROOT / "config" / "privacy.yaml")
    rows = [
        {axis.column: place[axis.key] for axis in study.plan.axes}
        | {"state": "NY", "sharing": sharing, "method": "fedopt", "model": "local"}
        | {"mase": 1.0, "low": 0.9, "high": 1.1, "bytes": 8.0 * (sharing == "P1")}
        | {"validation_mase": 1.0}
        for place in study.plan.places.values()
        for sharing in ("P1", "P3")
    ]
    rows += [
        one | {"sharing": BASELINE, "model": BASELINE, "method": "lightgbm_pooled"}
        for one in rows
        if one["sharing"] == "P3"
    ]
    figure = page.draw(Drawn(study, pd.DataFrame(rows)))
    titles = [panel.get_title() for panel in figure.axes]
    assert titles == ["NY, privacy none", "NY, privacy eps8", "NY, privacy eps1"]
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert sorted(names) == [
        "P1 (everything shared)",
        "P1 (everything shared), coded",
        "P3 (local training)",
        "best baseline on pooled data",
    ]


def test_what_sends_nothing_is_a_mark_beside_the_codecs() -> None:
    study = Study.load(ROOT / "config" / "channel.yaml")
    schemes = [("P1", "fedopt", 9e3), ("P1", "ditto", 9e3), ("P3", "fedopt", 0.0)]
    rows = [
        {axis.column: place[axis.key] for axis in study.plan.axes}
        | {"state": "NY", "sharing": sharing, "method": method, "model": "local"}
        | {"mase": 1.0, "low": 0.9, "high": 1.1, "bytes": sent, "clients": 3}
        for place in study.plan.places.values()
        for sharing, method, sent in schemes
    ]
    figure = page.draw(Drawn(study, pd.DataFrame(rows)))
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert len(names) == 2 * len(study.plan.places) + 1
    assert sum(name.startswith("P3 (local training)") for name in names) == 1
    assert figure.axes[0].get_xscale() == "symlog"
    looks = [tuple(line.items()) for line in map(colour, range(36))]
    assert len(set(looks)) == 36


class Drawn(Overview):
    """Results of which only the table of the best cells is there."""

    def __init__(self, study: Study, best: pd.DataFrame):
        super().__init__(Path())
        vars(self).update(study=study, best=best)

    def table(self, name: str) -> pd.DataFrame:
        return vars(self)["best"]


def test_the_page_opens_with_where_a_federation_is_ahead(gathered: Study) -> None:
    overview = Overview(gathered.paths.results)
    leads = pd.read_csv(gathered.paths.results / "map.csv")[["lead_low", "lead_high"]]
    counts = {
        "the error is lower at": int((leads["lead_low"] > 0).sum()),
        "the error is higher at": int((leads["lead_high"] < 0).sum()),
    }
    found = list(page.describe_axes(overview))
    for words, many in counts.items():
        told = [sentence for sentence in found if f"{words} {many} of {len(leads)}" in sentence]
        assert len(told) == (many > 0)
    assert any(counts.values())
    neither = len(leads) - sum(counts.values())
    assert (f"At {neither} of" in found[-1]) == (neither > 0)
    shown = (gathered.paths.results / "index.html").read_text(encoding="utf-8")
    assert found[0].partition(":")[0] in shown

"""Claims that a study names before it runs, and its map, on results of which the truth is known."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from plfl.base.errors import ConfigError
from plfl.config.study import Study
from plfl.report import overview, reporting
from plfl.report.make import make
from plfl.results import family
from plfl.results.contrasts import of_folder, verdicts
from plfl.results.overview import Overview, gather
from plfl.results.pooling import Piece, pooled
from plfl.results.statistics import holm
from plfl.results.variants import Variant
from tests.helpers import fake_results

CONFIG: dict[str, Any] = {
    "name": "named",
    "data": {
        "source": "sample",
        "states": ["CA", "NY"],
        "clients": 3,
        "origins": ["2018-06-01", "2018-10-01"],
    },
    "sharing": {"P1": ["*"], "P3": [], "raw": {"join": "raw"}},
    "grid": {
        "sharing": ["P1", "P3", "raw"],
        "client_opt": ["adam"],
        "server_opt": ["fedavg"],
        "seeds": [1, 2],
        "windows.history": [1, 16],
    },
    "windows": {"scaling": "per_client"},
    "federation": {"rounds": 1},
    "claims": [
        {"better": "P1", "than": ["P3", "baseline-ridge"]},
        {"better": "P1-fedopt", "than": "baseline-lightgbm", "where": {"windows.history": 16}},
        {"better": "baseline-lightgbm_pooled", "than": "baseline-lightgbm"},
        {"better": "P1-fedopt-global", "than": "P1"},
        {"better": "P1-global", "than": "P1", "margin": 0.2},
        {"better": "history=16/baseline-lightgbm", "than": "history=1/baseline-lightgbm"},
        {"better": "history=1/P3", "than": ["history=16/P1", "history=16/P3"]},
        {"better": "history=1/P1", "than": "history=16/P1", "margin": 0.1},
    ],
}
LEVELS = {"P1": 0.8, "P3": 1.2, "raw": 0.75}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Alone is best with 16 weeks, through LightGBM; the federation with one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("named"))
        study = Study.parse(CONFIG, "named")
        family.note(study)
        for variant in study.variants.values():
            long = variant.windows.history == 16
            fake_results.write(
                variant.results,
                variant.description(),
                lambda cell, _, model, *__: LEVELS[cell["sharing"]] + 0.1 * (model == "global"),
                sent={"P1": 100, "P3": 0, "raw": 70},
                baseline=lambda name, at=long: (
                    0.6 if at and name == "lightgbm" else 0.7 if name == "lightgbm_pooled" else 1.0
                ),
            )
        gather(study, study.results, None)
        make(study.results, study.figures, study.results / "index.html")
        yield study


def test_the_claims_are_one_family_over_states_and_origins(study: Study) -> None:
    found = of_folder(study.results, study)
    assert [verdict.answer for verdict in found] == [
        "holds",
        "does not hold",
        "holds",
        "does not hold",
        "holds",  # at most a fifth worse, where it is an eighth worse
        "holds",
        "does not hold",
        "holds",
    ]
    assert "is at most 20 % worse than" in found[4].text
    assert found[4].effect == pytest.approx(0.2 * 0.8 - 0.1, abs=0.01)
    assert found[5].effect == pytest.approx(0.4, abs=0.02)
    assert {name.partition("/")[0] for name in found[5].cells} == {"history=16", "history=1"}
    ends = []
    for variant in study.variants.values():
        errors = pd.read_parquet(variant.results / "errors.parquet")
        errors["mase"] = errors["error"] / errors["scale"] / 28
        errors = errors[errors["model"].isin(["local", "baseline"])]
        by = errors.groupby(["sharing", "method", "state", "client", "seed"], dropna=False)["mase"]
        means = by.sum().groupby(["sharing", "method"]).mean()
        ends.append(means["baseline", "ridge"] - means["P1", "fedopt"])
    assert found[0].effect == pytest.approx(np.mean(ends), rel=1e-5)
    of = (found[0].clients, found[0].states, found[0].origins, found[0].weeks, found[0].seeds)
    assert of == (6, 2, 2, 8, 2)
    low, high = found[0].without_one_state or (1, 0)
    assert low <= (found[0].effect or 0) <= high
    assert found[2].seeds == 0  # baselines have none
    assert found[3].effect == pytest.approx(-0.1, abs=0.01)
    alone = [verdict.p_alone or 0.0 for verdict in found]
    assert [verdict.p for verdict in found] == pytest.approx(holm(alone))
    assert Overview(study.results).table("claims.csv")["answer"].tolist() == [
        one.answer for one in found
    ]


def test_variants_with_other_test_sets_or_clients_are_not_compared(study: Study) -> None:
    for change in ("test set", "clients"):
        found = Variant.all_of(study, study.results)
        for variant in found:
            if "16" in variant.place.values():
                clients = variant.tables.clients
                if change == "clients":
                    variant.tables.__dict__["clients"] = clients.groupby("state").head(2)
                else:
                    clients["persistence_mae_test"] *= 2
        answers = [verdict.answer for verdict in verdicts(study, found)]
        assert [answer == "not in this study" for answer in answers] == 5 * [False] + 3 * [True]


def test_the_map_names_the_best_way_without_raw_data(study: Study) -> None:
    table = Overview(study.results).table("map.csv").set_index("windows.history")
    assert table.loc["1", "best"].startswith("P1")
    assert table["best"].loc["16"] == "LightGBM"
    assert table["raw"].tolist() == ["LightGBM, pooled"] * 2
    for history, lead, price in (("1", 0.2, 0.1), ("16", -0.2, -0.1)):
        row = table.loc[history]
        assert row["lead"] == pytest.approx(lead, abs=0.02)
        assert row["price"] == pytest.approx(price, abs=0.02)
        assert row["lead_low"] < row["lead"] < row["lead_high"]
        assert row["bytes_federated"] == 200  # both directions
    meters = Overview(study.results).table("meters.csv")
    assert meters["windows.history"].value_counts().to_dict() == {"1": 6, "16": 6}
    gains = meters.groupby("windows.history")["gain"].mean()
    np.testing.assert_allclose(gains, table["lead"].reindex(gains.index), atol=1e-6)
    np.testing.assert_allclose(
        meters["percent"], 100 * meters["gain"] / meters["mase_alone"], atol=1e-3
    )


def test_the_page_shows_claims_map_and_meters(study: Study) -> None:
    page = (study.results / "index.html").read_text("utf-8")
    assert [f'id="{part}"' in page for part in ("claims", "map", "meters")] == [True] * 3
    meters = pd.read_csv(study.results / "meters.csv")
    for history, rows in meters.groupby("windows.history"):
        gain, lose = (rows["low"] > 0).sum(), (rows["high"] < 0).sum()
        assert f"history={history}: of 6 clients, {gain} gain and {lose} lose" in page
    assert meters["low"].gt(0).any() and meters["high"].lt(0).any()
    assert "does not hold" in page and "2 origins" in page
    assert "6 clients decide only large differences" in page
    text = reporting.of(study).judged(study.results, study).text
    assert text.index("named them before") < text.index("Exploratory")


def test_a_claim_that_is_added_to_results_is_recognised(study: Study) -> None:
    assert set(Overview(study.results).table("claims.csv")["family"]) == {"named before"}
    for variant in study.variants.values():
        (variant.results / "baselines").mkdir()
        (variant.results / "baselines" / "CA.parquet").touch()
    _, *others = CONFIG["claims"]
    added = {"better": "P3", "than": "P1"}
    later = Study.parse(CONFIG | {"claims": [*others, added]}, "named")
    family.note(later)  # comes too late
    gather(later, later.results, None)
    claims = Overview(later.results).table("claims.csv")
    assert claims["family"].tolist() == ["named before"] * len(others) + ["named later"]
    overview.write(later.results, later.figures, later.results / "index.html")
    said = (
        f"had results already: c{len(others) + 1}. Named before it had results, and missing here: "
    )
    said += str(study.claims[0])
    assert said in (later.results / "index.html").read_text("utf-8")
    assert said in reporting.of(later).judged(later.results, later).text
    (later.results / family.FILE).unlink()
    assert "not recorded" in reporting.of(later).judged(later.results, later).text
    family.note(study)
    assert not (later.results / family.FILE).exists()


def test_weeks_vary_within_origins_only() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, (2, 5, 3, 4))
    pieces = [
        Piece("CA", str(i), tuple("abcde"), level / 4 + part)
        for i, (level, part) in enumerate(zip((0.0, 1.0), noise, strict=True))
    ]
    weeks = pooled(["one"], pieces).parts["weeks"]
    assert (weeks.levels, pooled(["one"], pieces).effect) == (8, pytest.approx(0.5, abs=0.02))
    own = noise.mean(axis=2).mean(axis=1)  # (origins, weeks)
    expected = sum(4 * part.var(ddof=1) for part in own) / 4
    assert weeks.variance == pytest.approx(expected)
    assert weeks.freedom <= 6


def test_claims_about_what_the_grid_lacks_are_refused() -> None:
    than = ["P1-moon", "baseline-lightgbm_lag"]
    wrong = {"better": "P2", "than": than, "where": {"windows.history": 2, "model": "gru"}}
    with pytest.raises(ConfigError) as refused:
        Study.parse(CONFIG | {"claims": [wrong]}, "wrong")
    said = str(refused.value)
    with pytest.raises(ConfigError) as misplaced:
        sides = {"better": "history=2/P1", "than": "depth=1/P1"}
        Study.parse(CONFIG | {"claims": [sides]}, "wrong")
    found = str(misplaced.value)
    assert all(part in found for part in ("history: 2 is unknown", "depth is no axis"))
    for part in (
        "'P2' is unknown",
        "'P1-moon'",
        "'lightgbm_lags'",
        "history: 2",
        "model is",
    ):
        assert part in said

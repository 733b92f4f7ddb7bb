"""The table of comparisons, the map and the gains, on results of which the truth is known."""

import re
from contextlib import chdir
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plfl.base.errors import ResultsError
from plfl.base.spreadsheets import write_csv
from plfl.config.baselines import BASELINE
from plfl.pipeline.jobs import results_message
from plfl.report import variants_page
from plfl.report.answer import FederationAnswer, answer
from plfl.report.reporting import make
from plfl.report.variants_page import describe_places
from plfl.results import words
from plfl.results.comparisons import (
    COMPARISONS_FILE,
    MONTH,
    compute_comparisons,
    contest_of_federation,
    gains,
    read,
)
from plfl.results.joining import find_question
from plfl.results.overview import Overview, gather
from plfl.results.scores import WeeklyScores, pool
from plfl.results.selection import contender_in_use
from plfl.results.statistics import holm
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.study import Study
from plfl.study.forecaster_names import FEDERATION, IN_USE, IN_USE_ALONE, LOCAL
from tests.helpers import fake_results
from tests.helpers.constructed import config
from tests.helpers.job_logs import state_beside
from tests.helpers.refusals import naming

CONFIG: dict[str, Any] = {
    "name": "named",
    "data": {"source": "sample", "states": ["CA", "NY"], "clients": 3}
    | {"origins": ["2018-06-01", "2018-10-01"]},
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
def named_study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """Alone is best with 16 weeks, through LightGBM; the federation with one."""
    folder = tmp_path_factory.mktemp("named")
    with chdir(folder):
        study = Study.parse(CONFIG, "named")
        for variant in study.variants.values():
            long = variant.windows.history == 16
            fake_results.write(
                variant.paths.results,
                variant.description(),
                lambda cell, _, model, *__: LEVELS[cell["sharing"]] + 0.1 * (model == "global"),
                sent={"P1": 100, "P3": 0, "raw": 70},
                baseline=lambda name, at=long: (
                    0.6 if at and name == "lightgbm" else 0.7 if name == "lightgbm_pooled" else 1.0
                ),
            )
        gather(study, study.paths.results, None)
        make(study.paths.results, study.paths.figures, study.paths.results / "index.html")
    return study, folder


@pytest.fixture
def study(named_study: tuple[Study, Path], monkeypatch: pytest.MonkeyPatch) -> Study:
    study, folder = named_study
    monkeypatch.chdir(folder)
    return study


def judged(study: Study) -> pd.DataFrame:
    found = read(study.paths.results, study)
    return found[found["about"] == "claim"]


def test_the_claims_are_one_family_over_states_and_origins(study: Study) -> None:
    found = judged(study)
    holds = found["verdict"].map({"holds": True, "does not hold": False})
    # The fifth: at most a fifth worse, where it is an eighth worse.
    assert holds.tolist() == [True, False, True, False, True, True, False, True]
    assert "at most 20 % above that of" in found.loc[4, "text"]
    assert found.loc[4, "difference"] == pytest.approx(0.2 * 0.8 - 0.1, abs=0.01)
    assert found.loc[5, "difference"] == pytest.approx(0.4, abs=0.02)
    assert found.loc[5, "text"].endswith("lower error than LightGBM with 1 week of history")
    ends = []
    for variant in study.variants.values():
        errors = pd.read_parquet(variant.paths.results / "errors.parquet")
        errors["mase"] = errors["error"] / errors["scale"] / 28
        errors = errors[errors["model"].isin(["local", "baseline"])]
        by = errors.groupby(["sharing", "method", "state", "client", "seed"], dropna=False)["mase"]
        means = by.sum().groupby(["sharing", "method"]).mean()
        ends.append(means["baseline", "ridge"] - means["P1", "fedopt"])
    first = found.loc[0]
    assert first["difference"] == pytest.approx(np.mean(ends), rel=1e-4)
    counts = first[["clients", "states", "origins", "weeks", "seeds"]]
    assert counts.tolist() == [6, 2, 2, 8, 2]
    assert first["lowest"] <= first["difference"] <= first["highest"]
    assert found.loc[2, "seeds"] == 0  # baselines have none
    assert found["p"].tolist() == pytest.approx(holm(found["p_alone"].tolist()), rel=1e-3)


def test_one_difference_has_one_verdict(study: Study) -> None:
    found = read(study.paths.results, study)
    others = found[found["about"] != "claim"]
    assert set(others["about"]) == {"federation", "axis"}
    assert (others["verdict"] == "").all() and others["p"].isna().all()
    assert set(others["place"]) == {"1 week of history", "16 weeks of history", ""}
    page = (study.paths.results / "index.html").read_text("utf-8")
    others_drawn = len(found) - len(judged(study))
    assert page.count('<td class="verdict"><b aria-hidden="true"></b>') == others_drawn
    best = others[(others["than"] == LOCAL) & (others["state"] == "")]
    chosen = {"P1 (everything shared)"}, {"persistence", "LightGBM"}
    assert (set(best["chosen"]), set(best["chosen_than"])) == chosen


def test_the_page_says_in_plain_words_where_joining_helps(study: Study) -> None:
    verdict, differences = describe_places(Overview(study.paths.results))
    assert verdict == "Joining helps at 1 of 2 places on the axes and harms at 1."
    found = re.findall(r"with (.+?) ([\d.]+)\s% (lower|higher)", differences)
    percents = {place: float(text) * (1 if side == "lower" else -1) for place, text, side in found}
    assert percents == pytest.approx(
        {"1 week of history": 20, "16 weeks of history": -100 / 3}, abs=2
    )
    assert verdict in (study.paths.results / "index.html").read_text("utf-8")


def test_the_end_of_a_study_says_where_joining_helps(study: Study) -> None:
    results, sentences = study.paths.results, describe_places(Overview(study.paths.results))
    with state_beside(results / "logs" / "overview.log"):
        variants_page.write(results, study.paths.figures, results / "index.html")
    assert f"\n  {' '.join(sentences)}\n" in results_message(study)


def test_a_missing_table_is_computed_and_says_the_same(study: Study) -> None:
    written = read(study.paths.results, study)
    path = study.paths.results / COMPARISONS_FILE
    kept = path.read_bytes()
    path.unlink()
    pd.testing.assert_frame_equal(read(study.paths.results, study), written, rtol=1e-4, atol=1e-6)
    path.write_bytes(kept)


@pytest.mark.parametrize("name", ["01", "NA"])
def test_a_state_keeps_its_name(study: Study, name: str, tmp_path: Path) -> None:
    compared = read(study.paths.results, study)
    write_csv(compared.assign(state=name, needed=""), tmp_path / COMPARISONS_FILE)
    found = read(tmp_path, study)
    assert set(found["state"]) == {name} and set(found["needed"]) == {""}
    (tmp_path / COMPARISONS_FILE).write_bytes(b"\xff")
    with naming(ResultsError, tmp_path / COMPARISONS_FILE, "cannot be read", "run the study again"):
        read(tmp_path, study)


@pytest.mark.parametrize("change", ["test set", "clients"])
def test_variants_with_other_test_sets_or_clients_are_not_compared(study, change):
    found = Variant.all_of(study, study.paths.results)
    for variant in found:
        if "16" in variant.place.values():
            clients = variant.tables.clients
            if change == "clients":
                variant.tables.__dict__["clients"] = clients.groupby("state").head(2)
            else:
                clients["persistence_mae_test"] *= 2
    whole = compute_comparisons(study, found)
    verdicts = whole.loc[whole["about"] == "claim", "verdict"]
    assert [verdict == "not in this study" for verdict in verdicts] == 5 * [False] + 3 * [True]
    assert "axis" not in set(whole["about"])


def test_the_map_names_the_best_way_without_raw_data(study: Study) -> None:
    found = Overview(study.paths.results).table("map.csv").set_index("windows.history")
    assert found["best"].tolist() == ["P1 (everything shared)", "LightGBM"]
    assert found["raw"].tolist() == ["LightGBM, pooled"] * 2
    for history, ahead, price in (("1", 0.2, 0.1), ("16", -0.2, -0.1)):
        row = found.loc[history]
        assert row["lead"] == pytest.approx(ahead, abs=0.02)
        assert row["price"] == pytest.approx(price, abs=0.02)
        assert row["lead_low"] < row["lead"] < row["lead_high"]
        assert row["bytes_federated"] == 200  # both directions
    compared = read(study.paths.results, study).query("than == @LOCAL and state == ''")
    np.testing.assert_allclose(compared["difference"], found["lead"], rtol=1e-4)


@pytest.fixture(scope="module")
def answered_study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """The federation gains 0.1 of 1 at the first origin, and 0.3 at the second."""
    grid = {key: value for key, value in CONFIG["grid"].items() if key != "windows.history"}
    folder = tmp_path_factory.mktemp("origins")
    with chdir(folder):
        study = Study.parse(CONFIG | {"grid": grid, "claims": QUESTION}, "named")
        gain_of = {"2018-06-01": 0.1, "2018-10-01": 0.3}
        for variant in study.variants.values():
            gain = gain_of[str(variant.data.origin_date)]
            fake_results.write(
                variant.paths.results,
                variant.description(),
                lambda cell, *_, gain=gain: 1 - gain if cell["sharing"] == "P1" else 2.0,
                baseline=lambda _: 1.0,
            )
        gather(study, study.paths.results, None)
        make(study.paths.results, study.paths.figures, study.paths.results / "index.html")
    return study, folder


@pytest.fixture
def study_of_origins(answered_study: tuple[Study, Path], monkeypatch: pytest.MonkeyPatch) -> Study:
    study, folder = answered_study
    monkeypatch.chdir(folder)
    return study


def test_origins_alone_are_one_place(study_of_origins: Study) -> None:
    results = study_of_origins.paths.results
    page = (results / "index.html").read_text("utf-8")
    (row,) = Overview(results).table("map.csv").to_dict("records")
    assert "<td>everywhere</td>" in page and f"{row['lead']:+.3f}" in page


def test_a_study_of_origins_answers_an_owner_over_all_of_them(study_of_origins: Study) -> None:
    results = study_of_origins.paths.results
    told = answer(
        study_of_origins,
        Variant.all_of(study_of_origins, results),
        read(results, study_of_origins),
    )
    assert told is not None and told.verdict.startswith("Join: ")
    rows = [row for state_rows in told.states.values() for row in state_rows]
    assert len(rows) == len({(row["state"], row["client"]) for row in rows}) > 1
    gains_of_clients = [row["gain"] for row in rows]
    assert np.mean(gains_of_clients) == pytest.approx(0.2, abs=0.02)
    assert told.test_period.count("from ") == 2 and "only earlier readings" in told.test_period
    page = (results / "index.html").read_text("utf-8")
    assert told.verdict in page and f"plfl forecast {results.as_posix()} NEW" in page


def test_what_is_in_use_is_that_of_the_latest_origin_in_any_order(here: Path) -> None:
    grid = {key: value for key, value in CONFIG["grid"].items() if key != "windows.history"}
    data = CONFIG["data"] | {"origins": ["2018-10-01", "2018-06-01"]}
    study = Study.parse(CONFIG | {"grid": grid, "data": data, "claims": USE}, "named")
    for variant in study.variants.values():
        is_late = variant.data.origin_date == date(2018, 10, 1)
        fake_results.write(
            variant.paths.results,
            variant.description(),
            lambda cell, *_, best="P1" if is_late else "P3": 0.5 + (cell["sharing"] != best),
            baseline=lambda _: 1.0,
        )
    results = study.paths.results
    variants = Variant.all_of(study, results)
    told = answer(study, variants, read(results, study, variants))
    assert told is not None
    assert "In use: P1 (everything shared)." in " ".join(told.sentences)


def test_the_page_says_places_in_words(study: Study) -> None:
    page = (study.paths.results / "index.html").read_text("utf-8")
    assert "16 weeks of history" in page
    assert "Variants with other clients or other test sets are not compared." in page
    assert "does not hold" in page and "2 origins" in page
    assert "with 6 clients only large differences are decided" in page


def test_weeks_vary_within_origins_only() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, (2, 5, 3, 4))
    score_sets = [
        WeeklyScores("CA", str(i), tuple("abcde"), level / 4 + part)
        for i, (level, part) in enumerate(zip((0.0, 1.0), noise, strict=True))
    ]
    weeks = pool(score_sets).parts["weeks"]
    assert (weeks.levels, pool(score_sets).effect) == (8, pytest.approx(0.5, abs=0.02))
    own = noise.mean(axis=2).mean(axis=1)  # (origins, weeks)
    expected = sum(4 * part.var(ddof=1) for part in own) / 4
    assert weeks.variance == pytest.approx(expected)
    assert weeks.freedom <= 6


def test_states_share_the_weeks_of_an_origin_where_one_lacks_another() -> None:
    rng = np.random.default_rng(3)
    of_weeks = rng.normal(0, 1, (2, 6))  # what all clients have in common, by origin

    def score_set(state: str, origin: int) -> WeeklyScores:
        table = of_weeks[origin] + rng.normal(0, 0.01, (4, 2, 6))
        return WeeklyScores(state, f"2024-0{origin + 1}-01", tuple("abcd"), table / 6)

    first, second = score_set("CA", 0), score_set("CA", 1)
    lacking = score_set("NY", 1)
    weeks = pool([first, second, lacking]).parts["weeks"]
    assert weeks.levels == 12
    early = (first.weekly / 2).sum(axis=(0, 1)) / 2 / 8 * 6
    late = (second.weekly / 2 + lacking.weekly).sum(axis=(0, 1)) / 2 / 8 * 6
    expected = sum(part.var(ddof=1) / 6 for part in (early, late))
    assert weeks.variance == pytest.approx(expected)
    # Nor does it matter in which order a state has its origins.
    turned = pool([first, second, score_set("NY", 1), score_set("NY", 0)]).parts["weeks"]
    straight = pool([first, second, score_set("NY", 0), score_set("NY", 1)]).parts["weeks"]
    assert turned.variance == pytest.approx(straight.variance, rel=0.1)


# -- what each client gains ------------------------------------------------------------------------

WINS = {"P1": 0.5, "P2": 0.3, "P3": 0.6}
LOSES = {"P1": 0.9, "P2": 0.8, "P3": 0.2}
QUESTION = [{"better": FEDERATION, "than": LOCAL}]
USE = [{"better": IN_USE, "than": IN_USE_ALONE}]


def plain(
    folder: Path, levels: dict[str, float], clients: int = 4, named: Any = QUESTION, **data: Any
) -> Tables:
    """Results with these levels; the last client has no scale."""
    data |= {"states": ["CA"], "clients": clients}
    study = config(data=data, grid={"client_opt": ["adam"]})
    return fake_results.write(
        folder,
        study | {"claims": named},
        lambda cell, *_: levels[cell["sharing"]],
        baseline=lambda name: 0.4 if name == "lightgbm_lags" else 2.0,
        constant=clients - 1,
    )


def told_of(tables: Tables, variant: Variant | None = None) -> FederationAnswer | None:
    """The answer of a study without variants."""
    variants = [variant or Variant("", {}, tables)]
    return answer(tables.study, variants, read(tables.folder, tables.study, variants))


def weekly(tables: Tables, client: str, **labels: str) -> Any:
    errors = tables.errors(["client", "day", "error", "forecasts"], client=client, **labels)
    by_day = errors.groupby("day")[["error", "forecasts"]].sum()
    by_week = by_day.groupby(np.arange(len(by_day)) // 7).sum()
    return by_week["error"] / by_week["forecasts"]


def test_gains_and_their_intervals(tmp_path: Path) -> None:
    tables = plain(tmp_path, WINS)
    found = contest_of_federation(tables.study, [Variant("", {}, tables)])
    assert found is not None
    assert (found.label(0), found.label(1)) == ("P2 (body shared)", "LightGBM, day and week lags")
    rows = list(gains(found))
    assert [row["client"] for row in rows] == ["ca100", "ca137", "ca174"]  # the last: no scale
    error_of_persistence = tables.clients.set_index("client")["persistence_mae_test"]
    for row in rows:
        rival = weekly(tables, row["client"], sharing=BASELINE, method="lightgbm_lags")
        ours = weekly(tables, row["client"], sharing="P2", model="local")
        assert row["mase_federated"] == pytest.approx(ours.mean())
        assert row["gain"] == pytest.approx(rival.mean() - ours.mean())
        interval = stats.ttest_rel(rival, ours).confidence_interval(0.95)
        assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
        assert row["percent"] == pytest.approx(100 * row["gain"] / row["mase_alone"])
        persistence = error_of_persistence[row["client"]]  # kWh per interval
        assert row["kwh_a_month"] == pytest.approx(row["gain"] * persistence * 96 * MONTH)
        assert row["kwh_alone"] == pytest.approx(row["mase_alone"] * persistence * 96 * MONTH)


def test_a_short_test_set_gives_no_interval(tmp_path: Path) -> None:
    tables = plain(tmp_path, WINS)
    errors = pd.read_parquet(tmp_path / "errors.parquet")
    early = errors["day"] < errors["day"].min() + pd.Timedelta(weeks=3)
    errors[early].to_parquet(tmp_path / "errors.parquet")
    found = contest_of_federation(tables.study, [Variant("", {}, tables)])
    assert found is not None
    assert all(np.isnan(row["low"]) for row in gains(found))


@pytest.mark.parametrize(
    ("levels", "named", "short", "sign"),
    [
        (WINS, QUESTION, "Join: ", 1),
        (LOSES, QUESTION, "Do not join: forecasts", -1),
        (WINS, USE, "Join: ", 1),
        (LOSES, USE, "Do not join: for forecasts", -1),
        (WINS, [], "Not judged, because the study names no claim about it", 1),
    ],
)
def test_the_answer(levels, named, short, sign, tmp_path):
    tables = plain(tmp_path, levels, 12, named)
    told = told_of(tables)
    assert told is not None
    assert told.verdict.startswith(short)
    (rows,) = told.states.values()
    assert [row["gain"] * sign > 0 for row in rows] == [True] * 11
    brought = told.sentences[0]
    assert ("lower" in brought.partition(" (")[0]) == (sign > 0)
    assert f"Of 11 clients, {'11' if sign > 0 else 'none'} gain" in brought
    lost_text = "11 lose" if sign < 0 else "none loses"
    assert lost_text in brought
    clearly_text = "; 11 clearly gain and none clearly loses." if sign > 0 else "11 clearly lose."
    assert brought.endswith(clearly_text) and "kWh of errors" in brought
    assert ", out of " in brought and not [text for text in told.details if "clearly gain" in text]


@pytest.mark.parametrize(("open_claims", "weeks"), [(1, 10), (5, 18)])
def test_what_would_decide_it_is_at_the_level_of_the_verdict(open_claims, weeks, tmp_path) -> None:
    others = [{"better": "P2", "than": "baseline-lightgbm_lags"}] * (open_claims - 1)
    tables = plain(tmp_path, {"P1": 0.9, "P2": 0.39, "P3": 0.9}, 12, [*QUESTION, *others])
    told = told_of(tables)
    assert told is not None
    assert f"About {weeks} weeks of test would decide it" in told.sentences[1]


def test_a_study_of_meters_needs_more_meters(tmp_path: Path) -> None:
    data = {"source": "meters", "meters": {"interval": 60}}
    tables = plain(tmp_path, WINS, 2, **data)  # of which one has a score
    told = told_of(tables)
    assert told is not None
    assert "6 meters in every state" in told.sentences[1]


@pytest.mark.parametrize(
    "further",
    [{"score": "bytes"}, {"margin": 0.5}, {"where": {"data.states": ["CA"]}}, {"each": ["state"]}],
)
def test_a_claim_about_something_else_is_no_answer(further: dict[str, Any]) -> None:
    claims = pd.DataFrame([{"about": "claim", "claim": "c1", "verdict": "holds"}])
    claims = claims.assign(better=IN_USE, than=IN_USE_ALONE)

    def claim_of(named: list[Any], rows: pd.DataFrame) -> dict[Any, Any]:
        return find_question(Study.parse(config() | {"claims": named}, "named"), rows)[1]

    assert not claim_of([USE[0] | further], claims)
    assert claim_of(USE, claims)["verdict"] == "holds"
    both = pd.concat([claims, claims.assign(claim="c2", verdict="undecided")])
    assert claim_of([USE[0] | further, *USE], both)["verdict"] == "undecided"


def test_the_answer_is_about_what_plfl_forecast_uses(tmp_path: Path) -> None:
    tables = plain(tmp_path, WINS, 12, USE)
    variant = Variant("", {}, tables)
    told = told_of(tables, variant)
    assert told is not None
    wape = contender_in_use(variant, "CA").by_client("wape").mean()
    text = " ".join(told.sentences)
    missed = f"Your forecasts will miss about {100 * wape:.0f}\N{NO-BREAK SPACE}% of the load of a "
    missed += "client on average; "
    assert f"{missed}repeating the last reading would miss " in text
    assert "In use: P2 (body shared)" in text and "reveals models, no readings" in text
    lost = plain(tmp_path / "lost", LOSES, 12, USE)
    told = told_of(lost)
    assert told is not None and told.kinds["federation"] == "best federation"


def answered(folder: Path, *further: dict[str, Any], **errors: float) -> str:
    """What the page says where baselines beside the standard ones have these errors, and all
    other forecasters 2."""
    blocks = config(data={"states": ["CA"], "clients": 12}, grid={"client_opt": ["adam"]})
    blocks |= {
        "windows": {"target": "change", "scaling": "per_client", "covariates": [{"name": "level"}]},
        "model": {"name": "mlp"},
        "baselines": {"further": [*further]},
        "claims": USE,
    }
    tables = fake_results.write(
        folder, blocks, lambda *_: 2.0, baseline=lambda name: errors.get(name, 2.0)
    )
    found = told_of(tables)
    assert found is not None
    return " ".join(found.sentences)


@pytest.mark.parametrize(("secure", "revealed"), [(True, "models, no readings"), (False, "sums")])
def test_the_answer_says_what_trees_without_masks_reveal(secure, revealed, tmp_path) -> None:
    trees = {"name": "lightgbm_federated", "secure": secure}
    mean = {"name": "combined_received", "of": ["ridge", "lightgbm_federated"]}
    found = answered(tmp_path, trees, mean, combined_received=0.3, lightgbm_federated=0.4)
    assert f"and reveals {revealed}" in found
    assert "In use: combination with received models (combined_received)." in found
    assert ("Masks hide them" in found) is not secure


PUBLIC = {"name": "public", "kind": "buildings"}
TREES = {"name": "lightgbm_federated", "secure": True}


@pytest.mark.parametrize(
    ("further", "errors", "sentence"),
    [
        ([PUBLIC], {"public": 0.3}, "What is in use is the model of public meters alone"),
        ([PUBLIC, TREES], {"public": 0.6, "lightgbm_federated": 0.3}, "the errors of what is in "),
        (
            [PUBLIC | {"trained_on_this_dataset": True}, TREES],
            {"public": 0.2, "lightgbm_federated": 0.3},
            "The model of public meters was trained on these meters, so it does not count.",
        ),
    ],
)
def test_the_answer_says_what_the_public_model_gives(further, errors, sentence, tmp_path) -> None:
    found = answered(tmp_path, *further, **errors)
    assert sentence in found
    compared = re.search(r"in use are (\d+).% lower", found)
    assert (compared is not None) == ("the errors of what" in sentence)
    assert compared is None or 45 <= int(compared[1]) <= 55


def test_a_load_that_never_changes_is_left_out_and_named(tmp_path: Path) -> None:
    tables = plain(tmp_path, WINS)
    tables.clients.loc[3, "persistence_mae_test"] = 0.0
    told = told_of(tables)
    assert told is not None
    (said,) = (sentence for sentence in told.details if "left out of all means" in sentence)
    assert said.startswith(f"{tables.clients['client'].iloc[-1]} is left out")


@pytest.mark.parametrize(
    ("sharing", "text"),
    [
        (["body"], "P9: all meters train one part of the model (body) together; each meter has "),
        (["*"], "P9: all meters train the whole model together."),
        ([], ""),
    ],
)
def test_what_meters_train_together_is_told_in_words(sharing: list[str], text: str) -> None:
    data = {"source": "meters", "meters": {"interval": 60}}
    settings = {"name": "own", "data": data, "sharing": {"P9": sharing}}
    study = Study.parse(settings | {"grid": {"sharing": ["P9"]}}, "test")
    told = words.describe_training(study, "P9")
    assert told.startswith(text) and bool(told) == bool(text)
    assert words.describe_training(study, BASELINE) == ""

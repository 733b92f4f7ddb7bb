"""The variants of a study of classifiers: accuracies, effects and curves, their page and figures,
from synthetic records."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from plfl.cli.main import main
from plfl.config.claims import Claim
from plfl.results.comparisons import compute_comparisons
from plfl.results.overview import Overview, gather, study_of
from plfl.study import Cell, Study
from plfl_images.reporting import ImageReporting
from plfl_images.results.variants import CURVES_FILE, Results, compare_variants
from tests.helpers import classified
from tests.helpers.classified import ROUNDS
from tests.helpers.image_studies import make_study


def swept() -> Study:
    """FedAvg and FedADC with one and five labels per client, and two participations."""
    return make_study(
        grid={
            "method": ["fedopt", "fedadc"],
            "seeds": [0, 1, 2],
            "data.skew.s": [1, 5],
            "federation.participation": [0.3, 0.6],
        }
    )


def errors(study: Study, cell: Cell, t: int) -> float:
    """FedADC is ahead by ten points at the end; every further label is worth two points."""
    end = 0.4 - 0.02 * study.data.skew.s - 0.1 * (cell.method == "fedadc")
    return end + 0.2 * (t == 5) + classified.noise(cell, study.data.skew.s)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("swept"))
        study = swept()
        for variant in study.variants.values():
            classified.write(variant, variant.paths.results, errors)
        gather(study, study.paths.results, None, compare_variants)
        yield study.paths.results.resolve()


def test_accuracies_of_every_variant_with_intervals(folder: Path) -> None:
    best = Overview(folder).table("best.csv")
    rows = best[(best["variant"] == "s=5,participation=0.6") & (best["model"] == "global")]
    assert rows["method"].tolist() == ["fedadc", "fedopt"]
    row = rows.iloc[0]
    cells = [Cell("digits", "all", "fedadc", "sgd", "fedavg", seed) for seed in (0, 1, 2)]
    seeds = np.array([0.8 - classified.noise(cell, 5) for cell in cells])
    # The mean of the last evaluated rounds contains the first, which is 20 points worse.
    seeds -= 0.2 / 4
    assert row["accuracy_tail"] == pytest.approx(seeds.mean(), abs=1e-5)
    assert row["accuracy_tail_std"] == pytest.approx(seeds.std(ddof=1), rel=1e-3)
    found = stats.ttest_1samp(seeds, 0).confidence_interval()
    assert (row["low"], row["high"]) == pytest.approx((found.low, found.high), abs=1e-4)
    assert set(best.loc[best["model"] == "baseline", "method"]) == {"majority"}


def test_results_have_rows_of_a_leaderboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Callable
) -> None:
    monkeypatch.chdir(tmp_path)
    study = make_study(grid={"method": ["fedopt", "fedadc"], "seeds": [0, 1, 2]})
    classified.write(study, study.paths.results, errors)
    Path("images.yaml").write_text(yaml.safe_dump(study.description()))
    command = ["score", "images.yaml", "--results", str(study.paths.results)]
    invoke(*command, "--submit", "board.csv")
    board = pd.read_csv("board.csv").set_index("method")
    assert len(board) == 2 * 2 + 1
    assert board["score"].idxmin() == "all, FedADC, global model"
    tail = [np.mean([errors(study, cell, t) for t in ROUNDS]) for cell in study.cells]
    by_method = np.reshape(tail, (2, 3)).mean(axis=1)
    scores = board.loc[[f"all, {name}, global model" for name in ("FedOpt", "FedADC")], "score"]
    assert scores.to_numpy() == pytest.approx(by_method, abs=1e-6)
    assert board.loc["majority", "score"] == pytest.approx(0.9)


def test_effects_are_paired_over_seeds_and_have_no_verdict(folder: Path) -> None:
    found = Overview(folder).comparisons
    found = found[found["about"] == "axis"]
    # Another s at two participations, another participation at two s, for two methods and both
    # models.
    assert len(found) == (2 + 2) * 2 * 2
    assert (found["verdict"] == "").all() and found["p"].isna().all()
    assert (found["seeds"] == 3).all() and (found["clients"] == 0).all()
    labels = found[found["text"].str.startswith("s 5 instead of s 1")]
    labels = labels[labels["better"].str.endswith("-global")]
    assert labels["difference"].to_numpy() == pytest.approx(8, abs=2)  # points
    shares = found[found["text"].str.startswith("participation")]
    assert shares["difference"].to_numpy() == pytest.approx(0, abs=1e-9)


def test_claims_are_judged_by_paired_t_tests_over_seeds(folder: Path) -> None:
    named = [
        {"better": "all-fedadc-global", "than": "all-fedopt-global", "each": ["variant"]},
        {"better": "s=1/*-global", "than": "s=5/*-global", "each": ["method", "variant"]},
        {"better": "*", "than": "*-global", "score": "own", "each": ["method", "variant"]},
        {"better": "all-fedadc", "than": "all-fedopt", "score": "bytes", "share": 1},
    ]
    study = swept().model_copy(update={"claims": [Claim(**claim) for claim in named]})
    found = compute_comparisons(study, Results.all_of(study, folder))
    rows = found[found["about"] == "claim"].to_dict("records")
    assert [row["verdict"] for row in rows] == ["holds", "does not hold", "holds", "holds"]
    first = rows[0]
    assert "decided by" in first["reason"] and "4 of 4" in first["reason"]
    tests = []
    for variant in Results.all_of(study, folder):
        rows = variant.summary[variant.summary["model"] == "global"]
        by_method = dict(list(rows.groupby("method")["accuracy_tail"]))
        tests.append(stats.ttest_rel(by_method["fedadc"], by_method["fedopt"]))
    weakest = max(tests, key=lambda test: test.pvalue)
    assert first["p_alone"] == pytest.approx(weakest.pvalue, rel=1e-3)
    interval = 100 * np.array(weakest.confidence_interval())
    np.testing.assert_allclose([first["low"], first["high"]], interval, rtol=1e-3)


def test_curves_have_every_round_of_every_seed(folder: Path) -> None:
    curves = Overview(folder).table(CURVES_FILE)
    assert len(curves) == 4 * 2 * 3 * len(classified.ROUNDS)
    one = curves[(curves["variant"] == "s=1,participation=0.3") & (curves["method"] == "fedopt")]
    one = one[one["seed"].astype(int) == 0]
    assert one["round"].tolist() == list(classified.ROUNDS)
    assert one["accuracy"].iloc[0] - one["accuracy"].iloc[1] == pytest.approx(-0.2, abs=1e-5)


def test_a_study_without_axes_is_one_variant(folder: Path) -> None:
    single = folder / "s=1,participation=0.3"
    (one,) = Results.all_of(study_of(single), single)
    assert one.label == ""
    assert len(one.rows) == 2
    assert len(Results.all_of(study_of(folder), folder)) == 4


def test_the_page_shows_every_variant(folder: Path) -> None:
    (folder / "s=1,participation=0.3" / "index.html").write_text("the page")
    assert main(["report", str(folder)]) == 0
    text = (folder / "index.html").read_text(encoding="utf-8")
    best = Overview(folder).table("best.csv")
    accuracy = 100 * best.loc[best["model"] == "global", "accuracy_tail"]
    cells = [f"{value:.1f} ± " for value in accuracy]
    for shown in ("FedADC", "FedAvg", "majority", "s 5 instead of s 1", *cells):
        assert shown in text
    rows = text.partition("</table>")[0].count("<tr><td>")
    assert rows == (best["sharing"] != "baseline").sum()
    assert text.count("<img") == len(ImageReporting.drawn_files)
    assert "MASE" not in text
    assert 'href="s%3D1%2Cparticipation%3D0.3/index.html"' in text

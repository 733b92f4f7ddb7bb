"""The variants of a study of classifiers: accuracies, effects and curves, their page and figures,
from synthetic records."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from plfl.cli.main import main
from plfl.config.study import Cell, Study
from plfl.results.overview import Overview, gather, study_of
from plfl_images.report import overview
from plfl_images.results.variants import CURVES, Results, compared
from tests.helpers import classified
from tests.images.test_classify import study as tiny


def swept() -> Study:
    """FedAvg and FedADC with one, two and five labels per client, and two participations."""
    return tiny(
        grid={
            "method": ["fedopt", "fedadc"],
            "seeds": [0, 1, 2],
            "data.skew.s": [1, 2, 5],
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
            classified.write(variant, variant.results, errors)
        gather(study, study.results, None, compared)
        yield study.results.resolve()


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


def test_effects_are_paired_over_seeds_and_corrected(folder: Path) -> None:
    found = Overview(folder).table("effects.csv")
    # Two further values of s at two participations, one further participation at three s.
    assert len(found) == (2 * 2 + 3) * 2 * 2
    labels = found[(found["axis"] == "data.skew.s") & (found["value"] == "5")]
    assert labels["against"].unique().tolist() == ["1"]
    assert labels["difference"].to_numpy() == pytest.approx(0.08, abs=0.02)
    assert (labels["seeds"] == 3).all()
    shares = found[found["axis"] == "federation.participation"]
    assert shares["difference"].to_numpy() == pytest.approx(0, abs=1e-9)
    assert (shares["p"] == 1).all()


def test_curves_are_means_over_seeds(folder: Path) -> None:
    curves = Overview(folder).table(CURVES)
    assert len(curves) == 6 * 2 * len(classified.ROUNDS)
    one = curves[(curves["variant"] == "s=1,participation=0.3") & (curves["method"] == "fedopt")]
    assert one["round"].tolist() == list(classified.ROUNDS)
    assert one["accuracy"].iloc[0] - one["accuracy"].iloc[1] == pytest.approx(-0.2, abs=1e-5)


def test_a_study_without_axes_is_one_variant(folder: Path) -> None:
    single = folder / "s=1,participation=0.3"
    (one,) = Results.all_of(study_of(single), single)
    assert one.label == ""
    assert len(one.rows) == 2
    assert len(Results.all_of(study_of(folder), folder)) == 6


def test_the_page_shows_every_variant(folder: Path) -> None:
    (folder / "s=1,participation=0.3" / "index.html").write_text("the page")
    assert main(["report", str(folder)]) == 0
    text = (folder / "index.html").read_text(encoding="utf-8")
    for label in swept().variants:
        assert label.replace(",", ", ").replace("=", "=<wbr>") in text
    best = Overview(folder).table("best.csv")
    accuracy = 100 * best.loc[best["model"] == "global", "accuracy_tail"]
    cells = [f"{value:.1f} ± " for value in accuracy]
    for shown in ("FedADC", "FedAvg", "majority", "5 against 1", *cells):
        assert shown in text
    assert text.count("<img") == len(overview.CAPTIONS)
    assert "MASE" not in text
    assert 'href="s%3D1%2Cparticipation%3D0.3/index.html"' in text

"""A meter whose load hardly changes does not decide in silence what a study says."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plfl.report.answer import answer
from plfl.report.standings import standings
from plfl.results import comparisons
from plfl.results.compare import compare
from plfl.results.dominance import deciding_clients, notes
from plfl.results.overview import best_cells
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from tests.helpers import fake_results

STUDY = {**fake_results.SMALL, "data": {"source": "sample", "states": ["CA"], "clients": 4}}
STUDY["claims"] = [{"better": "best federation", "than": "best alone"}]
FLAT = "ca174"
"""The third client."""


@pytest.mark.parametrize(
    ("mase", "names"),
    [
        ({"a": 0.3, "b": 0.4, "c": 1.0}, []),  # a mean of 0.57, less than three times 0.4
        ({"a": 0.3, "b": 0.4, "c": 3.0}, ["c"]),  # 1.23
        ({"a": 0.3, "b": 0.4, "c": 300.0, "d": 0.5, "e": 900.0}, ["e", "c"]),
        ({"a": 0.1, "b": 900.0}, []),  # of two clients, neither is one of few
        ({"a": 0.3, "b": 0.4, "c": np.nan, "d": 3.0}, ["d"]),
        ({"a": np.nan}, []),
    ],
)
def test_few_clients_decide_a_mean_of_more_than_three_times_the_median(mase, names):
    assert deciding_clients(pd.Series(mase)) == names


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return fake_results.write(tmp_path_factory.mktemp("flat"), STUDY, flat=2)


def test_the_note_names_the_client_and_why_it_decides(tables: Tables) -> None:
    (note,) = notes(tables)
    summary = tables.whole_summary.query("model != 'global'")
    count = len(summary) - 1  # all but persistence
    assert note.startswith(f"CA: {FLAT} decides the mean MASE of {count} of {len(summary)} fore")
    assert f"only 0.2\N{NO-BREAK SPACE}% of the load of {FLAT}" in note
    worst = summary.astype({"mase_mean": float}).nlargest(1, "mase_mean").iloc[0]
    assert f"up to {worst['mase_mean']:,.1f} where the median over clients is " in note


def test_medians_lead_on_the_page(tables: Tables) -> None:
    variant = Variant("", {}, tables)
    found = answer(
        tables.study,
        [variant],
        comparisons.read(tables.folder, tables.study, [variant]),
    )
    assert found is not None
    sides = pd.DataFrame(found.states["CA"])[["mase_federated", "mase_alone"]]
    (federated, alone), means = sides.median(), sides.mean()
    sentence = found.details[0]
    assert sentence.startswith(f"In MASE: the median error was {federated:.3f} (")
    assert f" and {alone:.3f} (" in sentence
    assert f"{FLAT} decides the means, {means.iloc[0]:,.3f} and {means.iloc[1]:,.3f}" in sentence


def test_medians_lead_in_the_table_of_forecasters(tables: Tables) -> None:
    best = best_cells(Variant("", {}, tables))
    (rows,) = standings(best).groups
    by_name = {row.cell: row.test for row in rows}
    mase = tables.baselines.query("baseline == 'ridge' and split == 'test'")["mase"]
    assert by_name["CA-baseline-ridge"] == f"{mase.median():.3f} (median; mean {mase.mean():,.1f})"
    assert by_name["CA-baseline-persistence"] == "1.000"


def test_compare_says_so(tables: Tables) -> None:
    sides = [f"{tables.folder}:CA-baseline-{name}" for name in ("ridge", "lightgbm")]
    notes_of = "\n".join(compare(*sides).notes)
    assert f"CA-baseline-ridge and CA-baseline-lightgbm: {FLAT} decides a mean" in notes_of


def test_the_commands_say_so(tables: Tables, invoke) -> None:
    for command in ("claims", "compare"):
        assert f"- CA: {FLAT} decides the mean MASE" in invoke(command, str(tables.folder)).out


def test_nothing_is_said_of_meters_that_are_alike(tmp_path: Path) -> None:
    tables = fake_results.write(tmp_path, STUDY)
    assert not list(notes(tables))
    variant = Variant("", {}, tables)
    found = answer(
        tables.study,
        [variant],
        comparisons.read(tables.folder, tables.study, [variant]),
    )
    assert found is not None and found.details[0].startswith("In MASE: the mean error was ")
    (rows,) = standings(best_cells(variant)).groups
    assert not [row.test for row in rows if "median" in row.test]

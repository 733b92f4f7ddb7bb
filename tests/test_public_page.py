"""The tables of docs/public.md."""

import itertools
import re

import pandas as pd
import pytest

from benchmarks.public import JUDGES_ONLY, curves
from benchmarks.public_start import SITES
from benchmarks.public_tables import (
    CURVE,
    CURVE_CLAIMS,
    FURTHER,
    HOURS,
    MEASURES,
    measure_first_weeks,
    print_curves,
)
from tests.helpers.repository import ROOT


def first_week(site: str, meter: str, others: float, level: float) -> dict[str, object]:
    """A row of a meter whose public model has half the error of the naive forecast."""
    keys = {"ahead": "day", "site": site, "meter": meter, "weeks": 1}
    test = {"last": 99.0, "yesterday": 2.0, "public": 1.0, "others": others}
    week = {"week last": 99.0, "week yesterday": 4.0, "week public": 2.0, "week others": 2 * others}
    return keys | test | week | {"switched": 0.1} | dict.fromkeys(HOURS, level)


def test_a_first_week_is_compared_with_the_test_and_with_the_public_meters():
    rows = [
        first_week("london", "a", 1.02, 1.5),
        first_week("sydney", "b", 0.9, 0.5),
        first_week("sydney", "c", 1.0, 1.0),
        first_week("sydney", "d", 0.0, 9.0) | {"weeks": 4},
        first_week("zonnedael", "e", 0.9, 1.0),
    ]
    told = measure_first_weeks(pd.DataFrame(rows)).loc["day"]
    assert told["meters"].to_dict() == {"london": 1, "sydney": 2, "zonnedael": 1}
    assert told["gain"].to_list() == pytest.approx([-0.01, 0.025, 0.05])
    assert told["week gain"].to_list() == pytest.approx([-0.01, 0.025, 0.05])
    assert told["chosen"].to_list() == [False, True, True]
    # London's meters are those of Sydney, and the other way round; Zonnedael's are both.
    assert told["profile distance"].to_list() == pytest.approx([0.75, 0.75, 0.125])


def test_what_the_page_says_of_first_weeks_is_in_their_table():
    text = (ROOT / "docs" / "public.md").read_text(encoding="utf-8")
    _, _, section = text.partition("### When is the public model not enough?")
    numbers = re.findall(r"\| (−?\d\.\d+)", section.partition("### A federation that starts")[0])
    table = pd.read_csv(ROOT / "docs" / "public_first_weeks.csv", index_col=["ahead", "site"])
    known = table.drop(index=FURTHER, level="site")
    ranks = known[MEASURES].corrwith(known["gain"], method="spearman")
    chosen = table.loc[table["chosen"], ["week gain", "gain"]]
    assert chosen.index.to_list() == [("day", "cambridge"), ("hour", "sydney")]
    wanted = [*ranks, *chosen.to_numpy().ravel()]
    assert list(map(float, numbers)) == pytest.approx(wanted, abs=6e-3)


def test_what_the_page_says_of_starts_is_in_their_table():
    text = (ROOT / "docs" / "public.md").read_text(encoding="utf-8")
    _, _, section = text.partition("### A federation that starts from the public model")
    keys = ["ahead", "site", "claim", "weeks"]
    table = pd.read_csv(ROOT / "docs" / "public_start.csv", index_col=keys)
    cell = re.compile(r"(\*?)\*?([+−]\S+) \[([+−]\S+), ([+−]\S+)\]")
    told = set()
    for number, part in enumerate(section.split("| claim, weeks | ")[1:]):
        ahead = ("hour", "day")[number % 2]
        sites = part.partition(" |\n")[0].lower().split(" | ")
        for claim, weeks, cells in re.findall(r"^\| (S\d), (\d) \| (.*) \|$", part, re.MULTILINE):
            for site, (is_bold, *numbers) in zip(sites, cell.findall(cells), strict=True):
                key = (ahead, site, claim, int(weeks))
                row = table.loc[key]
                assert bool(is_bold) == (row["verdict"] == "holds")
                values = [float(n.replace("−", "-")) for n in numbers]
                assert values == pytest.approx([row["gain"], row["low"], row["high"]], abs=6e-4)
                told.add(key)
    assert told == {*table.index}
    assert set(table.index.unique("site")) == {*SITES}


def test_what_the_page_says_of_networks_is_in_their_table():
    text = (ROOT / "docs" / "public.md").read_text(encoding="utf-8")
    _, _, section = text.partition("### A small network of long context")
    keys = ["ahead", "site", "weeks"]
    table = pd.read_csv(ROOT / "docs" / "public_network.csv", index_col=keys).sort_index()
    cell = r" (\**)([+−]\S+) \[([+−]\S+), ([+−]\S+)\]\** \|"
    rows = re.findall(r"^\| (\w+), (\d) \| (\S+) \| (\S+) \|" + 3 * cell, section, re.MULTILINE)
    assert len(rows) == 24
    for number, (site, weeks, trees, network, *cells) in enumerate(rows):
        told = table.loc[[(("hour", "day")[number // 12], site.lower(), int(weeks))]]
        for claim, row in told.set_index("claim").iterrows():
            marks = {"**": "holds", "*": "does not hold", "": "undecided"}
            assert marks[cells[0]] == row["verdict"], (site, weeks, claim)
            numbers = [float(n.replace("−", "-")) for n in cells[1:4]]
            assert numbers == pytest.approx([row["gain"], row["low"], row["high"]], abs=6e-4)
            del cells[:4]
        errors = told.set_index("claim").loc["N1", ["than", "error"]].to_list()
        assert [float(trees), float(network)] == pytest.approx(errors, abs=6e-4)


def test_curves_are_judged_at_both_sites_that_only_judge():
    asked = {(c.site, c.model.sites, c.model.sizes.leaves) for c in curves(["homes"])}
    for site in JUDGES_ONLY:
        both = ("london", "sydney")
        wanted = {(site, both, 8), (site, both, 31), (site, both, 63)}
        assert asked >= wanted | {(site, (place,), 63) for place in both}


def test_the_verdicts_of_curves_are_those_of_pairs_of_models(tmp_path, capsys):
    rows = []
    for sites, leaves, trees, error in (
        ("london+sydney", 63, 300, 0.8), ("london+sydney", 31, 300, 0.804),
        ("london+sydney", 31, 100, 0.83), ("london+sydney", 8, 300, 0.825),
        ("london", 63, 300, 0.79), ("sydney", 63, 300, 0.81),
    ):  # fmt: skip
        model = dict(zip(CURVE, ("fontana", "day", sites, 30, leaves, trees, 1), strict=True))
        for meter in "ab":
            place = {"origin": 0, "meter": meter, "bytes": 9}
            rows.append(model | place | {"error": error + (meter == "b") / 100})
    fewer = rows[-2] | {"sites": "london", "meters": 10, "error": 0.7}  # no claim is about it
    print_curves(pd.DataFrame([fewer, *rows]), tmp_path)
    said = re.findall(r"^(K\d)\nday  fontana    (.*): .(0.\d+)", capsys.readouterr().out, re.M)
    assert said == [
        ("K1", "holds", "0.004"), ("K2", "does not hold", "0.025"),
        ("K3", "does not hold", "0.005"), ("K4", "does not hold", "0.010"),
        ("K5", "holds", "0.020"),
    ]  # fmt: skip
    assert len(CURVE_CLAIMS) == len(said)
    table = pd.read_csv(tmp_path / "public_curves.csv")
    assert table["tested"].to_list() == [1, 2, 2, 2, 2, 2, 2]
    assert table["error"].to_list()[1:] == pytest.approx([0.805, 0.809, 0.835, 0.83, 0.795, 0.815])


def test_what_the_page_says_of_sizes_and_places_is_in_the_curves():
    text = (ROOT / "docs" / "public.md").read_text(encoding="utf-8")
    _, _, section = text.partition("### How much is enough?")
    table = pd.read_csv(ROOT / "docs" / "public_curves.csv")
    table = table[table["weeks"] == 1]
    table = table[table["meters"] == table.groupby("sites")["meters"].transform("max")]
    errors = table.set_index(["sites", "leaves", "trees", "site", "ahead"])["error"]
    homes, buildings = "london+sydney", "fox+panther+bear"
    places = [*itertools.product(("zonnedael", "fontana", "cambridge"), ("hour", "day"))]
    rows = re.findall(r"^\| ([\d,]+) \| (\d+) of (\d+) \| (.*) \|$", section, re.MULTILINE)
    assert len(rows) == 12
    for _, trees, leaves, cells in rows:
        sites = 4 * [homes] + 2 * [buildings]
        wanted = [
            errors[source, int(leaves), int(trees), *place]
            for source, place in zip(sites, places, strict=True)
        ]
        assert list(map(float, cells.split(" | "))) == pytest.approx(wanted, abs=6e-4)
    rows = re.findall(r"^\| (London's 200|Sydney's 30|both) \| (.*) \|$", section, re.MULTILINE)
    assert len(rows) == 3
    for (_, cells), source in zip(rows, ("london", "sydney", homes), strict=True):
        wanted = [errors[source, 63, 300, *place] for place in places[:4]]
        assert list(map(float, cells.split(" | "))) == pytest.approx(wanted, abs=6e-4)


def test_what_the_page_says_of_errors_is_in_their_table():
    text = (ROOT / "docs" / "public.md").read_text(encoding="utf-8")
    table = pd.read_csv(ROOT / "docs" / "public_errors.csv", index_col=["ahead", "site", "weeks"])
    rows = re.findall(
        r"^ *\| (\w+), (hour|day) \| (\S+ \| \S+ \| \S+ \| \S+) \|$", text, re.MULTILINE
    )
    names = ["others", "public", "public + others", "others on public"]
    told = [
        (table.loc[(ahead, site.lower(), 0), names], cells.replace("*", "").split(" | "))
        for site, ahead, cells in rows
        if (ahead, site.lower(), 0) in table.index
    ]
    assert len(told) == (table.index.get_level_values("weeks") == 0).sum()
    _, _, section = text.partition("| a day ahead; weeks: 4 / 16 / 40 |")
    names = ["public", "public + others", "w own, others", "w own, public", "w own, others, public"]
    longer = table[table.index.get_level_values("weeks") > 1].loc["day"]
    for site in longer.index.unique("site"):
        (row,) = re.findall(
            rf"^\| {site.capitalize()}.*? \| (.*) \|$", section.partition("\n\n")[0], re.MULTILINE
        )
        wanted = longer.loc[site].sort_index()
        told += [
            (wanted[name], cells.split(" / "))
            for name, cells in zip(names, row.split(" | "), strict=True)
        ]
    for wanted, cells in told:
        assert list(map(float, cells)) == pytest.approx(list(wanted), abs=6e-4)

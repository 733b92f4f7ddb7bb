"""The error by weeks of history of each way of forecasting: docs/map.csv and docs/images/map.png.

    python -m benchmarks.map results --out docs    # after the studies map, map-homes, …
    python -m benchmarks.map                       # the figure alone, of docs/map.csv

At each site and origin, the forecaster of a way that is best on validation stands for it. Leads are
over the best forecaster alone, with the intervals of `plfl.results`.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot
from scipy.stats import t as student

from plfl.results.contenders import NotInStudyError
from plfl.results.contest import Contest, contests
from plfl.results.variants import Variant
from plfl.study import Study

ROOT = Path(__file__).parents[1]
STUDIES = {
    "map-homes": "200 homes",
    "map-homes-40": "200 homes",
    "map": "132 buildings of three sites",
    "map-cambridge": "51 buildings of a fourth site",
    **dict.fromkeys(("map-day-ahead", "map-homes-day-ahead", "map-cambridge-day-ahead"), ""),
    **dict.fromkeys(("map-size", "map-homes-size"), ""),
}
"""Studies in `config/`, and the panels that show them; none: they are in the table alone."""
ALONE = [
    *("P3", "baseline-naive_day", "baseline-ridge", "baseline-lightgbm_bagged"),
    "baseline-combined",
]
WAYS = {
    "alone": ALONE,
    "received": ["unseen", "unseen-global", "baseline-lightgbm_federated"],
    "combined": ["baseline-combined_received"],
    "received, pooled": ["baseline-lightgbm_others"],
    "combined, pooled": ["baseline-combined_pooled"],
}
"""What is shown, and the forecasters of which the best on validation is taken."""
STYLES = {
    "alone": ("own readings only", "#333333", "-"),
    "received": ("the others' model", "#0072B2", "-"),
    "received, pooled": ("the same, if the others pool their readings", "#0072B2", ":"),
    "combined": ("weighted mean of own models and the others'", "#009E73", "-"),
    "combined, pooled": ("the same, if the others pool their readings", "#009E73", ":"),
    "baseline-combined_public": ("weighted mean of own models and the public one", "#D55E00", "-"),
}
"""The name, colour and line of each line that the figure draws of the table."""
PUBLIC_NAME = "a model of public meters of other places"
NEW = {"map": {"2017-05-07", "2017-09-24"}}
"""Dates, at which a test begins, that were in no earlier run with trees."""
NEW_SITE = "a new site"
SINGLE = (
    *(*ALONE, *WAYS["received"], "baseline-lightgbm_stacked", "P1", "P1-global"),
    *("baseline-public", "baseline-combined_public", "baseline-combined_received_public"),
    *("baseline-mean_received", "baseline-lightgbm_on_public"),
)
"""Forecasters that the table has one by one, too."""
SCORES = ("wape", "seasonal_mase", "nrmse", "peak_error")
"""Scores beside MASE over persistence. The first three are means over all windows."""
FOURTH = {"map": "map-cambridge", "map-day-ahead": "map-cambridge-day-ahead"}
"""Studies of three sites, and the same of a fourth one."""


def row(study: str, weeks: str, way: str, contest: Contest, alone: bool) -> dict[str, Any]:
    """What is known of a way of forecasting."""
    values = {"study": study, "weeks": int(weeks), "way": way, "mase": contest.error(0)}
    values |= {score: contest.mean(0, score) for score in SCORES}
    values["sent_kb"] = contest.bytes(0) / 1000
    values["chosen"] = contest.label(0)
    if alone:
        return values
    kept = ("difference", "low", "high", "lowest", "highest")
    names = ("lead", "low", "high", "least_without_a_site", "most_without_a_site")
    compared = contest.row
    return values | {name: compared.get(key) for name, key in zip(names, kept, strict=True)}


def table(results: Path) -> pd.DataFrame:
    """A row for each way and site, and for each forecaster, of the studies that are there."""
    rows = []
    for name in STUDIES:
        study = Study.load(ROOT / "config" / f"{name}.yaml")
        variants = [
            variant
            for variant in Variant.all_of(study, results / name)
            if (results / name / variant.label / "summary.csv").exists()
        ]
        if not variants:
            continue
        axes = ("windows.history", "data.federations")
        places = [tuple(variant.place.get(axis, "") for axis in axes) for variant in variants]
        for weeks, size in sorted(set(places), key=lambda place: [int(n or 0) for n in place]):
            pairs = zip(variants, places, strict=True)
            here = [variant for variant, place in pairs if place == (weeks, size)]
            kinds = {"baseline", *study.grid.sharing}
            ways = WAYS | {name: [name] for name in SINGLE if name.split("-")[0] in kinds}
            for way, names in ways.items():
                is_alone = names == ALONE
                than = ["baseline-persistence"] if is_alone else ALONE
                new = [v for v in here if NEW.get(name, set()) & {*v.place.values()}]
                parts: dict[str, tuple[list[Variant], list[str]]] = {"all": (here, [])}
                if way in WAYS:
                    parts |= {"new seasons": (new, [])} if new else {}
                    parts |= {state: (here, [state]) for state in study.data.states}
                if len(study.data.states) == 1:
                    parts.pop(study.data.states[0], None)
                for part, (some, states) in parts.items():
                    try:
                        (contest,) = contests(study, some, names, than, states=states)
                    except NotInStudyError:
                        continue
                    if contest.pairs:  # else it has no forecast of some windows
                        known = row(name, weeks, way, contest, is_alone)
                        rows.append({"site": part, **known, "in_federation": size})
    return pd.DataFrame(rows)


def predict_new_site(rows: pd.DataFrame) -> pd.DataFrame:
    """The leads that one more site would have, with the interval of a prediction from those of four
    sites (Student's t distribution, 3 degrees of freedom)."""
    predictions = []
    for (study, weeks, way), three in rows[rows["study"].isin(FOURTH)].groupby(
        ["study", "weeks", "way"], sort=False
    ):
        same = (rows["weeks"] == weeks) & (rows["way"] == way) & (rows["site"] == "all")
        fourth = rows[same & (rows["study"] == FOURTH[study])]
        site_rows = three[~three["site"].isin(["all", "new seasons"])]
        leads = pd.concat([site_rows["lead"], fourth["lead"]]).dropna()
        if len(leads) == 4:
            half = student(3).ppf(0.975) * leads.std() * math.sqrt(1 + 1 / len(leads))
            low, high = leads.mean() - half, leads.mean() + half
            interval = {"lead": leads.mean(), "low": low, "high": high}
            place = {"site": NEW_SITE, "study": study, "weeks": weeks, "way": way}
            predictions.append(place | interval)
    return pd.DataFrame(predictions)


def draw(rows: pd.DataFrame, public: pd.DataFrame, path: Path) -> None:
    """A panel for homes, for buildings and for an unseen site, with the intervals of the leads;
    `public`: the errors of the public model (`benchmarks.map_public`)."""
    titles = [
        title
        for title in dict.fromkeys(STUDIES.values())
        if title and title in set(rows["study"].map(STUDIES))
    ]
    figure, panels = pyplot.subplots(1, len(titles), figsize=(11, 4.4), sharey=True, squeeze=False)
    for panel, title in zip(panels[0], titles, strict=True):
        shown = rows[(rows["study"].map(STUDIES) == title) & (rows["site"] == "all")]
        weeks = sorted(shown["weeks"].unique())
        for k, (way, (label, colour, dash)) in enumerate(STYLES.items()):
            line = shown[shown["way"] == way].sort_values("weeks")
            places = [weeks.index(week) + 0.05 * (k - 2.5) for week in line["weeks"]]
            bars = None
            if dash == "-" and way != "alone":
                bars = [line["high"] - line["lead"], line["lead"] - line["low"]]
            panel.errorbar(
                places, line["mase"], bars, color=colour, linestyle=dash, label=label,
                marker="o", markersize=4, capsize=3,
            )  # fmt: skip
        line = public[(public["study"].map(STUDIES) == title) & (public["site"] == "all")]
        line = line.sort_values("weeks")
        panel.plot(
            [weeks.index(week) for week in line["weeks"]], line["mase"], color="#CC79A7",
            marker="s", markersize=4, label=PUBLIC_NAME,
        )  # fmt: skip
        panel.set_title(title, fontsize=11)
        panel.set_xticks(range(len(weeks)), [str(week) for week in weeks])
        panel.set_xlabel("weeks of own readings")
        panel.grid(axis="y", alpha=0.3)
    panels[0][0].set_ylabel("error (1: repeat the last reading)")
    handles, labels = panels[0][0].get_legend_handles_labels()
    # Columns: without others, what others send, and its weighted mean with own models.
    order = [labels.index(name) for name in (STYLES["alone"][0], PUBLIC_NAME)]
    order.append(labels.index(STYLES["baseline-combined_public"][0]))
    order += [k for k in range(len(labels)) if k not in order]
    # A legend fills its columns from the top: the first has three names, the others two.
    figure.legend(
        [handles[k] for k in order], [labels[k] for k in order],
        loc="lower center", ncols=3, frameon=False, fontsize=9,
    )  # fmt: skip
    figure.tight_layout(rect=(0, 0.17, 1, 1))
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    arguments = parser.parse_args()
    path = arguments.out / "map.csv"
    if arguments.results:
        rows = table(arguments.results)
        if path.exists():  # studies that are not in the folder keep their rows
            before = pd.read_csv(path)
            rows = pd.concat([before[~before["study"].isin(rows["study"])], rows])
        rows = rows[rows["site"] != NEW_SITE]
        rows = pd.concat([rows, predict_new_site(rows)])
        rows.to_csv(path, index=False, float_format="%.4f")
    public = pd.read_csv(arguments.out / "map_public.csv")
    draw(pd.read_csv(path), public, arguments.out / "images" / "map.png")


if __name__ == "__main__":
    main()

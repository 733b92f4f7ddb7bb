"""The tables and verdicts of docs/public.md, from the files of the programs that ran.

    python -m benchmarks.public_tables OUT

OUT has `errors.csv` and `curves.csv` of `benchmarks.public`, `starter.csv` of `benchmarks.starter`
and `pretrained.csv` of `benchmarks.pretrained`; what is not there is left out. Prints Markdown and
writes `OUT/public.csv`: for each site, horizon and number of weeks the errors of all forecasters;
`OUT/first_weeks.csv`: what a site's first week tells; and how much is enough:
`OUT/public_curves.csv`, means over meters and origins, and `OUT/curves.png`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot

from benchmarks.public import public_of

DRAWS = 2000
ROWS = [
    *("own", "others", "public", "others on public", "public + others", "across"),
    *("w own, others", "w own, public", "w public, others", "w own, others, public"),
    *("yesterday", "last week", "last"),
]
"""Forecasters in the order of the tables; `w`: weighted mean."""
SITES = ["london", "sydney", "zonnedael", "fontana", "fox", "panther", "bear", "cambridge"]
FURTHER = "fontana"
"""The site whose results were unknown when the rule of the first week was fixed."""
WITHIN = 0.02
"""How much worse than the others' the public model may be (claim C1)."""
WORTH_IT = 0.02
"""By how much the others' model must be better in the first week that the rule chooses it."""


def relative(table: pd.DataFrame) -> pd.DataFrame:
    """Errors over those of the last reading (an hour ahead) or of yesterday (a day ahead)."""
    base = table["last"].where(table["ahead"] == "hour", table["yesterday"])
    forecasters = [name for name in ROWS if name in table]
    errors = table[forecasters].div(base, axis=0)
    keys = table[["site", "ahead", "weeks", "origin", "meter"]]
    return pd.concat([keys, errors], axis=1)


def interval(differences: pd.DataFrame) -> tuple[float, float, float]:
    """The mean of a table (meters × origins), and the ends of its 95 % interval: both are drawn
    with replacement."""
    values = differences.to_numpy()
    random = np.random.default_rng(1)
    draws = []
    for _ in range(DRAWS):
        meters = random.integers(len(values), size=len(values))
        origins = random.integers(values.shape[1], size=values.shape[1])
        draws.append(np.nanmean(values[np.ix_(meters, origins)]))
    return float(np.nanmean(values)), *map(float, np.nanquantile(draws, (0.025, 0.975)))


def verdict(
    errors: pd.DataFrame, better: str, than: list[str], weeks: int, margin: float = 0.0
) -> pd.Series:
    """What a claim says at each site and horizon: that `better` has a smaller error than the best
    of `than`, or one that is not greater by more than the margin."""
    words = {}
    for (ahead, site), some in errors[errors["weeks"] == weeks].groupby(["ahead", "site"]):
        rival = min(than, key=lambda name: some[name].mean())
        pairs = some.assign(gain=some[rival] - some[better])
        mean, low, high = interval(pairs.pivot(index="meter", columns="origin", values="gain"))
        said = "holds" if low > -margin else "does not hold" if high < -margin else "undecided"
        words[ahead, site] = f"{said}: {mean:+.3f} [{low:+.3f}, {high:+.3f}]"
    return pd.Series(words)


MEASURES = ["week gain", "week public", "switched", "profile distance"]
"""What may tell in a site's first week whether others' models will be better than the public."""
HOURS = [f"profile {hour}" for hour in range(24)]
"""Columns of a meter's daily profile in its first week, over its mean load."""


def measure_first_weeks(table: pd.DataFrame) -> pd.DataFrame:
    """For each horizon and site, means over meters and origins with one week of readings: the gain
    of the others' model over the public one in the test; and of the first week the same gain, the
    error of the public model, the share of switched loads and the mean absolute distance of the
    daily profile from that of the public meters. Errors are over the naive forecast's."""
    weekly = table[table["weeks"] == 1].set_index(["ahead", "site"])
    is_hour = weekly.index.get_level_values("ahead") == "hour"
    test = weekly["last"].where(is_hour, weekly["yesterday"])
    first = weekly["week last"].where(is_hour, weekly["week yesterday"])
    profiles = weekly[HOURS].groupby(level=["ahead", "site"]).mean()
    rows = {}
    for ahead, site in profiles.index:
        trained = [(ahead, other) for other in public_of(site, ahead).sites]
        typical = profiles.loc[[key for key in trained if key in profiles.index]].mean()
        rows[ahead, site] = (weekly.loc[[(ahead, site)], HOURS] - typical).abs().mean(axis=None)
    parts = {
        "meters": weekly["meter"].groupby(level=["ahead", "site"]).nunique(),
        "gain": (weekly["public"] - weekly["others"]) / test,
        "week gain": (weekly["week public"] - weekly["week others"]) / first,
        "week public": weekly["week public"] / first,
        "switched": weekly["switched"],
    }
    means = {name: part.groupby(level=["ahead", "site"]).mean() for name, part in parts.items()}
    measures = pd.DataFrame(means).astype({"meters": int})
    measures["profile distance"] = pd.Series(rows)
    return measures.assign(chosen=measures["week gain"] > WORTH_IT)


def markdown(table: pd.DataFrame) -> str:
    """A table as Markdown."""
    head = "| " + " | ".join([str(table.index.name or ""), *map(str, table.columns)]) + " |"
    rows = [
        "| " + " | ".join([str(name), *map(str, row)]) + " |" for name, *row in table.itertuples()
    ]
    return "\n".join([head, "|" + "---|" * (1 + table.shape[1]), *rows])


DASHES = {8: ":", 31: "--", 63: "-"}
"""The line of models by the leaves of their trees."""


def draw_curves(curves: pd.DataFrame, path: Path) -> None:
    """The error with one week by number of public meters, and by size."""
    rows = curves[curves["weeks"] == 1].assign(kb=curves["bytes"] / 1000)
    keys = ["site", "ahead", "sites"]
    is_whole = (rows["trees"] == rows["trees"].max()) & (rows["leaves"] == 63)
    is_largest = rows["meters"] == rows.groupby(keys)["meters"].transform("max")
    is_largest &= rows["site"] != FURTHER  # whose lines are like those of Zonnedael
    lines = {
        "public meters": ("meters", rows[is_whole]),
        "size of the model as text, kB": ("kb", rows[is_largest]),
    }
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 5.6), sharey=True)
    colours: dict[str, str] = {}
    for panel, (title, (column, table)) in zip(panels, lines.items(), strict=True):
        for (site, ahead, _, leaves), line in table.groupby([*keys, "leaves"]):
            if line[column].nunique() < 3:
                continue
            label = f"{site.capitalize()}, {'an hour' if ahead == 'hour' else 'a day'} ahead"
            label += f", {leaves} leaves" if column == "kb" else ""
            colour = colours.setdefault(f"{site}, {ahead}", f"C{len(colours)}")
            line = line.sort_values(column)
            panel.plot(
                line[column], line["error"], color=colour, linestyle=DASHES[leaves],
                marker="o", markersize=4, label=label,
            )  # fmt: skip
        panel.set_xlabel(title)
        panel.set_xscale("log")
        panel.grid(axis="y", alpha=0.3)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=8, frameon=False)
    panels[0].set_ylabel("error (1: naive)")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(folder: Path) -> None:
    """Print everything."""
    if (folder / "errors.csv").is_file():
        print_errors(folder)
    if (file := folder / "starter.csv").is_file():
        print_starter(pd.read_csv(file))
    if (file := folder / "pretrained.csv").is_file():
        print_pretrained(pd.read_csv(file))
    if (file := folder / "curves.csv").is_file():
        print_curves(pd.read_csv(file).drop_duplicates(), folder)


def print_errors(folder: Path) -> None:
    """Print the errors and the verdicts, and write `public.csv`."""
    table = pd.read_csv(folder / "errors.csv")
    errors = relative(table)
    forecasters = [name for name in ROWS if name in errors]
    means = errors.groupby(["ahead", "site", "weeks"])[forecasters].mean()
    counts = errors.groupby(["ahead", "site", "weeks"])["meter"].nunique().rename("meters")
    pd.concat([counts, means.round(4)], axis=1).to_csv(folder / "public.csv")
    for ahead, some in means.groupby(level="ahead"):
        print(f"\n## {ahead}\n")
        print(some.droplevel("ahead").round(3).to_string())
    first_weeks = measure_first_weeks(table).round(4)
    first_weeks.to_csv(folder / "first_weeks.csv")
    print(f"\n## first weeks\n\n{first_weeks.to_string()}\n")
    known = first_weeks.drop(index=FURTHER, level="site", errors="ignore")
    ranks = known[MEASURES].corrwith(known["gain"], method="spearman")
    print(f"rank correlations with the gain, {len(known)} pairs: {ranks.round(2).to_dict()}")
    claims = {
        "C1": ("public", ["others"], 1, WITHIN),
        "C2": ("w own, others, public", ["w own, public"], 4, 0.0),
        "C3, 1 week": ("others on public", ["others"], 1, 0.0),
        "C3, 4 weeks": ("others on public", ["others"], 4, 0.0),
        "C4": ("public", ["yesterday", "last week"], 1, 0.0),
        "C5": ("public + others", ["public", "others"], 1, 0.0),
    }
    verdicts = pd.DataFrame({name: verdict(errors, *claim) for name, claim in claims.items()})
    for ahead in ("hour", "day"):
        print(f"\n{ahead}\n")
        print(
            markdown(
                verdicts.loc[ahead].reindex([s for s in SITES if (ahead, s) in verdicts.index])
            )
        )


CURVE = ["site", "ahead", "sites", "meters", "leaves", "trees", "weeks"]
"""What tells apart the public models of the curves, and what is asked of them."""
CURVE_CLAIMS = {
    "K1": ("london+sydney, 31 leaves, 300 trees", "london+sydney, 63 leaves, 300 trees", 0.005),
    "K2": ("london+sydney, 8 leaves, 300 trees", "london+sydney, 63 leaves, 300 trees", 0.02),
    "K3": ("london+sydney, 31 leaves, 100 trees", "london+sydney, 8 leaves, 300 trees", 0.0),
    "K4": ("london+sydney, 63 leaves, 300 trees", "london, 63 leaves, 300 trees", 0.005),
    "K5": ("london, 63 leaves, 300 trees", "sydney, 63 leaves, 300 trees", 0.0),
}
"""The model that has the lower error, the other one, and by how much it may be worse."""


def print_curves(curves: pd.DataFrame, folder: Path) -> None:
    """Print the errors of public models by size, and the verdicts of K1 to K5."""
    means = curves.groupby([*CURVE, "bytes"], sort=False)["error"].agg(["mean", "size"])
    table = means.set_axis(["error", "tested"], axis=1).reset_index()
    table = table[[*CURVE, "error", "bytes", "tested"]]
    print(f"\n## curves\n\n{table.drop(columns='tested').round(3).to_string(index=False)}\n")
    table.to_csv(folder / "public_curves.csv", index=False, float_format="%.6g")
    draw_curves(table, folder / "curves.png")
    whole = curves[curves["weeks"] == 1]
    names = [f"{c.sites}, {c.leaves} leaves, {c.trees} trees" for c in whole.itertuples()]
    whole = whole.assign(model=names).sort_values("meters")  # of all meters of the sites: the last
    keys = ["ahead", "site", "meter", "origin"]
    errors = whole.drop_duplicates([*keys, "model"], keep="last").pivot(
        index=keys, columns="model", values="error"
    )
    errors = errors.reset_index().assign(weeks=1)
    for name, (better, than, margin) in CURVE_CLAIMS.items():
        if {better, than} <= {*errors}:
            pairs = errors.dropna(subset=[better, than])
            print(f"{name}\n{verdict(pairs, better, [than], 1, margin).to_string()}")


def print_starter(starter: pd.DataFrame) -> None:
    """Print the scores and intervals of starter models, and the verdicts of C6."""
    starter["mase"] = starter["starter"] / starter["last"]
    for name in ("yesterday", "last_week"):
        starter[f"{name}_mase"] = starter[name] / starter["last"]
    columns = ["mase", "yesterday_mase", "last_week_mase", "coverage"]
    print("\n## starter\n")
    print(starter.groupby(["ahead", "site", "weeks"])[columns].mean().round(3).to_string())
    for (ahead, site), some in starter[starter["weeks"] == 1].groupby(["ahead", "site"]):
        pairs = some.pivot(index="meter", columns="origin", values="coverage")
        mean, low, high = interval(pairs)
        inside = "holds" if low > 0.75 and high < 0.85 else "undecided"
        inside = "does not hold" if high < 0.75 or low > 0.85 else inside
        print(f"C6 {ahead} {site}: {inside}: {mean:.3f} [{low:.3f}, {high:.3f}]")


def print_pretrained(table: pd.DataFrame) -> None:
    """Print the errors of means with a pretrained model, and the verdicts of F1 to F3."""
    means = table.drop(columns="meter").groupby(["ahead", "site", "weeks"]).mean()
    print(f"\n## pretrained\n\n{means.round(3).T.to_string()}")
    means_of_four = "w own, others, public, fracast", ["w own, others, public"]
    claims = {"F1": ("public + fracast", ["public", "fracast"]), "F2": means_of_four}
    claims["F3"] = "public", ["fracast"]
    for (ahead, site, weeks), some in table.groupby(["ahead", "site", "weeks"]):
        for name, (better, than) in claims.items():
            rival = min(than, key=lambda other: some[other].mean())
            gains = (some[rival] - some[better]).dropna()
            if len(gains):
                mean, low, high = interval(gains.to_frame())
                said = "holds" if low > 0 else "does not hold" if high < 0 else "undecided"
                print(
                    f"{name} {ahead} {site}, {weeks}: {said}: {mean:+.3f} [{low:+.3f}, {high:+.3f}]"
                )


if __name__ == "__main__":
    main(Path(sys.argv[1]))

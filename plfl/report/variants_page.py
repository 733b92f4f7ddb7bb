"""The page and the figure of a study with further axes, which compare all variants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes as Panel
from matplotlib.figure import Figure

from plfl.base.text import format_percent
from plfl.baselines import find, pretrained_names, rivals
from plfl.config.baselines import BASELINE
from plfl.report.answer import FederationAnswer, answer
from plfl.report.comparison_plot import plot_comparisons
from plfl.report.figures.style import (
    PAGE_WIDTH,
    colour,
    fit,
    log_if_wide,
    mark_sample,
    panels,
    save,
    style,
)
from plfl.report.page import source_of, tell_answer
from plfl.report.rendering import embed_figure, link, score, write_page
from plfl.report.standings import standings
from plfl.results import comparisons, words
from plfl.results.best import best_rows
from plfl.results.overview import BEST_FILE, MAP_FILE, Overview, longest_axis
from plfl.results.statistics import undecidable
from plfl.results.tables import refuse_contradictions
from plfl.results.variants import Variant
from plfl.results.words import method_label
from plfl.study import Study
from plfl.study.axes import Axis
from plfl.study.forecaster_names import LOCAL

STEM = "overview"
CAPTION = (
    "Test MASE of the best cell of each variant, sharing scheme and method, chosen on validation:"
    " mean over clients and seeds of the clients' local models. Error bars are 95 %"
    " intervals over clients, weeks and seeds. Grey lines are baselines, chosen on validation: the"
    " best one that sends no data (dashed), and the best one on the raw data of all clients"
    " (dotted). Codecs of messages are drawn over the bytes that a client exchanges, both ways, or"
    " as lines of their own."
)
OVERVIEW_FILES = {
    BEST_FILE: "the best cell of each variant, state, sharing scheme and method",
    comparisons.COMPARISONS_FILE: "all comparisons, with the verdicts on the study's claims",
    MAP_FILE: "the best way of forecasting at each place on the axes",
    "summary.csv": "scores of every cell of every variant",
    "records.parquet": "scores, losses and bytes of every client and round of every variant",
    "study.json": "configuration, versions and variants",
}
FEW_ROWS = 3
"""Largest number of places that a sentence names."""
MOST_GROUPS = 24
"""Largest number of panels of the figure; if a study has more, the first are shown."""


def illustrate(results: Path, figures: Path) -> list[Path]:
    """Draw the figures of the study in folder `results` into folder `figures`."""
    overview = Overview(results)
    with style(), refuse_contradictions(results):
        return save(draw(overview), figures / STEM)


def draw(overview: Overview) -> Figure:
    """The MASE along the axis with the most values, or over bytes if these are codecs; a panel for
    each state and place on other axes. Each codec has a line or mark in the panels."""
    study, best = overview.study, overview.table(BEST_FILE)
    axis, other_axes = longest_axis(study)
    codecs = [
        one_axis.column
        for one_axis in study.plan.axes
        if _is_codec(one_axis) and one_axis is not axis
    ]
    apart = [
        one_axis
        for one_axis in study.plan.axes
        if one_axis.column in other_axes and one_axis.column not in codecs
    ]
    groups = list(best.groupby(["state", *(one_axis.column for one_axis in apart)], sort=False))[
        :MOST_GROUPS
    ]
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure, axes = panels(rows, columns, (PAGE_WIDTH, 2.2 * rows + 0.5), sharey=True)
    for panel, (place, part) in zip(axes.flat, groups, strict=False):
        _lines(study, panel, axis, part, codecs)
        titles = [
            words.word_value(one_axis, str(label), study.client_word)
            for one_axis, label in zip(apart, place[1:], strict=True)
        ]
        panel.set_title(fit(", ".join([str(place[0]), *titles]), 34, lines=2), fontsize=7)
        if legend := panel.get_legend():
            legend.remove()  # the figure has one for all panels
        panel.grid(axis="y")
    for panel in axes.flat[len(groups) :]:
        panel.axis("off")
    scores = best.loc[best["model"] == "local", "mase"].dropna().to_numpy(float)
    if log_if_wide(axes.flat[: len(groups)], scores, 4):
        axes.flat[0].set_ylim(scores.min() / 1.3, scores.max() * 1.3)  # intervals may reach below 0
    for panel in axes[:, 0]:
        panel.set_ylabel("Test MASE")
    legends = (zip(*panel.get_legend_handles_labels(), strict=True) for panel in axes.flat)
    lines = {label: handle for legend in legends for handle, label in legend}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3)
    if study.data.is_sample:
        mark_sample(figure)
    return figure


def _is_codec(axis: Axis) -> bool:
    return axis.key.split(".")[0] == "channel"


def _lines(
    study: Study, panel: Panel, axis: Axis, panel_rows: pd.DataFrame, codecs: list[str]
) -> None:
    """A line for each sharing scheme, method and codec along the axis, and the best baselines. If
    codecs are the axis, a mark for each over the bytes that a client exchanges."""
    (position, numeric), over_bytes = positions(axis), _is_codec(axis)
    cell_rows = panel_rows[panel_rows["model"] == "local"]
    codecs = [*codecs, axis.column] if over_bytes else codecs
    # If nothing is sent, all codecs have the same line.
    sends = cell_rows.groupby(["sharing", "method"])["bytes"].transform("max") > 0
    first = (cell_rows[codecs] == cell_rows[codecs].iloc[:1].to_numpy()).all(axis=1)
    visible_rows = cell_rows[sends | first]
    line_names = [
        ", ".join(
            [_kind(study, cell_rows, sharing, method), *(code for code in coded if code != "none")]
        )
        for sharing, method, *coded in visible_rows[["sharing", "method", *codecs]].to_numpy()
    ]
    looks = {name: colour(number) for number, name in enumerate(dict.fromkeys(line_names))}
    if over_bytes:
        kilobytes = visible_rows["bytes"] / visible_rows["clients"] / 1e3
        sns.scatterplot(
            visible_rows.assign(line=line_names, sent=kilobytes),
            x="sent",
            y="mase",
            hue="line",
            style="line",
            palette={name: look["color"] for name, look in looks.items()},
            markers={name: look["marker"] for name, look in looks.items()},
            ax=panel,
        )
        lowest = float(kilobytes[kilobytes > 0].min())
        panel.set_xscale("symlog", linthresh=lowest)
        panel.set_xlim(left=-lowest / 4)
        panel.set_xlabel("kB per client in all rounds")
        return
    x_values = visible_rows[axis.column].map(position)
    draw_lines(panel, visible_rows.assign(line=line_names, at=x_values), "mase", looks, numeric)
    baseline_rows = panel_rows[panel_rows["sharing"] == BASELINE].dropna(subset="validation_mase")
    pooled = [find(name).crosses == "raw data" for name in baseline_rows["method"]]
    silent = baseline_rows["method"].isin(rivals(study.baselines.further))
    for label, rows, dashes in (
        ("best baseline", baseline_rows[silent], "--"),
        ("best baseline on pooled data", baseline_rows[pooled], ":"),
    ):
        best = best_rows(rows, [axis.column])
        look: dict[str, Any] = {"color": "0.55", "linewidth": 0.8, "linestyle": dashes, "zorder": 1}
        if len(best):
            best = best.assign(at=best[axis.column].map(position))
            sns.lineplot(best, x="at", y="mase", errorbar=None, label=label, ax=panel, **look)
    labels = list(position)
    rotated = not numeric and max(map(len, labels)) * len(labels) > 30
    panel.set_xticks(list(position.values()), labels, rotation=60 if rotated else 0)
    panel.minorticks_off()
    panel.set_xlabel(axis.key)


def draw_lines(
    panel: Panel,
    table: pd.DataFrame,
    y: str,
    looks: Mapping[str, Mapping[str, Any]],
    is_numeric: bool,
) -> None:
    """A line for each name in the column `line`, with the intervals `low` to `high`, over `at`.
    `looks`: colour and marker of each line; `is_numeric`: whether points are joined, over a
    logarithmic axis if they reach far. Marks stand side by side, so that they do not cover each
    other."""
    names = list(dict.fromkeys(table["line"]))
    low_end, high_end = table["at"].min(), table["at"].max()
    wide = bool(is_numeric and low_end > 0 and high_end / low_end > 20)
    offset = table["line"].map(names.index) - (len(names) - 1) / 2
    step = (0.03 * (high_end - low_end) if is_numeric else 0.5) / max(1, len(names))
    table = table.assign(at=table["at"] * 1.05**offset if wide else table["at"] + step * offset)
    sns.lineplot(
        table,
        x="at",
        y=y,
        hue="line",
        style="line",
        palette={name: looks[name]["color"] for name in names},
        markers={name: looks[name]["marker"] for name in names},
        dashes=False,
        errorbar=None,
        linestyle="-" if is_numeric else "none",
        markeredgewidth=0,
        markersize=4,
        ax=panel,
    )
    colours = [looks[name]["color"] for name in table["line"]]
    panel.vlines(table["at"], table["low"], table["high"], colors=colours, linewidth=0.6)
    if wide:
        panel.set_xscale("log")


def _kind(study: Study, cell_rows: pd.DataFrame, sharing: str, method: str) -> str:
    """The sharing scheme in words, and the method if there are others and it has an effect."""
    rows = cell_rows[cell_rows["sharing"] == sharing]
    same_kind = rows if not rows["bytes"].any() else cell_rows
    has_several_methods = len(same_kind["method"].unique()) > 1
    scheme = words.word_scheme(study, sharing)
    return f"{scheme}, {method_label(method)}" if has_several_methods else scheme


def positions(axis: Axis) -> tuple[dict[str, float], bool]:
    """Positions of the values of an axis on the horizontal axis, and whether they are numbers."""
    values = list(axis.choices.values())
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    places = values if numeric else range(len(values))
    return dict(zip(axis.choices, map(float, places), strict=True)), numeric


def write(results: Path, figures: Path, page: Path) -> None:
    """Write the page of the study in folder `results`, with its figure, to file `page`. Variants
    whose own pages exist are linked. The same results give the same bytes."""
    overview = Overview(results)
    study = overview.study
    with refuse_contradictions(results):
        federation_answer, place_sentences = _answer(overview), describe_places(overview)
        write_page(
            page,
            "overview.html.jinja",
            overview.facts,
            study=study,
            source=source_of(study),
            links={
                label: link(path, page)
                if (path := results / label / "index.html").is_file()
                else ""
                for label in overview.facts["variants"]
            },
            compared=plot_comparisons(study, overview.comparisons),
            note=undecidable(study),
            place_sentences=place_sentences,
            answer=federation_answer,
            one=study.client_word,
            keeps_models=True,
            found=list(describe_axes(overview)),
            map=_map(overview),
            picture=embed_figure(figures / f"{STEM}.svg", CAPTION),
            caption=CAPTION,
            standings=standings(
                overview.table(BEST_FILE),
                study.plan.axes,
                pretrained_names(study.baselines.further),
            ),
            files={
                name: (link(results / name, page), text) for name, text in OVERVIEW_FILES.items()
            },
        )
    sentences = " ".join(place_sentences).strip()
    if text := federation_answer.summary if federation_answer else sentences:
        tell_answer(text)


def _answer(overview: Overview) -> FederationAnswer | None:
    """Whether it is worth it to join, over all origins; None with other axes."""
    study = overview.study
    if study.plan.latest_variant is None or not study.task.forecasts:
        return None
    return answer(study, Variant.all_of(study, overview.folder), overview.comparisons)


def _at_places(overview: Overview) -> pd.DataFrame:
    """The best federation against the best forecaster without one at each place on the axes, where
    the difference has an interval."""
    table = overview.comparisons
    table = table[(table["about"] == "federation") & (table["than"] == LOCAL)]
    return table[(table["state"] == "") & table["low"].notna()]


def describe_places(overview: Overview) -> tuple[str, str]:
    """The answer in plain words: a sentence about all places on the axes, and one about the largest
    differences; empty without any interval."""
    table = _at_places(overview)
    if table.empty:
        return "", ""
    better, worse = int((table["low"] > 0).sum()), int((table["high"] < 0).sum())
    unclear = len(table) - better - worse
    parts = [f"Joining helps at {better or 'none'} of {len(table)} places on the axes"]
    parts += [f"harms at {worse}"] if worse else []
    parts += [f"at {unclear} chance could explain the difference"] if unclear else []
    largest = table.loc[table["difference"].abs().sort_values(ascending=False).index[:FEW_ROWS]]
    at_places = []
    for row in largest.to_dict("records"):
        percent = 100 * row["difference"] / row["error_than"] if row["error_than"] else 0.0
        side = "lower" if percent > 0 else "higher"
        start = f"with {row['place']}" if row["place"] else "everywhere"
        at_places.append(f"{start} {format_percent(abs(percent))} {side}")
    return f"{words.join_words(parts)}.", (
        "Errors of the best federation, beside those of the best forecaster without one: "
        f"{words.join_words(at_places)}."
    )


def describe_axes(overview: Overview) -> Iterator[str]:
    """Sentences about where the error with a federation is lower than that of the best forecaster
    without one, and where it is higher."""
    table = _at_places(overview)
    better_rows, worse_rows = table[table["low"] > 0], table[table["high"] < 0]
    for word, rows in (("lower", better_rows), ("higher", worse_rows)):
        if not len(rows):
            continue
        first = rows.loc[rows["difference"].abs().sort_values(ascending=False).index[:FEW_ROWS]]
        introduction = " The largest differences in MASE:" if len(rows) > FEW_ROWS else " MASE:"
        text = "; ".join(
            f"{row['place'] or 'everywhere'}, {score(row['error'])} ({row['chosen']}) against "
            f"{score(row['error_than'])} ({row['chosen_than']})"
            for row in first.to_dict("records")
        )
        yield (
            f"With the federation the error is {word} at {len(rows)} of {len(table)} places on "
            f"the axes; the interval excludes 0.{introduction} {text}."
        )
    if undecided_count := len(table) - len(better_rows) - len(worse_rows):
        yield f"At {undecided_count} of {len(table)} places on the axes the interval includes 0."


def _map(overview: Overview) -> list[dict[Any, Any]]:
    """The best way of forecasting at each place on the axes: its advantage, price and bytes."""
    rows = overview.table(MAP_FILE).fillna({"best": "n/a"}).to_dict("records")
    for row in rows:
        place = words.word_place(overview.study, {str(name): label for name, label in row.items()})
        row |= {"place": place, "decided": row["lead_low"] > 0 or row["lead_high"] < 0}
    return rows

"""The tables of the page about the forecasters that a study keeps: errors by lead time, and those
of the sum of the meters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plfl.base.text import count_in_words, format_percent
from plfl.forecast.kept_errors import (
    LEAD_COLUMNS,
    LEADS_FILE,
    NEW_COLUMNS,
    NEW_FILE,
    RIVAL,
    SUM_COLUMNS,
    SUMS_FILE,
    read_errors,
)
from plfl.report.rendering import format_peak, score
from plfl.results import words
from plfl.results.words import baseline_label
from plfl.study import Study

MOST_LEADS = 8
"""Lead times in a table."""


def lead_time_errors(results: Path, study: Study) -> dict[str, Any]:
    """The errors by lead time: the `leads` in words, and `rows` of a state, a forecaster and its
    errors; empty without any."""
    table = read_errors(results, LEADS_FILE, LEAD_COLUMNS)
    if table.empty:
        return {}
    minutes = sorted(table["minutes"].unique())
    step = max(1, (len(minutes) - 1) / (MOST_LEADS - 1))
    positions = sorted(
        {round(i * step) for i in range(MOST_LEADS) if round(i * step) < len(minutes)}
    )
    shown_minutes = [minutes[i] for i in positions]
    errors = table.pivot_table(
        index=["state", "forecaster"], columns="minutes", values="percent_of_load", sort=False
    ).reindex(columns=shown_minutes)
    day = table.drop_duplicates(["state", "minutes"])
    naive_errors = day.pivot_table(index="state", columns="minutes", values="naive_day", sort=False)
    naive_errors = naive_errors.reindex(columns=shown_minutes)
    rows = [
        {
            "state": state,
            "forecaster": _label(study, str(name)),
            "errors": [*map(format_percent, values)],
        }
        for (state, name), values in zip(errors.index, errors.to_numpy(float), strict=True)
    ]
    if "naive_day" not in table["forecaster"].tolist():
        rows += [
            {
                "state": state,
                "forecaster": _label(study, "naive_day"),
                "errors": [*map(format_percent, values)],
            }
            for state, values in zip(naive_errors.index, naive_errors.to_numpy(float), strict=True)
        ]
    return {"leads": [_in_words(int(lead)) for lead in shown_minutes], "rows": rows}


def sum_rows(results: Path, study: Study) -> list[dict[str, str]]:
    """The errors of the sum, a row for each state and forecaster; empty without any."""
    table = read_errors(results, SUMS_FILE, SUM_COLUMNS)
    return [
        {
            "state": str(row["state"]),
            "forecaster": _label(study, str(row["forecaster"])),
            "percent": format_percent(row["percent_of_load"]),
            "day": format_percent(row["percent_of_load"] * row["naive_day"] / row["mae"])
            if row["mae"] > 0
            else "n/a",
            "mase": score(row["mase"]),
            "peak": format_peak(row["peak_percent"], row["peak_hours"]),
        }
        for row in table.to_dict("records")
    ]


def describe_as_new(results: Path, study: Study) -> str:
    """The error of what `plfl forecast --new` takes, for each meter as if it were new, beside those
    of its rivals, in a sentence; empty without any."""
    table = read_errors(results, NEW_FILE, NEW_COLUMNS).dropna()
    if table.empty:
        return ""
    errors = table.pivot_table(index=["state", "client"], columns="forecaster", values="mase")
    errors = errors[table["forecaster"].drop_duplicates().tolist()].dropna()
    first_name, *rivals = errors.columns
    means = errors.mean()
    weeks, count = int(table["weeks"].iloc[0]), len(errors)
    parts = [
        f"For a new {study.client_word} with {count_in_words(weeks, 'week')} of readings, the "
        f"forecaster that plfl forecast --new takes, {_with_label(first_name)}, had an error "
        f"of {means[first_name]:.3f}"
    ]
    remarks = {RIVAL: ", which needs no partners,"}
    parts += [
        f"{_with_label(name)}{remarks.get(name, '')} had {means[name]:.3f}" for name in rivals
    ]
    text = "; ".join(parts)
    if RIVAL in rivals:
        better_count = int((errors[first_name] < errors[RIVAL]).sum())
        text += (
            f". The first was better than the public model for {better_count or 'none'} of {count} "
            f"{study.client_word}s"
        )
    return f"{text}."


def _with_label(name: str) -> str:
    """The name of a baseline in files and commands, with its label."""
    return f"{name} ({words.word_baseline(name)})"


def _label(study: Study, name: str) -> str:
    """The label of a baseline, a sharing scheme with what it shares, or what is in use."""
    if name in words.USE_WORDS:
        return words.USE_WORDS[name].capitalize()
    return words.word_scheme(study, name) if name in study.sharing else baseline_label(name)


def _in_words(minutes: int) -> str:
    """A lead time, such as "6 h"."""
    return (
        f"{minutes / 60:g}\N{NO-BREAK SPACE}h"
        if minutes >= 60
        else f"{minutes}\N{NO-BREAK SPACE}min"
    )

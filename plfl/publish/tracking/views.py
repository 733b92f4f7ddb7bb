"""Views: predefined sets of columns, order, filter and charts, each opened by a link.

Like MLflow's "Views > Save as new view", this module stores a view as a tag of the experiment.
MLflow does not document the format of that tag; this is the format of version 3.17.2. A version
that does not understand it shows the default table instead.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plfl.baselines import BASELINE

TAG = "mlflow.sharedViewState."
OWN = "plfl-"
"""Prefix of the keys of these views; views saved in the browser do not have it."""
MOST_RUNS = 100
"""Number of runs that MLflow loads into a table; group averages include only loaded runs."""
OVERVIEW = "overview"
"""Name of the run for everything that does not belong to a single cell; the views exclude it."""
WORKFLOW = "workflowType=machine_learning"
"""Part of every link; without it, MLflow 3.17 opens its pages for language models."""

_FORMS = json.loads(Path(__file__).with_name("views.json").read_text(encoding="utf-8"))
"""The common parts of all views, sections and charts, in MLflow's format."""
_CREATED = 1_700_000_000_000  # constant, so that writing a view again changes nothing


def metric(key: str) -> str:
    """Column of a metric."""
    return f"metrics.`{key}`"


def param(key: str) -> str:
    """Column of a parameter."""
    return f"params.`{key}`"


VALIDATION, MASE, TRAFFIC = "val/mase_local", "test_last/mase_local", "traffic/total_mb"
SCORES = {metric(VALIDATION): 135, metric(MASE): 165, metric(TRAFFIC): 125}
"""Columns of the scores, with widths in pixels that show their full titles. They come first because
MLflow opens with a pane that covers the right part of the table."""


@dataclass(frozen=True)
class View:
    """A view of the runs table, or of its charts."""

    key: str
    """Name in links."""
    name: str
    """Name in the Views menu and in the note of the experiment."""
    columns: dict[str, int]
    """Columns in order, with their widths in pixels."""
    search: str
    """Filter in MLflow's search syntax."""
    sections: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Charts by title of their section."""
    group_by: Sequence[str] = ()
    """Parameters; runs with equal values are averaged."""
    as_charts: bool = False
    """Whether the link opens the charts instead of the table."""

    def path(self, experiment: str) -> str:
        """The path of the link on the server."""
        mode = "&compareRunsMode=CHART" if self.as_charts else ""
        return f"/#/experiments/{experiment}/runs?{WORKFLOW}&viewStateShareKey={self.key}{mode}"

    def tag(self) -> tuple[str, str]:
        """Key and value of the experiment's tag."""
        state = json.dumps(self._state()).encode()
        entry = {
            "name": self.name,
            "createdAt": _CREATED,
            "updatedAt": _CREATED,
            "state": "deflate;" + base64.b64encode(zlib.compress(state)).decode(),
        }
        return TAG + self.key, json.dumps(entry)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = _FORMS["state"] | {
            "searchFilter": self.search,
            "orderByKey": metric(VALIDATION),
            "selectedColumns": list(self.columns),
            "columnOrder": list(self.columns),
            "columnWidths": self.columns,
            "compareRunCharts": [
                {"uuid": f"{title}-{number}", "metricSectionId": title, **chart}
                for title, charts in self.sections.items()
                for number, chart in enumerate(charts)
            ],
            "compareRunSections": [
                {"uuid": title, "name": title} | _FORMS["section"] for title in self.sections
            ],
        }
        if self.group_by:
            state["groupBy"] = {
                "aggregateFunction": "average",
                "groupByKeys": [{"mode": "param", "groupByData": name} for name in self.group_by],
            }
        return state


def presets(cells: Iterable[tuple[str, str]], seeds: int, methods: int = 1) -> Iterator[View]:
    """The views of a study: a table of all runs, as the report sorts them, and curves by state.

    MLflow's search box filters the table further. `cells`: state and sharing scheme of each run;
    the scheme of a baseline is `baseline`.
    """
    places = list(cells)
    widths = {"state": 70, "sharing": 90}
    has_baselines = any(scheme == BASELINE for _, scheme in places)
    widths |= {"method": 160} if methods > 1 or has_baselines else {}  # names of baselines
    widths |= {"client_opt": 110, "server_opt": 130}
    compared = list(widths)
    widths |= {"seed": 70} if seeds > 1 else {}
    axes = {param(name): width for name, width in widths.items()}
    yield View(
        f"{OWN}best",
        "All forecasters",
        SCORES | axes,
        search=f"attributes.run_name != '{OVERVIEW}'",
        sections={
            "Test MASE after the last round": [
                _scatter(TRAFFIC, MASE),
                _chart(
                    "PARALLEL", selectedParams=compared, selectedMetrics=[MASE], showAllRuns=True
                ),
            ],
            "MASE by round": [_line("val/mase_local"), _line("val/mase_global")],
        },
    )
    for state in dict.fromkeys(state for state, _ in places):
        schemes = [scheme for place, scheme in places if place == state and scheme != BASELINE]
        search = f"params.state = '{state}' and params.sharing != '{BASELINE}'"
        if len(schemes) <= MOST_RUNS:
            yield _curves(f"{OWN}{state}-curves", f"{state} curves", search, axes)
            continue
        for scheme in dict.fromkeys(schemes):
            yield _curves(
                f"{OWN}{state}-{scheme}-curves",
                f"{state} {scheme} curves",
                f"params.state = '{state}' and params.sharing = '{scheme}'",
                axes,
            )


def _curves(key: str, name: str, search: str, axes: dict[str, int]) -> View:
    return View(
        key,
        name,
        SCORES | axes,
        search=search,
        sections={
            "MASE by round": [_line("val/mase_local"), _line("val/mase_global")],
            "Training and traffic": [_line("train/loss"), _scatter(TRAFFIC, MASE)],
        },
        group_by=("sharing", "client_opt"),
        as_charts=True,
    )


def _chart(kind: str, **settings: Any) -> dict[str, Any]:
    chart: dict[str, Any] = _FORMS["chart"] | {"type": kind, "runsCountToCompare": MOST_RUNS}
    return chart | settings


def _line(key: str) -> dict[str, Any]:
    # Logarithmic: one optimiser that learns slowly would flatten all other curves.
    return _chart("LINE", metricKey=key, selectedMetricKeys=[key], **_FORMS["line"])


def _scatter(x: str, y: str) -> dict[str, Any]:
    return _chart("SCATTER", xaxis={"key": x, "type": "METRIC"}, yaxis={"key": y, "type": "METRIC"})

"""How results of studies that forecast loads are reported."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from plfl.base.lazy import pandas as pd
from plfl.report import figures
from plfl.report.reporting import Reporting
from plfl.study import Cell, Study


class LoadReporting(Reporting):
    """Forecasts of loads, whose score is MASE."""

    name = "loads"

    def sentence(self, study: Study, cell: Cell, records: pd.DataFrame) -> str:
        from plfl.results.collect import summarise
        from plfl.results.dominance import is_decided_by_few

        summary = summarise(records, study.data.source)
        last = summary.set_index("model")
        megabytes = (last["bytes_down"] + last["bytes_up"]).iloc[0] / 1e6
        tuned = "".join(
            f"\n{row['model']} model, chosen on validation from {row['trials']} trials: "
            f"{row['hyperparameters']}"
            for row in last.reset_index().to_dict("records")
            if row["hyperparameters"]
        )
        if last["diverged"].any():
            tested = records[records["split"] == "test"]
            since = tested.loc[~(tested["mae"] < math.inf), "round"].min()
            return (
                f"{cell}{study.data.sample_suffix}: diverged; its test errors of round {since} are "
                f"not finite. Try smaller learning rates{tuned}"
            )
        decided_rows = last[
            is_decided_by_few(last["mase_mean"], last["mase_median"], last["mase_clients"])
        ]
        tuned += "".join(
            f"\n{model} models: few clients decide the mean; the median is {median:.3f}"
            for model, median in decided_rows["mase_median"].items()
        )
        cost_text = f"{megabytes:.1f} MB"
        if not (records["split"] == "train").any():
            cost_text = "no client took part in any round (federation.participation and simulation)"
        return (
            f"{cell}{study.data.sample_suffix}: test MASE {last['mase_mean']['local']:.3f} local, "
            f"{last['mase_mean']['global']:.3f} global (mean of {last['mase_clients']['local']} "
            f"clients, round {last['round']['local']}); {cost_text}{tuned}"
        )

    def captions(self, study: Study) -> dict[str, str]:
        return {name: figures.caption(name, study) for name in figures.available(study)}

    def stems(self, study: Study) -> list[str]:
        return [stem for stems in figures.available(study).values() for stem in stems]

    def draw(self, results: Path, folder: Path) -> Iterator[str]:
        return figures.render_all(results, folder)

    def write(self, results: Path, figures: Path, page: Path) -> None:
        from plfl.report.page import write

        write(results, figures, page)

    def write_overview(self, results: Path, figures: Path, page: Path) -> None:
        from plfl.report.variants_page import illustrate, write

        illustrate(results, figures)
        write(results, figures, page)

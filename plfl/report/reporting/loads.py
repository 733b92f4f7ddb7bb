"""How results of studies that forecast loads are reported."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from plfl.config.study import Cell, Study
from plfl.report import figures
from plfl.report.reporting import Judged, Reporting

if TYPE_CHECKING:  # the workflow names files without reading or drawing any
    import pandas as pd


class Loads(Reporting):
    """Forecasts of loads, whose score is MASE."""

    name = "loads"
    modules: ClassVar = {
        "baselines": ["plfl.experiments.baselines"],
        "collect": ["plfl.results.collect"],
        "figures": ["plfl.report.figures"],
        "page": ["plfl.report.page"],
        "overview": ["plfl.results.overview", "plfl.report.overview"],
    }

    further: ClassVar = {
        "claims": "claims.csv",
        "map": "map.csv",
        "meters": "meters.csv",
    }
    drawn: ClassVar = ("overview", "heat_map")

    def baselines(
        self, study: Study, state: str, dataset: Path
    ) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        from plfl.baselines.further import Further
        from plfl.baselines.trees import Boosting
        from plfl.data.dataset import Dataset
        from plfl.experiments.baselines import evaluate
        from plfl.tasks import task_of

        boosting = Boosting.of(study.baselines)
        further = [one for one in study.baselines.further if isinstance(one, Further)]
        data = Dataset.load_file(dataset)
        found = evaluate(state, data, boosting, task_of(study), further, study.baselines.leave_out)
        return found.scores, found.forecasts, found.errors

    def sentence(self, study: Study, cell: Cell, records: pd.DataFrame) -> str:
        from plfl.results.summary import summarise

        summary = summarise(records, study.data.source)
        last = summary[summary["chosen"] == "last"].set_index("model")
        crossed = (last["bytes_down"] + last["bytes_up"]).iloc[0] / 1e6
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
        return (
            f"{cell}{study.data.sample_suffix}: test MASE {last['mase_mean']['local']:.3f} local, "
            f"{last['mase_mean']['global']:.3f} global (mean of {last['mase_clients']['local']} "
            f"clients, round {last['round']['local']}); {crossed:.1f} MB{tuned}"
        )

    def judged(self, results: Path, study: Study) -> Judged:
        from plfl.results import axis_claims, claims, contrasts, family
        from plfl.results.records import read_about
        from plfl.results.tables import Tables

        texts: list[str] = []
        data: dict[str, Any] = {}
        for label in read_about(results).get("variants", [""]):
            tables = Tables(results / label)
            found = claims.verdicts(tables)
            data[label] = claims.as_json(tables.study, found)
            texts.append(f"{label}\n" * bool(label) + claims.as_text(tables.study, found))
        if axis_claims.asked(study):
            of_variants = axis_claims.verdicts(results, study)
            data["variants"] = claims.as_json(study, of_variants)
            about = "claims about variants, exploratory"
            texts.append(f"\n{claims.as_text(study, of_variants, about)}")
        plain = data.get("", data)
        if study.claims:
            named = contrasts.of_folder(results, study)
            dated = family.in_sentences([one.text for one in named], family.noted(results))
            about = f"claims of the study\n{dated} p: corrected for their number."
            texts.insert(0, f"{claims.as_text(study, named, about)}\n")
            plain["claims"] = claims.as_json(study, named, named=dated)
        return Judged("\n".join(texts), plain)

    def captions(self, study: Study) -> dict[str, str]:
        return {name: figures.caption(name, study) for name in figures.available(study)}

    def stems(self, study: Study) -> list[str]:
        return [stem for stems in figures.available(study).values() for stem in stems]

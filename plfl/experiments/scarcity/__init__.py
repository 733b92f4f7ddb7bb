"""When does sharing pay? The study's sharing schemes by weeks of training history per client.

Every history ends where the validation set begins and the test set is always the same, so only the
amount of training data changes. P1, P2 and P3 take as many steps at every history, and the last
round is scored: a meter with a week of history has no validation set that could stop it earlier.
For the same reason LightGBM, which stands beside them, has a fixed number of trees.
"""

from pathlib import Path

import pandas as pd

from plfl.config.study import Study
from plfl.experiments.scarcity.training import WEEKS, measure
from plfl.results.provenance import readings
from plfl.results.records import write_csv
from plfl.results.scarcity import mark

__all__ = ["WEEKS", "measure", "write"]


def write(study: Study, table: pd.DataFrame) -> Path:
    """Write scarcity.csv beside the study's results; return its path.

    Raises:
        DataError: see `plfl.results.provenance.readings`.
        PlflError: the disk is full or the folder cannot be written.
    """
    path = study.results / "scarcity.csv"
    write_csv(table.assign(data=study.data.source, study=mark(study, readings(study))), path)
    return path

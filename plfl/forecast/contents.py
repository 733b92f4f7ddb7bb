"""What a file of models holds, and its header: how to read new data, and where the models come
from.

`describe` makes the header as JSON; `Header` is the form in which `load` reads it.
"""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, Field

from plfl import __version__, plugins
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.baselines import BASELINE
from plfl.data import windows
from plfl.data.dataset import Dataset
from plfl.data.windows import Scaling
from plfl.interfaces.baseline import Arrays
from plfl.results.records import ConformalWidths, ModelKind, Models
from plfl.study import FORMAT, Cell, Study

AS_RECEIVED = 2 * MINUTES_PER_WEEK
"""Minutes of readings below which a model that is shared as a whole is used as received."""


class Header(BaseModel):
    """The header of a file of models."""

    format: int
    """`FORMAT` of the configuration."""
    version: str
    """Version of plfl."""
    study: dict[str, Any]
    """The configuration."""
    code: dict[str, str]
    """SHA-256 of the Python files that the configuration names."""
    cell: Cell
    parameters: dict[str, list[int]]
    """Shapes of parameters and changing buffers by name, in the order of a row."""
    model: dict[str, Any]
    """Settings of the model."""
    columns: list[str]
    """Names of the inputs."""
    interval: Annotated[int, Field(gt=0)]
    """Minutes between readings."""
    clients: dict[str, dict[str, Any]]
    """The results of `Scaling.as_record` by name, in the order of the rows."""
    widths: dict[ModelKind, list[Any]] = {}
    """The widths of the clients' intervals by model, as nested lists, if the task has widths."""


def describe(study: Study, cell: Cell, dataset: Dataset, widths: ConformalWidths) -> dict[str, Any]:
    """The header of a file with the models of a cell, which trained on a dataset."""
    columns, scalings = dataset.columns.tolist(), windows.scalings(dataset)
    return Contents(study, cell, columns, dataset.interval, scalings, {}, widths).header


@dataclass(frozen=True)
class Contents:
    """What a file holds: the models of a cell's clients after its last round, or a baseline."""

    study: Study
    """The study that trained them."""
    cell: Cell
    columns: list[str]
    """Names of the inputs; the first is the load."""
    interval: int
    """Minutes between readings."""
    scalings: dict[str, Scaling]
    """The scaling of each client, by name, in the order of the rows of `models`."""
    models: Models
    widths: ConformalWidths = field(default_factory=dict)
    """The widths of the intervals, if the task has widths."""
    fitted_arrays: dict[str, Arrays] = field(default_factory=dict)
    """Of a baseline, instead of `models`: the arrays of each client, see
    `plfl.baselines.storage`. Its cell has the labels of baselines in summary.csv."""

    @property
    def baseline(self) -> str:
        """The name of the baseline; empty for the models of a cell."""
        return self.cell.method if self.cell.sharing == BASELINE else ""

    @property
    def short_name(self) -> str:
        """What forecasts, as tables and `--with` call it: the sharing scheme or the baseline."""
        return self.baseline or self.cell.sharing

    @property
    def name(self) -> str:
        """What forecasts: the name of the cell or of the baseline."""
        return self.baseline or str(self.cell)

    @property
    def clients(self) -> list[str]:
        """Names of the clients that the models were trained with."""
        return list(self.scalings)

    @property
    def header(self) -> dict[str, Any]:
        """The header of the file, see `Header`."""
        return {
            "format": FORMAT,
            "version": __version__,
            "study": self.study.description(),
            "code": plugins.digest_named_files(self.study.description()),
            "cell": asdict(self.cell),
            "parameters": {
                name: list(shape) for name, shape in self.study.plan.layout.all_shapes.items()
            },
            "model": self.study.model.settings,
            "columns": self.columns,
            "interval": self.interval,
            "clients": {name: scaling.as_record() for name, scaling in self.scalings.items()},
            "widths": {str(model): rows.tolist() for model, rows in self.widths.items()},
        }

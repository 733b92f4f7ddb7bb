"""What a file of models holds, and its header: how to read new data, and where the models come
from.

`describe` makes the header as JSON; `ModelFileHeader` is the form in which `load` reads it.
"""

from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from plfl import __version__, plugins
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.config.baselines import BASELINE
from plfl.config.named import CALENDAR
from plfl.data import windows
from plfl.data.dataset import Dataset
from plfl.data.windows import Scaling
from plfl.interfaces.baseline import Arrays
from plfl.results.records import ConformalWidths, ModelKind, Models
from plfl.study import FORMAT, Cell, Study

AS_RECEIVED = 2 * MINUTES_PER_WEEK
"""Minutes of readings below which a model that is shared as a whole is used as received."""


@dataclass(frozen=True)
class KeptBaseline:
    """A baseline, fitted for all clients of a state."""

    state: str
    name: str

    def __str__(self) -> str:
        return self.name


class ModelFileHeader(BaseModel):
    """The header of a file of models, or of a fitted baseline."""

    format: int
    """`FORMAT` of the configuration."""
    version: str
    """Version of plfl."""
    study: dict[str, Any]
    """The configuration."""
    code: dict[str, str]
    """SHA-256 of the Python files that the configuration names."""
    cell: Cell | None = None
    """The cell whose models these are."""
    baseline: KeptBaseline | None = None
    """The baseline, instead of a cell."""
    parameters: dict[str, list[int]]
    """Shapes of parameters and changing buffers by name, in the order of a row."""
    model: dict[str, Any]
    """Settings of the model."""
    columns: list[str]
    """Names of the inputs."""
    interval: Annotated[int, Field(gt=0)]
    """Minutes between readings."""
    clients: dict[str, dict[str, Any]]
    """The results of `Scaling.as_json` by name, in the order of the rows."""
    widths: dict[ModelKind, list[Any]] = {}
    """The widths of the clients' intervals by model, as nested lists, if the task has widths."""

    @model_validator(mode="before")
    @classmethod
    def read_earlier_form(cls, header: dict[str, Any]) -> dict[str, Any]:
        """Until November 2026, a baseline was written as a cell."""
        if isinstance(cell := header.get("cell"), dict) and cell.get("sharing") == BASELINE:
            baseline = {"state": cell.get("state"), "name": cell.get("method")}
            return {**header, "cell": None, "baseline": baseline}
        return header

    @property
    def forecaster(self) -> Cell | KeptBaseline:
        """What forecasts; ValueError without any."""
        if (forecaster := self.cell or self.baseline) is None:
            raise ValueError("neither a cell nor a baseline")
        return forecaster


def describe(
    study: Study, forecaster: Cell | KeptBaseline, dataset: Dataset, widths: ConformalWidths
) -> dict[str, Any]:
    """The header of a file with the models of a cell, or a baseline, which trained on a dataset."""
    columns, scalings = dataset.columns.tolist(), windows.scalings(dataset)
    return Contents(study, forecaster, columns, dataset.interval, scalings, {}, widths).header


@dataclass(frozen=True)
class Contents:
    """What a file holds: the models of a cell's clients after its last round, or a baseline."""

    study: Study
    """The study that trained them."""
    forecaster: Cell | KeptBaseline
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
    `plfl.baselines.storage`."""

    @property
    def cell(self) -> Cell:
        """The cell, if these are its models."""
        assert isinstance(self.forecaster, Cell)
        return self.forecaster

    @property
    def baseline(self) -> str:
        """The name of the baseline; empty for the models of a cell."""
        return self.forecaster.name if isinstance(self.forecaster, KeptBaseline) else ""

    @property
    def short_name(self) -> str:
        """What forecasts, as tables and `--with` call it: the sharing scheme or the baseline."""
        return self.baseline or self.cell.sharing

    @property
    def name(self) -> str:
        """What forecasts: the name of the cell or of the baseline."""
        return str(self.forecaster)

    @property
    def clients(self) -> list[str]:
        """Names of the clients that the models were trained with."""
        return list(self.scalings)

    @property
    def reading_columns(self) -> list[str]:
        """The columns that new data must have. Those of the calendar follow from the stamps."""
        return [name for name in self.columns if name not in CALENDAR]

    @property
    def header(self) -> dict[str, Any]:
        """The header of the file, see `ModelFileHeader`."""
        return {
            "format": FORMAT,
            "version": __version__,
            "study": self.study.description(),
            "code": plugins.digest_named_files(self.study.description()),
            "baseline" if self.baseline else "cell": asdict(self.forecaster),
            "parameters": {
                name: list(shape) for name, shape in self.study.plan.layout.all_shapes.items()
            },
            "model": self.study.model.settings,
            "columns": self.columns,
            "interval": self.interval,
            "clients": {name: scaling.as_json() for name, scaling in self.scalings.items()},
            "widths": {str(model): rows.tolist() for model, rows in self.widths.items()},
        }

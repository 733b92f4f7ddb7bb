"""The keys of a study: what its file says, with types, defaults and bounds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SerializeAsAny, ValidatorFunctionWrapHandler, field_validator

from plfl.config.algorithms import Hyperparameters
from plfl.config.baselines import Baselines
from plfl.config.channel import ChannelSettings
from plfl.config.claims import Claim
from plfl.config.compute import Compute
from plfl.config.data import Data
from plfl.config.federation import FederationSettings
from plfl.config.grid import Grid
from plfl.config.named import DEFAULT_TASK, ChosenModel, ChosenTask, find_model, find_task
from plfl.config.public import PublicModels
from plfl.config.sharing import Scheme
from plfl.config.tracking import Tracking
from plfl.config.tuning import Tuning
from plfl.config.values import Patterns
from plfl.config.windows import Windows
from plfl.interfaces.model import DEFAULT
from plfl.plugins.registry import Section

PAPER_SCHEMES: dict[str, list[str] | Scheme] = {"P1": ["*"], "P2": ["body"], "P3": []}
"""The paper's sharing schemes: share everything, the body of the model (its LSTM), nothing."""
LONGEST_NAME = 100
"""Maximum length of a study's name, in characters."""


class StudyKeys(Section):
    """The keys of a study. `Study` checks that they fit together."""

    name: str = Field(
        "study",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.+=,-]*)?$",
        max_length=LONGEST_NAME,
    )
    """Name of the study, of its folders in `results/` and `figures/`, and of its MLflow
    experiment."""
    plugins: list[Path] = []
    """Python files with your own methods, optimisers, models, baselines or figures, relative to the
    study's file (docs/add-an-algorithm.md)."""
    data: SerializeAsAny[Data] = Field(default_factory=lambda: Data.extend()())
    windows: Windows = Windows()
    task: ChosenTask = Field(default_factory=find_task(DEFAULT_TASK))
    model: ChosenModel = Field(default_factory=find_model(DEFAULT))
    sharing: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")], Scheme | Patterns] = (
        PAPER_SCHEMES
    )
    """Sharing schemes: patterns of the parameters that go through the server; all others are
    personal. `body` and `head` are parts of the model, in the paper LSTM and MLP."""
    grid: Grid = Grid()
    federation: FederationSettings = FederationSettings()
    channel: ChannelSettings = ChannelSettings()
    tuning: Tuning = Tuning()
    public: PublicModels = PublicModels()
    baselines: Baselines = Baselines()
    claims: list[Claim] = []
    """Comparisons to judge. Their p values are corrected for their number."""
    hyperparameters: Hyperparameters = Hyperparameters()
    tracking: Tracking = Tracking()
    compute: Compute = Compute()

    @field_validator("data", mode="wrap")
    @classmethod
    def _validate_with_blocks_of_plugins(
        cls, raw: Any, built_in: ValidatorFunctionWrapHandler
    ) -> Any:
        block = Data.extend()
        return block.model_validate(raw) if isinstance(raw, Mapping) else built_in(raw)

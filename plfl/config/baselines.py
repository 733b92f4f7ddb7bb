"""The section `baselines`: which ones a study has, and how they are fitted."""

from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Self, get_args

from pydantic import Field, field_validator, model_validator

from plfl.config.error_messages import list_allowed
from plfl.config.named import STANDARD_BASELINES, ChosenBaseline, LeftOut, find_baseline
from plfl.interfaces.baseline import Baseline, Crosses, FitSettings
from plfl.plugins.registry import Section

BASELINE = "baseline"
"""The value of `sharing` in the rows of baselines in tables; no sharing scheme may have this
name."""


class TreeSearch(Section):
    """All pairs are tried; each LightGBM keeps the best on validation."""

    learning_rate: list[Annotated[float, Field(gt=0)]] = []
    """Learning rates."""
    leaves: list[Annotated[int, Field(ge=2)]] = []
    """Most leaves of a tree."""


class Baselines(Section):
    """Baselines (docs/baselines.md)."""

    trees: int = Field(400, ge=1)
    """Most trees; validation stops earlier."""
    learning_rate: float = Field(0.1, gt=0)
    """Learning rate."""
    leaves: int = Field(31, ge=2)
    """Most, of a tree."""
    search: TreeSearch = TreeSearch()
    max_bin: int = Field(255, ge=2)
    """Bins per feature."""
    further: list[ChosenBaseline] = []
    """Added to those of every study."""
    leave_out: list[LeftOut] = []
    """Those of every study left out."""

    @field_validator("further")
    @classmethod
    def _refuse_repeated_baselines(cls, baselines: list[Baseline]) -> list[Baseline]:
        names = [baseline.name for baseline in baselines]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ValueError(f"{', '.join(twice)} is listed twice; each baseline has one row")
        return baselines

    @model_validator(mode="after")
    def _check_needs(self) -> Self:
        earlier = [name for name in STANDARD_BASELINES if name not in self.leave_out]
        extent = get_args(Crosses)
        for baseline in self.further:
            for name in baseline.needs:
                if name not in earlier:
                    raise ValueError(
                        f"{baseline.name} uses {name}, which is not a baseline before it in this "
                        f"study; {list_allowed(name, earlier)}"
                    )
                member = self.find(name)
                if extent.index(member.crosses) > extent.index(baseline.crosses):
                    raise ValueError(
                        f"{baseline.name} uses {name}, which needs {member.crosses} of other "
                        f"clients; use it in a combination for which {member.crosses} may cross"
                    )
                if baseline.needs_received and not member.is_received:
                    raise ValueError(
                        f"{baseline.name} uses {name}, which is trained on the client's own "
                        "readings; use one that others have trained: lightgbm_federated with "
                        "`turns`"
                    )
                if member.has_seen_the_data:
                    raise ValueError(
                        f"{baseline.name} uses {name}, which was trained on these data"
                    )
            earlier.append(baseline.name)
        return self

    def find(self, name: str) -> Baseline:
        """A baseline of the study, by its name; KeyError if it has none of this name."""
        if name in STANDARD_BASELINES:
            return find_baseline(name)()
        return {baseline.name: baseline for baseline in self.further}[name]

    def find_with_members(self, name: str) -> list[Baseline]:
        """A baseline of the study, and all those whose forecasts it uses, directly or not."""
        baseline = self.find(name)
        nested_baselines = map(self.find_with_members, baseline.needs)
        return [baseline, *chain.from_iterable(nested_baselines)]

    def knows_own_readings(self, name: str) -> bool:
        """Whether the readings of each client are in the models of others that it receives for this
        baseline, so that its errors there are not those of a new meter."""
        return any(
            member.crosses != "nothing" and not (member.needs or member.is_received)
            for member in self.find_with_members(name)
        )

    def are_of_plfl(self, names: Iterable[str]) -> bool:
        """Whether none of the baselines with these names is of a plug-in."""
        return all(type(self.find(name)).__module__.startswith("plfl.") for name in names)

    @property
    def names(self) -> list[str]:
        """The baselines of the study, of which `lightgbm_covariates` also needs covariates."""
        names_of_all = [*STANDARD_BASELINES, *(baseline.name for baseline in self.further)]
        return [name for name in names_of_all if name not in self.leave_out]

    @property
    def fit_settings(self) -> FitSettings:
        """What the study asks of its baselines, without levels of quantiles."""
        return FitSettings(
            self.trees,
            tuple(self.search.learning_rate or [self.learning_rate]),
            tuple(self.search.leaves or [self.leaves]),
            self.max_bin,
        )

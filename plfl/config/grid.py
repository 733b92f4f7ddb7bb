"""The section `grid`: the axes whose combinations are the cells of a study."""

from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, field_validator

from plfl.config.error_messages import list_allowed, refusal
from plfl.config.values import refuse_repetitions
from plfl.plugins import registry
from plfl.plugins.registry import ALGORITHM_PACKAGES, Algorithm, Section


def _algorithm(kind: str, name: str) -> str:
    """The name of an algorithm of a kind (see `ALGORITHM_PACKAGES`), if it exists."""
    if registry.algorithm(ALGORITHM_PACKAGES[kind], name) is None:
        names = registry.available(ALGORITHM_PACKAGES[kind], Algorithm)
        raise refusal(f"{name!r} is unknown; {list_allowed(name, names)}")
    return name


_AXIS = r"^(data|windows|task|model|sharing|federation|channel|hyperparameters)(\.|$)"


class Grid(Section):
    """The cells of the study: every combination of these axes, in every state. Any other key of the
    study becomes an axis if it is listed here with its values, such as `federation.participation:
    [0.1, 0.2]` (docs/axes.md)."""

    # `plfl.study.axes` checks further keys; the schema for editors knows only their first parts.
    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "additionalProperties": False,
            "patternProperties": {_AXIS: {"type": ["array", "object"]}},
        },
    )

    method: list[Annotated[str, AfterValidator(partial(_algorithm, "method"))]] = Field(
        ["fedopt"], min_length=1
    )
    """Methods. `fedopt` is the paper's round."""
    client_opt: list[Annotated[str, AfterValidator(partial(_algorithm, "client_opt"))]] = Field(
        ["adam", "adamams", "prox", "proxadam"], min_length=1
    )
    """Local optimisers (paper: these four)."""
    server_opt: list[Annotated[str, AfterValidator(partial(_algorithm, "server_opt"))]] = Field(
        ["fedavg", "fedavgadaptive", "fedadagrad", "fedadam", "fedyogi"], min_length=1
    )
    """Server optimisers (paper: these five)."""
    sharing: list[str] = Field(["P1", "P2", "P3"], min_length=1)
    """Sharing schemes, as the key `sharing` defines them."""
    seeds: list[Annotated[int, Field(ge=0, lt=2**63)]] = Field([10], min_length=1, max_length=1000)
    """Seeds of the initial parameters and the minibatches (authors' code: 10)."""
    refused: Literal["error", "skip"] = "error"
    """Methods and optimisers that do not work together: an error (`error`), or left out of the grid
    (`skip`)."""

    _are_different = field_validator("method", "client_opt", "server_opt", "sharing", "seeds")(
        refuse_repetitions
    )

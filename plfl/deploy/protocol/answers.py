"""The checks that an answer must pass before the server uses any part of it.

A client with a valid key may be faulty or hostile. The server therefore reads answers only through
the functions below, which check the whole answer: that it answers the message that was sent, that
it comes from the client that was asked, its types and shapes, and that its numbers are finite and
plausible. They raise `MessageError`, with the reason, and the server then counts the client as
absent.

These checks find impossible answers. They cannot recognise a false answer that is plausible.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from plfl.base.minutes import MINUTES_PER_DAY
from plfl.data.dataset import EVALUATED_SPLITS
from plfl.deploy.protocol.endpoints import (
    Message,
    MessageError,
    RowList,
    arrays_as_rows,
    as_bytes,
    rows_as_arrays,
)
from plfl.federated.codecs.coder import Coder
from plfl.interfaces.codec import LARGEST_SENT, CodecError
from plfl.results.records import MODELS
from plfl.study import Cell, Study

LARGEST_READING = 1e6
"""Largest magnitude of a reading: a load in kWh per interval, or another feature in its own
unit."""
CENTURY = 100 * 366 * MINUTES_PER_DAY
"""Minutes; no series is longer."""
ROOM = 1 << 20
"""Most bytes of an answer in addition to its arrays."""
REQUIRED_SCORES = {"mae", "rmse", "mase"}
"""Scores that every client has."""
SCORE = re.compile(
    r"(mae|n?rmse|(seasonal_)?mase|wape|(scaled_)?crps|coverage|width)[_.a-z0-9]{0,20}"
)
"""Names of scores of the tasks."""
LONGEST = 1 << 26
"""Most bytes of an array whose length is not known."""
ARRAYS_PER_ANSWER = 16
"""Arrays of an answer that may be as large as the model."""


def largest_answer(parameters: int) -> int:
    """Most bytes of any answer, given the number of parameters of the model.

    An answer of one round is checked more closely; this bounds what a server holds before that.
    """
    return ROOM + max(LONGEST, ARRAYS_PER_ANSWER * torch.float32.itemsize * parameters)


def _not_infinite(score: float) -> float:
    if abs(score) > LARGEST_SENT:
        raise ValueError("is implausible")
    return score


Count = Annotated[int, Field(ge=0, le=CENTURY)]
Number = Annotated[float, Field(ge=-LARGEST_SENT, le=LARGEST_SENT)]
BoundedLoad = Annotated[float, Field(ge=-LARGEST_READING, le=LARGEST_READING)]
Score = Annotated[float, Field(allow_inf_nan=True), AfterValidator(_not_infinite)]
"""A score; NaN if it is undefined, such as a MASE if persistence has no error."""


class Facts(BaseModel):
    """The facts in every answer."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)

    request: str
    """The number of the message that it answers."""
    name: str
    """Name of the client."""


class Description(BaseModel):
    """The client's row of `clients.parquet`, see `plfl.results.collect.describe_clients`."""

    model_config = Facts.model_config

    state: str
    client: str
    order: Count
    mean: BoundedLoad
    std: BoundedLoad
    rows: Count
    interval: Count
    windows: Count
    skipped: Count
    persistence_mae_validation: BoundedLoad
    persistence_mae_test: BoundedLoad


class JoinedFacts(Facts):
    """The answer to an invitation."""

    windows: Annotated[int, Field(ge=1, le=CENTURY)]
    """Number of training windows."""
    columns: list[str]
    """Names of the features."""
    interval: Count
    """Minutes between the rows of the series."""
    describes: Description


class TrainedFacts(Facts):
    """The answer of a client that has trained."""

    loss: Number
    """Mean minibatch loss."""
    steps: Annotated[float, Field(ge=0, le=CENTURY)]
    """Local steps that it took; of a tree, its windows by those of a minibatch."""


class ScoredFacts(Facts):
    """The answer of a client that has scored its models."""

    scores: list[dict[str, str | Score]]
    """A row for each model and split."""


F = TypeVar("F", bound=Facts)


@dataclass(frozen=True)
class CheckedAnswer(Generic[F]):
    """An answer that has passed all checks."""

    facts: F
    arrays: Mapping[str, Tensor]

    @property
    def rows(self) -> RowList:
        """The rows that crossed the channel."""
        return arrays_as_rows(self.arrays)


def read_joined(
    study: Study, cell: Cell, data: bytes, request: str, name: str
) -> CheckedAnswer[JoinedFacts]:
    """The answer of a client that joins."""
    inputs, limits = study.data.inputs, {}
    if study.windows.scaling == "pooled":
        limits = dict.fromkeys(("low", "high"), torch.empty(len(inputs), dtype=torch.float64))
    answer = _read(data, JoinedFacts, request, name, limits)
    facts, about = answer.facts, answer.facts.describes
    described = facts.columns, facts.interval, about.interval, about.state, about.client
    interval = study.data.interval
    expected_facts = inputs, interval, interval, cell.state, name
    _require(described == expected_facts, f"it describes {described}, expected {expected_facts}")
    fits = facts.windows <= about.windows <= about.rows <= CENTURY // interval
    _require(fits, f"{facts.windows} of {about.windows} windows in {about.rows} rows")
    if limits:
        low, high = answer.arrays["low"], answer.arrays["high"]
        ends = torch.stack([low, high]).abs().amax()
        is_plausible = bool((low <= high).all()) and float(ends) <= LARGEST_READING
        _require(is_plausible, "the limits of its features are implausible")
    return answer


def read_trained(
    data: bytes, request: str, name: str, rows: RowList, coder: Coder | None = None
) -> CheckedAnswer[TrainedFacts]:
    """The answer of a client that has trained. The method expects `rows` of these shapes and
    types."""
    coded = coder if coder is not None and rows and coder.codes("up") else None
    return _read(data, TrainedFacts, request, name, rows_as_arrays(rows), coded)


def read_exchanged(
    check: Callable[[bytes], None], kind: type[F], data: bytes, request: str, name: str
) -> CheckedAnswer[F]:
    """A message of a client that trains together with others, of any length, with facts of this
    kind."""
    answer = _read(data, kind, request, name, {"0": torch.empty(LONGEST, dtype=torch.uint8)})
    try:
        check(as_bytes(answer.arrays["0"]))
    except ValueError as error:
        raise MessageError(str(error)) from None
    return answer


def read_scored(data: bytes, request: str, name: str) -> CheckedAnswer[ScoredFacts]:
    """The answer of a client that has scored its models."""
    answer = _read(data, ScoredFacts, request, name, {})
    expected_keys = {(name, split, model) for split in EVALUATED_SPLITS for model in MODELS}
    rows = answer.facts.scores
    row_keys = [tuple(row.get(key) for key in ("client", "split", "model")) for row in rows]
    _require(
        len(row_keys) == len(expected_keys) and set(row_keys) == expected_keys,
        f"it scores {row_keys}",
    )
    for row in rows:
        score_names = {key for key, value in row.items() if isinstance(value, float)}
        _require(len(row) == len(score_names) + 3, "a score is not a number")
        _require(score_names >= REQUIRED_SCORES, f"it has only the scores {sorted(score_names)}")
        unknown = [name for name in score_names if not SCORE.fullmatch(name)]
        _require(not unknown, f"it has the scores {unknown}")
    return answer


def _read(
    data: bytes,
    kind: type[F],
    request: str,
    name: str,
    expected: Mapping[str, Tensor],
    coder: Coder | None = None,
) -> CheckedAnswer[F]:
    """An answer with facts of this kind and arrays like the `expected` ones.

    If the first array has bytes, its length is any; with a `coder` it is a coded message.
    """
    size_limit = ROOM + sum(array.nbytes for array in expected.values())
    _require(len(data) <= size_limit, f"it has {len(data)} bytes, expected at most {size_limit}")
    message = Message.unpack(data)
    _require("error" not in message.about, str(message.about.get("error")))
    try:
        facts = kind.model_validate(message.about)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise MessageError(f"{place}: {first['msg']}") from None
    _require(facts.request == request, "it answers another message")
    _require(facts.name == name, f"it is that of client {facts.name!r}")
    received_shapes, expected_shapes = (
        {n: (tuple(a.shape), a.dtype) for n, a in arrays.items()}
        for arrays in (message.arrays, expected)
    )
    has_bytes = expected_shapes.get("0", ((), None))[1] == torch.uint8
    if has_bytes and len(received_shapes.get("0", ((), None))[0]) == 1:
        expected_shapes["0"] = (received_shapes["0"][0], torch.uint8)
    _require(
        received_shapes == expected_shapes,
        f"it has the arrays {received_shapes}, expected {expected_shapes}",
    )
    for n, array in message.arrays.items():
        sound = array.isfinite().all() and (array.double().abs() <= LARGEST_SENT).all()
        _require(bool(sound), f"array {n} has numbers that are implausible, or not finite")
    try:
        if coder is not None:
            coder.check("up", message.arrays["0"])
    except CodecError as error:
        raise MessageError(*error.problems) from None
    return CheckedAnswer(facts, message.arrays)


def _require(is_so: bool, problem: str) -> None:
    if not is_so:
        raise MessageError(problem)

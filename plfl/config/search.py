"""Hyperparameter search: the combinations of values that a cell tries.

A search names hyperparameters by dotted path, `KIND.NAME.KEY`: KIND is `client_opt`, `server_opt`
or `method`; NAME is an algorithm, or `*` for all that have the KEY. Every cell tries the same
number of combinations, so no side of a comparison has a larger budget.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import ValidationError

from plfl.config.method_rules import MethodRules
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.plugins.registry import KINDS, Algorithm, Kind, Value

Values = tuple[tuple[str, Value], ...]
"""Paths with the name of the algorithm, such as `client_opt.adam.lr`, and their values."""
Search = Mapping[str, Sequence[Value]]
"""Values to try, by path."""


@dataclass(frozen=True)
class Candidate:
    """The algorithms of a cell with one combination of values."""

    client_opt: ClientOpt
    server_opt: ServerOpt
    method: MethodRules | None
    """None if clients train alone."""
    tuned: Values = ()
    """The values that differ from the study's own, by path."""

    @property
    def text(self) -> str:
        """The tuned values as text: `client_opt.adam.lr=0.001, server_opt.fedavg.lr=0.1`."""
        return ", ".join(f"{path}={_number(value)}" for path, value in self.tuned)


def _number(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def candidates(base: Candidate, search: Search, trials: int | None = None) -> list[Candidate]:
    """The combinations of values whose paths match the algorithms of `base`.

    `trials`: the largest number of them; see `sample`.

    Raises:
        ValueError: a value is outside the bounds of its hyperparameter; the message names the path.
    """
    axes = {path: values for path, values in search.items() if _target(base, path)}
    combinations = list(itertools.product(*axes.values()))
    if trials is not None and trials < len(combinations):
        combinations = sample(list(axes.values()), trials)
    return [_with(base, dict(zip(axes, values, strict=True))) for values in combinations]


def refused(kind: str, algorithm: Algorithm, search: Search) -> Iterator[str]:
    """One line, with the path, for each value that its algorithm does not allow."""
    for path, values in search.items():
        if (key := _key(kind, algorithm, path)) is None:
            continue
        for value in values:
            try:
                _changed(algorithm, key, value, path)
            except ValueError as error:
                yield str(error)


def count(base: Candidate, search: Search) -> int:
    """The number of combinations that `candidates` returns without `trials`."""
    return int(np.prod([len(values) for path, values in search.items() if _target(base, path)]))


def sample(axes: Sequence[Sequence[Value]], trials: int) -> list[tuple[Value, ...]]:
    """A fixed selection of `trials` combinations of the values of `axes`.

    It is a Latin hypercube: the values of an axis occur equally often, up to a difference of one.
    Duplicate combinations are replaced by random others.
    """
    random = np.random.default_rng(0)
    every = list(itertools.product(*(range(len(values)) for values in axes)))
    columns = [random.permutation(np.resize(np.arange(len(a)), trials)).tolist() for a in axes]
    drawn = dict.fromkeys(zip(*columns, strict=True))
    rest = [combination for combination in every if combination not in drawn]
    order = random.permutation(len(rest))[: trials - len(drawn)]
    chosen = sorted([*drawn, *(rest[i] for i in order)])
    return [tuple(a[i] for a, i in zip(axes, which, strict=True)) for which in chosen]


def matches(path: str, algorithms: Mapping[str, Mapping[str, type[Algorithm]]]) -> bool:
    """Whether a path names a hyperparameter of any of the `algorithms` (by kind and name)."""
    kind, name, key = _parts(path)
    chosen = algorithms.get(kind, {})
    named = chosen.values() if name == "*" else [chosen[name]] if name in chosen else []
    return any(key in algorithm.model_fields for algorithm in named)


def _parts(path: str) -> tuple[str, str, str]:
    kind, name, key = [*path.split(".", 2), "", ""][:3]
    return kind, name, key


def _target(base: Candidate, path: str) -> tuple[str, str] | None:
    """Kind and key of the hyperparameter of `base` that a path names; None if there is none."""
    kind = _parts(path)[0]
    algorithm: Algorithm | None = getattr(base, kind) if kind in KINDS else None
    key = _key(kind, algorithm, path) if algorithm else None
    return (kind, key) if key else None


def _key(kind: str, algorithm: Algorithm, path: str) -> str | None:
    """The hyperparameter of an algorithm that a path names, or None."""
    of_kind, name, key = _parts(path)
    named = of_kind == kind and name in ("*", algorithm.name)
    return key if named and key in type(algorithm).model_fields else None


def _changed(algorithm: Kind, key: str, value: Value, path: str) -> Kind:
    try:
        return type(algorithm).model_validate(algorithm.model_dump() | {key: value})
    except ValidationError as error:
        raise ValueError(f"{path}: {value!r} is not allowed: {error.errors()[0]['msg']}") from None


def _with(base: Candidate, values: Mapping[str, Value]) -> Candidate:
    for path, value in values.items():
        kind, key = _target(base, path) or ("", "")
        algorithm = getattr(base, kind)
        changed = _changed(algorithm, key, value, path)
        tuned = (f"{kind}.{algorithm.name}.{key}", getattr(changed, key))
        base = replace(base, **{kind: changed, "tuned": (*base.tuned, tuned)})
    return base

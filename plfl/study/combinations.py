"""The combinations of a grid: their algorithms, the hyperparameters that they try, which
combinations methods refuse, and which repeat others.

The cells of a combination differ in state and seed. A search names hyperparameters by dotted path,
`KIND.NAME.KEY`: KIND is `client_opt`, `server_opt` or `method`; NAME is an algorithm, or `*` for
all that have the KEY and are not named with it. Every cell tries the same number of choices of
their values, so no side of a comparison has a larger budget.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from pydantic import ValidationError

from plfl.config.algorithms import Hyperparameters
from plfl.config.baselines import BASELINE
from plfl.config.grid import Grid
from plfl.config.tuning import Tuning
from plfl.interfaces.method import Method
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.plugins.registry import ALGORITHM_PACKAGES, Algorithm, Kind, Value
from plfl.study.schemes import SharingSchemes

TunedValues = tuple[tuple[str, Value], ...]
"""Paths with the name of the algorithm, such as `client_opt.adam.lr`, and their values."""
Search = Mapping[str, Sequence[Value]]
"""Values to try, by path."""


class Combination(NamedTuple):
    """The names of a sharing scheme, a method, a ClientOpt and a ServerOpt. Something else that
    forecasts, such as a baseline, has a combination, too, so that tables have the same columns."""

    sharing: str
    method: str
    client_opt: str
    server_opt: str

    @classmethod
    def from_baseline(cls, name: str) -> Self:
        """That of a baseline, as in summary.csv."""
        return cls(BASELINE, name, "none", "none")

    @property
    def is_baseline(self) -> bool:
        """Whether it is that of a baseline."""
        return self.sharing == BASELINE


@dataclass(frozen=True)
class Candidate:
    """The algorithms of a cell with one combination of values."""

    client_opt: ClientOpt
    server_opt: ServerOpt
    method: Method | None
    """None if clients train alone."""
    tuned_values: TunedValues = ()
    """The values that differ from the study's own, by path."""

    @property
    def text(self) -> str:
        """The tuned values as text: `client_opt.adam.lr=0.001, server_opt.fedavg.lr=0.1`."""
        return ", ".join(
            f"{path}={value:g}" if isinstance(value, float) else f"{path}={value}"
            for path, value in self.tuned_values
        )


def overrides(method: Method, *hooks: str) -> bool:
    """Whether the class of a method has any of these hooks of its own."""
    return any(getattr(type(method), hook) is not getattr(Method, hook) for hook in hooks)


def reasons_against_optimizers(
    method: Method, client_opt: ClientOpt, server_opt: ServerOpt
) -> Iterator[str]:
    """Why a method does not work with these optimisers, by its hook and its facts."""
    yield from method.reasons_against_optimizers(client_opt, server_opt)
    if method.no_proximal and client_opt.proximal:
        yield f"{method.no_proximal}; use sgd for prox, adam for proxadam"
    if method.own_server:
        has_rate = method.server_lr is not None
        if server_opt.name != "fedavg" or not (has_rate or server_opt.lr == 1):
            fedavg = f"fedavg, whose lr is {method.server_lr}" if has_rate else "fedavg with lr 1"
            yield f"{method.own_server}; use {fedavg}"


def candidates(base: Candidate, search: Search, most_trials: int | None = None) -> list[Candidate]:
    """The combinations of values whose paths match the algorithms of `base`, at most `most_trials`
    (see `sample`). A value outside the bounds of its hyperparameter raises a ValueError with the
    path."""
    axes = _find_axes(base, search)
    combinations = list(itertools.product(*axes.values()))
    if most_trials is not None and most_trials < len(combinations):
        combinations = sample(list(axes.values()), most_trials)
    return [_replace_values(base, dict(zip(axes, values, strict=True))) for values in combinations]


def refused_values(kind: str, algorithm: Algorithm, search: Search) -> Iterator[tuple[str, str]]:
    """For each value that its algorithm does not allow, its path and why."""
    for path, values in search.items():
        if (key := _key(kind, algorithm, path)) is None:
            continue
        for value in values:
            try:
                _replace_key(algorithm, key, value)
            except ValueError as error:
                yield path, str(error)


def count(base: Candidate, search: Search) -> int:
    """The number of combinations that `candidates` returns without `most_trials`."""
    return int(np.prod([len(values) for values in _find_axes(base, search).values()]))


def _find_axes(base: Candidate, search: Search) -> dict[str, Sequence[Value]]:
    """The values that `base` tries, by path; a path that names the algorithm replaces that of all
    algorithms (`*`) with the same key."""
    matching = {path: values for path, values in search.items() if _target(base, path)}
    targets = {_target(base, path) for path in matching if _parts(path)[1] != "*"}
    return {
        path: values
        for path, values in matching.items()
        if _parts(path)[1] != "*" or _target(base, path) not in targets
    }


def sample(axes: Sequence[Sequence[Value]], count: int) -> list[tuple[Value, ...]]:
    """A fixed selection of `count` combinations of the values of `axes`. It is a Latin hypercube:
    the values of an axis occur equally often, up to a difference of one. Duplicate combinations are
    replaced by random others."""
    random = np.random.default_rng(0)
    all_combinations = list(itertools.product(*(range(len(values)) for values in axes)))
    columns = [random.permutation(np.resize(np.arange(len(a)), count)).tolist() for a in axes]
    drawn_combinations = dict.fromkeys(zip(*columns, strict=True))
    other_combinations = [
        combination for combination in all_combinations if combination not in drawn_combinations
    ]
    order = random.permutation(len(other_combinations))[: count - len(drawn_combinations)]
    chosen_indices = sorted([*drawn_combinations, *(other_combinations[i] for i in order)])
    return [tuple(a[i] for a, i in zip(axes, indices, strict=True)) for indices in chosen_indices]


def matches(path: str, algorithms: Mapping[str, Mapping[str, type[Algorithm]]]) -> bool:
    """Whether a path names a hyperparameter of any of the `algorithms` (by kind and name)."""
    kind, name, key = _parts(path)
    algorithms_of_kind = algorithms.get(kind, {})
    named_algorithms = (
        algorithms_of_kind.values()
        if name == "*"
        else [algorithms_of_kind[name]]
        if name in algorithms_of_kind
        else []
    )
    return any(key in algorithm.model_fields for algorithm in named_algorithms)


def _parts(path: str) -> tuple[str, str, str]:
    kind, name, key = [*path.split(".", 2), "", ""][:3]
    return kind, name, key


def _target(base: Candidate, path: str) -> tuple[str, str] | None:
    """Kind and key of the hyperparameter of `base` that a path names; None if there is none."""
    kind = _parts(path)[0]
    algorithm: Algorithm | None = getattr(base, kind) if kind in ALGORITHM_PACKAGES else None
    key = _key(kind, algorithm, path) if algorithm else None
    return (kind, key) if key else None


def _key(kind: str, algorithm: Algorithm, path: str) -> str | None:
    """The hyperparameter of an algorithm that a path names, or None."""
    path_kind, name, key = _parts(path)
    is_named = path_kind == kind and name in ("*", algorithm.name)
    return key if is_named and key in type(algorithm).model_fields else None


def _replace_key(algorithm: Kind, key: str, value: Value) -> Kind:
    try:
        return type(algorithm).model_validate(algorithm.model_dump() | {key: value})
    except ValidationError as error:
        raise ValueError(f"{value!r} is not allowed: {error.errors()[0]['msg']}") from None


def _replace_values(base: Candidate, values: Mapping[str, Value]) -> Candidate:
    for path, value in values.items():
        kind, key = _target(base, path) or ("", "")
        algorithm = getattr(base, kind)
        try:
            replaced_algorithm = _replace_key(algorithm, key, value)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        tuned = (f"{kind}.{algorithm.name}.{key}", getattr(replaced_algorithm, key))
        base = replace(
            base, **{kind: replaced_algorithm, "tuned_values": (*base.tuned_values, tuned)}
        )
    return base


@dataclass(frozen=True)
class Combinations:
    """The combinations of a study."""

    grid: Grid
    hyperparameters: Hyperparameters
    tuning: Tuning
    schemes: SharingSchemes

    @cached_property
    def refusals(self) -> dict[tuple[str, str, str], str]:
        """Why a method refuses a ClientOpt or a ServerOpt, by the three names in this order."""
        reasons, grid = {}, self.grid
        for names in itertools.product(grid.method, grid.client_opt, grid.server_opt):
            for candidate in self._candidates_of(*names):
                if candidate.method is None:
                    continue
                own_reasons = reasons_against_optimizers(
                    candidate.method, candidate.client_opt, candidate.server_opt
                )
                if reason := next(own_reasons, None):
                    reasons[names] = reason
                    break
        return reasons

    def _candidates_of(self, method: str, client_opt: str, server_opt: str) -> list[Candidate]:
        """The candidates of these three algorithms, if clients train with a server."""
        untuned = self._make_untuned(method, client_opt, server_opt, trains_alone=False)
        try:
            return candidates(untuned, self.tuning.search, self.tuning.trials)
        except ValueError:  # reported by `check_values`
            return [untuned]

    @property
    def algorithms(self) -> list[tuple[str, Algorithm]]:
        """The algorithms of the grid with the study's hyperparameters, each with its kind."""
        return [
            (kind, self.hyperparameters.find(kind, name))
            for kind in ALGORITHM_PACKAGES
            for name in getattr(self.grid, kind)
        ]

    @property
    def methods(self) -> dict[str, Method]:
        """The methods of the grid, by name."""
        return {name: self.hyperparameters.find_method(name) for name in self.grid.method}

    def trains_alone(self, sharing: str, method: str) -> bool:
        """Whether clients train alone, without a server, with a sharing scheme and a method."""
        ignores = self.hyperparameters.find_method(method).ignores_sharing
        return self.schemes.shares_nothing(sharing) and not ignores

    def repeats(self, combination: Combination) -> bool:
        """Whether a combination trains exactly like an earlier one. Without a server, for example,
        all ServerOpts train the same."""
        sharing, method, client_opt, server_opt = combination
        if not self.trains_alone(sharing, method):
            return False
        is_repeated = (
            (m, s)
            for m, s in itertools.product(self.grid.method, self.grid.server_opt)
            if self.trains_alone(sharing, m) and (m, client_opt, s) not in self.refusals
        )
        return next(is_repeated) != (method, server_opt)

    def untuned_candidate(self, combination: Combination) -> Candidate:
        """The algorithms of a combination with the study's own hyperparameters; without the method
        where clients train alone, because it has no effect there."""
        sharing, method, client_opt, server_opt = combination
        return self._make_untuned(
            method, client_opt, server_opt, self.trains_alone(sharing, method)
        )

    def _make_untuned(
        self, method: str, client_opt: str, server_opt: str, trains_alone: bool
    ) -> Candidate:
        return Candidate(
            self.hyperparameters.find_client_opt(client_opt),
            self.hyperparameters.find_server_opt(server_opt),
            None if trains_alone else self.hyperparameters.find_method(method),
        )

    def candidates(self, combination: Combination) -> list[Candidate]:
        """The algorithms of a combination, with each choice of hyperparameters that is tried."""
        untuned, search = self.untuned_candidate(combination), self._search(combination)
        return candidates(untuned, search, self.tuning.trials)

    def count_trials(self, combination: Combination) -> int:
        """The number of trials of a combination: its `candidates`, with all numbers of rounds."""
        untuned, search = self.untuned_candidate(combination), self._search(combination)
        trials_each = self.tuning.trials or count(untuned, search)
        return trials_each * max(1, len(self.tuning.rounds))

    def _search(self, combination: Combination) -> Search:
        trains_alone = self.trains_alone(combination.sharing, combination.method)
        return self.tuning.find_search(trains_alone)

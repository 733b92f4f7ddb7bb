"""Claims: whether the study has what they name."""

from collections.abc import Iterator, Sequence

from plfl.base.errors import Problem, suggest_name
from plfl.base.keys import Key
from plfl.config.baselines import BASELINE, Baselines
from plfl.config.claim_scores import CLAIM_SCORES, COUNTED, LOADS_SCORE
from plfl.config.claims import Claim
from plfl.config.error_messages import list_allowed
from plfl.config.grid import Grid
from plfl.interfaces.task import Task
from plfl.study.axes import Axis
from plfl.study.forecaster_names import ANY, ForecasterName, parse_name


def check_claims(
    claims: Sequence[Claim],
    grid: Grid,
    axes: Sequence[Axis],
    states: Sequence[str],
    baselines: Baselines,
    task: Task,
) -> Iterator[Problem]:
    """Report claims about values that the grid lacks, baselines that the study lacks and scores
    that the task lacks.
    Those about states that it lacks are left out (see `left_out_claims`), so that a study can be
    run on some of its states."""
    values = {axis.key: list(axis.choices) for axis in axes} | {"data.states": list(states)}
    for i, claim in enumerate(claims):
        yield from _check_score(claim, Key(f"claims.{i}"), axes, task)
        for name in (*claim.better, *claim.than):
            try:
                _, forecaster = parse_name(name, axes)
            except ValueError as error:
                yield Problem(Key(f"claims.{i}"), f"{name!r}: {error}")
                continue
            for part, allowed_names in _parts_of(forecaster, grid, baselines):
                if part not in allowed_names:
                    yield Problem(
                        Key(f"claims.{i}"),
                        f"{name!r} is unknown",
                        list_allowed(part, allowed_names),
                    )
                    break
        for key in claim.where:
            if key not in values:
                yield Problem(
                    Key(f"claims.{i}.where"),
                    f"{key} is no axis of the grid",
                    list_allowed(key, values),
                )
                continue
            for value in claim.labels(key):
                if value not in values[key] and key != "data.states":
                    allowed_names = list_allowed(value, values[key])
                    yield Problem(
                        Key(f"claims.{i}.where.{key}"), f"{value} is unknown", allowed_names
                    )
        if set(claim.better) & set(claim.than):
            yield Problem(Key(f"claims.{i}"), "a forecaster is on both sides", "remove it from one")


def _check_score(claim: Claim, key: Key, axes: Sequence[Axis], task: Task) -> Iterator[Problem]:
    """Report a claim with a score that the task lacks, or with a number that the score has not; one
    that lacks a side; or one about the loads of clients, which have no sides, that does not say
    what they exceed, or is about those of several variants."""
    names = [name for name, score in CLAIM_SCORES.items() if score.describe(task.forecasts)]
    if claim.score not in names:
        text = f"{claim.score!r} is no score of the task {task.name}"
        yield Problem(
            Key(f"{key.path}.score"), text, list_allowed(claim.score, filter(None, names))
        )
        return
    if claim.margin and claim.score:
        yield Problem(key, "has no `margin`, which is about the error", "remove it, or `score`")
    if claim.score != LOADS_SCORE:
        if not (claim.better and claim.than):
            yield Problem(key, "has two sides; fill `better` and `than`")
        if claim.share is not None and claim.score not in COUNTED:
            counted = [name for name in names if name in COUNTED]
            text = "has no `share`, which is about what is counted"
            yield Problem(key, text, f"remove it, or set `score` to {' or '.join(counted)}")
        return
    if claim.better or claim.than:
        yield Problem(key, "compares no sides; remove `better` and `than`")
    if claim.share is None or claim.share <= 1:
        text = "is about loads that differ by more than the factor `share`"
        yield Problem(key, text, "set `share` to a number above 1")
    if claim.each:
        yield Problem(key, "is about loads, so it has no `each`", "remove it")
    for axis in axes:
        values = claim.labels(axis.key) if axis.key in claim.where else list(axis.choices)
        if len(values) > 1:
            text = f"is about the loads of one variant, but {axis.key} has {len(values)} values"
            yield Problem(key, text, "name one of them in `where`")


def left_out_claims(claims: Sequence[Claim], states: Sequence[str]) -> Iterator[str]:
    """A line for each claim that is not judged because it is about a state that a study lacks."""
    for i, claim in enumerate(claims):
        if absent := claim.absent_states(states):
            yield (
                f"claims.{i} is left out, because it is about {', '.join(absent)}, which is not "
                f"among data.states: {', '.join(states)}{suggest_name(absent[0], states)}"
            )


def _parts_of(
    name: ForecasterName, grid: Grid, baselines: Baselines
) -> Iterator[tuple[str, Sequence[str]]]:
    """The parts of a forecaster's name in a claim, each with its known values."""
    if name.is_whole_kind or name.is_in_use:
        return
    if name.is_baseline:
        yield name.method, baselines.names
        return
    yield name.sharing, [*grid.sharing, BASELINE, ANY]
    axes = (grid.method, grid.client_opt, grid.server_opt)
    for part, allowed_names in zip(name.algorithms, axes, strict=True):
        yield part, [*allowed_names, ANY]

"""Which forecasters of a study are meant: by a name in a claim, or as the best of a kind.

The rule by which all are chosen is that of `plfl.results.best`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from plfl.baselines import BASELINE, pretrained_names
from plfl.results import words
from plfl.results.contenders import Contender, Mixture, NotInStudyError, contender_of
from plfl.results.scores import AXES, Forecaster, select
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.study import Cell, Study
from plfl.study.axes import parse_place
from plfl.study.checks.claims import USE_NAMES, WHOLE_KINDS


def scheme_method_pairs(study: Study) -> list[tuple[str, str]]:
    """Pairs of sharing scheme and method; one pair where clients train alone."""
    pairs = dict.fromkeys((cell.sharing, cell.method) for cell in study.cells)
    local_pairs = [pair for pair in pairs if study.plan.combinations.trains_alone(*pair)]
    first = dict(reversed(local_pairs))
    return [pair for pair in pairs if pair not in local_pairs or first[pair[0]] == pair[1]]


def shown_cell(tables: Tables, state: str) -> Cell | None:
    """The cell whose forecasts are shown for a state: the best federation, if there is one; None if
    every cell diverged; see `Tables.best`."""
    federated = tables.best(
        "local", state=state, sharing=tables.study.plan.schemes.federated_schemes
    )
    return federated or tables.best("local", state=state)


def best_baselines(tables: Tables) -> dict[str, str]:
    """The best baseline that sends no data, by state; states without one are left out."""
    best_of = {state: tables.best_baseline(state) for state in tables.study.data.states}
    return {state: name for state, name in best_of.items() if name is not None}


def contender_in_use(variant: Variant, state: str, name: str = words.IN_USE) -> Mixture | None:
    """What is in use in a state; None if nothing has a score."""
    forecaster = next(iter(select(variant.scores["local"][state], sharing=name)), None)
    return Mixture(variant, forecaster) if forecaster else None


def contenders_in_use(variant: Variant, state: str) -> list[Mixture]:
    """What is in use in a state, and what would be without a federation if that is different."""
    uses = [use for name in USE_NAMES if (use := contender_in_use(variant, state, name))]
    if len(uses) < 2:
        return uses
    chosen, alone = (
        {client: choice.combination for client, choice in variant.assignments[name, state].items()}
        for name in USE_NAMES
    )
    return uses[: 1 if chosen == alone else 2]


def find_contenders(
    study: Study, group: Sequence[Variant], state: str, names: Sequence[str], score: str = ""
) -> list[Contender]:
    """The forecasters of a state that names in claims stand for, in some variants; NotInStudyError
    if no variant is at a place that a name says."""
    columns = {axis.key: axis.column for axis in study.plan.axes}
    contenders = []
    for full in names:
        place, name = parse_place(full, study.plan.axes)
        matching_variants = [
            v for v in group if all(v.place[columns[k]] == label for k, label in place.items())
        ]
        if not matching_variants:
            raise NotInStudyError(f"`where` leaves no variant of {full}")
        contenders += [
            contender_of(v, forecaster)
            for v in matching_variants
            for forecaster in _find_forecasters(v, name, state, score)
        ]
    return contenders


def _find_forecasters(variant: Variant, name: str, state: str, score: str) -> Iterator[Forecaster]:
    """The forecasters of a state that a name without a place stands for, each training once."""
    study, state_scores = variant.tables.study, variant.forecasters_by_score(score)
    grid, pretrained = study.plan.combinations, pretrained_names(study.baselines.further)
    if name in WHOLE_KINDS:
        for model, scores in state_scores.items():
            for forecaster in scores[state]:
                sharing, method, *_ = forecaster.combination
                if sharing in USE_NAMES:
                    continue
                if forecaster.is_baseline:
                    is_listed = model == "local" and method not in pretrained
                    is_meant = is_listed and words.find_kind(study, f"{BASELINE}-{method}") == name
                else:
                    repeated = model == "global" and grid.trains_alone(sharing, method)
                    is_meant = words.find_kind(study, sharing) == name and not repeated
                if is_meant and (
                    forecaster.is_baseline or not grid.repeats(forecaster.combination)
                ):
                    yield replace(forecaster, model=model)
        return
    if name in USE_NAMES:
        yield from select(state_scores["local"][state], sharing=name)
        return
    short = name.removesuffix("-global")
    model = "local" if short == name else "global"
    sharing, *algorithms = short.split("-")
    parts = zip(AXES, [sharing, *algorithms], strict=False)
    equal = {axis: value for axis, value in parts if value != "*"}
    for forecaster in select(state_scores[model][state], **equal):
        if forecaster.is_baseline == (sharing == BASELINE) and (
            forecaster.is_baseline or not grid.repeats(forecaster.combination)
        ):
            yield replace(forecaster, model=model)

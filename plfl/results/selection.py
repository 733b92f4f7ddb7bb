"""Which forecasters of a study are meant: by a name in a claim, or as the best of a kind.

The rule by which all are chosen is that of `plfl.results.best`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from plfl.baselines import pretrained_names
from plfl.results import words
from plfl.results.contenders import Contender, Mixture, NotInStudyError, contender_of
from plfl.results.scores import ForecasterScores, select
from plfl.results.tables import Tables
from plfl.results.variants import Variant
from plfl.study import Cell, Study
from plfl.study.forecaster_names import IN_USE, USE_NAMES, ForecasterName, parse_name


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


def contender_in_use(variant: Variant, state: str, name: str = IN_USE) -> Mixture | None:
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
    study: Study, variants: Sequence[Variant], state: str, names: Sequence[str], score: str = ""
) -> list[Contender]:
    """The forecasters of a state that names in claims stand for, in some variants; NotInStudyError
    if no variant is at a place that a name says."""
    columns = {axis.key: axis.column for axis in study.plan.axes}
    contenders = []
    for full in names:
        place, name = parse_name(full, study.plan.axes)
        matching_variants = [
            v for v in variants if all(v.place[columns[k]] == label for k, label in place.items())
        ]
        if not matching_variants:
            raise NotInStudyError(f"`where` leaves no variant of {full}")
        contenders += [
            contender_of(v, forecaster)
            for v in matching_variants
            for forecaster in _find_forecasters(v, name, state, score)
        ]
    return contenders


def _find_forecasters(
    variant: Variant, name: ForecasterName, state: str, score: str
) -> Iterator[ForecasterScores]:
    """The forecasters of a state that a name without a place stands for, each training once."""
    study, state_scores = variant.tables.study, variant.forecasters_by_score(score)
    grid, pretrained = study.plan.combinations, pretrained_names(study.baselines.further)
    if name.is_whole_kind:
        for model, scores in state_scores.items():
            for forecaster in scores[state]:
                sharing, method, *_ = forecaster.combination
                if sharing in USE_NAMES:
                    continue
                if forecaster.is_baseline:
                    is_left_out = model == "global" or method in pretrained
                else:
                    is_repeated = model == "global" and grid.trains_alone(sharing, method)
                    is_left_out = is_repeated or grid.repeats(forecaster.combination)
                kind = words.find_kind(study, ForecasterName(sharing, method))
                if kind == name.sharing and not is_left_out:
                    yield replace(forecaster, model=model)
        return
    if name.is_in_use:
        yield from select(state_scores["local"][state], sharing=name.sharing)
        return
    model = "global" if name.is_global else "local"
    for forecaster in select(state_scores[model][state], **name.chosen_axes):
        if forecaster.is_baseline == name.is_baseline and (
            forecaster.is_baseline or not grid.repeats(forecaster.combination)
        ):
            yield replace(forecaster, model=model)

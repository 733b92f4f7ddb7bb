"""Tuning: keys, values and numbers of candidates."""

from collections.abc import Iterable, Iterator, Mapping

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.config.algorithms import find
from plfl.config.grid import Grid
from plfl.config.tuning import ROUNDS, Tuning
from plfl.plugins.registry import ALGORITHM_PACKAGES, Algorithm
from plfl.study import combinations
from plfl.study.combinations import Candidate


def check_variants(cells: Mapping[str, object]) -> Iterator[Problem]:
    """Report variants of a study with different `cells`, given by the labels of the variants."""
    (first, expected), *other_cells = cells.items()
    for label, problems in other_cells:
        if problems != expected:
            yield Problem(
                Key("grid"),
                f"the variants {first} and {label} have different cells, because one of them "
                "refuses a combination or shares other parameters",
                "make studies of their own",
            )
            return


def check_paths(tuning: Tuning, grid: Grid) -> Iterator[Problem]:
    """Report paths of hyperparameters that no algorithm of the grid has."""
    algorithms = {
        kind: {name: find(kind, name) for name in getattr(grid, kind)}
        for kind in ALGORITHM_PACKAGES
    }
    for key in ("search", "alone"):
        for path in getattr(tuning, key):
            if path != ROUNDS and not combinations.matches(path, algorithms):
                yield Problem(
                    Key(f"tuning.{key}"),
                    f"{path!r} is not a hyperparameter of an algorithm in this grid",
                    "a valid path is, for example, server_opt.*.lr",
                )


def check_values(tuning: Tuning, algorithms: Iterable[tuple[str, Algorithm]]) -> Iterator[Problem]:
    """Report hyperparameters that `algorithms`, each given with its kind, do not allow."""
    refusals = (
        Problem(Key(f"tuning.{key}.{path}"), reason)
        for kind, algorithm in algorithms
        for key in ("search", "alone")
        for path, reason in combinations.refused_values(kind, algorithm, getattr(tuning, key))
    )
    yield from dict.fromkeys(refusals)


def check_budgets(tuning: Tuning, cells: Mapping[str, tuple[Candidate, bool]]) -> Iterator[Problem]:
    """Report cells that cannot have equally many trials. `cells`: some cells, by name: their
    algorithms, and whether their clients train alone."""
    counts: dict[int, str] = {}
    for cell, (untuned, trains_alone) in cells.items():
        counts.setdefault(combinations.count(untuned, tuning.find_search(trains_alone)), cell)
    trial_counts = ", ".join(f"{cell} has {number}" for number, cell in sorted(counts.items()))
    if tuning.trials is None:
        if len(counts) > 1:
            yield Problem(
                Key("tuning"),
                f"cells try different numbers of combinations ({trial_counts})",
                "set tuning.trials, and add values for the cells with the fewest combinations "
                "(tuning.alone for cells without a server)",
            )
    elif counts and min(counts) < tuning.trials:
        yield Problem(
            Key("tuning.trials"),
            f"some cells have fewer than {tuning.trials} combinations ({trial_counts})",
            "add values for them (tuning.alone for cells without a server)",
        )

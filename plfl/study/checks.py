"""Checks that involve several keys of a study. Each yields one line per problem."""

import math
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from plfl.base.errors import Problem, suggest_name
from plfl.base.keys import Key
from plfl.config.algorithms import find
from plfl.config.claim_scores import CLAIM_SCORES, COUNTED, LOADS_SCORE
from plfl.config.messages import allowed
from plfl.config.named import CALENDAR, FEATURE_UNITS, UNITS, available_sources, available_tasks
from plfl.config.sections import (
    BASELINE,
    FEWEST_MASKED,
    METER_ROLES,
    ROUNDS,
    SPREADS,
    Baselines,
    ChannelSettings,
    Claim,
    Compute,
    Data,
    FederationSettings,
    Grid,
    KnownFuture,
    Meters,
    PrivacySettings,
    PublicModels,
    Scheme,
    Simulation,
    Tuning,
    Windows,
)
from plfl.interfaces.method import Method
from plfl.interfaces.model import DEFAULT, Model
from plfl.interfaces.task import Task
from plfl.layout import GROUPS, ParameterLayout
from plfl.optimizers.server import ServerOpt
from plfl.plugins.registry import ALGORITHM_PACKAGES, Algorithm
from plfl.study import combinations
from plfl.study.axes import Axis, parse_place
from plfl.study.combinations import Candidate, overrides

Refusals = Mapping[tuple[str, str], str] | Mapping[tuple[str, str, str], str]
"""Why methods do not work with partners, by the names of the method and of the partner."""
PRIVACY = "federation.privacy"
SECURE = "channel.secure"


def check_names(
    sharing: Sequence[str], schemes: Collection[str], task: Task, data: Data
) -> Iterator[Problem]:
    """Report sharing schemes with taken or unknown names, and sources without a task's targets."""
    if BASELINE in schemes:
        yield Problem(
            Key(f"sharing.{BASELINE}"),
            "this name marks the rows of baselines in the tables",
            "choose another name for the sharing scheme",
        )
    for name in sharing:
        if name not in schemes:
            yield Problem(Key("grid.sharing"), f"{name!r} is unknown", allowed(name, schemes))
    if (examples := data.source_class.examples) != task.examples:
        tasks = [n for n, cls in available_tasks().items() if cls.examples == examples]
        fitting = available_sources().items()
        source_names = [name for name, cls in fitting if cls.examples == task.examples]
        yield Problem(
            Key("task.name"),
            f"{task.name!r} needs {task.examples}, but data.source {data.source} has {examples}",
            f"set data.source to {' or '.join(source_names)}, or task.name to {' or '.join(tasks)}",
        )


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
                _, forecaster = parse_place(name, axes)
            except ValueError as error:
                yield Problem(Key(f"claims.{i}"), f"{name!r}: {error}")
                continue
            for part, allowed_names in _parts_of(forecaster, grid, baselines):
                if part not in allowed_names:
                    yield Problem(
                        Key(f"claims.{i}"), f"{name!r} is unknown", allowed(part, allowed_names)
                    )
                    break
        for key in claim.where:
            if key not in values:
                yield Problem(
                    Key(f"claims.{i}.where"), f"{key} is no axis of the grid", allowed(key, values)
                )
                continue
            for value in claim.labels(key):
                if value not in values[key] and key != "data.states":
                    allowed_names = allowed(value, values[key])
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
        yield Problem(Key(f"{key.path}.score"), text, allowed(claim.score, filter(None, names)))
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


WHOLE_KINDS = ("best federation", "best alone", "best on raw data")
"""Names in claims of all forecasters of a kind: clients exchange models, nothing, raw data."""
USE_NAMES = ("in use", "in use alone")
"""Names in claims of what `plfl forecast` uses for each client, and of what it would use if clients
exchanged nothing."""


def _parts_of(
    forecaster: str, grid: Grid, baselines: Baselines
) -> Iterator[tuple[str, Sequence[str]]]:
    """The parts of a forecaster's name in a claim, each with its known values."""
    if forecaster in (*WHOLE_KINDS, *USE_NAMES):
        return
    sharing, *parts = forecaster.removesuffix("-global").split("-", 3)
    if sharing == BASELINE:
        yield "-".join(parts), baselines.names
        return
    yield sharing, [*grid.sharing, BASELINE, "*"]
    axes = (grid.method, grid.client_opt, grid.server_opt)
    for part, allowed_names in zip(parts, axes, strict=False):
        yield part, [*allowed_names, "*"]


def check_combinations(
    grid: Grid, refusals: Refusals, partners: str, count: int
) -> Iterator[Problem]:
    """Report methods that do not work with their `partners`, of which each has a `count`, unless
    `grid.refused` skips such combinations, and some are left."""
    for method in grid.method:
        reasons = {names[1:]: reason for names, reason in refusals.items() if names[0] == method}
        if grid.refused == "error":
            for names, reason in reasons.items():
                yield Problem(
                    Key("grid"), f"{method} does not work with {' and '.join(names)}: {reason}"
                )
        elif len(reasons) == count:
            reason_list = "; ".join(dict.fromkeys(reasons.values()))
            yield Problem(
                Key("grid"), f"{method} does not work with any of the {partners}: {reason_list}"
            )


def check_data(data: Data) -> Iterator[Problem]:
    """Check states, buildings, features and the columns of own meters."""
    for state in data.buildings:
        if state not in data.states:
            yield Problem(
                Key(f"data.buildings.{state}"),
                f"not one of data.states {data.states}",
                "add or remove it",
            )
    if data.resample and data.resample <= data.read_interval:
        yield Problem(
            Key("data.resample"),
            f"{data.resample} minutes are not more than the {data.read_interval} between readings",
            "remove it, or choose a longer interval",
        )
    yield from _check_features(data)
    yield from _check_columns(data.meters, data.features)
    yield from _check_units(data.meters)
    yield from _check_exports(data)


def _check_features(data: Data) -> Iterator[Problem]:
    features, is_meters = data.features, data.source == "meters"
    feature_names = dict.fromkeys(
        [*FEATURE_UNITS, *(data.meters.input_columns if is_meters else ())]
    )
    for feature in features:
        if feature not in feature_names:
            remedy = (
                f"; for a column of your own, add it to {Key('data.meters.columns')}"
                if is_meters
                else ""
            )
            yield Problem(
                Key("data.features"),
                f"{feature!r} is unknown",
                f"{allowed(feature, FEATURE_UNITS)}{remedy}",
            )


def _check_columns(meters: Meters, features: list[str]) -> Iterator[Problem]:
    columns = meters.columns
    mappable = [*METER_ROLES, *(name for name in FEATURE_UNITS if name not in CALENDAR)]
    for role, column in columns.items():
        if role not in mappable and (role in CALENDAR or role not in features):
            yield Problem(
                Key("data.meters.columns"),
                f"{role!r} is unknown",
                f"{allowed(role, mappable)}, or a name of your own that data.features lists, too",
            )
        if (first := next(r for r, c in columns.items() if c == column)) != role:
            yield Problem(
                Key("data.meters.columns"),
                f"{first!r} and {role!r} are both {column!r}",
                "name different columns, or remove one",
            )
    if "time_of_day" in columns and "timestamp" not in columns:
        yield Problem(
            Key("data.meters.columns"),
            "'time_of_day' is a column beside one of dates",
            "add that as 'timestamp'",
        )


def check_selection(task: Task, data: Data, federation: FederationSettings) -> Iterator[Problem]:
    """Report a selection of clients by labels that they do not have."""
    if federation.selection == "data_aware" and not task.has_labels:
        yield Problem(
            Key("federation.selection"),
            f"'data_aware' is about labels, which data.source {data.source} does not have",
            "set it to uniform",
        )


def check_weighting(
    federation: FederationSettings, algorithms: Iterable[tuple[str, Algorithm]]
) -> Iterator[Problem]:
    """Report weights of clients that a ServerOpt ignores."""
    for kind, algorithm in algorithms:
        is_ignored = isinstance(algorithm, ServerOpt) and algorithm.ignores_weights
        if is_ignored and federation.weighting != "uniform":
            yield Problem(
                Key("federation.weighting"),
                f"'{federation.weighting}' has no effect on {algorithm.name}, in whose mean all "
                "clients count equally",
                f"set it to uniform, or remove {algorithm.name} from grid.{kind}",
            )


def check_simulation(
    simulation: Simulation, data: Data, joining: Sequence[str]
) -> Iterator[Problem]:
    """Report lists of speeds that do not fit the clients of a federation. `joining`: the sharing
    schemes in which clients join after the rounds."""
    for key in (key for keys in SPREADS.values() for key in keys):
        if not isinstance(speeds := getattr(simulation, key), list):
            continue
        path = f"federation.simulation.{key}"
        if data.federations or joining:
            divides = "data.federations" if data.federations else f"sharing.{joining[0]}"
            yield Problem(
                Key(path),
                f"a list is in the order of the clients of a state, but {divides} divides them",
                "give the speeds by name, or as a column of a file",
            )
        for state in data.states:
            if len(speeds) != (clients := data.clients_of(state)):
                yield Problem(
                    Key(path),
                    f"lists {len(speeds)} speeds for {clients} clients of {state}",
                    "give one for each, or the speeds by name",
                )


def check_start(federation: FederationSettings) -> Iterator[Problem]:
    """Report draws of parameters that start from those of a file."""
    if federation.start is not None and federation.initial != "common":
        yield Problem(
            Key("federation.initial"),
            f"{federation.initial!r} has no effect, since all start from federation.start",
            "remove one of them",
        )


def check_public(
    public: PublicModels, data: Data, baselines: Baselines, folder: Path, files: Collection[Path]
) -> Iterator[Problem]:
    """Report public models that cannot be made of the study's meters, and baselines that name a
    file in the `folder` of such models that is none of the study's `files`."""
    for state in public.states:
        if state not in data.states:
            yield Problem(
                Key("public.states"),
                f"{state!r} is not one of data.states {data.states}",
                "add or remove it",
            )
    if public.kind is None:
        if public.states:
            yield Problem(
                Key("public.states"), "no model is made", "set public.kind, or remove them"
            )
    elif data.source_class.examples != "loads":
        yield Problem(Key("public.kind"), f"data.source {data.source} has no meters", "remove it")
    elif data.interval > 60 or 60 % data.interval:
        yield Problem(
            Key("public.kind"),
            f"readings every {data.interval} minutes do not add up to hours",
            "remove it",
        )
    for baseline in baselines.further:
        named = getattr(baseline, "file", None)
        for file in named if isinstance(named, list) else [named]:
            if isinstance(file, Path) and file.parent == folder and file not in files:
                remedy = f"name one of {', '.join(map(str, files))}" if files else "set public.kind"
                yield Problem(
                    Key("baselines.further"), f"{baseline.name}: the study makes no {file}", remedy
                )


def check_calibration(federation: FederationSettings, task: Task) -> Iterator[Problem]:
    """Report a calibration that contradicts other keys of the rounds."""
    calibration, path = federation.calibration, "federation.calibration"
    if not federation.calibrates:
        return
    if federation.ema is not None:
        yield Problem(
            Key(path),
            "starts from the server's models, of which federation.ema is no average",
            "remove one of them",
        )
    if calibration.variant == "kd" and (reason := task.refuses_teacher(federation.loss)):
        yield Problem(
            Key(f"{path}.variant"),
            f"'kd' mixes forecasts of a teacher into the targets, which {reason}",
        )


def pools_targets(federation: FederationSettings, task: Task) -> bool:
    """Whether clients calibrate with the quantiles of all clients' loads. Labels have none."""
    is_distilled = federation.calibrates and federation.calibration.variant == "kd"
    return is_distilled and task.examples == Task.examples


def _check_units(meters: Meters) -> Iterator[Problem]:
    roles = list(meters.input_columns)
    for role, unit in meters.units.items():
        if role not in roles:
            remedy = (
                f"; the unit of the load is {Key('data.meters.unit')}" if role == "load" else ""
            )
            yield Problem(
                Key("data.meters.units"),
                f"{role!r} is not one of the inputs in {Key('data.meters.columns')}",
                f"{allowed(role, roles)}{remedy}",
            )
        elif role in UNITS and unit not in UNITS[role]:
            key = Key(f"data.meters.units.{role}")
            yield Problem(key, f"{unit!r} is unknown", allowed(unit, UNITS[role]))


def _check_exports(data: Data) -> Iterator[Problem]:
    """Report exports that do not fit the study, and options that exclude each other."""
    meters = data.meters
    patterns = [*map(str, meters.exports), *meters.only]
    is_alike = meters.exports and "exports" not in meters.by_state
    if is_alike and len(data.states) > 1 and not any("{state}" in text for text in patterns):
        yield Problem(
            Key("data.meters.exports"),
            f"the {len(data.states)} states would have the same meters",
            "write {state} into a path, or into a pattern of data.meters.only, or the exports of "
            "each state by its name",
        )
    if meters.cumulative and meters.unit in ("kW", "W", "MW"):
        yield Problem(
            Key("data.meters.cumulative"),
            f"a register counts energy, but {Key('data.meters.unit')} is {meters.unit}",
            f"use kWh, Wh or MWh, or remove {Key('data.meters.cumulative')}",
        )
    if meters.cumulative and "start" in meters.by_state.get("stamp", {"": meters.stamp}).values():
        yield Problem(
            Key("data.meters.cumulative"),
            "the reading of a register belongs to the end of its interval",
            f"set {Key('data.meters.stamp', 'end')}",
        )


WITHOUT_VALIDATION = "windows.history, data.origins and a windows.split with 0 for validation"
"""What leaves no validation set of its own."""


def check_history(
    windows: Windows,
    data: Data,
    task: Task,
    federation: FederationSettings,
    tuning: Tuning,
) -> Iterator[Problem]:
    """Report keys that contradict `WITHOUT_VALIDATION` or tuned numbers of rounds."""
    in_history = not windows.has_validation or bool(data.origin_dates)
    if data.source_class.examples != "loads" and (in_history or data.federations):
        keys = {
            "data.origins": data.origin_dates,
            "windows.history": windows.history is not None,
            "windows.split": not windows.has_validation,
            "data.federations": data.federations,
        }
        key = next(key for key, is_set in keys.items() if is_set)
        yield Problem(
            Key(key), f"is for series of loads, but data.source is {data.source}", "remove it"
        )
    if tuning.rounds and (last_rounds := tuning.rounds[-1]) > federation.rounds:
        yield Problem(
            Key(f"tuning.search.{ROUNDS}"),
            f"{last_rounds} is more than federation.rounds {federation.rounds}, which the "
            "training has",
            "raise that, or remove it here",
        )
    if tuning.rounds and federation.schedule.shape == "cosine":
        yield Problem(
            Key("federation.schedule.shape"),
            "'cosine' depends on federation.rounds, so that no smaller number can be tried "
            "within a training",
            f"set it to step, or remove tuning.search.{ROUNDS}",
        )
    retrains = WITHOUT_VALIDATION if in_history else f"tuning.search.{ROUNDS}"
    if (in_history or tuning.rounds) and federation.keep == "best":
        yield Problem(
            Key("federation.keep"),
            f"'best' is another choice of rounds than {retrains}",
            f"set it to last and list numbers of rounds under tuning.search.{ROUNDS}",
        )
    if in_history and task.widening != "none":
        yield Problem(
            Key("task.conformal"),
            f"{task.widening!r} needs a validation set that the models do not train on, but "
            f"{WITHOUT_VALIDATION} have none",
            "set it to none, or remove them",
        )


def check_joining(
    schemes: Mapping[str, Scheme], windows: Windows, federation: FederationSettings
) -> Iterator[Problem]:
    """Report sharing schemes that contradict other keys."""
    for name, scheme in schemes.items():
        if scheme.join == "unseen" and windows.scaling == "pooled":
            yield Problem(
                Key("windows.scaling"),
                "'pooled' would tell a federation the limits of clients that join later "
                f"(sharing.{name})",
                "set it to per_client",
            )
        if scheme.history and scheme.join == "raw":
            yield Problem(
                Key(f"sharing.{name}.history"), "works only with join: unseen", "remove it"
            )
        if scheme.history and len({s.history for s in schemes.values() if s.history}) > 1:
            yield Problem(
                Key(f"sharing.{name}.history"), "all schemes must have the same number of weeks"
            )
        if federation.calibrates or federation.ema is not None:
            yield Problem(
                Key(f"sharing.{name}"),
                "clients that do not train in the rounds have no average and no calibration",
                "use the method fine_tuning, or remove federation.ema and federation.calibration",
            )


def check_covariates(windows: Windows, data: Data) -> Iterator[Problem]:
    """Report features that are not known in advance."""
    for i, transform in enumerate(windows.covariates):
        path = f"windows.covariates.{i}.{transform.name}"
        if isinstance(transform, KnownFuture):
            column_names = [name for name in data.inputs if name != "load"]
            for name in transform.features:
                if name == "load":
                    yield Problem(
                        Key(f"{path}.features"), "'load' is not known in advance", "remove it"
                    )
                elif name not in column_names:
                    yield Problem(
                        Key(f"{path}.features"),
                        f"{name!r} is not among the inputs of data.features",
                        allowed(name, column_names),
                    )
    lead_hours, farthest_hours = data.meters.weather_ahead, windows.farthest * data.interval / 60
    if data.source == "meters" and lead_hours is not None and lead_hours < farthest_hours:
        yield Problem(
            Key("data.meters.weather_ahead"),
            f"is {lead_hours:g} hours, but the farthest target is {farthest_hours:g} hours "
            "ahead, when these forecasts were not yet known",
            f"set it to {farthest_hours:g} or more",
        )


def check_target(windows: Windows, model: Model) -> Iterator[Problem]:
    """Report an output of the model that cannot be the target."""
    if model.only_target not in (None, windows.target):
        yield Problem(
            Key("windows.target"),
            f"the model {model.name} cannot predict {windows.target!r}",
            f"set it to {model.only_target}",
        )
    if windows.is_relative and model.is_nonnegative:
        yield Problem(
            Key("model.output"),
            f"'abs' cannot predict a fall of the load, but windows.target is {windows.target}",
            "set it to linear",
        )


def check_sharing(sharing: Mapping[str, list[str]], layout: ParameterLayout) -> Iterator[Problem]:
    """Report patterns that match no parameter of the model."""
    names = layout.names
    for scheme, patterns in sharing.items():
        path = f"sharing.{scheme}"
        for pattern in patterns:
            if layout.matching(pattern):
                continue
            if buffers := [name for name in layout.buffers if fnmatchcase(name, pattern)]:
                yield Problem(
                    Key(path),
                    f"{pattern!r} means {', '.join(buffers)}, which belong to one client and "
                    "are never sent",
                    "remove it, and list parameters",
                )
            elif pattern in GROUPS:
                yield Problem(
                    Key(path),
                    f"{pattern!r} has no parameter: all are in the other group",
                    "correct model.head, or list other patterns",
                )
            else:
                suggestion = allowed(pattern, [*GROUPS, *names])
                yield Problem(Key(path), f"{pattern!r} matches no parameter", suggestion)


def check_engine(compute: Compute, model: Model) -> Iterator[Problem]:
    """Report a device on which the model cannot grow."""
    if compute.device == "cuda" and model.only_method:
        yield Problem(
            Key("compute.device"), f"the model {model.name} grows on the CPU", "set cpu or auto"
        )


def check_methods(
    methods: Mapping[str, Method],
    model: Model,
    task: Task,
    federation: FederationSettings,
) -> Iterator[Problem]:
    """Report methods that cannot train the model, or with the settings."""
    for name, method in methods.items():
        if model.only_method not in (None, name):
            yield Problem(
                Key("grid.method"),
                f"{name!r} cannot train {model.summary}",
                f"use {model.only_method}",
            )
            continue
        reasons = (
            unfit_by_facts(method, model, task, federation),
            method.unfit(model, task, federation),
        )
        for reason in chain(*reasons):
            yield Problem(Key("grid.method"), f"{name!r} {reason}")


def check_buffers(methods: Mapping[str, Method], layout: ParameterLayout) -> Iterator[Problem]:
    """Report methods that cannot train a model with buffers that training changes."""
    for name, method in methods.items():
        if layout.buffers and method.no_buffers:
            yield Problem(
                Key("grid.method"),
                f"{name!r} cannot train a model with {', '.join(layout.buffers)}, since "
                f"{method.no_buffers}",
                "remove the method, or replace layers such as BatchNorm by LayerNorm",
            )


def unfit_by_facts(
    method: Method, model: Model, task: Task, federation: FederationSettings
) -> Iterator[str]:
    """Why a method cannot train a model, or with these settings, as far as its facts say."""
    averages = federation.ema is not None
    if method.only_model not in (None, model.name):
        yield f"needs the model {method.only_model}; set model.name, or remove the method"
    if method.only_task not in (None, task.name):
        yield (
            f"needs the task {method.only_task}, but task.name is {task.name}; remove the method"
        )
    if overrides(method, "mix_outputs") and task.name != "forecast":
        yield f"needs the task forecast, but task.name is {task.name}; remove the method"
    if method.reads_features and not model.features:
        yield (
            f"compares hidden features of the model {DEFAULT}, which {model.summary} does not "
            f"have; remove the method, or set model.name to {DEFAULT}"
        )
    if method.has_teacher and (reason := task.refuses_teacher(federation.loss)):
        yield f"mixes forecasts of a teacher into the targets, which {reason}"
    if overrides(method, "strata", "select") and federation.selection != "uniform":
        yield (
            "selects the clients of a round itself; remove the method, or set "
            "federation.selection to uniform"
        )
    if method.own_steps and (federation.opt_state != "reset" or averages):
        yield (
            "starts every model with fresh moments and keeps no average; remove the method, or "
            "federation.opt_state and federation.ema"
        )
    if method.own_steps and method.equal_steps and federation.local_epochs is not None:
        yield (
            "needs the same number of local steps for every client; remove the method, or set "
            "federation.local_steps instead of federation.local_epochs"
        )
    yield from _unfit_scores(method, federation)


def _unfit_scores(method: Method, federation: FederationSettings) -> Iterator[str]:
    """Why its models cannot be scored with these settings."""
    averages = federation.ema is not None
    if overrides(method, "adapt") and averages:
        yield (
            "adapts the models before each forecast, so their average is not used; remove the "
            "method, or federation.ema"
        )
    if overrides(method, "mix_outputs") and (averages or federation.keep == "best"):
        yield (
            "does not forecast with a model alone, so it can use neither an average nor the "
            "best model; remove the method, or federation.ema and federation.keep"
        )
    if federation.server_ema is not None and method.no_server_average:
        yield f"{method.no_server_average}; remove the method, or federation.server_ema"
    if federation.calibrates and overrides(method, "scored", "adapt", "mix_outputs"):
        yield (
            "decides itself what the clients forecast with, which calibration would replace; "
            "remove the method, or federation.calibration"
        )


def check_channel(channel: ChannelSettings, methods: Mapping[str, Method]) -> Iterator[Problem]:
    """Report methods whose messages cannot be coded."""
    for name, method in methods.items():
        if channel.is_coded and (reason := method.no_codec):
            yield Problem(
                Key("channel"),
                f"{name!r} works without codecs only, since {reason}",
                "remove the method, or set channel.up and channel.down to none",
            )
        elif channel.up != "none" and (reason := method.no_coded_update):
            yield Problem(
                Key("channel.up"),
                f"{name!r} needs updates without a codec, since {reason}",
                "remove the method, or set channel.up to none",
            )


def check_sums(
    channel: ChannelSettings,
    federation: FederationSettings,
    task: Task,
    algorithms: Iterable[tuple[str, Algorithm]],
) -> Iterator[Problem]:
    """Report keys that need more than sums over clients, or would make these reveal more."""
    if channel.up != "none":
        yield Problem(
            Key("channel.up"),
            f"{channel.up!r} sends other things than numbers that can be added, but {SECURE} "
            "needs sums",
            "set channel.up to none",
        )
    if federation.selection == "data_aware":
        yield Problem(
            Key("federation.selection"),
            f"'data_aware' tells the server the labels of single clients, but with {SECURE} it "
            "sees sums only",
            "set it to uniform, poisson or allocation",
        )
    if federation.privacy.quantile is not None:
        yield Problem(
            Key(f"{PRIVACY}.quantile"),
            "each client tells the server whether its norm is within the bound, but with "
            f"{SECURE} it sees sums only",
            "remove one of them",
        )
    if pools_targets(federation, task):
        yield Problem(
            Key("federation.calibration.variant"),
            f"'kd' computes quantiles of all clients' loads together, but with {SECURE} there are "
            "only sums over clients",
            "set it to plain or prox",
        )
    own_draws = federation.selection in ("poisson", "allocation") and federation.participation < 1
    if federation.privacy.noise and own_draws:
        yield Problem(
            Key("federation.selection"),
            f"{federation.selection!r} promises to hide whether a client takes part, but the noise "
            f"of those who do, which with {SECURE} only they add, tells how many they are",
            "set it to uniform",
        )
    for kind, algorithm in algorithms:
        if isinstance(algorithm, Method):
            reasons = [*algorithm.reasons_against_sums(task, federation)]
            if not (reasons or algorithm.adds_numbers or sends_only_updates(algorithm)):
                reasons = ["needs more than the clients' mean update; remove one of them"]
            for reason in reasons:
                yield Problem(Key(f"grid.{kind}"), f"with {SECURE}, {algorithm.name!r} {reason}")
        yield from _check_single_updates(kind, algorithm, f"with {SECURE} there are only sums")


def check_crowds(
    federation: FederationSettings, data: Data, joining: Mapping[str, Scheme]
) -> Iterator[Problem]:
    """Report rounds of so few clients that a sum over them shows what each one sends. `joining`:
    the sharing schemes in which clients join late, by name."""
    members = data.federation_sizes[0]
    crowds = {"": members}
    for name, scheme in joining.items():
        if scheme.join == "unseen":  # the largest group is late
            crowds[f" of the sharing scheme {name!r}"] = members - math.ceil(members / scheme.turns)
    for scheme_words, clients in crowds.items():
        if (fewest := int(federation.expected_participants(clients))) < FEWEST_MASKED:
            yield Problem(
                SECURE,
                f"a round{scheme_words} has {fewest} clients, and each of two knows what the other "
                "sends",
                f"let {FEWEST_MASKED} or more take part",
            )
            return


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


def check_privacy(
    federation: FederationSettings, data: Data, algorithms: Iterable[tuple[str, Algorithm]]
) -> Iterator[Problem]:
    """Report keys that would make ε wrong."""
    block = federation.privacy
    if block.clip is None:
        noise_keys = [key for key in ("noise", "noise_as_of", "quantile") if getattr(block, key)]
        if noise_keys and block != PrivacySettings(delta=block.delta):
            yield Problem(
                Key(f"{PRIVACY}.{noise_keys[0]}"),
                "has no effect without a bound",
                "set clip, such as 1",
            )
        return
    clients = data.federations or data.most_clients
    if len({data.clients_of(state) for state in data.states}) > 1:
        yield Problem(
            Key("data.clients"),
            f"{PRIVACY} needs equally many clients in every state",
            "give one number",
        )
    if federation.weighting != "uniform":
        yield Problem(
            Key("federation.weighting"),
            f"'{federation.weighting}' lets the data of a client decide how much it moves the "
            f"mean, which {PRIVACY} bounds",
            "set it to uniform",
        )
    if federation.selection == "data_aware":
        yield Problem(
            Key("federation.selection"),
            f"'data_aware' tells the server the clients' labels, outside of {PRIVACY}",
            "set it to uniform, poisson or allocation",
        )
    if block.delta * clients >= 1:
        yield Problem(
            Key(f"{PRIVACY}.delta"),
            f"{block.delta:g} is not below 1/{clients}: publishing the data of a client drawn "
            "at random would count as private",
            f"set it to {0.01 / clients:.0e} or so",
        )
    if block.noise_as_of is not None and block.noise_as_of < clients:
        yield Problem(
            Key(f"{PRIVACY}.noise_as_of"),
            f"{block.noise_as_of} is less than {clients} clients",
            "raise it",
        )
    most_noise = 2 * federation.noise_of_count(data.federation_sizes[0])
    if block.quantile is not None and block.noise >= most_noise:
        yield Problem(
            Key(f"{PRIVACY}.noise"),
            f"{block.noise:g} is not below {most_noise:g}, a tenth of the participants: the "
            "number of norms within the bound, which the server learns, would tell more",
            f"lower it, or remove {PRIVACY}.quantile",
        )
    for kind, algorithm in algorithms:
        if isinstance(algorithm, Method) and not sends_only_updates(algorithm):
            yield Problem(
                Key(f"grid.{kind}"),
                f"{algorithm.name!r} learns more from the clients than their mean update, which "
                f"{PRIVACY} does not cover",
                "remove one of them",
            )
        yield from _check_single_updates(
            kind, algorithm, f"with {PRIVACY} there is only a noisy mean"
        )


def _check_single_updates(kind: str, algorithm: Algorithm, obstacle: str) -> Iterator[Problem]:
    """Report a server optimiser that uses the updates of single clients."""
    if isinstance(algorithm, ServerOpt) and type(algorithm).receive is not ServerOpt.receive:
        yield Problem(
            Key(f"grid.{kind}"),
            f"{algorithm.name!r} uses the updates of single clients, but {obstacle}",
            "remove one of them",
        )


def sends_only_updates(method: Method) -> bool:
    """Whether a method declares `updates_only` and does not change the server's side of a round."""
    cls, plain = type(method), find("method", "fedopt")
    parts = ("aggregate", "groups", "select", "strata")
    has_plain_hooks = all(getattr(cls, name) is getattr(plain, name) for name in parts)
    return has_plain_hooks and bool(vars(cls).get("updates_only"))


def check_private_schemes(grid: Grid, joining: Container[str]) -> Iterator[Problem]:
    """Report sharing schemes of the grid for which ε is unknown: those of `joining`, in which
    clients join after the rounds."""
    for name in grid.sharing:
        if name in joining:
            yield Problem(
                Key(f"sharing.{name}"),
                "with `join`, clients send raw data or train in several federations, which "
                f"{PRIVACY} does not count",
                "remove one of them",
            )

"""The channel: codecs, and sums that hide what single clients send."""

import math
from collections.abc import Iterable, Iterator, Mapping

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.config.channel import FEWEST_MASKED, ChannelSettings
from plfl.config.data import Data
from plfl.config.federation import FederationSettings
from plfl.config.sharing import Scheme
from plfl.interfaces.method import Method
from plfl.interfaces.task import Task
from plfl.plugins.registry import Algorithm
from plfl.study.checks.federation import pools_targets
from plfl.study.checks.privacy import PRIVACY, check_single_updates, sends_only_updates

SECURE = "channel.secure"


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
        yield from check_single_updates(kind, algorithm, f"with {SECURE} there are only sums")


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

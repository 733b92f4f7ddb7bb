"""The facts about the codecs of the channel that a configuration needs, and how it names them."""

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ValidationError

from plfl.config.messages import allowed
from plfl.plugins import registry
from plfl.plugins.registry import Algorithm

PACKAGE = "plfl.federated.codecs"
"""The package of the codecs, one file each. Only the files of named codecs are imported."""
Memory = Literal["ef14", "ef21", "delta"]
MEMORIES: dict[str, tuple[Memory, ...]] = {"up": ("ef14", "ef21"), "down": ("delta",)}
"""The memories that a direction can have."""
ENTROPY = "rc"
"""The stage that shortens the whole numbers of a codec without loss."""


class CodecRules(Algorithm):
    """The rules of a codec. `plfl.federated.codecs.Codec` adds its computations."""

    has_codes: ClassVar[bool] = False
    """Whether a message ends with whole numbers, which `rc` can shorten."""

    unbiased: ClassVar[bool] = False
    """Whether E C(v) = v without a memory, so that the mean of many clients is exact."""

    contraction: ClassVar[float | None] = None
    """α of E‖C(v) − v‖² ≤ (1 − α)‖v‖², for normal values. None if α is not positive: then no memory
    can be used."""


@dataclass(frozen=True)
class Chain:
    """The stages of one direction."""

    codec: CodecRules
    memory: Memory | None
    """The memory of earlier messages, at both ends or only the sender."""
    entropy: bool
    """Whether the codes are shortened."""


def chain(text: str, direction: str) -> Chain | None:
    """The stages that a string names, such as `ef21+q3+rc`; None for `none`.

    Raises:
        ValueError: it names no possible stages, with the reason.
    """
    if text == "none":
        return None
    stages, memories = text.split("+"), MEMORIES[direction]
    memory = next((name for name in memories if name == stages[0]), None)
    if memory:
        del stages[0]
    if entropy := stages[-1:] == [ENTROPY]:
        del stages[-1]
    if len(stages) != 1:
        raise ValueError(
            f"its stages are {' or '.join(memories)} (if any), one codec, and {ENTROPY} (if any), "
            f"such as {memories[-1]}+q3+{ENTROPY}"
        )
    codec = _codec(stages[0])
    if entropy and not codec.has_codes:
        raise ValueError(f"{stages[0]} has no whole numbers that {ENTROPY} could shorten")
    if memory and codec.contraction is None:
        raise ValueError(f"{memory} needs a codec whose error is smaller than what it encodes")
    return Chain(codec, memory, entropy)


def _codec(stage: str) -> CodecRules:
    """The codec of a stage: its name, and the number that is its only hyperparameter, if any."""
    (named,) = re.findall(r"^(\D*)(.*)$", stage, re.DOTALL)
    for name, number in ((stage, ""), named):
        cls = registry.algorithm(PACKAGE, name)
        if cls is None or not issubclass(cls, CodecRules):
            continue
        value = int(number) if number.isdigit() else number
        keys = dict.fromkeys(list(cls.model_fields)[: bool(number)], value)
        try:
            return cls.model_validate(keys)
        except ValidationError as error:
            raise ValueError(f"{stage}: {error.errors()[0]['msg']}") from None
    known = registry.available(PACKAGE, CodecRules)
    raise ValueError(f"{stage!r} is no codec; {allowed(named[0], known)}")

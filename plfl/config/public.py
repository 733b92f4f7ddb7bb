"""The section `public`: the models of public meters that a study makes."""

from pydantic import field_validator

from plfl.config.named import MeterKind
from plfl.config.values import refuse_repetitions
from plfl.plugins.registry import Section


class PublicModels(Section):
    """Models of public meters that the study makes (docs/public.md)."""

    kind: MeterKind | None = None
    """What the meters are; null: none is made."""
    states: list[str] = []
    """States that train `results/NAME/public/KIND.xz`; `without-STATE.xz` lacks one.
    Empty: all."""

    _are_different = field_validator("states")(refuse_repetitions)

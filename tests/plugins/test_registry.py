import json

from pydantic import Field, create_model

from plfl.plugins.registry import Section


class Base(Section):
    """A section with a documented key."""

    lr: float = Field(0.1, gt=0)
    """The step size:
    one number."""
    plain: int = 1


class Derived(Base):
    """A section that inherits a key, and documents another one."""

    plain: int = 2
    """A number."""


Both = create_model("Both", __base__=Section, derived=(Derived, Field(Derived(), description="x")))


def test_the_meaning_of_a_key_is_the_docstring_below_it() -> None:
    assert Base.meanings() == {"lr": "The step size:\none number."}
    assert Derived.meanings() == {"lr": "The step size:\none number.", "plain": "A number."}
    assert Both.meanings() == {}


def test_a_schema_has_the_meanings_of_all_sections_within() -> None:
    schema = Both.model_json_schema()
    assert schema["properties"]["derived"]["description"] == "x"
    keys = schema["$defs"]["Derived"]["properties"]
    assert keys["lr"]["description"] == "The step size:\none number."
    assert keys["plain"]["description"] == "A number."
    json.dumps(schema)

"""A block of keys: values that never change, each documented by the docstring below it."""

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema


class Section(BaseModel):
    """A block of keys. Unknown keys are refused; values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """The docstrings of the keys, by key.

        They are read from the source when they are needed. Pydantic can attach them to the fields
        (`use_attribute_docstrings`), but only when a class is defined, which doubles the time that
        every process needs to import the configuration.
        """
        found: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            if issubclass(base, Section):
                found |= _docstrings(base)
        return {key: found[key] for key in cls.model_fields if key in found}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for key, text in cls.meanings().items():
            properties[key].setdefault("description", text)
        return schema


def _docstrings(cls: type) -> dict[str, str]:
    """The docstrings below the annotated attributes that a class itself defines."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except OSError:  # a class that `create_model` made has no source
        return {}
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    return {
        attribute.target.id: inspect.cleandoc(text.value.value)
        for attribute, text in pairwise(definition.body)
        if isinstance(attribute, ast.AnnAssign)
        and isinstance(attribute.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }

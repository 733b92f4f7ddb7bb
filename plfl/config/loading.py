"""Reads YAML strictly: a duplicate key is an error."""

from pathlib import Path
from typing import Any

import yaml

from plfl.base.errors import ConfigError


def read(path: str | Path) -> object:
    """The content of a YAML file.

    Raises:
        ConfigError: the file is missing or is not YAML, or a block has a duplicate key (PyYAML
            would silently keep the last one).
    """
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise ConfigError(str(path), ["the file does not exist; check the path"]) from None
    except IsADirectoryError:
        raise ConfigError(str(path), ["is a folder; name the YAML file of a study"]) from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(str(path), [f"cannot be read as YAML: {_located(error)}"]) from None
    except Exception as error:  # a malformed value can raise any error inside PyYAML
        raise ConfigError(str(path), [f"cannot be read as YAML: {error}"]) from None


def _located(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, where, and in which part of the file, in one line."""

    def at(mark: yaml.Mark | None) -> str:
        return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"

    found = ": ".join(filter(None, [at(error.problem_mark), error.problem]))
    if not error.context:
        return found
    return f"{found}, {error.context}" + (
        f" that begins at {at(error.context_mark)}" if error.context_mark else ""
    )


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"duplicate {key.value!r}; list it once"
                raise yaml.constructor.ConstructorError(
                    problem=problem, problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)

"""Reads YAML strictly: a duplicate key is an error."""

from pathlib import Path
from typing import Any

import yaml

from plfl.errors import ConfigError


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
    except Exception as error:  # a malformed value can raise any error inside PyYAML
        raise ConfigError(str(path), [f"cannot be read as YAML: {error}"]) from None


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

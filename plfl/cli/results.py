"""The arguments that name the results of a study."""

import argparse
from pathlib import Path

from plfl.cli.common import add_trust, add_which_model
from plfl.config.error_messages import read
from plfl.study.keys import StudyKeys
from plfl.study.paths import StudyPaths


def find_results(path: str) -> Path:
    """The results folder of the study whose file is named; any other path as it is.

    Raises:
        ConfigError: the file of a study is missing or is not YAML.
    """
    if not path.endswith((".yaml", ".yml")):
        return Path(path)
    keys = read(path)
    name = keys.get("name") if isinstance(keys, dict) else None
    return StudyPaths(str(name or StudyKeys.model_fields["name"].default)).results


def find_side(text: str) -> str:
    """A side of a comparison, with its results folder: `FOLDER`, `FOLDER:CELL` or
    `STUDY.yaml:CELL`."""
    path, colon, cell = text.partition(":")
    return f"{find_results(path)}{colon}{cell}"


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add `--trust` and the argument `results`."""
    add_trust(parser)
    text = "results folder of a study, or the file of the study"
    parser.add_argument("results", type=find_results, help=text)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add `--trust`, the file or folder of models, and the choice between a client's models."""
    add_trust(parser)
    text = (
        "a file of results/NAME/models/*.safetensors, or a results folder: its best forecaster on "
        "validation"
    )
    parser.add_argument("file", type=find_results, metavar="MODEL", help=text)
    add_which_model(parser)

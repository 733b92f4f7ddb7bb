"""`plfl schema`: the files that are generated from the keys of a study."""

import argparse
from pathlib import Path

from plfl.base.files import write_text
from plfl.cli.common import Commands, add_parser
from plfl.data.meters.formats.reference import FORMAT_KEYS_PAGE, reference
from plfl.study.generated import write

EXAMPLES = "plfl schema   # in the root of the repository"


def add(commands: Commands) -> None:
    add_parser(commands, "schema", EXAMPLES, run)


def run(_options: argparse.Namespace) -> None:
    """Write the generated files below the working directory and print their paths."""
    page = Path(FORMAT_KEYS_PAGE)
    paths = write(Path())
    write_text(page, reference())
    print("\n".join(map(str, [*paths, page])))

"""The `plfl` command, also as `python -m plfl`. Ctrl-C ends it quietly even while it starts."""

import sys

from plfl.base.errors import PlflError
from plfl.base.interrupts import heard, silence


def main() -> int:
    """Run the command on the arguments of this process and return its exit status."""
    silence()
    try:
        from plfl.cli.main import main as run
    except PlflError as error:  # an installed package brings a file that is broken
        print(f"plfl: {error}", file=sys.stderr)
        return 2

    with heard():
        return run()


if __name__ == "__main__":
    sys.exit(main())

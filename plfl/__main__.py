"""The `plfl` command, also as `python -m plfl`. Ctrl-C ends it quietly even while it starts."""

import sys

from plfl.base.interrupts import heard, silence


def main() -> int:
    """Run the command on the arguments of this process and return its exit status."""
    silence()
    from plfl.cli.main import main as run

    with heard():
        return run()


if __name__ == "__main__":
    sys.exit(main())

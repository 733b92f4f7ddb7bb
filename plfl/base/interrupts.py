"""What Ctrl-C (SIGINT) does to a process: nothing to see while it starts, an exception later.

Python answers Ctrl-C during an import with a traceback. Therefore each process that plfl starts
calls `silence` before it imports anything heavy, and runs its main part in `heard`.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


def silence() -> None:
    """Have Ctrl-C end this process at once without output; shells report status 130.

    A process that ignores Ctrl-C, such as one in the background of a shell, still does.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def hear() -> None:
    """Have Ctrl-C raise KeyboardInterrupt if it was silenced before."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def heard() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt during the block if it was silenced before."""
    before = signal.getsignal(signal.SIGINT)
    hear()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

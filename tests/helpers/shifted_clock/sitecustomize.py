"""Moves the clock of a process and of its SuperNode by `SHIFT` seconds, if this folder is in
PYTHONPATH."""

import os
import sys
import time
from datetime import timedelta

SHIFT = float(os.environ["SHIFT"])
_time = time.time
time.time = lambda: _time() + SHIFT
if any(word.endswith("flower-supernode") for word in sys.orig_argv):
    from flwr.supercore import date

    _now = date.now
    date.now = lambda: _now() + timedelta(seconds=SHIFT)

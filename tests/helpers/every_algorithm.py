"""Quick studies of every method, client optimiser and server optimiser."""

from collections.abc import Sequence
from typing import Any

from plfl import methods
from plfl.data.windows import build
from plfl.study import Study
from tests.helpers import tiny

WINDOWS = {"look_back": 2}
DATASET = build(tiny.tables(rows=200), tiny.study(windows=WINDOWS).windows)
SERVERS = ["fedavg", "fedavgadaptive", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "slowmo"]
CLIENTS = ["sgd", "sgdm", "adam", "adamams", "prox", "proxadam"]
METHODS = sorted(
    name for name, m in methods.available().items() if not (m.only_task or m.only_model)
)


def make_study(
    steps: int,
    method_names: Sequence[str] = ("fedopt",),
    recipe: dict[str, Any] | None = None,
    **grid: Any,
) -> Study:
    """Two rounds of `steps` local steps with the methods `method_names`; `grid`: further axes."""
    axes = {"client_opt": ["sgd"], "server_opt": ["fedavg"], "sharing": ["P2"]}
    clocks = {
        name: {"steps": [1, steps], "max_delay": 1}
        for name in method_names
        if name.startswith("cc_")
    }
    return tiny.study(
        windows=WINDOWS,
        grid={"method": list(method_names), **axes, **grid},
        method=tiny.QUICK | clocks | {"fedeff": {"epoch_steps": steps}},
        client_opt={"sgdm": {"momentum": 0.5, "dampening": 0.5}},
        federation={"rounds": 2, "local_steps": steps} | (recipe or {}),
    )

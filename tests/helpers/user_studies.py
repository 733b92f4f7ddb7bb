"""Tiny studies of the modules in `user_modules`."""

from functools import partial
from typing import Any

from plfl.data.windows import build
from plfl.study import Study
from tests.helpers import tiny, user_modules

LOOK_BACK = 6
"""Rows that the modules read, few of which are soon traced."""
DATASET = build(tiny.tables(), tiny.study(windows={"look_back": LOOK_BACK}).windows)
STATISTICS = ["running_mean", "running_var", "num_batches_tracked"]
SCHEMES: dict[str, Any] = {"P1": ["*"], "P2": ["body"], "P3": [], "new": {"join": "unseen"}}
BUILDERS: dict[str, Any] = {
    "LSTMForecaster": partial(user_modules.LSTMForecaster, input_size=2),
    "GRUNet": partial(user_modules.GRUNet, 2, 32, 1, 1),
    "CausalNet": partial(user_modules.CausalNet, 2),
    "TransformerNet": partial(user_modules.TransformerNet, 2, LOOK_BACK),
    "NormedNet": partial(user_modules.NormedNet, LOOK_BACK, 2),
    "BranchingNet": partial(user_modules.BranchingNet, 2, LOOK_BACK),
}
BUFFERS = {
    "CausalNet": [f"norm.{name}" for name in STATISTICS],
    "NormedNet": [f"net.2.{name}" for name in STATISTICS],
}
"""The buffers that training changes; those of the others are none."""


def study(name: str, schemes: list[str], **blocks: Any) -> Study:
    given: dict[str, Any] = {
        "data": {"features": ["load", "temperature"]},
        "windows": {"scaling": "per_client", "look_back": LOOK_BACK},
        "grid": {"client_opt": ["sgd"], "server_opt": ["fedavg"], "sharing": schemes},
        "sharing": SCHEMES,
        "federation": {"rounds": 2},
        "hyperparameters": {"client_opt": {"sgd": {"lr": 0.1}}},
        "compute": {"device": "cpu"},
    }
    for block, keys in blocks.items():
        given[block] = given.get(block, {}) | keys
    return tiny.study(model={"module": f"{user_modules.__file__}:{name}"}, **given)

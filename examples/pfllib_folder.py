"""The folder of a dataset as PFLlib reads it: train/N.npz and test/N.npz for client N.

    python examples/pfllib_folder.py config/smoke.yaml PFLlib/dataset/Meters

PFLlib has no validation set: `train` has the windows of `val`, too.
"""

import json
import sys
from pathlib import Path

import numpy as np

import plfl

folder = Path(sys.argv[2])
clients = plfl.clients(sys.argv[1])
for part, sets in {"train": ("train", "val"), "test": ("test",)}.items():
    (folder / part).mkdir(parents=True, exist_ok=True)
    for number, client in enumerate(clients):
        targets = np.concatenate([getattr(client, f"y_{name}") for name in sets])
        data = {"x": np.concatenate([client.flat(name) for name in sets])}
        data["y"] = targets.reshape(len(targets), -1)
        np.savez_compressed(folder / part / f"{number}.npz", data=data)
about = {"num_clients": len(clients), "names": [client.name for client in clients]}
(folder / "config.json").write_text(json.dumps(about), encoding="utf-8")

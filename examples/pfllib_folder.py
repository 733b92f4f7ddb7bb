"""The folder of a dataset as PFLlib reads it: train/N.npz and test/N.npz for client N.

    python examples/pfllib_folder.py config/smoke.yaml PFLlib/dataset/Meters

PFLlib classifies: its `read_client_data` must read `y` as float32, and its loss be a squared error.
"""

import json
import sys
from pathlib import Path

import numpy as np

import plfl

folder = Path(sys.argv[2])
clients = plfl.clients(sys.argv[1])
for part in ("train", "test"):
    (folder / part).mkdir(parents=True, exist_ok=True)
    for number, client in enumerate(clients):
        data = {"x": client.flat(part), "y": getattr(client, f"y_{part}")}
        np.savez_compressed(folder / part / f"{number}.npz", data=data)
about = {"num_clients": len(clients), "names": [client.name for client in clients]}
(folder / "config.json").write_text(json.dumps(about), encoding="utf-8")

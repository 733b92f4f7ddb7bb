"""The folder of a dataset as FL-bench reads it: data.npy, targets.npy, partition.pkl, args.json.

    python examples/fl_bench_folder.py config/smoke.yaml FL-bench/data/synthetic

FL-bench reads this form as its dataset `synthetic`.
"""

import json
import pickle
import sys
from pathlib import Path

import numpy as np

import plfl

folder = Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
rows, targets, indices = [], [], []
for client in plfl.clients(sys.argv[1]):
    own = {}
    for part in ("train", "val", "test"):
        first = sum(map(len, rows))
        rows.append(client.flat(part))
        targets.append(getattr(client, f"y_{part}").reshape(len(rows[-1]), -1))
        own[part] = np.arange(first, first + len(rows[-1])).tolist()
    indices.append(own)
np.save(folder / "data.npy", np.concatenate(rows))
np.save(folder / "targets.npy", np.concatenate(targets))
everyone = list(range(len(indices)))
roles = dict.fromkeys(("train", "val", "test"), everyone) | {"total": len(everyone)}
(folder / "partition.pkl").write_bytes(pickle.dumps({"separation": roles, "data_indices": indices}))
about = {"dataset": "synthetic", "client_num": len(everyone), "split": "sample"}
about |= {"dimension": rows[0].shape[1], "class_num": targets[0].shape[1]}  # of a network `2nn`
(folder / "args.json").write_text(json.dumps(about), encoding="utf-8")

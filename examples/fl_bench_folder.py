"""The files of FL-bench's dataset `synthetic`: data.npy, targets.npy, partition.pkl, args.json.

python examples/fl_bench_folder.py config/smoke.yaml FL-bench/data/synthetic
"""

import json
import pickle
import sys
from pathlib import Path

import numpy as np

import plfl

folder, rows, targets, indices, first = Path(sys.argv[2]), [], [], [], 0
folder.mkdir(parents=True, exist_ok=True)
for client in plfl.clients(sys.argv[1]):
    indices.append({})
    for part in ("train", "val", "test"):
        rows.append(client.flat(part))
        targets.append(getattr(client, f"y_{part}").reshape(len(rows[-1]), -1))
        indices[-1][part] = [*range(first, first + len(rows[-1]))]
        first += len(rows[-1])
np.save(folder / "data.npy", np.concatenate(rows))
np.save(folder / "targets.npy", np.concatenate(targets))
roles = {"total": len(indices)} | {role: [*range(len(indices))] for role in indices[0]}
(folder / "partition.pkl").write_bytes(pickle.dumps({"separation": roles, "data_indices": indices}))
about = {"dataset": "synthetic", "client_num": len(indices), "split": "sample"}
about |= {"dimension": rows[0].shape[1], "class_num": targets[0].shape[1]}  # of a network `2nn`
(folder / "args.json").write_text(json.dumps(about), encoding="utf-8")

"""The whole idea in one program: who should share what, and is it worth it?

It generates the readings of eight buildings, trains a forecaster on a week of each, under three
sharing schemes and two methods, prints a table beside baselines, and draws it.

    python examples/whole_idea.py [WEEKS] [PLOT.png]

Half a minute on two cores.
"""

import sys

import matplotlib as mpl
import pandas as pd

import plfl
from plfl.experiments.baselines import evaluate
from plfl.interfaces.baseline import FitSettings

mpl.use("Agg")
import matplotlib.pyplot as plt

WEEKS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
PLOT = sys.argv[2] if len(sys.argv) > 2 else "whole_idea.png"

# 1. A study: what the data are, what a model reads, who shares what, and how it is trained.
study = plfl.Study.parse(
    {
        "name": "whole-idea",
        "data": {
            "source": "sample",  # generated; `meters` reads your own files
            "states": ["NY"],
            "clients": 8,
            "resample": 60,  # minutes
            "features": ["load"],
        },
        "windows": {
            "look_back": 12,  # hours that a model reads
            "look_ahead": 1,  # hours ahead
            "history": WEEKS,  # of readings that every meter has
            "scaling": "per_client",
            "target": "change",
            "covariates": [  # what a model reads besides: the same hours earlier, and the calendar
                {"name": "lags", "days": [1, 7], "around": 1},
                {"name": "level"},
                {"name": "calendar", "harmonics": 4},
            ],
        },
        "model": {"name": "mlp", "hidden": [32, 32]},
        "sharing": {
            "P2": ["body"],  # all layers but the last go through a server
            "P3": [],  # each meter trains alone
            "unseen": {
                "join": "unseen",
                "turns": 2,
            },  # a new meter receives what the others trained
        },
        "grid": {
            "sharing": ["P2", "P3", "unseen"],
            "method": ["fedopt", "fine_tuning"],
            "client_opt": ["adam"],
            "server_opt": ["fedavg"],
            "seeds": [1, 2, 3],
        },
        "federation": {"rounds": 40, "local_steps": 25, "loss": "mae", "evaluate_every": 40},
        "tuning": {"search": {"federation.rounds": [2, 8, 40]}},  # chosen within the history
    },
    "whole_idea.py",
)

# 2. Data: scaled windows of each building, cut by time into training, validation and test.
dataset = plfl.load_dataset(study, "NY")
print(f"{len(dataset.clients)} buildings, {WEEKS} week(s) of hourly readings each")

# 3. Training: every scheme with every method and seed, side by side.
results = plfl.train(study, study.cells, dataset)

# 4. Scores of each client's own model on the test set. MASE 1: as good as repeating the last load.
rows = []
for cell, result in results.items():
    train = result.records.query("split == 'train' and model == 'local'")
    sent = train[["bytes_up", "bytes_down"]].sum().sum() / len(dataset.clients)
    scores = result.records.query("split == 'test' and model == 'local'")
    scores = scores[scores["round"] == scores["round"].max()]
    name = f"{cell.sharing}, {cell.method}"
    rows += [(name, client, mase, sent) for client, mase in scores[["client", "mase"]].to_numpy()]
baselines = evaluate("NY", dataset, FitSettings(trees=60)).scores.query("split == 'test'")
for name in ("naive_week", "ridge", "lightgbm_lags", "lightgbm_pooled"):
    own = baselines[baselines["baseline"] == name]
    rows += list(own[["baseline", "client", "mase", "bytes"]].itertuples(index=False, name=None))
table = pd.DataFrame(rows, columns=["forecaster", "client", "MASE", "bytes"])

# 5. The table: means over seeds, then over buildings; and how many gain by not staying alone.
by_client = table.groupby(["forecaster", "client"])["MASE"].mean().unstack()
summary = pd.DataFrame({"MASE": by_client.mean(axis=1), "worst building": by_client.max(axis=1)})
alone = by_client.loc[[name for name in by_client.index if name.startswith("P3")]].min()
summary["better than P3 for"] = (by_client < alone).sum(axis=1)
summary["bytes per building"] = table.groupby("forecaster")["bytes"].mean().round()
summary = summary.sort_values("MASE")
print(summary.round(3).to_string())

# 6. The picture: one dot a building, one line a mean.
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
for place, name in enumerate(summary.index):
    axes.plot(by_client.loc[name], [place] * by_client.shape[1], "o", color="C0", alpha=0.4)
    axes.plot([summary.loc[name, "MASE"]] * 2, [place - 0.3, place + 0.3], color="C3")
axes.set_yticks(range(len(summary)), summary.index)
axes.invert_yaxis()
axes.axvline(1, color="grey", linestyle=":")
axes.set_xlabel("test MASE: error over that of repeating the last load (sample data)")
figure.savefig(PLOT, dpi=150)
print(f"wrote {PLOT}")

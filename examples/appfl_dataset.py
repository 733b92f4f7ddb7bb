"""The dataset function of an APPFL client; a client's configuration names it:

    data_configs:
      dataset_path: examples/appfl_dataset.py
      dataset_name: of_client
      dataset_kwargs: {study: config/smoke.yaml, client_id: 0}

The loss of the training configuration must be a squared or absolute error.
"""

import torch
from torch.utils.data import TensorDataset

import plfl


def of_client(study: str, client_id: int, **_: object) -> tuple[TensorDataset, TensorDataset]:
    """Training and validation windows of a client, given by its number."""
    client = plfl.clients(study)[client_id]
    train, validation = (
        TensorDataset(
            torch.from_numpy(client.flat(part)),
            torch.from_numpy(getattr(client, f"y_{part}")).view(len(client.flat(part)), -1),
        )
        for part in ("train", "val")
    )
    return train, validation

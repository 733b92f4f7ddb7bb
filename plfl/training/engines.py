"""Which engine trains: the fastest that runs here, or the one that the study names."""

import logging

import torch

from plfl.base.errors import ConfigError
from plfl.config.compute import Compute
from plfl.data.dataset import Dataset
from plfl.data.examples import Examples
from plfl.layout import KernelForm
from plfl.networks.network import Network
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.stacked import Stacked
from plfl.training.work import Engine

log = logging.getLogger(__name__)


def choose_engine(compute: Compute, form: KernelForm | None) -> tuple[str, str]:
    """Names of the engine and the device that a configuration selects on this machine; ConfigError
    if there is no such device, or the engine cannot run here. `form`: the model as the fused
    engine's kernel describes it; None if the kernel does not support it."""
    has_gpu = torch.cuda.is_available()
    if compute.device == "cuda" and not has_gpu:
        raise ConfigError.at_key(
            "compute.device", "is 'cuda', but torch finds no GPU", "set it to cpu or auto"
        )
    device = "cuda" if has_gpu and compute.device != "cpu" else "cpu"
    if compute.engine == "stacked":
        return "stacked", device
    if device == "cuda":
        reason: str | None = "it works on the CPU only"
    else:
        reason = unavailable_reason() if form else "it does not know the model"
    if reason is None:
        return "fused", device
    if compute.engine == "fused":
        raise ConfigError.at_key(
            "compute.engine", f"'fused' cannot run here: {reason}", "set it to auto or stacked"
        )
    # A warning, if there is a remedy: a missing compiler can be installed.
    level = logging.WARNING if form and device == "cpu" else logging.INFO
    log.log(level, "the stacked engine trains, not the fused one: %s", reason)
    return "stacked", device


def make_engine(compute: Compute, network: Network, dataset: Examples) -> Engine:
    """The engine of a configuration, on the dataset of one state."""
    name, device = choose_engine(compute, network.kernel_form)
    if isinstance(dataset, Dataset) and name == "fused":
        return Fused(network, dataset, torch.device(device))
    return Stacked(network, dataset, torch.device(device))

"""Which engine trains: the fastest that runs here, or the one that the study names."""

import logging

import torch

from plfl.config.sections import Compute
from plfl.data.windows import Dataset
from plfl.errors import ConfigError
from plfl.models.forecaster import Forecaster
from plfl.models.network import Network
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.reference import Reference
from plfl.training.stacked import Stacked
from plfl.training.task import Engine

log = logging.getLogger(__name__)


def choose(compute: Compute, unknown: str | None = None) -> tuple[str, str]:
    """Names of the engine and the device that a configuration means on this machine.

    Args:
        compute: the configuration.
        unknown: why the fused engine cannot train the model, see `unknown_to_fused`.

    Raises:
        ConfigError: there is no such device, or the engine cannot run here.
    """
    has_gpu = torch.cuda.is_available()
    if compute.device == "cuda" and not has_gpu:
        raise ConfigError("compute.device", ["'cuda' was asked for, but torch finds no GPU here"])
    device = "cuda" if has_gpu and compute.device != "cpu" else "cpu"
    if compute.engine not in ("auto", "fused"):
        return compute.engine, device
    reason = "it works on the CPU only" if device == "cuda" else unknown or unavailable_reason()
    if reason is None:
        return "fused", device
    if compute.engine == "fused":
        raise ConfigError("compute.engine", [f"'fused' cannot run here: {reason}"])
    log.info("the stacked engine trains, not the fused one: %s", reason)
    return "stacked", device


def unknown_to_fused(papers_model: bool, plain_windows: bool) -> str | None:
    """Why the fused engine cannot train a model on some windows; None if it can."""
    if not papers_model:
        return "it trains the paper's model only"
    return None if plain_windows else "it reads windows without context or units of their own only"


def make_engine(compute: Compute, network: Network, dataset: Dataset) -> Engine:
    """The engine that a configuration asks for, on the dataset of one state."""
    unknown = unknown_to_fused(isinstance(network, Forecaster), dataset.is_plain)
    name, device = choose(compute, unknown)
    if isinstance(network, Forecaster) and name == "fused":
        return Fused(network, dataset, torch.device(device))
    engines: dict[str, type[Stacked] | type[Reference]]
    engines = {"stacked": Stacked, "reference": Reference}
    return engines[name](network, dataset, torch.device(device))

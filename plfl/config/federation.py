"""The section `federation`: the rounds of training, with their simulated clock, calibration,
privacy and learning rates.
"""

import math
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from plfl.base.rounding import count_participants
from plfl.config.speeds import Speeds
from plfl.layout import Head
from plfl.plugins.registry import Section

OptState = Literal["reset", "keep", "keep_personal"]
"""What a local optimiser's state is at the start of a round: see `FederationSettings.opt_state`."""
SPREADS = {"step_spread": ["step_seconds"], "link_spread": ["down_mbit", "up_mbit"]}
"""The keys of `Simulation` that spread speeds, and the speeds."""


class Simulation(Section):
    """Simulated participation and time: who is available, who drops out, and how fast everyone is.
    A speed is a number for all clients, a list in their order, a block by their names, or a column
    of a CSV file that has their names in the column `client`, such as `speeds.csv:step_seconds`.

    A round takes as long as the download, steps and upload of its slowest participant.
    """

    availability: float = Field(1.0, gt=0, le=1)
    """Probability that a selected client is available."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability that a participant drops out of a round. It uploads nothing, and its personal
    parameters stay as they were."""
    step_seconds: Speeds | None = None
    """Seconds per local step; null: none."""
    down_mbit: Speeds | None = None
    """Mbit/s from the server to a client; null: downloads take no time."""
    up_mbit: Speeds | None = None
    """Mbit/s from a client to the server; null: uploads take no time."""
    step_spread: float = Field(0.0, ge=0)
    """Spread of a common `step_seconds` among clients: standard deviation of the logarithm."""
    link_spread: float = Field(0.0, ge=0)
    """The same for `down_mbit` and `up_mbit`."""

    @model_validator(mode="after")
    def _check_spreads(self) -> Self:
        for spread, keys in SPREADS.items():
            own_keys = [key for key in keys if isinstance(getattr(self, key), list | dict)]
            if getattr(self, spread) and own_keys:
                raise ValueError(
                    f"{spread}: spreads a speed that all clients have in common, but {own_keys[0]} "
                    "has one for each client; remove one of them"
                )
        return self


class Calibration(Section):
    """Calibration of the heads after the rounds (FedADC, section IV-D): before a client is scored
    or forecasts, it trains the head of the server's model on its own data. The result, its local
    model, is not sent and not kept for the next round."""

    epochs: int = Field(0, ge=0)
    """Passes of a client over its training windows (FedADC: 2)."""
    head: Head = "last"
    """What is trained: the last layer (`last`, FedADC) or the whole head (`mlp`)."""
    variant: Literal["plain", "prox", "kd"] = "plain"
    """The loss: that of the local steps (`plain`), with a proximal term (`prox`), or with FedADC+'s
    distillation from the server's model (`kd`)."""
    mu: float = Field(0.1, ge=0)
    """μ of `prox`; FedADC gives none. Above 1 / lr it makes SGD oscillate."""
    lam: float = Field(0.35, ge=0, le=1)
    """λ of `kd` (FedADC: 0.35)."""
    temperature: float = Field(1.0, gt=0)
    """Temperature τ of `kd`, for classifiers."""
    bins: int = Field(10, ge=2)
    """Quantile bins of a load, which `kd` uses as classes."""


class PrivacySettings(Section):
    """Differential privacy of whole clients (docs/privacy.md)."""

    clip: float | None = Field(None, gt=0)
    """Bound C of the norm of an update. null: no privacy."""
    noise: float = Field(0.0, ge=0)
    """z: the noise has the standard deviation z · C."""
    delta: float = Field(1e-3, gt=0, lt=1)
    """δ for which ε is stated."""
    noise_as_of: int | None = Field(None, ge=1)
    """Clients for which the noise is set: an extrapolation. null: the actual number."""
    quantile: float | None = Field(None, gt=0, lt=1)
    """Quantile of the norms that C follows, from `clip` on (Andrew et al. 2021: 0.5). null: C is
    fixed."""


class Schedule(Section):
    """The clients' learning rate η_t in round t = 1, 2, …, for every local optimiser. What clients
    train outside of the rounds, such as fine-tuning, has the rate η."""

    shape: Literal["constant", "step", "cosine"] = "constant"
    """η in all rounds (`constant`), η times `factor` for each `period` before (`step`), or half a
    cosine from η to `floor` times η (`cosine`), which it would reach in the round after the last.
    """
    period: int = Field(10, ge=1)
    """Rounds from one rate to the next (`step`)."""
    factor: float = Field(0.1, gt=0, le=1)
    """Each of its rates as a multiple of the one before (PyTorch: 0.1)."""
    floor: float = Field(0.0, ge=0, lt=1)
    """The end of the `cosine` as a multiple of η."""

    @model_validator(mode="after")
    def _refuse_keys_without_effect(self) -> Self:
        plain = type(self).model_fields
        for key, shape in (("period", "step"), ("factor", "step"), ("floor", "cosine")):
            if self.shape != shape and getattr(self, key) != plain[key].default:
                raise ValueError(
                    f"{key}: has no effect with shape {self.shape!r}; remove it, or set shape to "
                    f"{shape}"
                )
        return self

    def compute_multiple(self, t: int, rounds: int) -> float:
        """η_t of round `t` as a multiple of η, in a training of this number of rounds."""
        match self.shape:
            case "step":
                return float(self.factor ** ((t - 1) // self.period))
            case "cosine":
                falling = (1 + math.cos(math.pi * (t - 1) / rounds)) / 2
                return self.floor + (1 - self.floor) * falling
        return 1.0


class FederationSettings(Section):
    """The rounds of training."""

    rounds: int = Field(40, ge=1)
    """Number of rounds (authors' code: 40)."""
    local_steps: int = Field(125, ge=1)
    """Minibatch steps per client and round (authors' code: 125)."""
    local_epochs: float | None = Field(None, gt=0)
    """Passes E over the training windows per round, which replace `local_steps`: a client with n
    windows takes E · ⌊n / batch_size⌋ steps, at least one. null: `local_steps`."""
    batch_size: int = Field(16, ge=1)
    """Windows per minibatch (paper: 16)."""
    batches: Literal["draw", "epoch"] = "draw"
    """Each minibatch is drawn from all training windows, without replacement within it (`draw`,
    authors' code), or minibatches go through shuffled passes over them (`epoch`)."""
    participation: float = Field(1.0, gt=0, le=1)
    """Fraction of the clients that are selected for a round (paper: all)."""
    initial: Literal["common", "local"] = "common"
    """Personal parameters before round 1: those of one draw for all clients (`common`, authors'
    code), or a draw of each client's own (`local`, paper). The server's are always one draw."""
    start: Path | None = None
    """A file of `results/NAME/models`, such as a network of public meters, whose mean global model
    all start from instead of draws."""
    selection: Literal["uniform", "poisson", "allocation", "data_aware"] = "uniform"
    """How they are selected: this fraction at random (`uniform`, paper), each client with this
    probability (`poisson`), each in this fraction of the rounds (`allocation`), or a fraction that
    has every label, which clients tell the server (`data_aware`, FedADC)."""
    weighting: Literal["uniform", "samples"] = "uniform"
    """Weights of the clients in the server's mean: equal (`uniform`, paper), or by training windows
    (`samples`)."""
    loss: Literal["mse", "mae", "huber"] = "mse"
    """Loss in scaled units: squared (`mse`, paper), absolute (`mae`), or squared below an error of
    1 and absolute above (`huber`). `quantiles` and `classify` have a loss of their own."""
    schedule: Schedule = Schedule()
    opt_state: OptState = "reset"
    """State of the local optimiser at the start of a round: `reset` (paper), `keep`, or
    `keep_personal` for the personal parameters only."""
    clip: float | None = Field(None, gt=0)
    """Largest norm of a local step's gradient, over all parameters and before methods add their
    terms. null (paper): no limit."""
    ema: float | None = Field(None, gt=0, lt=1)
    """Decay of a moving average of each client's parameters over its local steps t, which is scored
    as the local model: min(ema, (1 + t)/(10 + t)). null (paper): no average."""
    server_ema: float | None = Field(None, gt=0, lt=1)
    """Decay of a moving average of the server's parameters over the rounds t, of which the global
    models consist: min(server_ema, (1 + t)/(10 + t)). It is no part of the training (FedADC,
    section IV-E: temporal ensemble). null (paper): no average."""
    keep: Literal["last", "best"] = "last"
    """The local model that is scored after the last round: the `last` (paper), or the `best` by
    validation MASE among the evaluated rounds."""
    calibration: Calibration = Calibration()
    evaluate_every: int | None = Field(None, ge=1)
    """Rounds between evaluations (authors' code: 10); the last round is always evaluated. null: a
    tenth of the rounds, rounded up, or the tried numbers of rounds. With `windows.history` only the
    last round has test scores."""
    simulation: Simulation = Simulation()
    privacy: PrivacySettings = PrivacySettings()

    @property
    def local_work(self) -> str:
        """The work of a client in a round, in words, such as `20 local steps`."""
        if self.local_epochs is None:
            return f"{self.local_steps:,} local {'step' if self.local_steps == 1 else 'steps'}"
        return f"{self.local_epochs:g} local {'epoch' if self.local_epochs == 1 else 'epochs'}"

    @property
    def calibrates(self) -> bool:
        """Whether clients calibrate the models that they forecast with."""
        return self.calibration.epochs > 0

    def expected_participants(self, client_count: int) -> float:
        """Expected number of participants of a round, given the number of clients."""
        if self.selection == "poisson":
            return self.participation * client_count
        if self.selection == "allocation":
            return client_count * count_participants(self.rounds, self.participation) / self.rounds
        return count_participants(client_count, self.participation)

    def noise_of_count(self, client_count: int) -> float:
        """σ_b on the number of norms within an adapting bound (Andrew et al. 2021: m/20)."""
        return self.expected_participants(self.privacy.noise_as_of or client_count) / 20

    def update_noise(self, client_count: int) -> float:
        """Noise on the sum of the updates, in units of C: z, or the larger z_Δ that also pays for
        the number of norms within an adapting bound."""
        z = self.privacy.noise
        if self.privacy.quantile is None or not z:
            return z
        return float((z**-2 - (2 * self.noise_of_count(client_count)) ** -2) ** -0.5)

    def evaluates(self, t: int) -> bool:
        """Whether the models are scored after round `t`."""
        interval = self.evaluate_every or math.ceil(self.rounds / 10)
        return t % interval == 0 or t == self.rounds

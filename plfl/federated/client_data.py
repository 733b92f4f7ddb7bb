"""The clients' data in the simulation: minibatches, targets, losses.

A real client would compute everything here from its own data on its own machine. What it reports to
the server crosses the channel.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.config.federation import FederationSettings
from plfl.config.windows import Windows
from plfl.data import covariates
from plfl.data.dataset import Split
from plfl.data.examples import Examples, check_batches
from plfl.federated.instructions import FORWARD
from plfl.interfaces.task import Task
from plfl.interfaces.terms import Term
from plfl.optimizers.client import ClientOpt
from plfl.tasks.forecast import Forecast
from plfl.tasks.losses import Loss
from plfl.training import batches
from plfl.training.work import STANDING_OPTIMISER, Engine, LocalWork, Minibatches, TrackedRows


class ClientData:
    """All clients of one dataset, with the random numbers of one seed."""

    def __init__(
        self,
        dataset: Examples,
        engine: Engine,
        settings: FederationSettings,
        seed: int,
        task: Task | None = None,
        windows: Windows | None = None,
        *,
        has_minibatches: bool = True,
    ):
        """Collect the training windows of the clients of `dataset`; DataError if one has fewer than
        a minibatch. `task`: by default forecasts; `windows`: how series became windows, for
        `public`; `has_minibatches`: False for a model that is not trained on any."""
        self.dataset, self.engine, self.settings, self.seed = dataset, engine, settings, seed
        self.task: Task = task or Forecast()
        self._windows_keys = windows or Windows()
        self.names: list[str] = dataset.clients.tolist()
        if has_minibatches:
            check_batches(dataset, settings.batch_size)
        counts = [len(self._starts(i)) for i in range(len(self.names))]
        self.window_counts = torch.tensor(counts, dtype=torch.float64, device=engine.device)
        """Training windows n_i (N,) of each client."""
        self._minibatches_drawn: tuple[int, int, dict[int, Tensor]] = (0, 0, {})

    @property
    def loss(self) -> Loss:
        """The loss of the clients' local steps, without terms of a method."""
        return self.task.objective(self.settings.loss).loss

    def steps(self, clients: Tensor) -> Tensor:
        """Local steps (n,) of `clients` in a round, by `federation.local_steps` or `local_epochs`;
        a method may ask for more or fewer."""
        settings = self.settings
        if settings.local_epochs is None:
            return torch.full((len(clients),), settings.local_steps, device=clients.device)
        counts = [
            batches.steps_of(settings.local_epochs, int(n), settings.batch_size)
            for n in self.window_counts[clients].tolist()
        ]
        return torch.tensor(counts, device=clients.device)

    @property
    def has_equal_steps(self) -> bool:
        """Whether all clients whose windows are known take equally many `steps`."""
        if self.settings.local_epochs is None:
            return True
        known_clients = (~self.window_counts.isnan()).nonzero()[:, 0]
        return len(self.steps(known_clients).unique()) <= 1

    def minibatch_starts(self, clients: Tensor, t: int, steps: int) -> Tensor:
        """Start rows (n, steps, B) of the minibatches of round `t`, the same in every call. Rounds
        t ≤ 0 are for what a method does before training."""
        if self._minibatches_drawn[:2] != (t, steps):
            self._minibatches_drawn = (t, steps, {})
        cache = self._minibatches_drawn[2]
        for i in clients.tolist():
            if i not in cache:
                cache[i] = torch.from_numpy(self._draw(i, t, steps)).to(self.engine.device)
        return torch.stack([cache[i] for i in clients.tolist()])

    def minibatches(self, clients: Tensor, t: int, steps: int) -> Minibatches:
        """The first `steps` minibatches of round `t`."""
        keys = self._draw_keys([self._name_stream(i, t) for i in clients.tolist()], steps)
        return Minibatches(self.minibatch_starts(clients, t, steps), keys=keys)

    def _name_stream(self, i: int, t: int) -> tuple[str, int]:
        """Name and number of a client's random stream in round `t`. A stream counts from zero:
        rounds before the first have one of their own."""
        return (self.names[i], t) if t > 0 else (f"/before/{self.names[i]}", 1 - t)

    def _draw_keys(self, client_rounds: Iterable[tuple[str, int]], steps: int) -> Tensor | None:
        """Keys (n, steps) of random layers, from the streams of n clients; None if the model has
        none."""
        if not self.engine.is_random:
            return None
        keys = [batches.draw_keys(self.seed, name, t, steps) for name, t in client_rounds]
        return torch.from_numpy(np.stack(keys)).to(self.engine.device)

    def _draw(self, i: int, t: int, steps: int) -> NDArray[np.int64]:
        starts, size = self._starts(i), self.settings.batch_size
        name, t = self._name_stream(i, t)
        if self.settings.batches == "epoch":
            # Where a round begins must not depend on how many steps a method takes in it.
            first = (t - 1) * int(self.steps(torch.tensor([i])))
            return starts[batches.epoch(self.seed, name, first, len(starts), steps, size)]
        return starts.take(batches.draw(self.seed, name, t, len(starts), steps, size))

    def passes(
        self, purpose: str, clients: Tensor, epochs: float, most_steps: int | None = None
    ) -> tuple[Minibatches, Tensor]:
        """Minibatches of shuffled passes over the clients' training windows, outside of any round,
        and their numbers (n,). Shorter rows are padded to the longest.

        `purpose`: name of the random stream; the same passes in every call. At least one minibatch
        is drawn. Windows that do not fill a minibatch at the end of a pass are left out of that
        pass. `most_steps`: minibatches after which a client stops, even within a pass.
        """
        size, minibatches = self.settings.batch_size, []
        for i in clients.tolist():
            own_starts, name = self._starts(i), f"/{purpose}/{self.names[i]}"
            count = batches.steps_of(epochs, len(own_starts), size)
            count = count if most_steps is None else min(count, most_steps)
            minibatches.append(
                own_starts[batches.epoch(self.seed, name, 0, len(own_starts), count, size)]
            )
        longest = max(map(len, minibatches))
        padded = [np.pad(d, ((0, longest - len(d)), (0, 0)), mode="edge") for d in minibatches]
        starts = torch.from_numpy(np.stack(padded)).to(self.engine.device)
        steps = torch.tensor([len(d) for d in minibatches], device=self.engine.device)
        names = [f"{purpose}/{self.names[i]}" for i in clients.tolist()]
        return Minibatches(
            starts, keys=self._draw_keys([(name, 0) for name in names], longest)
        ), steps

    def streams(self, purpose: str, clients: Iterable[int], t: int) -> list[np.random.Generator]:
        """Random numbers of round `t` for a `purpose`, one generator per client."""
        return batches.streams(self.seed, purpose, (self.names[i] for i in clients), t)

    def _starts(self, i: int) -> NDArray[np.int64]:
        """Start rows of all training windows; those of all clients would take much memory."""
        return self.dataset.starts(i, "train")

    def starts(self, client: int, split: Split) -> Tensor:
        """Start rows of all windows of one set of a client's data."""
        return torch.from_numpy(self.dataset.starts(client, split))

    def targets(self, starts: Tensor) -> Tensor:
        """Targets, in scaled units, of the windows that begin at `starts`."""
        row_numbers = starts.cpu().numpy() + self.dataset.look_back - 1
        values = torch.from_numpy(self.dataset.targets[row_numbers])
        return values.to(self.engine.device, self.engine.dtype)

    def public_values(self, row_count: int) -> NDArray[np.float64]:
        """Values (rows, K) of what a model reads of a window, from no client's data."""
        return covariates.public_values(
            self._windows_keys, self.dataset.features.shape[1], row_count
        )

    def training_targets(self, client: int) -> Tensor:
        """Targets (n_i,), in scaled units, of all training windows of a client."""
        return self.targets(torch.from_numpy(self._starts(client)))

    def agreed_bins(self, bins: int) -> tuple[Tensor, Tensor]:
        """Inner edges (bins − 1,) of the pooled training targets, and each client's ρ (N, bins).
        Labels need no edges, see `plfl.interfaces.terms.CorrectedDistillation`."""
        targets = [self.training_targets(i) for i in range(len(self.names))]
        return self.task.agreed_bins(targets, bins)

    def histograms(self, bins: int) -> NDArray[np.float64]:
        """Share (N, kinds) of each kind among a client's training targets. Kinds are the labels, or
        `bins` intervals of the load."""
        all_clients = range(len(self.names))
        targets = [self.training_targets(i).double().cpu().numpy() for i in all_clients]
        return self.task.histograms(targets, bins)

    def losses(
        self, rows: Tensor, clients: Tensor, t: int = 0, most_windows: int | None = None
    ) -> Tensor:
        """Mean loss (n,) of model s over training windows of client `clients[s]`. `most_windows`:
        how many, drawn for round `t` and the same in every call; None: all."""
        starts = [torch.from_numpy(s) for s in self._probes(clients, t, most_windows)]
        forecasts = self.engine.predict(rows, [s.to(self.engine.device) for s in starts])
        loss = self.loss
        pairs = zip(forecasts, starts, strict=True)
        return torch.stack([loss.mean(outputs, self.targets(s)) for outputs, s in pairs])

    def work_of_losses(self, clients: Tensor, models: int, most_windows: int | None) -> Tensor:
        """Work (n,), in local steps, of the `losses` of several models for each of `clients`."""
        read_counts = self.window_counts[clients]
        if most_windows is not None:
            read_counts = read_counts.clamp(max=most_windows)
        return FORWARD * models * read_counts / self.settings.batch_size

    def _probes(self, clients: Tensor, t: int, most_windows: int | None) -> list[NDArray[np.int64]]:
        starts_of_clients = [self._starts(i) for i in clients.tolist()]
        if most_windows is None:
            return starts_of_clients
        pairs = zip(starts_of_clients, self.streams("probe", clients.tolist(), t), strict=True)
        return [
            s if len(s) <= most_windows else random.choice(s, most_windows, False)
            for s, random in pairs
        ]

    def train(
        self,
        rows: Tensor,
        clients: Tensor,
        optimiser: ClientOpt,
        t: int,
        steps: int | Tensor,
        shared_mask: Tensor,
    ) -> Tensor:
        """The models `rows` (n, P) after `steps` local steps (a number for all, or (n,)) of
        `clients`, outside of any round. A proximal term of the optimiser acts on the parameters of
        the `shared_mask` (P,)."""
        minibatches, steps_each = self._draw_round(clients, t, steps)
        return self.train_minibatches(
            rows, optimiser, minibatches, steps_each, shared_mask=shared_mask
        )

    def train_minibatches(
        self,
        rows: Tensor,
        optimiser: ClientOpt,
        minibatches: Minibatches,
        steps: Tensor | None,
        *,
        shared_mask: Tensor | None = None,
        term: Term | None = None,
        **changes: Any,
    ) -> Tensor:
        """The models after local steps from `rows` (n, P), one per client, outside of any round,
        with fresh optimiser state.

        `steps`: how many (n,) of the minibatches each client takes; None: all. `shared_mask`:
        (P,), of the parameters on which the optimiser's own proximal term acts; None: on none.
        `term`: the method's in the loss. `changes`: see `plfl.training.work.StepChanges`.
        """
        models = rows.clone()
        if shared_mask is None:
            shared_mask = torch.zeros(rows.shape[1], dtype=torch.bool, device=rows.device)
        work = self.work_of(optimiser, models, minibatches, shared_mask, term)
        self.engine.train(replace(work.with_changes(**changes), steps=steps))
        return models

    def fine_tuned(
        self,
        rows: Tensor,
        optimiser: ClientOpt,
        epochs: float,
        *,
        purpose: str = "fine_tuning",
        frozen: Tensor | None = None,
        most_steps: int | None = None,
    ) -> Tensor:
        """The models `rows` (N, P) after each client trained them for E `epochs` on its own
        training windows, as in `train_minibatches`. `purpose`: name of the random stream of the
        minibatches; `most_steps`: steps after which a client stops, even within a pass."""
        if not epochs or most_steps == 0:
            return rows.clone()
        all_clients = torch.arange(len(rows), device=rows.device)
        minibatches, steps = self.passes(purpose, all_clients, epochs, most_steps)
        return self.train_minibatches(rows, optimiser, minibatches, steps, frozen=frozen)

    def gradients(
        self, rows: Tensor, clients: Tensor, t: int, steps: int | Tensor, skip: int = 0
    ) -> Tensor:
        """Mean gradients (n, P) of models `rows` over the first `steps` minibatches, a number for
        all or (n,), of round `t` after the first `skip`."""
        gradients = torch.zeros_like(rows)
        minibatches, steps_each = self._draw_round(clients, t, steps, skip)
        all_parameters = torch.ones(rows.shape[1], dtype=torch.bool, device=rows.device)
        work = self.work_of(STANDING_OPTIMISER, rows.clone(), minibatches, all_parameters)
        self.engine.train(
            replace(work, steps=steps_each, tracked_rows=TrackedRows(gradients=gradients))
        )
        return gradients / (steps if isinstance(steps, int) else steps[:, None])

    def _draw_round(
        self, clients: Tensor, t: int, steps: int | Tensor, skip: int = 0
    ) -> tuple[Minibatches, Tensor | None]:
        """The minibatches of `steps` steps of round `t` after the first `skip`, and the steps (n,)
        of each client unless all take equally many."""
        most_steps = steps if isinstance(steps, int) else int(steps.max())
        minibatches = self.minibatches(clients, t, skip + most_steps).map(lambda x: x[:, skip:])
        return minibatches, None if isinstance(steps, int) else steps

    def work_of(
        self,
        optimiser: ClientOpt,
        rows: Tensor,
        minibatches: Minibatches,
        shared_mask: Tensor,
        term: Term | None = None,
        moments: dict[str, Tensor] | None = None,
    ) -> LocalWork:
        """Local work with the study's loss, changed by `term`, and its clipping. It trains `rows`
        in place; `moments`: the state of the optimiser, None: a fresh one."""
        return replace(
            LocalWork.fresh(optimiser, rows, minibatches, shared_mask, moments),
            objective=self.task.objective(self.settings.loss, term),
            clip=self.settings.clip,
        )

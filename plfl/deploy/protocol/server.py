"""The rounds on the server, over any transport.

A round sends a message to each selected client that is connected, and processes the answers that
arrive in time, in the fixed order of the clients. It is saved before the next round starts. Clients
that do not answer are not counted as participants.
"""

import copy
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.base.errors import PlflError, Problem
from plfl.base.files import atomic
from plfl.base.text import count_in_words
from plfl.config.channel import FEWEST_MASKED
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.answers import (
    ROOM,
    CheckedAnswer,
    F,
    Facts,
    TrainedFacts,
    largest_answer,
    read_exchanged,
    read_scored,
    read_trained,
)
from plfl.deploy.protocol.endpoints import (
    Message,
    MessageError,
    RequestFacts,
    RequestKind,
    Roster,
    WorkFacts,
    as_bytes,
    as_row,
    expected_messages,
    remove_client_knowledge,
    reported_part,
    rows_as_arrays,
)
from plfl.deploy.protocol.membership import Membership, Transport
from plfl.deploy.protocol.rounds import (
    RELEASES_FILE,
    ObservedClock,
    RoundPolicy,
    RoundSummary,
    record,
)
from plfl.experiments.evaluation import Evaluation
from plfl.experiments.recorder import Recorder
from plfl.experiments.training_setup import federation_of, network_of
from plfl.federated.channel import Channel, Check, MaskedSum, OtherMachines, read_sum, sum_fields
from plfl.federated.checkpoint import Checkpoint
from plfl.federated.codecs.coder import Direction
from plfl.federated.collectives.masked import SumError
from plfl.federated.federation import Federation
from plfl.federated.local_training import Cohort
from plfl.federated.privacy.mechanism import draw_system_noise
from plfl.federated.privacy.statement import least_bound
from plfl.federated.round import Round, run_rounds
from plfl.federated.secure.encryption import SystemSecrets
from plfl.federated.secure.shares import SHARE_BYTES as SHARE
from plfl.federated.secure.sums import PUBLIC_KEYS_BYTES, SEALED_BYTES, DropoutError, SumServer
from plfl.federated.secure.updates import Crowd, fewest_staying
from plfl.results.records import CellResult
from plfl.study import Cell, Study
from plfl.training.work import Engine

log = logging.getLogger(__name__)

SERVER_MODEL_FILE = "model.safetensors"
"""File with the server's state after the last round, and its average with `federation.server_ema`,
next to the folder of the checkpoint."""
FEWEST_CLIENTS = 2
"""Clients that train together: the messages of one would not determine its tree."""


class DeployedServer:
    """The server of one cell with real clients. `folder`: the folder of the checkpoint."""

    def __init__(
        self, study: Study, cell: Cell, transport: Transport, folder: Path, policy: RoundPolicy
    ) -> None:
        self.study, self.cell = study, cell
        self.membership = Membership(study, cell, transport, policy)
        self.names = self.membership.names
        self.agreement = agreement.fingerprint(study, cell)
        self.checkpoint = Checkpoint(folder, self.agreement, seconds=0)
        unknown = np.full(len(self.names), np.nan)
        self.recorder = Recorder(np.array(self.names, dtype=np.str_), unknown)
        self.clock = ObservedClock(study.federation.simulation, self.names, cell.seed)
        self.history: list[RoundSummary] = []
        self._message_bytes = self._no_bytes()
        # Needed to resume, in addition to tensors and records.
        self.run_id, self.epoch = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(4)}", 1
        self.accepted = dict.fromkeys(self.names, 0)
        self.draws = secrets.randbits(63)
        """Seed of the draws of a private federation."""
        self.notes: list[str] = []
        """What the operator should know of the finished rounds."""

    def run(self, progress: Callable[[RoundSummary], None] = lambda summary: None) -> CellResult:
        """Run the remaining rounds and return the result tables of all rounds; `progress` is called
        after each, and at first with the last round of an earlier server.

        The checkpoint is kept. The caller removes it after saving the tables.

        Raises:
            PlflError: clients were asked to train, but none took part in any round.
        """
        self._resume()
        if self.history:
            progress(self.history[-1])
        self.gather()
        f = self.initial_federation()
        after, _ = self.checkpoint.load([f])
        settings = self.study.federation
        for t in range(after + 1, settings.rounds + 1):
            self.gather()
            self._round(f, t, progress)
            self._save(f, t)
        with atomic(self.checkpoint.folder.parent / SERVER_MODEL_FILE) as temporary:
            average = f.server_average
            arrays = f.server.state | ({} if average is None else {"average": average.rows})
            temporary.write_bytes(safetensors.torch.save(arrays))
        self._refuse_without_training()
        if f.privacy is not None:
            self._state_releases()
        return agreement.tables(self.study, self.cell, self.recorder)

    def gather(self) -> None:
        """Wait until at least `policy.minimum` clients are connected."""
        self.membership.gather(self.message("join"))

    # -- the round ------------------------------------------------------------------------------

    def initial_federation(self) -> Federation:
        """What the server knows of the federation before round 1."""
        study, cell = self.study, self.cell
        client_data = Roster(self.names, study, cell.seed)
        candidate, network = (
            agreement.candidate(study, cell),
            network_of(study, study.plan.window_shape),
        )
        f = federation_of(study, cell, candidate, network, client_data)
        self.channel, f.clock = remove_client_knowledge(f), self.clock
        if f.privacy is not None and f.privacy.noise:
            f.privacy.normals, f.selection.seed = draw_system_noise, self.draws
        return f

    def _round(self, f: Federation, t: int, progress: Callable[[RoundSummary], None]) -> None:
        beginning = time.monotonic()
        connected = self.membership.list_connected(self.message("join"))
        self.clock.observe(connected, self.names)
        for name, windows in self.membership.window_counts.items():
            f.client_data.window_counts[self.names.index(name)] = windows
        self.recorder.epochs_per_step = (
            self.study.federation.batch_size / f.client_data.window_counts.numpy()
        )

        def report(finished_rounds: list[Round]) -> None:
            (result,) = finished_rounds
            took_part = result.participants[self.clock.answering[result.participants]]
            summary = RoundSummary(
                t,
                [self.names[i] for i in result.participants],
                [self.names[i] for i in took_part],
                time.monotonic() - beginning,
                [name for name in self.names if name in self.membership.window_counts],
            )
            sizes, evaluation = self._message_bytes, None
            # The bytes of joining belong to the first round in which a client takes part.
            for i in sizes["message_down"].nonzero()[0].tolist():
                down, bytes_up = self.membership.joining_bytes.pop(self.names[i], (0, 0))
                sizes["message_down"][i] += down
                sizes["message_up"][i] += bytes_up
            if self.study.federation.evaluates(t):
                self._message_bytes = self._no_bytes()  # sending scores does not count
                evaluation = self._evaluate(f)
            # A client that did not answer has a row without a loss: it was sent a message.
            record(self.recorder, f, result, evaluation, sizes)
            self.history.append(replace(summary, refused=self.membership.refused))
            self.membership.refused = {}
            self._message_bytes = self._no_bytes()

        self.channel.outbox.clear()
        if f.privacy is not None:
            self._releases.parent.mkdir(parents=True, exist_ok=True)
            with self._releases.open("a", encoding="ascii") as file:
                file.write(f"{self.run_id} {t}\n")
        run_rounds([f], f.client_data.engine, range(t, t + 1), report, self._train)
        progress(self.history[-1])

    def _refuse_without_training(self) -> None:
        """Refuse to call it a result if clients were asked to train, and never did."""
        if any(s.took_part for s in self.history) or not any(s.asked for s in self.history):
            return
        reasons = {
            f"{name} ({'; '.join(reasons)})"
            for s in self.history
            for name, reasons in s.refused.items()
        }
        raise PlflError(
            Problem(
                "",
                f"no client took part in any of {count_in_words(len(self.history), 'round')}: "
                + ("; ".join(sorted(reasons)) or "none answered in time"),
                f"see the logs of the clients, remove {self.checkpoint.folder.parent}, and start "
                "again",
            )
        )

    def _state_releases(self) -> None:
        """State ε if rounds were released more than once, because the server restarted, and what
        earlier runs released that were not continued."""
        lines = self._releases.read_text(encoding="ascii").splitlines()
        own_rounds = [line for line in lines if line.startswith(f"{self.run_id} ")]
        if earlier_count := len(lines) - len(own_rounds):
            self.notes.append(
                f"{count_in_words(earlier_count, 'round')} of earlier runs that were not continued "
                "were released, too: the stated ε does not count them, and theirs has to be "
                "added to it"
            )
        repeated_times = tuple(times for times in Counter(own_rounds).values() if times > 1)
        if not repeated_times:
            return
        delta = self.study.federation.privacy.delta
        planned, actual = (least_bound(self.study, delta, times) for times in ((), repeated_times))
        self.notes.append(
            f"{len(repeated_times)} rounds were released {sum(repeated_times)} times in all, "
            f"because the server restarted: ε = {actual.epsilon:.3g} instead of "
            f"{planned.epsilon:.3g}, at δ = {delta:g}. The participants of a repeated round are "
            "the same"
        )

    @property
    def _releases(self) -> Path:
        return self.checkpoint.folder.parent / RELEASES_FILE

    def _train(self, cohorts: Iterable[Cohort], engine: Engine) -> Iterator[Cohort]:
        """Let the clients of `cohorts` train; yield the part of each cohort that answered."""
        for cohort in cohorts:
            clients = {self.names[i]: i for i in cohort.clients.tolist()}
            answers = self._train_clients(cohort, clients)
            absent = [i for name, i in clients.items() if name not in answers]
            self.clock.answering[absent] = False
            if not answers:
                continue
            self.channel.inbox = {clients[name]: answer.rows for name, answer in answers.items()}
            self.accepted |= dict.fromkeys(answers, cohort.t)
            facts = {clients[name]: answer.facts for name, answer in answers.items()}
            yield reported_part(cohort, {i: (fact.loss, fact.steps) for i, fact in facts.items()})

    def _train_clients(
        self, cohort: Cohort, clients: Mapping[str, int]
    ) -> dict[str, CheckedAnswer[TrainedFacts]]:
        """The answers of `clients`. If they train together, they begin again without those that do
        not answer, or whose answers are refused."""
        rows = {name: self.channel.outbox.pop(i, []) for name, i in clients.items()}
        masked, routine = cohort.f.adds_masked, cohort.instructions.routine
        read_answer = self._reader(cohort)
        watch, asked_clients = routine.watch if routine else None, [*clients]
        while True:
            messages, count = {}, len(asked_clients)
            for place, name in enumerate(asked_clients):
                machines = (place, count) if watch or masked else None
                messages[name] = self.message(
                    "train", name, rows[name], round=cohort.t, machines=machines
                )
            if watch is None and not masked:
                return self._ask(messages, "train", read_answer)
            if count < (FEWEST_CLIENTS if self.channel.secrets is None else FEWEST_MASKED):
                for name in asked_clients:
                    self.membership.refuse(name, "no other client trains with it")
                return {}
            if watch is None:
                answers, is_summed = self._sum_masked(cohort.f, messages)
                if is_summed:
                    return answers
            else:
                answers = self._train_together(watch, messages, read_answer)
                if len(answers) == count:
                    return answers
            asked_clients = [*answers]

    def _sum_masked(
        self, f: Federation, messages: Mapping[str, Message]
    ) -> tuple[dict[str, CheckedAnswer[Any]], bool]:
        """The answers of the clients whose masked updates are in the sum of the round, given the
        first messages to all; or those of the clients that answer, and False, if others are gone
        before any has sent its update, or nobody's can be told."""
        names = [*messages]
        clients = torch.tensor([self.names.index(name) for name in names])
        server, fields = (
            SumServer(SystemSecrets(), "", len(names)),
            sum_fields(f.channel.shared_count),
        )
        degree = server.neighbours.shape[1]
        crowd = Crowd(len(names), float(f.client_weights.nansum()))
        # 1. The public keys of all clients.
        answers, publics = self._ask_for_bytes(messages, PUBLIC_KEYS_BYTES)
        if len(answers) < len(names):
            return answers, False
        # 2. Shares of their secrets, sealed for their neighbours.
        introductions = [crowd.pack() + message for message in server.pass_on(publics)]
        requests = self._reply_with(answers, introductions)
        answers, share_messages = self._ask_for_bytes(requests, degree * SEALED_BYTES)
        if len(answers) < len(names):
            return answers, False
        # 3. The masked updates of those that are still there.
        requests = self._reply_with(answers, server.deliver(share_messages))
        answers, masked_rows = self._ask_for_bytes(requests, fields.size)
        places = [names.index(name) for name in answers]
        try:
            arrival_bits = server.add(dict(zip(places, masked_rows, strict=True)), fields)
            if f.privacy is not None and len(places) < fewest_staying(len(names)):
                raise DropoutError("too few clients are left to add the noise")
            # 4. The shares with which the masks are taken off the sum.
            requests = self._reply_with(answers, [arrival_bits[place] for place in places])
            told_by, secret_shares = self._ask_for_bytes(requests, degree * SHARE)
            by_place = {
                names.index(name): message
                for name, message in zip(told_by, secret_shares, strict=True)
            }
            numbers = read_sum(fields, server.unmask(by_place, fields))
        except (DropoutError, ValueError) as error:
            return self._refuse_all(names, SumError(str(error))), False
        self.channel.masked_sum = MaskedSum(numbers, crowd, clients[places])
        return answers, True

    def _ask_for_bytes(
        self, requests: Mapping[str, Message], size: int
    ) -> tuple[dict[str, CheckedAnswer[TrainedFacts]], list[bytes]]:
        """The answers to requests, and what each carries: bytes of this size."""
        check = partial(_check_size, size)
        answers = self._ask(requests, "train", partial(read_exchanged, check, TrainedFacts))
        data = [as_bytes(answer.arrays["0"]) for answer in answers.values()]
        self._count_messages("up", answers, data)
        return answers, data

    def _reply_with(
        self, answers: Mapping[str, CheckedAnswer[TrainedFacts]], data: Sequence[bytes]
    ) -> dict[str, Message]:
        """The messages that follow these answers, each of which carries its part of the data."""
        self._count_messages("down", answers, data)
        return {
            name: self.message("exchange", rows=[as_row(part)], after=answer.facts.request)
            for (name, answer), part in zip(answers.items(), data, strict=True)
        }

    def _count_messages(self, way: Direction, names: Iterable[str], data: Sequence[bytes]) -> None:
        """Count what was exchanged with these clients."""
        numbers = torch.tensor([self.names.index(name) for name in names], dtype=torch.int64)
        self.channel.count_messages(way, numbers, [*data])

    def _train_together(
        self,
        watch: Callable[[Tensor], None],
        messages: dict[str, Message],
        read_answer: Callable[[bytes, str, str], CheckedAnswer[TrainedFacts]],
    ) -> dict[str, Any]:
        """The last answers of clients that train together, of which `messages` are the first ones
        to them; or other answers of some clients, if the others do not answer."""
        answers: dict[str, Any] = {}

        def exchange(
            way: Direction, messages_carried: Sequence[bytes], check: Check
        ) -> list[bytes]:
            nonlocal messages, answers
            if way == "down":
                messages = {
                    name: self.message("exchange", rows=[as_row(data)], after=answer.facts.request)
                    for (name, answer), data in zip(answers.items(), messages_carried, strict=True)
                }
                return [*messages_carried]

            def read_one(data: bytes, request: str, name: str) -> CheckedAnswer[Facts]:
                check_one = partial(check, self.names.index(name))
                return read_exchanged(check_one, Facts, data, request, name)

            answers = self._ask(messages, "train", read_one)
            if len(answers) < len(messages):
                raise MessageError("a client does not answer")
            return [as_bytes(answer.arrays["0"]) for answer in answers.values()]

        clients = torch.tensor([self.names.index(name) for name in messages])
        self.channel.other_machines = OtherMachines(0, len(messages), clients, exchange)
        try:
            watch(clients)
            answers = self._ask(messages, "train", read_answer)
        except MessageError:
            pass  # some do not answer
        except SumError as error:
            return self._refuse_all(messages, error)
        return answers

    def _refuse_all(self, names: Iterable[str], error: SumError) -> dict[str, Any]:
        """No answers, since one of these clients has sent something wrong, and nobody knows who."""
        for name in names:
            self.membership.refuse(name, f"the sum over it and others is impossible: {error}")
        return {}

    def _reader(self, cohort: Cohort) -> Callable[[bytes, str, str], CheckedAnswer[TrainedFacts]]:
        """A function that reads the answers of the clients of a cohort, which must fit the
        method."""

        trial_cohort = copy.deepcopy(cohort)

        def attempt(end: Channel) -> None:
            trial_cohort.f.channel = end
            trial_cohort.close()

        shared_count = cohort.f.channel.shared_count
        expected = expected_messages(
            attempt, shared_count, len(self.names), trial_cohort.f.channel.coder
        )
        size, size_limit = (
            sum(row.nbytes for row in expected),
            largest_answer(cohort.f.layout.width),
        )
        if size + ROOM > size_limit:
            raise PlflError(
                Problem(
                    self.cell.method,
                    f"an answer has {size} bytes, more than the {size_limit} that a deployment "
                    "admits",
                    "run the cell with `plfl run`",
                )
            )

        def read(data: bytes, request: str, name: str) -> CheckedAnswer[TrainedFacts]:
            return read_trained(data, request, name, expected, cohort.f.channel.coder)

        return read

    def _evaluate(self, f: Federation) -> Evaluation:
        """The scores of all connected clients, which score their models."""
        global_parameters = f.global_parameters if f.channel.shared_count else None
        messages = {
            name: self.message(
                "evaluate",
                name,
                [] if global_parameters is None else [global_parameters[self.names.index(name)]],
            )
            for name in self.membership.list_connected(self.message("join"))
        }
        answers = self._ask(messages, "query", read_scored)
        score_rows = [row for answer in answers.values() for row in answer.facts.scores]
        scores = pd.DataFrame(
            score_rows, columns=None if score_rows else ["client", "split", "model"]
        )
        # The order of a simulation: by model, then by split, then by client.
        orders = {
            "model": ["local", "global"],
            "split": ["validation", "test"],
            "client": self.names,
        }
        ranks = {name: {v: n for n, v in enumerate(values)} for name, values in orders.items()}
        scores = scores.sort_values([*ranks], key=lambda c: c.map(ranks[str(c.name)]))
        return Evaluation(scores.reset_index(drop=True))

    # -- messages -------------------------------------------------------------------------------

    def message(
        self,
        kind: RequestKind,
        name: str | None = None,
        rows: list[Tensor] | None = None,
        **work: Unpack[WorkFacts],
    ) -> Message:
        """A message of this run to the client `name`, if that is known already, with `rows` of
        parameters or masks, and what it asks for in particular."""
        about = cast(RequestFacts, work)
        about["kind"], about["run"], about["epoch"] = kind, self.run_id, self.epoch
        about["request"] = secrets.token_hex(8)
        about["agreement"] = self.agreement
        arrays = rows_as_arrays(rows or [])
        if name is not None:
            about["from"] = self.accepted[name]
            if self.study.windows.scaling == "pooled" and name not in self.membership.has_limits:
                self.membership.pool_limits()
                arrays |= self.membership.limits
        return Message(about, arrays)

    def _ask(
        self,
        messages: Mapping[str, Message],
        kind: str,
        read_answer: Callable[[bytes, str, str], CheckedAnswer[F]],
    ) -> dict[str, CheckedAnswer[F]]:
        """Send messages; return, by name, the answers that arrived in time and that `read_answer`
        accepted. `read_answer` also gets the number of the message and the name of the client."""
        packed_messages = {name: message.pack() for name, message in messages.items()}
        membership = self.membership
        answers_by_name = membership.transport.exchange(
            packed_messages, membership.policy.timeout, kind
        )
        answers = {}
        for name, packed_message in packed_messages.items():
            i = self.names.index(name)
            self._message_bytes["message_down"][i] += len(packed_message)
            if name not in answers_by_name:
                log.warning("client %s did not answer in time", name)
                continue
            self._message_bytes["message_up"][i] += len(answers_by_name[name])
            try:
                answers[name] = read_answer(
                    answers_by_name[name], str(messages[name].about["request"]), name
                )
            except MessageError as error:
                self.membership.refuse(name, error)
            else:
                self.membership.has_limits.add(name)
        return answers

    def _no_bytes(self) -> dict[str, NDArray[np.int64]]:
        """Counters, at zero, of the bytes of complete messages per client and direction."""
        blank = np.zeros(len(self.names), dtype=np.int64)
        return {"message_down": blank, "message_up": blank.copy()}

    # -- resuming -------------------------------------------------------------------------------

    def _save(self, f: Federation, t: int) -> None:
        self.checkpoint.note = {
            "run": self.run_id,
            "epoch": self.epoch,
            "accepted": self.accepted,
            "draws": self.draws,
            "windows": self.membership.window_counts,
            "descriptions": self.membership.description_records,
            "limits": {name: limit.tolist() for name, limit in self.membership.limits.items()},
            "history": [vars(summary) for summary in self.history],
        }
        self.checkpoint.save(t, [f], [self.recorder.tables])

    def _resume(self) -> None:
        """Continue from the checkpoint of an earlier server of the same study, if there is one."""
        after, saved_records = self.checkpoint.load([])
        if not after:
            return
        note = self.checkpoint.note
        (self.recorder.tables,) = saved_records
        self.run_id, self.epoch = note["run"], note["epoch"] + 1
        self.accepted |= note["accepted"]
        self.draws = note.get("draws", self.draws)
        self.membership.window_counts = note.get("windows", {})
        self.membership.description_records = note.get("descriptions", {})
        limits = note["limits"].items()
        self.membership.limits = {n: torch.tensor(v, dtype=torch.float64) for n, v in limits}
        self.history = [RoundSummary(**summary) for summary in note["history"]]


def _check_size(size: int, data: bytes) -> None:
    """Refuse, with a ValueError, bytes of another size."""
    if len(data) != size:
        raise ValueError(f"it has {len(data)} bytes instead of {size}")

"""The Flower ServerApp: the server's rounds, with Flower's grid as the way to the clients.

What came of it lies in the server's folder, since Flower's own exit codes do not tell.
"""

import json
import logging
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from plfl.deploy import agreement, results
from plfl.deploy.flower import FOLDER, push_error
from plfl.deploy.launch import AT_WORK, BEGUN, CHECKPOINT, OUTCOME, PLAN, PROGRESS
from plfl.deploy.processes import end_with_parent
from plfl.deploy.relay import FIELD, RECORD, message_in
from plfl.deploy.server import Node, Server
from plfl.deploy.terms import Taken, Terms
from plfl.errors import PlflError
from plfl.files import atomic
from plfl.locks import hold
from plfl.study import Study

log = logging.getLogger(__name__)

POLL = 0.5
"""Seconds between two looks for answers."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds that the plan in the server's folder names."""
    # Without its SuperLink it could only do harm to the folder, which another one may have by then.
    end_with_parent(signal.SIGKILL)
    folder = Path(os.environ[FOLDER])
    logging.basicConfig(
        filename=folder / "server.log", format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    logging.getLogger("plfl").setLevel(logging.INFO)
    # An earlier one may have a moment to live; only one of them may have the checkpoint.
    with hold(folder / AT_WORK):
        (folder / BEGUN).touch()
        outcome = _outcome(grid, folder)
        with atomic(folder / OUTCOME) as temporary:
            temporary.write_text(json.dumps(outcome), encoding="utf-8")


def _outcome(grid: Grid, folder: Path) -> dict[str, Any]:
    try:
        _run(grid, folder)
    except PlflError as error:
        return {"done": False, "error": str(error)}
    except Exception as error:
        log.exception("this is a fault of plfl; please report it")
        return {"done": False, "error": f"{type(error).__name__}: {error}", "fault": True}
    return {"done": True}


def _run(grid: Grid, folder: Path) -> None:
    plan = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    study = Study.parse(plan["study"], str(folder / PLAN))
    cell = agreement.deployable(study, plan["cell"], str(folder / PLAN))
    terms = Terms(**plan["terms"])
    nodes = None if plan["nodes"] is None else {int(n): name for n, name in plan["nodes"].items()}
    server = Server(study, cell, FlowerGrid(grid, nodes), folder / CHECKPOINT, terms)

    def tell(taken: Taken) -> None:
        # With the rounds before a restart, if there was one.
        lines = [json.dumps(vars(one)) + "\n" for one in server.history]
        with atomic(folder / PROGRESS) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")

    result = server.run(tell)
    results.write(study, cell, result, server.clients, Path(plan["results"]))


class FlowerGrid:
    """Flower as a `Transport`; addresses are its node ids.

    Args:
        grid: Flower's.
        registered: names by node, as this server has registered them; None: insecure. A node that
            somebody else has registered is none.
    """

    def __init__(self, grid: Grid, registered: Mapping[Node, str] | None):
        self.grid, self.registered = grid, registered

    def nodes(self) -> dict[Node, str]:
        there = self.grid.get_node_ids()
        if self.registered is None:
            return dict.fromkeys(there, "")
        return {node: self.registered[node] for node in there if node in self.registered}

    def exchange(
        self, messages: Mapping[Node, bytes], timeout: float, kind: str
    ) -> dict[Node, bytes]:
        end = time.monotonic() + timeout
        sent = {self._push(node, data, timeout, kind): node for node, data in messages.items()}
        answers: dict[Node, bytes] = {}
        while sent and time.monotonic() < end:
            for reply in self.grid.pull_messages(list(sent)):
                node = sent.pop(reply.metadata.reply_to_message_id)
                if reply.has_error():
                    log.warning("node %s: %s", node, reply.error.reason)
                else:
                    answers[node] = message_in(reply)
            if sent:
                time.sleep(POLL)
        return answers

    def _push(self, node: Node, data: bytes, timeout: float, kind: str) -> str:
        """Send a message, and again if the SuperLink was lost meanwhile; Flower's number of it."""
        content = RecordDict({RECORD: ConfigRecord({FIELD: data})})
        while True:
            # The time to live holds for the answer too; it shall not end before our own wait.
            message = Message(content, dst_node_id=node, message_type=kind, ttl=timeout + 60)
            try:
                (number,) = self.grid.push_messages([message])
            except push_error() as error:
                log.warning("node %s: %s It is sent again.", node, error)
                time.sleep(POLL)
            else:
                return str(number)

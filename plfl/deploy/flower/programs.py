"""Flower's programs with changes to private parts: `python -m plfl.deploy.flower.programs NAME`.

This is the only module that uses private parts of Flower. Its test lists them, and says what to
change here if another version of Flower lacks them.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from plfl.deploy.flower.runtime import PROGRAMS
from plfl.deploy.flower.substitutes import fork, guarded, sleeper

OFFLINE = 1.5
"""Seconds for which a returning node stays disconnected, so that the server notices its absence."""


def returning(activate: Callable[..., Any]) -> Callable[..., Any]:
    """`activate`, for a SuperNode that returns after a kill.

    For a minute after a SuperNode is killed, Flower considers it connected and refuses a second
    activation. So the returning SuperNode first deactivates its node.
    """
    import httpx
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest

    path = Path(os.environ["FLWR_HOME"]) / "node"

    def activated(client: Any, request: Any) -> Any:
        try:
            response = activate(client, request)
        except httpx.HTTPStatusError:
            if not path.exists():
                raise
            client.DeactivateNode(DeactivateNodeRequest(node_id=int(path.read_text("ascii"))))
            time.sleep(OFFLINE)
            response = activate(client, request)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(response.node_id), "ascii")
        return response

    return activated


def change(name: str) -> Callable[[], None]:
    """Change the private parts of a program of Flower; return its entry point."""
    entry: Callable[[], None]
    if name == "supernode":
        from flwr.supernode import start_client_internal as node
        from flwr.supernode.cli import flower_supernode
        from flwr.supernode.fleet_http_client import FleetHttpClient as Client

        def start(command: list[str]) -> object:
            return subprocess.Popen([*PROGRAMS, "superexec", *command[1:]])

        vars(node)["time"] = SimpleNamespace(**vars(time) | {"sleep": sleeper()})
        vars(node)["subprocess"] = SimpleNamespace(Popen=start)
        setattr(Client, "ActivateNode", returning(Client.ActivateNode))  # noqa: B010 - not exported
        entry = flower_supernode
    elif name == "superexec":  # of a SuperNode
        from flwr.supercore.cli import flower_superexec
        from flwr.supercore.superexec.executor import subprocess_executor
        from flwr.supernode.cli import flwr_clientapp

        import plfl.deploy.flower.client_app  # noqa: F401 - the ClientApp loads it

        vars(subprocess_executor)["subprocess"] = SimpleNamespace(
            Popen=partial(fork, flwr_clientapp)
        )
        entry = flower_superexec
    else:
        from flwr.superlink import main
        from flwr.superlink.cli import flower_superlink

        create = main.create_app
        vars(main)["create_app"] = lambda *given: guarded(create(*given))
        entry = flower_superlink
    return entry


if __name__ == "__main__":
    what = sys.argv.pop(1)
    sys.argv[0] = f"flower-{what}"
    change(what)()

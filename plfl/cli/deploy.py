"""`plfl deploy`: runs a cell as a federation of separate processes or hosts."""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import Any

from plfl.base.errors import PlflError, Problem
from plfl.cli.common import Commands, add_parser
from plfl.deploy import flower, local
from plfl.deploy.client_host import attend
from plfl.deploy.folders import CellFolders
from plfl.deploy.protocol.agreement import deployable, roster
from plfl.deploy.protocol.rounds import RoundPolicy, RoundSummary
from plfl.deploy.server_host import serve
from plfl.study import Cell, Study

DEFAULT_PORT = 8000
EXAMPLES = """
plfl deploy --config config/smoke.yaml --rounds 3
plfl deploy keys --host 10.0.0.1 --client 9360001 --client 9360002
plfl deploy server --config study.yaml --keys keys/server --host 0.0.0.0
plfl deploy client --config study.yaml --keys 9360001 --building 9360001 --server 10.0.0.1:8000
plfl deploy forecasts --model results/campus --building school --readings school.csv
"""


def add(commands: Commands) -> None:
    deploy = add_parser(commands, "deploy", EXAMPLES, _federate)
    deploy.description = (
        "Run a server and all clients of a cell on this machine. The commands below\n"
        "run a single server or client, so that they can be on different hosts."
    )
    _add_study(deploy)
    _add_policy(deploy)
    single = deploy.add_subparsers(metavar="COMMAND")

    server = single.add_parser("server", help="run the server: a SuperLink and the rounds")
    server.set_defaults(run=_serve)
    _add_study(server, is_repeated=True)
    _add_policy(server, is_repeated=True)
    option = server.add_argument
    option("--host", default="127.0.0.1", help="address to listen on; default: %(default)s")
    _add_port(server, DEFAULT_PORT)
    text = "the folder keys/server created by `plfl deploy keys`"
    option("--keys", type=Path, default=Path("keys/server"), help=text)

    client = single.add_parser("client", help="run one building: its worker and its SuperNode")
    client.set_defaults(run=_attend)
    _add_study(client, is_repeated=True)
    option = client.add_argument
    option("--building", required=True, help="name of the client in the study")
    option("--folder", type=Path, help="folder of the client; default: below the results folder")
    text = "the folder keys/clients/NAME created by `plfl deploy keys`"
    option("--keys", type=Path, metavar="FOLDER", required=True, help=text)
    text = "address of the server; default: %(default)s"
    option("--server", default=f"127.0.0.1:{DEFAULT_PORT}", metavar="HOST:PORT", help=text)
    text = "seconds to keep trying if the server refuses this client; default: %(default)s"
    option("--retry-seconds", type=float, default=90.0, metavar="S", help=text)

    about = "serve the forecasts of one building to programs of this machine"
    resource = single.add_parser("forecasts", help=about)
    resource.set_defaults(run=_forecasts)
    option = resource.add_argument
    text = "a results folder, a file of its models, or the folder of a deployed client"
    option("--model", type=Path, required=True, metavar="PATH", help=text)
    option("--building", required=True, help="name of the client in the study")
    text = (
        "its newest readings, in the layout of the study's meters; read again when the file changes"
    )
    option("--readings", type=Path, required=True, metavar="FILE", help=text)
    text = "take readings on another scale than those of the study, or of another year"
    option("--accept-misfits", action="store_true", help=text)
    _add_port(resource, DEFAULT_PORT + 1)

    keys = single.add_parser("keys", help="create keys and certificates")
    keys.set_defaults(run=_keys)
    option = keys.add_argument
    text = "where to create them; default: %(default)s"
    option("--folder", type=Path, default=Path("keys"), help=text)
    option("--client", action="append", default=[], metavar="NAME", help="name of a client")
    text = "name or address at which clients reach the server"
    option("--host", action="append", default=[], help=text)

    about = "compare a small federation with the simulator, bit by bit"
    check = single.add_parser("check", help=about)
    check.set_defaults(run=_check)
    text = "let the server see sums over the clients only, of networks or of trees"
    check.add_argument("--secure", choices=sorted(local.MASKED_KEYS), help=text)


def _add_study(parser: argparse.ArgumentParser, is_repeated: bool = False) -> None:
    """Add the options of a study. `is_repeated`: `plfl deploy` has them, too, and may have been
    given them before the command."""
    option = partial(_add_option, parser, is_repeated)
    option("--config", "configuration of the study", Path("config.yaml"), type=Path)
    option("--cell", "name of the cell; default: the first that can be deployed")
    option("--rounds", "number of rounds, instead of federation.rounds", type=int)


def _add_option(
    parser: argparse.ArgumentParser,
    is_repeated: bool,
    name: str,
    text: str,
    default: object = None,
    **settings: Any,
) -> None:
    """Add an option whose `text` ends with its default. If it `is_repeated` after a command, it
    has none there, which would replace the value before the command."""
    text = text if default is None else f"{text}; default: {default}"
    value = argparse.SUPPRESS if is_repeated else default
    parser.add_argument(name, help=text, default=value, **settings)


def _add_port(parser: argparse.ArgumentParser, port: int) -> None:
    text = "port to listen on; default: %(default)s"
    parser.add_argument("--port", type=int, default=port, help=text)


def _add_policy(parser: argparse.ArgumentParser, is_repeated: bool = False) -> None:
    """Add the options of the rounds; `is_repeated` as in `_add_study`."""
    option = partial(_add_option, parser, is_repeated)
    option("--minimum", "clients that a round needs; default: all", type=int, metavar="N")
    text = "seconds to wait for the minimum of clients to connect"
    option("--patience", text, 300.0, type=float, metavar="S")
    option(
        "--timeout", "seconds to wait for the answers of a round", 600.0, type=float, metavar="S"
    )


def _read_choice(options: argparse.Namespace) -> tuple[Study, Cell]:
    study = Study.load(options.config)
    if options.rounds is not None:
        raw = study.written_keys
        raw["federation"] = raw.get("federation", {}) | {"rounds": options.rounds}
        study = Study.parse(raw, f"{options.config} with --rounds {options.rounds}")
    return study, deployable(study, options.cell, str(options.config))


def _policy(options: argparse.Namespace, client_count: int) -> RoundPolicy:
    minimum = client_count if options.minimum is None else options.minimum
    return RoundPolicy(minimum, options.patience, options.timeout)


def _federate(options: argparse.Namespace) -> None:
    study, cell = _read_choice(options)
    names, folders = roster(study, cell), CellFolders(study, cell)
    local.federate(
        options.config, folders, names, _policy(options, len(names)), options.rounds, _say
    )
    _say(f"results in {folders.results}")


def _serve(options: argparse.Namespace) -> None:
    flower.require_flower()  # first: keys need cryptography, which comes with Flower
    from plfl.deploy.certificates import ServerKeys

    study, cell = _read_choice(options)
    rounds = study.federation.rounds

    def report(summary: RoundSummary) -> None:
        absent = sorted(set(summary.asked) - set(summary.took_part))
        missing = f"; no answer from {', '.join(absent)}" if absent else ""
        refusals = [f"{name} ({'; '.join(reasons)})" for name, reasons in summary.refused.items()]
        missing += f"; refused: {', '.join(refusals)}" if refusals else ""
        _say(
            f"round {summary.t} of {rounds}: {len(summary.took_part)} of {len(summary.asked)} "
            f"clients took part, {summary.seconds:.1f} s{missing}"
        )

    keys, policy = ServerKeys(options.keys), _policy(options, len(roster(study, cell)))
    serve(CellFolders(study, cell), policy, options.host, options.port, keys, report)


def _attend(options: argparse.Namespace) -> None:
    flower.require_flower()
    from plfl.deploy.certificates import ClientKeys

    name, server = options.building, options.server
    address = re.fullmatch(r"([\w.-]+|\[[\da-fA-F:.]+\]):(\d{1,5})", server)
    if address is None or not 0 < int(address[2]) < 1 << 16:
        raise PlflError(
            Problem(
                "--server",
                f"{server!r} is not HOST:PORT",
                f"write it as in 10.0.0.1:{DEFAULT_PORT}",
            )
        )
    study, cell = _read_choice(options)
    folder = options.folder or CellFolders(study, cell).client(name)
    attend(study, cell, name, folder, server, ClientKeys(options.keys), options.retry_seconds)


def _forecasts(options: argparse.Namespace) -> None:
    from plfl.deploy import forecasts  # not at the top: what it imports, no other command needs

    forecasts_of_meter = forecasts.Forecasts(
        options.model, options.building, options.readings, options.accept_misfits
    )
    forecasts.serve(forecasts_of_meter, options.port, _say)


def _keys(options: argparse.Namespace) -> None:
    flower.require_flower()
    from plfl.deploy.certificates import make

    key_files = make(options.folder, options.client, options.host)
    _say(
        "\n".join(f"{path}: copy this folder to its host" for path in key_files)
        or "nothing to create"
    )


def _check(options: argparse.Namespace) -> None:
    local.check(client_count=3, rounds=2, report=_say, masked_routine=options.secure)


def _say(line: str) -> None:
    print(line, flush=True)

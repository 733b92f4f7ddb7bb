"""`plfl deploy`: runs a cell as a federation of separate processes or hosts."""

from __future__ import annotations

import argparse
import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING

from plfl.base.errors import PlflError
from plfl.cli.common import Commands
from plfl.study import Cell, Study

if TYPE_CHECKING:  # imports inside the functions, too: other commands must not wait for torch
    from plfl.deploy.keys import ServerKeys
    from plfl.deploy.protocol.rounds import RoundPolicy, RoundSummary

DEFAULT_PORT = 8000
FORECAST_PORT = 8001


def add(commands: Commands) -> None:
    deploy = commands.add_parser(
        "deploy",
        help="run a cell on separate processes or hosts, with Flower",
        description="Run a server and all clients of a cell on this machine. The commands below\n"
        "run a single server or client, so that they can be on different hosts.",
        epilog="examples:\n"
        "  plfl deploy --config config/smoke.yaml --rounds 3\n"
        "  plfl deploy keys --host 10.0.0.1 --client 9360001 --client 9360002\n"
        "  plfl deploy server --config study.yaml --keys keys/server --host 0.0.0.0\n"
        "  plfl deploy client --config study.yaml --keys 9360001 --building 9360001 "
        "--server 10.0.0.1:8000\n"
        "  plfl deploy forecasts --config study.yaml --building 9360001 --keys answers/server\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_common(deploy)
    _add_policy(deploy)
    deploy.set_defaults(run=_federate)
    single = deploy.add_subparsers(metavar="COMMAND")
    _add_server(single)
    _add_client(single)
    _add_forecasts(single)
    _add_key_folders(single)
    _add_check(single)


def _add_server(single: Commands) -> None:
    parser = single.add_parser("server", help="run the server: a SuperLink and the rounds")
    _add_common(parser)
    _add_policy(parser)
    _add_address(parser, DEFAULT_PORT)
    _add_keys(parser, "server")
    parser.set_defaults(run=_serve)


def _add_client(single: Commands) -> None:
    parser = single.add_parser(
        "client", help="run the client of one building: its worker and its SuperNode"
    )
    _add_common(parser)
    _add_building(parser)
    parser.add_argument(
        "--server",
        default=f"127.0.0.1:{DEFAULT_PORT}",
        metavar="HOST:PORT",
        help="address of the server; default: %(default)s",
    )
    _add_keys(parser, "clients/NAME")
    parser.add_argument(
        "--retry-seconds",
        type=float,
        default=90.0,
        metavar="S",
        help="seconds to keep trying if the server refuses this client; default: %(default)s",
    )
    parser.set_defaults(run=_attend)


def _add_forecasts(single: Commands) -> None:
    parser = single.add_parser(
        "forecasts", help="serve the forecasts of one building to a third party"
    )
    _add_common(parser)
    _add_building(parser)
    parser.add_argument(
        "--readings",
        type=Path,
        metavar="FILE",
        help="newer readings, in the layout of the study's meters; default: those of the folder",
    )
    parser.add_argument(
        "--model",
        type=Path,
        metavar="FILE",
        help="a file of results/NAME/models, or the results folder, instead of the model of a "
        "deployed client; needs --readings",
    )
    _add_address(parser, FORECAST_PORT)
    _add_keys(parser, "server")
    parser.set_defaults(run=_forecasts)


def _add_key_folders(single: Commands) -> None:
    parser = single.add_parser("keys", help="create keys and certificates")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("keys"),
        help="where to create them; default: %(default)s",
    )
    parser.add_argument(
        "--client", action="append", default=[], metavar="NAME", help="name of a client"
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        help="name or address at which clients reach the server",
    )
    parser.add_argument("--replace", action="store_true", help="overwrite existing keys")
    parser.set_defaults(run=_keys)


def _add_check(single: Commands) -> None:
    parser = single.add_parser(
        "check", help="compare a small federation with the simulator, bit by bit"
    )
    parser.add_argument(
        "--clients", type=int, default=3, help="number of clients; default: %(default)s"
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="number of rounds; default: %(default)s"
    )
    parser.set_defaults(run=_check)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        default=Path("config.yaml"),
        help="configuration of the study; default: %(default)s",
    )
    parser.add_argument("--cell", help="name of the cell; default: the first that can be deployed")
    parser.add_argument("--rounds", type=int, help="number of rounds, instead of federation.rounds")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="no encryption and no authentication; for this machine only",
    )


def _add_building(parser: argparse.ArgumentParser) -> None:
    """Add the options for the name of a client and its folder."""
    parser.add_argument("--building", required=True, help="name of the client in the study")
    parser.add_argument(
        "--folder", type=Path, help="folder of the client; default: below the results folder"
    )


def _add_address(parser: argparse.ArgumentParser, port: int) -> None:
    """Add the options for the address at which a server listens."""
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; default: %(default)s"
    )
    parser.add_argument(
        "--port", type=int, default=port, help="port to listen on; default: %(default)s"
    )


def _add_keys(parser: argparse.ArgumentParser, part: str) -> None:
    help = f"the folder keys/{part} created by `plfl deploy keys`"
    parser.add_argument("--keys", type=Path, metavar="FOLDER", help=help)


def _add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--minimum", type=int, metavar="N", help="clients required to start a round; default: all"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=300.0,
        metavar="S",
        help="seconds to wait for the minimum of clients to connect; default: %(default)s",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="seconds to wait for the answers of a round; default: %(default)s",
    )


def _chosen(options: argparse.Namespace) -> tuple[Study, Cell]:
    from plfl.deploy.protocol.agreement import deployable

    study = Study.load(options.config)
    if options.rounds is not None:
        raw = study.model_dump(mode="json")
        raw["federation"]["rounds"] = options.rounds
        study = Study.parse(raw, f"{options.config} with --rounds {options.rounds}")
    return study, deployable(study, options.cell, str(options.config))


def _policy(options: argparse.Namespace, clients: int) -> RoundPolicy:
    from plfl.deploy.protocol.rounds import RoundPolicy

    minimum = clients if options.minimum is None else options.minimum
    return RoundPolicy(minimum, options.patience, options.timeout)


def _federate(options: argparse.Namespace) -> None:
    from plfl.deploy.folders import CellFolders
    from plfl.deploy.launch import federate
    from plfl.deploy.protocol.agreement import roster

    study, cell = _chosen(options)
    names, folders = roster(study, cell), CellFolders(study, cell)
    policy = _policy(options, len(names))
    insecure = options.insecure
    federate(options.config, folders, names, policy, options.rounds, _say, insecure=insecure)
    _say(f"results in {folders.results}")


def _serve(options: argparse.Namespace) -> None:
    from plfl.deploy.folders import CellFolders
    from plfl.deploy.launch import serve
    from plfl.deploy.protocol.agreement import roster

    study, cell = _chosen(options)
    keys = _server_keys(options)
    rounds = study.federation.rounds

    def tell(summary: RoundSummary) -> None:
        silent = sorted(set(summary.asked) - set(summary.took_part))
        missing = f"; no answer from {', '.join(silent)}" if silent else ""
        refused = [f"{name} ({'; '.join(why)})" for name, why in summary.refused.items()]
        missing += f"; refused: {', '.join(refused)}" if refused else ""
        _say(
            f"round {summary.t} of {rounds}: {len(summary.took_part)} of {len(summary.asked)} "
            f"clients took part, {summary.seconds:.1f} s{missing}"
        )

    policy = _policy(options, len(roster(study, cell)))
    serve(CellFolders(study, cell), policy, options.host, options.port, keys, tell)


def _attend(options: argparse.Namespace) -> None:
    from plfl.deploy.folders import CellFolders
    from plfl.deploy.launch import attend

    study, cell = _chosen(options)
    address = re.fullmatch(r"([\w.-]+|\[[\da-fA-F:.]+\]):(\d{1,5})", options.server)
    if address is None or not 0 < int(address[2]) < 1 << 16:
        raise PlflError(
            f"--server: {options.server!r} is not HOST:PORT; write it as in 10.0.0.1:{DEFAULT_PORT}"
        )
    keys = None
    if _secured(options, address[1]):
        from plfl.deploy.keys import ClientKeys

        keys = ClientKeys.of(options.keys)
    folder = options.folder or CellFolders(study, cell).client(options.building)
    name, server = options.building, options.server
    attend(study, cell, name, folder, server, keys, options.retry_seconds)


def _forecasts(options: argparse.Namespace) -> None:
    import logging

    from plfl.deploy.folders import CellFolders
    from plfl.deploy.forecasts import Forecasts, ForecastServer, serve

    file, name = options.model, options.building
    if file is None:
        study, cell = _chosen(options)
    elif options.readings is None:
        raise PlflError("--model: needs --readings, the file with the newest readings")
    else:
        from plfl.forecast.choice import Kept
        from plfl.forecast.model import load

        if file.is_dir():
            choice = Kept(file).of(name)
            _say(f"{name}: {choice.name}, {choice.why}")
            file = choice.file
        model = load(file)
        study, cell = model.study, model.cell
    keys = _server_keys(options)
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("plfl").setLevel(logging.INFO)
    folder = options.folder or (Path() if file else CellFolders(study, cell).client(name))
    forecasts = Forecasts(study, cell, name, folder, options.readings, file)
    forecasts("local")  # fails now if there is no model, or if the readings are unusable
    serve(ForecastServer(forecasts, options.host, options.port, keys), _say)


def _keys(options: argparse.Namespace) -> None:
    from plfl.deploy import flower

    flower.require()
    # After the check: it needs cryptography, which comes with Flower.
    from plfl.deploy.keys import CA, expiry, make

    made = make(options.folder, options.client, options.host, replace=options.replace)
    _say("\n".join(f"{path}: copy this folder to its host" for path in made) or "nothing to create")
    _say(f"valid until {expiry(options.folder / CA):%Y-%m-%d}")


def _check(options: argparse.Namespace) -> None:
    from plfl.deploy.check import check

    check(options.clients, options.rounds, _say)


def _server_keys(options: argparse.Namespace) -> ServerKeys | None:
    if not _secured(options, options.host):
        return None
    from plfl.deploy.keys import ServerKeys

    return ServerKeys.of(options.keys)


def _secured(options: argparse.Namespace, host: str) -> bool:
    """Whether the connection uses keys.

    Raises:
        PlflError: neither or both of --keys and --insecure are given, or --insecure is used for a
            host other than this machine.
    """
    if options.insecure and options.keys:
        raise PlflError("give --keys or --insecure, not both")
    if options.keys:
        return True
    if not options.insecure:
        raise PlflError(
            "TLS needs keys: create them with `plfl deploy keys` and give this host's folder with "
            "--keys; to try a federation on this machine only, use --insecure instead"
        )
    try:
        is_here = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_here = False
    if not is_here:
        raise PlflError(
            f"--insecure is for this machine only and {host} is another machine; use --keys"
        )
    return False


def _say(line: str) -> None:
    print(line, flush=True)

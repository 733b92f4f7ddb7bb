"""`plfl deploy`: the command line of the deployment."""

import argparse
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plfl.errors import PlflError
from plfl.study import Cell, Study

if TYPE_CHECKING:
    from plfl.deploy.terms import Taken, Terms

DEFAULT_PORT = 8000


def add(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `deploy` to the commands of `plfl`."""
    deploy = commands.add_parser(
        "deploy", help="the same federation among real processes and hosts, with Flower"
    )
    _add_common(deploy)
    _add_terms(deploy)
    deploy.set_defaults(run=_federate)
    single = deploy.add_subparsers(metavar="COMMAND")

    server = single.add_parser("server", help="the SuperLink and the rounds")
    _add_common(server)
    _add_terms(server)
    server.add_argument("--host", default="127.0.0.1", help="address to listen at")
    server.add_argument("--port", type=int, default=DEFAULT_PORT)
    _add_keys(server, "server")
    server.set_defaults(run=_serve)

    client = single.add_parser("client", help="one building: its worker and its SuperNode")
    _add_common(client)
    client.add_argument("--building", required=True, help="name of the client in the study")
    client.add_argument("--server", default=f"127.0.0.1:{DEFAULT_PORT}", metavar="HOST:PORT")
    client.add_argument("--folder", type=Path, help="the building's own folder")
    _add_keys(client, "clients/NAME")
    client.set_defaults(run=_attend)

    client.add_argument(
        "--persistence",
        type=float,
        default=30.0,
        help="seconds to go on asking a server that refuses this client",
    )

    client.add_argument(
        "--calibrate",
        type=int,
        default=0,
        metavar="EPOCHS",
        help="passes over its data to prepare its personal part, if it comes late (default: none)",
    )

    keys = single.add_parser("keys", help="certificates of the server, a key pair for each client")
    keys.add_argument("--folder", type=Path, default=Path("keys"))
    keys.add_argument("--client", action="append", default=[], metavar="NAME")
    keys.add_argument(
        "--host", action="append", default=[], help="name or address the server is reached at"
    )
    keys.add_argument("--replace", action="store_true", help="keys that are there already")
    keys.set_defaults(run=_keys)

    check = single.add_parser("check", help="a small federation, and the same in the simulator")
    check.add_argument("--clients", type=int, default=3)
    check.add_argument("--rounds", type=int, default=2)
    check.set_defaults(run=_check)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, default=Path("config.yaml"))
    parser.add_argument("--cell", help="its name; default: the first that can be deployed")
    parser.add_argument("--rounds", type=int, help="instead of federation.rounds")
    parser.add_argument(
        "--insecure", action="store_true", help="without TLS and keys; on this machine only"
    )


def _add_keys(parser: argparse.ArgumentParser, part: str) -> None:
    help = f"the folder keys/{part} that `plfl deploy keys` made"
    parser.add_argument("--keys", type=Path, metavar="FOLDER", help=help)


def _add_terms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minimum", type=int, help="clients a round needs; default: all")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for them")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds to wait for answers")


def _chosen(options: argparse.Namespace) -> tuple[Study, Cell]:
    from plfl.deploy.agreement import deployable

    study = Study.load(options.config)
    if options.rounds is not None:
        raw = study.model_dump(mode="json")
        raw["federation"]["rounds"] = options.rounds
        study = Study.parse(raw, f"{options.config} with --rounds {options.rounds}")
    return study, deployable(study, options.cell, str(options.config))


def _terms(options: argparse.Namespace, clients: int) -> "Terms":
    from plfl.deploy.terms import Terms

    minimum = clients if options.minimum is None else options.minimum
    return Terms(minimum, options.patience, options.timeout)


def _federate(options: argparse.Namespace) -> None:
    from plfl.deploy.agreement import roster
    from plfl.deploy.launch import Place, federate

    study, cell = _chosen(options)
    names, place = roster(study, cell), Place(study, cell)
    terms = _terms(options, len(names))
    federate(options.config, place, names, terms, options.rounds, _say, insecure=options.insecure)
    _say(f"results in {place.results}")


def _serve(options: argparse.Namespace) -> None:
    from plfl.deploy.agreement import roster
    from plfl.deploy.launch import Place, serve

    study, cell = _chosen(options)
    keys = None
    if _secured(options, options.host):
        from plfl.deploy.keys import ServerKeys

        keys = ServerKeys.of(options.keys)
    rounds = study.federation.rounds

    def tell(taken: "Taken") -> None:
        away = sorted(set(taken.asked) - set(taken.took_part))
        missing = f"; without {', '.join(away)}" if away else ""
        _say(
            f"round {taken.t} of {rounds}: {len(taken.took_part)} of {len(taken.asked)} took part "
            f"in {taken.seconds:.1f} s{missing}"
        )

    terms = _terms(options, len(roster(study, cell)))
    serve(Place(study, cell), terms, options.host, options.port, keys, tell)


def _attend(options: argparse.Namespace) -> None:
    from plfl.deploy.launch import Place, attend

    study, cell = _chosen(options)
    host, _, _ = options.server.rpartition(":")
    keys = None
    if _secured(options, host):
        from plfl.deploy.keys import ClientKeys

        keys = ClientKeys.of(options.keys)
    folder = options.folder or Place(study, cell).client(options.building)
    name, server = options.building, options.server
    attend(study, cell, name, folder, server, keys, options.persistence, options.calibrate)


def _keys(options: argparse.Namespace) -> None:
    from plfl.deploy import flower

    flower.require()
    from plfl.deploy.keys import make

    made = make(options.folder, options.client, options.host, replace=options.replace)
    _say("\n".join(f"{path}: copy it to its host" for path in made) or "nothing to make")


def _check(options: argparse.Namespace) -> None:
    from plfl.deploy.check import check

    check(options.clients, options.rounds, _say)


def _secured(options: argparse.Namespace, host: str) -> bool:
    """Whether there are keys; without, only this machine may be used, and only if it is wanted."""
    if options.insecure and options.keys:
        raise PlflError("--keys or --insecure, not both")
    if options.keys:
        return True
    if not options.insecure:
        raise PlflError(
            "TLS needs keys: make them with `plfl deploy keys` and give this host's folder with "
            "--keys; or try without, on this machine alone, with --insecure"
        )
    try:
        is_here = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_here = False
    if not is_here:
        raise PlflError(f"--insecure is for this machine alone, and {host} is not on it")
    return False


def _say(line: str) -> None:
    print(line, flush=True)

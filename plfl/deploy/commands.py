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
    server.set_defaults(run=_serve)

    client = single.add_parser("client", help="one building: its worker and its SuperNode")
    _add_common(client)
    client.add_argument("--building", required=True, help="name of the client in the study")
    client.add_argument("--server", default=f"127.0.0.1:{DEFAULT_PORT}", metavar="HOST:PORT")
    client.add_argument("--folder", type=Path, help="the building's own folder")
    client.set_defaults(run=_attend)

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
    _secured(options, "127.0.0.1")
    names, place = roster(study, cell), Place(study, cell)
    terms = _terms(options, len(names))
    federate(options.config, place, names, terms, options.rounds, _say)
    _say(f"results in {place.results}")


def _serve(options: argparse.Namespace) -> None:
    from plfl.deploy.agreement import roster
    from plfl.deploy.launch import Place, serve

    study, cell = _chosen(options)
    _secured(options, options.host)
    rounds = study.federation.rounds

    def tell(taken: "Taken") -> None:
        away = sorted(set(taken.asked) - set(taken.took_part))
        missing = f"; without {', '.join(away)}" if away else ""
        _say(
            f"round {taken.t} of {rounds}: {len(taken.took_part)} of {len(taken.asked)} took part "
            f"in {taken.seconds:.1f} s{missing}"
        )

    terms = _terms(options, len(roster(study, cell)))
    serve(Place(study, cell), terms, options.host, options.port, tell)


def _attend(options: argparse.Namespace) -> None:
    from plfl.deploy.flower import Link
    from plfl.deploy.launch import Place, attend

    study, cell = _chosen(options)
    host, _, _ = options.server.rpartition(":")
    _secured(options, host)
    folder = options.folder or Place(study, cell).client(options.building)
    attend(study, cell, options.building, folder, Link(options.server))


def _check(options: argparse.Namespace) -> None:
    from plfl.deploy.check import check

    check(options.clients, options.rounds, _say)


def _secured(options: argparse.Namespace, host: str) -> None:
    """Refuse to work without TLS anywhere but on this machine, and there unless it is wanted."""
    if not options.insecure:
        raise PlflError("TLS and node authentication are not there yet; see --insecure")
    try:
        is_here = host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        is_here = False
    if not is_here:
        raise PlflError(f"--insecure is for this machine alone, and {host} is not on it")


def _say(line: str) -> None:
    print(line, flush=True)

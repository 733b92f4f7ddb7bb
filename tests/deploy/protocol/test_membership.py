"""Who joins: impostors, strangers, and clients that are missing or come back from elsewhere."""

import pytest

from plfl.base.errors import PlflError
from tests.helpers.loopback import Deployment, by_split, study
from tests.helpers.refusals import naming

FEDERATION = {"rounds": 5, "local_steps": 3, "evaluate_every": 5}


@pytest.fixture
def deployed(tmp_path):
    of = study(grid={"method": ["fedopt"]}, federation=FEDERATION)
    return Deployment(of, by_split(of)["P2"], tmp_path)


def test_who_uses_the_key_of_another_is_left_out(deployed):
    deployed.loopback.proved["102"] = "103"
    with naming(PlflError, "3 of 4 clients", "102"):
        deployed.run()


def test_who_is_missing_is_named(deployed):
    deployed.loopback.absent = {"102", "104"}
    with naming(PlflError, "2 of 4 clients", "102", "104"):
        deployed.run()


def test_a_server_of_another_study_gets_nothing(tmp_path):
    of = study(federation=FEDERATION)
    other = study(federation=FEDERATION, client_opt={"adam": {"lr": 0.5}})
    deployed = Deployment(of, by_split(of)["P2"], tmp_path)
    stranger = Deployment(other, by_split(other)["P2"], tmp_path / "other")
    stranger.loopback.clients = deployed.loopback.clients
    with naming(PlflError, "0 of 4 clients"):
        stranger.run()


def test_an_address_that_was_left_is_never_asked_again(deployed):
    def move(summary):
        deployed.loopback.left = [1000]
        deployed.loopback.numbers["101"] = 2000

    asked = []
    exchange, nodes = deployed.loopback.exchange, deployed.loopback.nodes
    deployed.loopback.left = []
    deployed.loopback.nodes = lambda: nodes() | dict.fromkeys(deployed.loopback.left, "")

    def listen(messages, timeout, kind):
        asked.append(set(messages))
        return exchange(
            {n: m for n, m in messages.items() if n != 1000 or not moved()}, timeout, kind
        )

    def moved():
        return deployed.loopback.numbers["101"] == 2000

    deployed.loopback.exchange = listen
    deployed.run(move)
    assert {2000} in asked
    assert not any(1000 in some for some in asked[asked.index({2000}) :])
    assert all("101" in summary.took_part for summary in deployed.server.history)

"""What a server does about processes that are lost."""

import logging
import sys

import pytest

from plfl.deploy import flower, launch
from plfl.deploy.launch import AT_WORK, BEGUN, Crew
from plfl.deploy.processes import Processes
from plfl.errors import PlflError
from plfl.locks import hold


@pytest.fixture
def crew(tmp_path):
    with Processes(tmp_path / "logs") as processes:
        yield Crew(processes, flower.Link("127.0.0.1:1"), tmp_path, {}, [])


def test_a_server_loop_is_gone_when_its_lock_is(tmp_path):
    assert not launch._is_gone(tmp_path), "it has not begun"
    with hold(tmp_path / AT_WORK):
        (tmp_path / BEGUN).touch()
        assert not launch._is_gone(tmp_path)
    assert launch._is_gone(tmp_path)


def test_what_is_lost_is_told_and_counted(crew, caplog):
    caplog.set_level(logging.WARNING)
    process = crew.processes.start("superexec", [sys.executable, "-c", "raise SystemExit(3)"])
    process.wait()
    assert crew.lost("superexec")
    assert "superexec has ended with status 3: it is started again" in caplog.text
    assert "superexec" not in crew.processes.running
    assert crew.mends == 1


def test_what_lives_is_left_alone(crew):
    crew.processes.start("superexec", [sys.executable, "-c", "import time; time.sleep(60)"])
    assert not crew.lost("superexec")
    assert crew.mends == 0


def test_a_server_gives_up_in_the_end(crew):
    crew.processes.log("superlink").write_text("no room\n")
    for _ in range(launch.MENDS):
        crew.mend("superlink has ended")
    with pytest.raises(PlflError, match=r"after 6 restarts(.|\n)*no room"):
        crew.mend("superlink has ended")

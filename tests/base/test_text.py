"""Names from other people's files do nothing to terminals."""

import io
import unicodedata

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plfl.base import text
from plfl.base.errors import ConfigError, DataError

HOSTILE = "meter\x1b]0;title\x07\x1b[2J\u202e"


@given(st.text())
def test_what_is_shown_has_no_control_characters_but_line_ends(name: str) -> None:
    shown = text.escape_control_characters(name)
    controls = [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\t\n\r"]
    assert not controls
    assert text.escape_control_characters(shown) == shown


@pytest.mark.parametrize("error", [DataError(HOSTILE), ConfigError(HOSTILE, [HOSTILE])])
def test_messages_of_errors_are_safe(error: Exception) -> None:
    assert "\x1b" not in str(error) and "\\x1b]0;title\\x07" in str(error)


def test_what_the_command_prints_is_safe(invoke) -> None:
    assert "\x1b" not in invoke("cells", f"{HOSTILE}.yaml", status=2).err
    stream = io.StringIO()
    print(HOSTILE, file=text.EscapingStream(stream))
    assert stream.getvalue() == "meter\\x1b]0;title\\x07\\x1b[2J\\u202e\n"


def test_what_the_encoding_of_a_terminal_does_not_have_is_escaped() -> None:
    binary = io.BytesIO()
    stream = io.TextIOWrapper(binary, encoding="latin-1")
    print("λ in café", file=text.EscapingStream(stream), flush=True)
    assert binary.getvalue() == b"\\u03bb in caf\xe9\n"


def test_missing_values_of_a_table_are_dashes() -> None:
    table = pd.DataFrame({"rank": pd.array([1, None], "Int64"), "mase": [0.5, None]})
    assert text.print_table(table).split() == ["rank", "mase", "1", "0.5", "–", "–"]

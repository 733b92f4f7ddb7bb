"""Keys of a study in messages, in the words of whoever reads them."""

import pytest

from plfl.base.errors import DataError
from plfl.base.keys import Key, Wording, word_keys
from plfl.cli.first_day import word_for_study
from plfl.cli.init import word_as_option


def shout(key: Key, wording: Wording) -> str:
    return wording(key).upper()


def test_words_hold_inside_only_and_nest() -> None:
    key = Key("data.meters.unit", "kWh")
    assert f"set {key}" == "set data.meters.unit: kWh"
    with word_keys(shout):
        assert f"set {key}" == "set DATA.METERS.UNIT: KWH"
        with pytest.raises(DataError, match="--unit kWh"), word_keys(word_as_option):
            raise DataError(f"set {key}")
        assert str(Key("data.meters.unit")) == "DATA.METERS.UNIT"
    assert str(Key("data.meters.unit")) == "data.meters.unit"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (Key("data.meters.max_gap"), "--max-gap"),
        (Key("data.meters.columns.load"), "--columns load=…"),
        (Key("data.meters.missing.0"), "--missing"),
        (Key("data.meters.cumulative", "true"), "--cumulative"),
        (Key("data.meters.cumulative", "false"), "--no-cumulative"),
        (Key("data.meters.missing", "[-9999, '-1e3', a b]"), "--missing -9999 --missing=-1e3"),
        (Key("data.meters.columns", "{load: kWh (net)}"), "--columns 'load=kWh (net)'"),
        (Key("data.meters.date_format", "'%d.%m.%Y'"), "--date-format '%d.%m.%Y'"),
        (Key("data.meters.exports"), "data.meters.exports"),  # no option
        (Key("windows.split", "[1, 0, 1]"), "windows.split: [1, 0, 1]"),
    ],
)
def test_the_command_line_names_options(key: Key, words: str) -> None:
    with word_keys(word_as_option):
        assert str(key).startswith(words)


def test_new_files_of_a_study_have_options_of_their_own() -> None:
    with word_keys(word_for_study):
        assert str(Key("data.meters.timezone", "Etc/GMT+5")) == "--read-timezone Etc/GMT+5"
        assert str(Key("data.meters.unit", "Wh")) == "--read-as Wh"

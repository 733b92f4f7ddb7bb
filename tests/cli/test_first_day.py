"""`plfl forecast` and `plfl backtest` of raw exports without a study."""

from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import yaml

PARIS = ("--kind", "homes", "--timezone", "Europe/Paris")


def export(name: str, days: float = 10, minutes: int = 60, ends: str = "2024-03-20") -> Path:
    """A file of one meter with local times without an offset."""
    stamps = pd.date_range(end=ends, periods=int(days * 1440 / minutes), freq=f"{minutes}min")
    load = np.random.default_rng(len(name)).gamma(4.0, 0.1, len(stamps)) * minutes / 60
    path = Path("exports", f"{name}.csv")
    path.parent.mkdir(exist_ok=True)
    table = pd.DataFrame({"time": stamps.strftime("%Y-%m-%d %H:%M"), "kWh": load.round(4)})
    table.to_csv(path, index=False)
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table_of(text: str) -> pd.DataFrame:
    Path("printed.csv").write_text(text)
    return pd.read_csv("printed.csv")


def test_one_command_forecasts_all_meters(invoke: Callable) -> None:
    export("attic"), export("basement", days=40)
    printed = invoke("forecast", "exports", *PARIS)
    table = table_of(printed.out)
    assert table.groupby("client").size().to_dict() == {"attic": 24, "basement": 24}
    assert table["timestamp"][0] == "2024-03-20 01:00:00+01:00"
    assert table["unit"].unique().tolist() == ["kWh per 60 min"]
    (line,) = printed.err.splitlines()
    assert "model of public homes (Low Carbon London; Ausgrid: Sydney)" in line
    assert "for 1 of 2 meters" in line
    assert "on the last two weeks of 1 of 2 meters wrong by" in line
    assert "yesterday's load by" in line and line.endswith("% of the load")  # of one meter


def test_a_forecast_across_the_change_of_clocks(invoke: Callable) -> None:
    path = export("home", ends="2024-03-30 23:00")
    stamps = table_of(invoke("forecast", path, *PARIS, "--read-stamp", "end").out)["timestamp"]
    assert stamps[2] == "2024-03-31 03:00:00+02:00"  # 02:00 does not exist
    assert len(stamps) == 24


def test_kilowatts_are_kilowatt_hours_over_the_hours(invoke: Callable) -> None:
    path = export("home", minutes=30)
    kwh, kw = (
        table_of(invoke("forecast", path, *PARIS, "--unit", unit).out)["forecast"]
        for unit in ("kWh", "kW")
    )
    assert len(kwh) == 48
    np.testing.assert_allclose(kw, 2 * kwh, rtol=1e-4)


def test_readings_of_power(invoke: Callable) -> None:
    path = export("home")
    plain = table_of(invoke("forecast", path, *PARIS).out)["forecast"]
    table = pd.read_csv(path)
    table.rename(columns={"kWh": "load"}).assign(load=1000 * table["kWh"]).to_csv(path, index=False)
    watts = table_of(invoke("forecast", path, *PARIS, "--read-as", "W").out)["forecast"]
    np.testing.assert_allclose(watts, plain, rtol=1e-4)


@pytest.mark.parametrize("command", ["forecast", "backtest"])
def test_a_column_per_meter(command: str, invoke: Callable) -> None:
    load = pd.read_csv(export("home", days=30))
    loads = {"k01 kWh": load["kWh"], "k02 kWh": load["kWh"].to_numpy()[::-1]}
    wide = pd.DataFrame({"Zeit": load["time"], **loads})
    Path("wide").mkdir()
    wide.to_csv("wide/homes.csv", index=False, sep=";", decimal=",")
    table = table_of(invoke(command, "wide", *PARIS).out)
    assert table["client"].unique().tolist() == ["k01 kWh", "k02 kWh"]


def test_a_workbook_in_and_out(invoke: Callable) -> None:
    table = pd.read_csv(export("home"), parse_dates=["time"])
    table.to_excel("book.xlsx", index=False)
    invoke("forecast", "book.xlsx", *PARIS, "--out", "next.xlsx")
    assert len(pd.read_excel("next.xlsx")) == 24


def test_a_workbook_without_its_package_is_refused_before_anything_is_read(
    invoke: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    export("home")
    monkeypatch.setattr("plfl.base.extras.find_spec", lambda name: None)
    monkeypatch.setattr("plfl.cli.first_day.read", lambda *_: pytest.fail("read"))
    said = invoke("forecast", "exports", *PARIS, "--out", "next.xlsx", status=2).err
    assert "--out next.xlsx needs packages that are not installed (openpyxl)" in said
    assert said.endswith("run pip install 'plfl[xlsx]'\n")


def test_half_hours_beside_hours_become_hours(invoke: Callable) -> None:
    export("hours"), export("halves", minutes=30)
    printed = invoke("forecast", "exports", *PARIS)
    table = table_of(printed.out)
    assert table.groupby("client").size().to_dict() == {"halves": 24, "hours": 24}
    assert "halves: its readings of 30 minutes are added up to 60" in printed.err
    assert "hours: its" not in printed.err


def test_a_meter_that_ended_long_before_the_others_is_named(invoke: Callable) -> None:
    export("now"), export("week", ends="2024-03-13"), export("gone", ends="2022-02-03")
    printed = invoke("forecast", "exports", *PARIS)
    assert table_of(printed.out).groupby("client").size().to_dict() == dict.fromkeys(
        ["gone", "now", "week"], 24
    )
    assert "gone: its readings end 776 days before the latest of all meters" in printed.err
    assert "week: its" not in printed.err


def test_loads_that_no_home_has_are_named(invoke: Callable) -> None:
    path = export("home")
    table = pd.read_csv(path)
    table.assign(kWh=1000 * table["kWh"]).to_csv(path, index=False)
    printed = invoke("forecast", path, *PARIS)
    assert "odd: home: the mean load is above 100 kW" in printed.err
    assert "check --read-as" in printed.err
    buildings = invoke("forecast", path, "--kind", "buildings", "--timezone", "Europe/Paris")
    assert "odd" not in buildings.err


def test_last_weeks_load_is_compared_on_the_same_meters(invoke: Callable) -> None:
    for name in ("attic", "basement", "cellar"):
        export(name, days=40)
    alone = invoke("forecast", "exports", *PARIS).err.splitlines()[-1]
    export("young", days=3)
    line = invoke("forecast", "exports", *PARIS).err.splitlines()[-1]
    assert "on the last two weeks of 3 of 4 meters wrong by" in line
    assert line.endswith(" % of the load of a meter on average")
    assert alone.partition("wrong by")[2] == line.partition("wrong by")[2]
    for name in ("dormer", "eaves", "floor"):
        export(name, days=3)
    line = invoke("forecast", "exports", *PARIS).err.splitlines()[-1]
    assert "on their last 2 to 14 days wrong by" in line and "last week's" not in line


def test_a_meter_without_load_in_its_last_weeks_hides_no_error_of_others(invoke: Callable) -> None:
    path = export("away", days=40)
    table = pd.read_csv(path)
    table.loc[len(table) - 20 * 24 :, "kWh"] = 0.0
    table.to_csv(path, index=False)
    export("dormer", days=3), export("floor", days=3)
    lines = invoke("forecast", "exports", *PARIS).err.splitlines()
    assert "on the last 2 days of 2 of 3 meters wrong by" in lines[-1]
    assert lines[0].startswith("odd: away: the load is all but constant, at least in its last")
    assert "errors in proportion to it are huge in every mean: those in percent" in lines[0]


@pytest.mark.parametrize(
    ("zone", "ends", "first"),
    [
        ("Australia/Sydney", "2024-01-20", "2024-01-20 01:00:00+11:00"),
        ("America/Los_Angeles", "2024-07-20", "2024-07-20 01:00:00-07:00"),
    ],
)
def test_another_hemisphere_and_zone(zone: str, ends: str, first: str, invoke: Callable) -> None:
    path = export("home", ends=ends)
    table = table_of(invoke("forecast", path, "--kind", "homes", "--timezone", zone).out)
    assert table["timestamp"][0] == first
    loads = pd.read_csv(path)["kWh"]
    assert table["forecast"].between(loads.min(), loads.max()).all()


def test_stamps_with_offsets_need_a_place_for_the_days(invoke: Callable) -> None:
    path = export("home")
    table = pd.read_csv(path)
    table.assign(time=table["time"] + "+10:00").to_csv(path, index=False)
    refusal = invoke("forecast", path, "--kind", "homes", status=2).err
    assert "home: the stamps have a UTC offset, which is not that of UTC" in refusal
    assert "set the place, as in --timezone Australia/Sydney" in refusal
    brisbane = invoke("forecast", path, "--kind", "homes", "--timezone", "Etc/GMT-10")
    assert table_of(brisbane.out)["timestamp"][0] == "2024-03-20 01:00:00+10:00"
    assert "UTC" not in brisbane.err
    paris = invoke("forecast", path, *PARIS).err
    assert "odd: home: the stamps have a UTC offset, which is not that of Europe/Paris" in paris
    assert "is --timezone right?" in paris


def test_stamps_of_london_that_begin_in_winter_are_not_in_utc(invoke: Callable) -> None:
    path = export("home", ends="2024-04-05")
    table = pd.read_csv(path)
    local_ends = pd.to_datetime(table["time"]).dt.tz_localize("UTC").dt.tz_convert("Europe/London")
    table.assign(time=local_ends.map(str)).to_csv(path, index=False)
    refusal = invoke("forecast", path, "--kind", "homes", status=2).err
    assert "home: the stamps have a UTC offset, which is not that of UTC" in refusal
    london = invoke("forecast", path, "--kind", "homes", "--timezone", "Europe/London").err
    assert "UTC" not in london


def test_stamps_in_utc_are_taken_for_the_clock_of_the_days_and_a_line_says_so(
    invoke: Callable,
) -> None:
    path = export("home")
    table = pd.read_csv(path)
    table.assign(time=table["time"] + "Z").to_csv(path, index=False)
    line = "home: the stamps are in UTC, and the meters' days are taken to go by it"
    assert line in invoke("forecast", path, "--kind", "homes").err
    assert line in invoke("init", "meters", path).out
    assert line not in invoke("init", "meters", path, "--timezone", "UTC", "--name", "utc").out
    forecast = ("forecast", path, "--kind", "homes", "--timezone")
    assert "UTC" not in invoke(*forecast, "UTC").err
    printed = invoke(*forecast, "Europe/Paris").err
    assert line not in printed and "whole days of UTC, not of Europe/Paris" in printed


def test_a_hole_of_a_week_is_no_load(invoke: Callable) -> None:
    path = export("home", days=40)
    table = pd.read_csv(path)
    table.drop(range(600, 768)).to_csv(path, index=False)
    found = table_of(invoke("forecast", path, *PARIS).out)["forecast"]
    assert len(found) == 24 and found.between(0.1, 1.0).all()


def test_what_cannot_be_forecast_has_a_line_and_the_others_go_on(invoke: Callable) -> None:
    export("good"), export("young", days=0.5)
    table = pd.read_csv(export("zeros"))
    table.assign(kWh=0.0).to_csv("exports/zeros.csv", index=False)
    printed = invoke("forecast", "exports", *PARIS, status=3)
    assert table_of(printed.out)["client"].unique().tolist() == ["good"]
    assert "plfl: young: 12 hours of its last four weeks are known" in printed.err
    assert "zeros: all values are 0 kWh" in printed.err


def test_a_problem_of_all_files_is_told_once(invoke: Callable) -> None:
    for number in range(4):
        export(f"home{number}", ends="2024-04-05")
    printed = invoke("forecast", "exports", *PARIS, status=2)
    assert printed.err.count("2024-03-31 02:00:00 does not exist in Europe/Paris") == 1
    assert "4 meters (home0, home1, home2 …): line" in printed.err


def test_every_meter_of_an_archive_has_a_name_of_its_own(invoke: Callable) -> None:
    cellar, *archived = export("cellar"), export("attic"), export("barn")
    with ZipFile("both.zip", "w") as archive:
        for path in archived:
            archive.write(path, path.name)
    table = table_of(invoke("forecast", "both.zip", cellar, *PARIS).out)
    assert sorted(table["client"].unique()) == ["attic", "barn", "cellar"]


def test_a_meter_without_a_whole_interval_of_the_others_is_named(invoke: Callable) -> None:
    export("attic"), export("young", days=3 / 96, minutes=15)
    printed = invoke("forecast", "exports", *PARIS, status=3)
    assert table_of(printed.out)["client"].unique().tolist() == ["attic"]
    assert "young.csv: fewer readings than one interval of 60 minutes" in printed.err


@pytest.mark.parametrize(
    "option",
    [
        "--kind homes",
        "--ahead hour",
        "--origins 2",
        "--save-format a.toml",
        "--name b",
        "--unit kW",
    ],
)
def test_options_of_exports_need_exports(option: str, invoke: Callable) -> None:
    for study in ([], ["demo"], ["meters"]):
        said = invoke("init", *study, *option.split(), status=2).err
        assert f"{option.split(maxsplit=1)[0]}: needs exports" in said


def test_no_study_is_written_beside_a_format_that_exists(invoke: Callable) -> None:
    Path("mine.toml").touch()
    arguments = ["init", "meters", export("home", days=40), "--timezone", "Europe/Paris"]
    assert (
        "mine.toml: exists already"
        in invoke(*arguments, "--save-format", "mine.toml", status=2).err
    )
    assert not Path("meters.yaml").exists()


def test_a_zone_of_its_own_may_be_that_of_all_by_default(invoke: Callable) -> None:
    arguments = ["forecast", export("home"), "--kind", "homes", "--timezones"]
    invoke(*arguments, "home=UTC")
    assert "the stamps have no UTC offset" in invoke(*arguments, "barn=UTC", status=2).err


def test_mistakes(invoke: Callable) -> None:
    path = export("home")
    mistakes = {
        (path,): "say what they are: --kind homes or --kind buildings",
        (path, "--kind", "homes"): "the stamps have no UTC offset (1 such file); set the place, "
        "as in --timezone America/New_York",
        (path, *PARIS, "--new"): "--new: needs a study; name its results folder before the files",
        (path, *PARIS, "--client", "barn"): "barn: there is no such meter; name one of 'home'",
        (path, *PARIS, "--out", "next.doc"): "name a file that ends in one of .csv",
        ("nowhere", *PARIS): "nowhere",
        (): "name a results folder and files of readings, or only files",
    }  # fmt: skip
    for arguments, message in mistakes.items():
        assert message in invoke("forecast", *arguments, status=2).err


def test_the_card(invoke: Callable) -> None:
    assert "# " in invoke("forecast", "--card", "buildings").out


def test_a_backtest_scores_the_last_two_weeks(invoke: Callable) -> None:
    export("attic", days=30), export("young", days=0.5), export("day", days=1.2)
    printed = invoke("backtest", "exports", *PARIS, status=3)
    table = table_of(printed.out).set_index("client")
    assert table.index.tolist() == ["attic"]
    attic = table.loc["attic"]
    assert attic["forecasts"] == 14 * 24
    assert attic["last"] == "2024-03-20 00:00:00+01:00"
    assert 0 < attic["mae"] < attic["naive_day"]
    assert "day: has too few readings for forecasts of earlier days" in printed.err


def test_a_sum_is_that_of_the_meters(invoke: Callable) -> None:
    export("attic", days=40), export("basement", days=40)
    forecasts = table_of(invoke("forecast", "exports", *PARIS, "--sum").out)
    by_client = forecasts.pivot(index="timestamp", columns="client", values="forecast")
    assert len(by_client) == 24
    np.testing.assert_allclose(
        by_client["sum"], by_client["attic"] + by_client["basement"], rtol=1e-4
    )
    printed = invoke("backtest", "exports", *PARIS, "--sum")
    assert "2 meters: on average wrong by" in printed.err
    errors = table_of(printed.out).set_index("client")
    assert errors.loc["sum", "mae"] <= errors.loc[["attic", "basement"], "mae"].sum()
    assert errors["peak_percent"].between(0, 100).all()
    (alone,) = table_of(invoke("backtest", "exports", *PARIS, "--client", "attic").out).to_dict(
        "records"
    )
    assert alone["client"] == "attic" and alone["mae"] == errors.loc["attic", "mae"]
    # A sum of some of the meters would be a wrong number.
    export("new", days=0.5)
    printed = invoke("forecast", "exports", *PARIS, "--sum", status=3)
    assert "sum" not in table_of(printed.out)["client"].tolist()
    assert "sum: left out" in printed.err


class TestStudy:
    """`plfl init meters` writes the public model into the study."""

    def further(self, invoke: Callable, *options: str) -> tuple[list[dict], str]:
        export("attic", days=40), export("basement", days=40)
        printed = invoke("init", "meters", "exports", "--timezone", "Europe/Paris", *options).out
        study = yaml.safe_load(Path("meters.yaml").read_text())
        return study["baselines"]["further"], printed

    def test_with_the_kind_it_is_a_rival_a_start_and_a_member(self, invoke: Callable) -> None:
        further, _ = self.further(invoke, "--kind", "homes")
        own = ["naive_day", "ridge", "lightgbm_bagged"]
        received = ["lightgbm_federated", "public"]
        assert further[2:] == [
            {"name": "public", "kind": "homes"},
            {"name": "lightgbm_on_public", "kind": "homes", "turns": 2},
            {"name": "combined", "of": own},
            {"name": "combined_public", "of": [*own, "public"]},
            {"name": "mean_received", "of": received},
            {"name": "combined_received", "of": [*own, *received]},
        ]

    @pytest.mark.parametrize(("others", "has_masks"), [(3, False), (4, True)])
    def test_from_six_meters_on_trees_have_masks(
        self, invoke: Callable, others: int, has_masks: bool
    ) -> None:
        """Each half of the meters then has three, the fewest that masks hide."""
        for number in range(others):
            export(f"home{number}", days=40)
        further, _ = self.further(invoke, "--kind", "homes")
        trees = [entry for entry in further if entry["name"].startswith("lightgbm_on_public")]
        trees += [entry for entry in further if entry["name"] == "lightgbm_federated"]
        assert len(trees) == 2
        assert [entry.get("secure", False) for entry in trees] == [has_masks] * 2

    def test_without_the_kind_a_line_says_so(self, invoke: Callable) -> None:
        further, printed = self.further(invoke)
        assert {"public", "lightgbm_on_public"}.isdisjoint(entry["name"] for entry in further)
        assert "without --kind homes or --kind buildings, no model of public meters" in printed

    def test_meters_that_trained_it_make_it_count_for_nothing(
        self, invoke: Callable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("plfl.first_study.meters.is_meter_seen", lambda *_: True)
        further, printed = self.further(invoke, "--kind", "homes")
        assert {"name": "public", "kind": "homes", "trained_on_this_dataset": True} in further
        assert "lightgbm_on_public" not in [entry["name"] for entry in further]
        assert {"name": "combined_received", "of": [
            "naive_day", "ridge", "lightgbm_bagged", "lightgbm_federated"
        ]} in further  # fmt: skip
        assert "the model of public homes was trained on these meters: it does not count" in printed

    def test_holidays_of_a_place_are_a_covariate(self, invoke: Callable) -> None:
        self.further(invoke, "--holidays", "DE-BY")
        covariates = yaml.safe_load(Path("meters.yaml").read_text())["windows"]["covariates"]
        assert covariates[-1] == {"name": "holidays", "country": "DE", "subdivision": "BY"}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("exports", "--holidays", "DE-CA"), "--holidays DE-CA: subdivision: DE has no 'CA'"),
            (("exports", "--holidays", "Germany"), "--holidays Germany: country:"),
            (("--holidays", "DE"), "--holidays: needs exports"),
        ],
    )
    def test_holidays_of_unknown_places_are_refused(
        self, invoke: Callable, arguments: tuple[str, ...], message: str
    ) -> None:
        export("attic", days=40)
        printed = invoke("init", "meters", *arguments, "--timezone", "Europe/Paris", status=2)
        assert message in printed.err
        assert not Path("meters.yaml").exists()

    def test_cells_says_what_its_own_weeks_of_test_can_decide(self, invoke: Callable) -> None:
        for name in ("attic", "basement", "cellar", "dormer"):
            export(name, days=120)
        invoke("init", "meters", "exports", "--timezone", "Europe/Paris")
        found = invoke("cells", "meters.yaml").out
        assert "% with 4, 5 (this study), 8 or 16 weeks of test" in found  # 0.3 of 120 days
        assert "the number of meters limits it" in found

    def test_a_study_begins_with_what_its_forecasts_are_of(
        self, invoke: Callable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.further(invoke)
        path = Path("meters.yaml")
        path.write_text(path.read_text().replace("interval: 60", "interval: 30"))
        monkeypatch.setattr("os.execve", lambda *_: None)  # Snakemake
        begun = invoke("study", path).err
        assert "a forecast reads the last 12 h and is of the next 12 h" in begun
        assert "because windows count intervals of 30 min" in begun

"""Types of the packages below, for annotations alone: the commands start without pandas and torch,
which these packages import."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plfl.data.meters.exports import Progress as Progress
    from plfl.deploy.protocol.rounds import RoundPolicy as RoundPolicy
    from plfl.deploy.protocol.rounds import RoundSummary as RoundSummary
    from plfl.forecast.choice import Forecasters as Forecasters
    from plfl.forecast.first_day import RawMeter as RawMeter
    from plfl.forecast.model import ForecastModel as ForecastModel
    from plfl.outside.frozen import BenchmarkTask as BenchmarkTask
    from plfl.public.inputs import LeadTime as LeadTime
    from plfl.public.models import Kind as Kind
    from plfl.results.records import CellResult as CellResult
    from plfl.results.variants import Variant as Variant
else:
    Progress = RoundPolicy = RoundSummary = Forecasters = RawMeter = ForecastModel = Any
    BenchmarkTask = LeadTime = Kind = Variant = CellResult = Any

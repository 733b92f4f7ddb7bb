"""Times in minutes, the unit of intervals, reaches and leads in plfl."""

MINUTES_PER_DAY = 24 * 60
MINUTES_PER_WEEK = 7 * MINUTES_PER_DAY
MINUTES_PER_YEAR = 365 * MINUTES_PER_DAY

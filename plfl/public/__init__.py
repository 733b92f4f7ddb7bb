"""Models of public meters that come with plfl, for forecasts on a meter's first day."""

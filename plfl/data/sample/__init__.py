"""Sample data: generated buildings and weather in ComStock's layout."""

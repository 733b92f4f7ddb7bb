"""A study for those who train elsewhere: its clients as arrays, and scores of their predictions."""

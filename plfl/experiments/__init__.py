"""A study's cells become records."""

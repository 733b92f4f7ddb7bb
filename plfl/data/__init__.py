"""From meters to supervised windows."""

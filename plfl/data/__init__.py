"""Data: from the files of each source to the supervised windows of the clients."""

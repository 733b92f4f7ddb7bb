"""Processes, sockets, keys and private files of one machine."""

"""The base of all other packages: errors, files, text, Ctrl-C and whole numbers."""

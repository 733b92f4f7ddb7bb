"""What everything else stands on: errors, files, text, Ctrl-C and whole numbers."""

"""What the author of a plug-in has to read: one abstract class for each kind, in one file."""

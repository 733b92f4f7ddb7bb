"""What `plfl init meters` writes: a first study of raw exports, or their format."""

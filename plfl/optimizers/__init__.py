"""Local optimisers (`client`) and server optimisers (`server`), one file each."""

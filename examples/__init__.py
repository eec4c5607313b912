"""Examples that run: each folder is one team with everything that it acts on."""

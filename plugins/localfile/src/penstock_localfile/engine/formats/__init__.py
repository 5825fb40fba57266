"""How the bytes of files become rows."""

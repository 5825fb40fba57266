"""The file engine: what every connector for files shares, whatever system holds them."""

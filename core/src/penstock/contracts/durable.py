"""What outlives a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path | bytes) -> None:
    """Make the names in a folder durable: of what was made, linked or renamed in it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

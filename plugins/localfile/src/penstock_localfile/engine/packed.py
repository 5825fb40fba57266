"""How written files are compressed."""

from __future__ import annotations

from typing import Literal

Packed = Literal["none", "gzip", "zstd", "bzip2"]
ENDINGS = {"none": "", "gzip": ".gz", "zstd": ".zst", "bzip2": ".bz2"}

"""A connector whose module imports Spark, and starts a thread."""

import threading

import pyspark  # noqa: F401

from penstock.conformance.reference.folder_source import FolderSource
from twins.making import broken

threading.Thread(target=threading.Event().wait, daemon=True).start()


@broken("SHP-04")
class ImportsSpark(FolderSource):
    pass

"""The built-in steps by the name users write."""

from __future__ import annotations

from penstock.pipeline.steps.batches import MapBatches
from penstock.pipeline.steps.checks import Validate
from penstock.pipeline.steps.coding import Decode, Encode
from penstock.pipeline.steps.columns import Cast, EventTime, Explode, KeyBy, Rename, Sample
from penstock.pipeline.steps.concurrent import ConcurrentMap
from penstock.pipeline.steps.frames import Apply, Deduplicate, Select, Watermark, Where
from penstock.pipeline.steps.perrecord import Filter, FlatMap, Map, Peek
from penstock.pipeline.steps.routes import Branch, Merge, Mirror
from penstock.pipeline.steps.step import Step

STEPS: dict[str, type[Step]] = {
    "apply": Apply,
    "branch": Branch,
    "cast": Cast,
    "concurrent_map": ConcurrentMap,
    "decode": Decode,
    "deduplicate": Deduplicate,
    "encode": Encode,
    "event_time": EventTime,
    "explode": Explode,
    "filter": Filter,
    "flat_map": FlatMap,
    "key_by": KeyBy,
    "map": Map,
    "map_batches": MapBatches,
    "merge": Merge,
    "mirror": Mirror,
    "peek": Peek,
    "rename": Rename,
    "sample": Sample,
    "select": Select,
    "validate": Validate,
    "watermark": Watermark,
    "where": Where,
}

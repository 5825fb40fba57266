"""A sink with columns of its own, that does not keep their types."""

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.contracts import Planner, Promise, Receipt, ReplayableSource, Sink, Writer, option
from penstock.contracts import connector as configured
from twins.making import broken


@configured
class Tables(ReplayableSource):
    """A folder of Parquet files."""

    path: str = option(doc="The folder.")

    def schema(self):
        return pq.read_schema(next(Path(self.path).glob("*.parquet")))

    def planner(self, ctx):
        return TablesPlanner(self.path)

    def read(self, part):
        yield from pq.read_table(part).to_batches()


class TablesPlanner(Planner):
    def __init__(self, path):
        self._files = sorted(str(file) for file in Path(path).glob("*.parquet"))

    def initial(self):
        return {"files": 0}

    def latest(self, after, limit, until=None):
        return {"files": len(self._files)}

    def plan(self, start, end):
        return self._files[start["files"] : end["files"]]


class FloatWriter(Writer):
    """Keeps decimals as floats, as many a client library does."""

    def __init__(self, path):
        self._path = Path(path) / f"{uuid.uuid4().hex}.parquet"
        self._rows = []

    def write(self, rows):
        kinds = [pa.float64() if pa.types.is_decimal(f.type) else f.type for f in rows.schema]
        named = zip(rows.schema.names, kinds, strict=True)
        self._rows.append(rows.cast(pa.schema(list(named))))

    def close(self):
        table = pa.Table.from_batches(self._rows)
        pq.write_table(table, self._path)
        return Receipt(rows=table.num_rows)

    def abort(self):
        self._rows = []


@broken(
    "SNK-19",
    side="sink",
    source=Tables,
    capabilities={"typed"},
    case={"typed": {}},
)
@configured
class DecimalsAreFloats(Sink):
    """A folder of Parquet files."""

    path: str = option(doc="The folder.")

    def promise(self):
        return Promise(replay="append", atomic="task")

    def open(self, batch, partition, attempt, schema):
        return FloatWriter(self.path)

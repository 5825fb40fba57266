"""What a connector raises reaches the user with who, with which options, and where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.contracts import errors
from penstock.contracts.envelope import column
from penstock.contracts.errors import PenstockError, ReadError, RunError, UnknownNameError
from penstock.contracts.options import Configured, shown, specs
from penstock.contracts.secret import Secret
from penstock.registry import entry


def speaker(name: str) -> str:
    """How errors name a connector: with the distribution it comes from."""
    try:
        return entry("connectors", name).who
    except UnknownNameError:
        return name


@contextmanager
def told(
    who: str,
    connector: Configured,
    doing: str,
    kind: type[RunError] = ReadError,
    where: Callable[[], str] | None = None,
) -> Iterator[None]:
    """Turn what is raised inside into one error with connector, options and place.

    A PenstockError keeps its class; anything else becomes `kind`. Secrets never print: an
    exception's text that contains one shows `***` instead. `where` is asked when it is needed.
    """
    try:
        yield
    except PenstockError as error:
        raise _placed(error.by(who), connector, where) from error
    except GeneratorExit:
        raise
    except Exception as error:
        text = _censored(f"{type(error).__name__}: {_brief(error)}", connector)
        raise _placed(kind(f"{doing} failed: {text}", who=who), connector, where) from None


def _brief(error: Exception) -> str:
    """What it says; of Spark's own errors one line, since a plan or a stack follows."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if isinstance(error, Py4JJavaError) and len(lines) > 1:
        return lines[1].lstrip(": ")
    return lines[0] if lines and isinstance(error, PySparkException) else str(error)


def _placed(
    error: PenstockError, connector: Configured, where: Callable[[], str] | None
) -> PenstockError:
    options = ", ".join(f"{k}={v}" for k, v in shown(connector).items())
    facts = [f"options {options}" if options else "", "" if where is None else where()]
    place = "; ".join(fact for fact in facts if fact)
    if place and place not in (error.got or ""):
        error.got = f"{error.got}; {place}" if error.got else place
    error.message = _censored(error.message, connector)
    error.got = _censored(error.got, connector) if error.got else None
    return error


def _censored(text: str, connector: Configured) -> str:
    for secret in secrets_of(connector):
        text = text.replace(secret, "***")
    return text


def secrets_of(connector: Configured) -> list[str]:
    """The literal values a text about this connector must not hold."""
    found: list[str] = []
    for spec in specs(type(connector)):
        value = spec.of(connector)
        for each in value.values() if isinstance(value, dict) else [value]:
            if isinstance(each, Secret):
                try:
                    found.append(each.reveal())
                except PenstockError:
                    continue
    return [text for text in found if text]


def last_stamp(rows: pa.RecordBatch | None) -> str | None:
    """Where a reader stood: the stamp of the last row it gave, in words."""
    if rows is None or rows.num_rows == 0:
        return None
    stamp = column(rows, "stamp")
    if stamp is None:
        return None
    last = stamp[rows.num_rows - 1].as_py()
    return f"after {last['origin']} part {last['part']} position {last['position']}"


_RAISED = re.compile(
    r"^(?:[\w.]+: )?penstock\w*\.[\w.]*?(\w+): (.*)$((?:\n  (?:expected|got|fix): .*)*)",
    re.MULTILINE,
)


_EXPRESSION = re.compile(
    r"\[(?:CAST_INVALID_INPUT|CAST_OVERFLOW|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO|ARITHMETIC_OVERFLOW"
    r"|BINARY_ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|INVALID_ARRAY_INDEX"
    r"|CANNOT_PARSE_TIMESTAMP)[\w.]*\] .*"
)


def from_spark(error: BaseException) -> PenstockError:
    """What a connector or function said on a worker, out of the stack Spark wraps around it."""
    text = str(error)
    raised = list(_RAISED.finditer(text))
    expression = None if raised else _EXPRESSION.search(text)
    if expression is not None:
        return RunError(
            f"a Spark expression failed on a record: {expression.group()}",
            fix="Spark cannot set one record aside: let the expression give null instead "
            "(try_cast, try_divide, try_element_at), or write it as a function (map, filter), "
            "whose failures follow on_error",
        )
    if not raised:
        lines = [line for line in text.splitlines() if line.strip()]
        return RunError(lines[0] if lines else type(error).__name__, got=_last_python_line(lines))
    found = raised[-1]
    kind = getattr(errors, found.group(1), RunError)
    parts = dict(re.findall(r"^  (expected|got|fix): (.*)$", found.group(3), re.MULTILINE))
    made: PenstockError = kind(found.group(2), **parts)
    return made


def _last_python_line(lines: list[str]) -> str | None:
    raised = [line for line in lines if re.match(r"^[A-Za-z_][\w.]*(Error|Exception)\b", line)]
    return raised[-1] if raised else None

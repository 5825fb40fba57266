"""Functions with an import path, as a user's module would have them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from attrs import frozen


@frozen
class Order:
    id: int
    total: float


@frozen
class Priced:
    id: int
    total: float
    tax: float


@dataclass
class Line:
    name: str
    count: int = 1


@dataclass
class Stamped:
    id: int
    event_time: datetime


def enrich(record: dict[str, Any]) -> dict[str, Any]:
    return record


def is_big(record: dict[str, Any]) -> bool:
    return bool(record["total"] > 100)


def priced(order: Order) -> Priced:
    return Priced(order.id, order.total, order.total * 0.25)


def halves(order: Order) -> list[Order]:
    return [Order(order.id, order.total / 2), Order(order.id, order.total / 2)]


def keep(batch: Any) -> Any:
    return batch


def no_arguments() -> None:
    return None


def write_frame(frame: Any, batch: int) -> None:
    return None


NOT_A_FUNCTION = 7

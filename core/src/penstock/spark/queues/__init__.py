"""Queues as Spark sources: acknowledged when durable, replayed as they were, to the last batch."""

from penstock.spark.queues.options import QueueOptions
from penstock.spark.queues.readers import batch_reader, stream_reader

__all__ = ["QueueOptions", "batch_reader", "stream_reader"]

"""What every queue takes beside its own options; declared with the contracts, without Spark."""

from penstock.contracts.delivery import MIB, QueueOptions

__all__ = ["MIB", "QueueOptions"]

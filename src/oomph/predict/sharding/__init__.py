"""Parameters, gradients and their copies on their way between ranks: one file per strategy."""

from oomph.predict.sharding.choose import strategy_for

__all__ = ["strategy_for"]

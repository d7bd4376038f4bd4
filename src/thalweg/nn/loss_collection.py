"""The collections of losses of a graph: those of `tf.losses`, the regularization losses, and their sum."""

from __future__ import annotations

from typing import Any

from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import add_to_collection, get_collection
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import constant
from thalweg.ops.math.arithmetic import add_n


@export("losses.add_loss")
def add_loss(loss: Tensor, loss_collection: Any = GraphKeys.LOSSES) -> None:
    """Adds a loss to a collection; None for no collection."""
    if loss_collection:
        add_to_collection(loss_collection, loss)


@export("losses.get_losses")
def get_losses(scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES) -> list[Any]:
    """Returns the losses of a collection whose names match `scope`."""
    return get_collection(loss_collection, scope)


@export("losses.get_regularization_losses")
def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """Returns the regularization losses whose names match `scope`."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


@export("losses.get_regularization_loss")
def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """Returns the sum of the regularization losses; 0 if there are none."""
    losses = get_regularization_losses(scope)
    return add_n(losses, name=name) if losses else constant(0.0)


@export("losses.get_total_loss")
def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Returns the sum of all losses of the graph.

    Args:
        add_regularization_losses: Whether the regularization losses are part of it.
        name: The node's name.
        scope: Only losses whose names match it.

    Returns:
        A scalar.

    Raises:
        ValueError: If there is no loss.
    """
    losses = get_losses(scope)
    if add_regularization_losses:
        losses = losses + get_regularization_losses(scope)
    return add_n(losses, name=name)

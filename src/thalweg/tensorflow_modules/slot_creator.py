"""`tensorflow.python.training.slot_creator`: variables that optimizers keep beside others."""

from __future__ import annotations

from thalweg.train.optimizers.slots import create_slot as create_slot
from thalweg.train.optimizers.slots import create_slot_with_initializer as create_slot_with_initializer
from thalweg.train.optimizers.slots import create_zeros_slot as create_zeros_slot

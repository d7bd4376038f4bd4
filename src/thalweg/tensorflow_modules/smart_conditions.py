"""`tensorflow.python.framework.smart_cond`."""

from __future__ import annotations

from thalweg.tensorflow_modules.layer_utils import smart_cond as smart_cond
from thalweg.tensorflow_modules.layer_utils import smart_constant_value as smart_constant_value

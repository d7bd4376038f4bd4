"""How well scores rank, for examples: the area under the ROC curve."""

from __future__ import annotations

import numpy as np


def area_under_curve(labels: np.ndarray, scores: np.ndarray) -> float:
    """The probability that a line with label 1 gets a higher score than one with label 0; equal scores count half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positive = labels > 0.5
    n = positive.sum()
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(labels) - n)))

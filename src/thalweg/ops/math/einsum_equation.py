"""Reads the equations of einsum: labels per input and of the output, with ellipses spelled out."""

from __future__ import annotations

from collections import Counter

Labels = list[str]


def _split(equation: str) -> tuple[list[str], str | None]:
    text = equation.replace(" ", "")
    if text.count("->") > 1 or not all(c.isalpha() or c in ".,->" for c in text):
        raise ValueError(f"Indices have incorrect format: '{equation}'. Expected something like 'ij,jk->ik'.")
    left, arrow, right = text.partition("->")
    for part in (*left.split(","), right):
        if part.count(".") not in (0, 3) or part.replace("...", "").count(".") or "-" in part or ">" in part:
            raise ValueError(f"Indices have incorrect format: '{equation}': '{part}'.")
    return left.split(","), right if arrow else None


def output_labels(equation: str) -> str:
    """The labels of the output, as written or as they follow; ValueError if the equation is not well-formed."""
    inputs, output = _split(equation)
    if output is None:
        counts = Counter("".join(inputs).replace(".", ""))
        dots = "..." if any("..." in term for term in inputs) else ""
        output = dots + "".join(sorted(label for label, count in counts.items() if count == 1))
    return output


def parse(equation: str, ranks: list[int]) -> tuple[list[Labels], Labels]:
    """Spells an equation out for inputs of the given ranks.

    Args:
        equation: Such as 'ij,...jk->...ik'.
        ranks: The rank of each input.

    Returns:
        The labels of each input and those of the output. The axes of an ellipsis are called '.0', '.1', ... from the
        last one, so that they line up as in broadcasting.

    Raises:
        ValueError: If the equation is not well-formed, or does not fit the ranks.
    """
    inputs, _ = _split(equation)
    output = output_labels(equation)
    if len(inputs) != len(ranks):
        raise ValueError(f"Got {len(ranks)} inputs for equation '{equation}', expecting {len(inputs)}")
    most = 0
    terms = []
    for term, rank in zip(inputs, ranks, strict=True):
        named = len(term.replace("...", ""))
        dots = rank - named
        if dots < 0 or (dots > 0 and "..." not in term):
            raise ValueError(
                f"Unexpected number of dimensions: '{term}' in '{equation}' meets a tensor of rank {rank}."
            )
        most = max(most, dots)
        terms.append(_expand(term, dots))
    labels = _expand(output, most)
    known = {label for term in terms for label in term}
    for label in labels:
        if label not in known:
            raise ValueError(f"Label '{label}' of the output does not occur in the inputs of equation '{equation}'.")
        if labels.count(label) > 1:
            raise ValueError(f"Label '{label}' occurs twice in the output of equation '{equation}'.")
    if most and "..." not in output:
        raise ValueError(f"The output of equation '{equation}' lacks the '...' of its inputs.")
    return terms, labels


def _expand(term: str, dots: int) -> Labels:
    before, ellipsis, after = term.partition("...")
    return [*before, *(f".{i}" for i in reversed(range(dots if ellipsis else 0))), *after]

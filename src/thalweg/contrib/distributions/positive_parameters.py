"""Distributions whose positive parameters are given by any numbers, through softplus or the absolute value."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.distributions.scalars import Chi2
from thalweg.contrib.distributions.vectors import MultivariateNormalDiag
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


def _made_positive(base: Any, name: str, positive: dict[str, Any]) -> None:
    """Exports a subclass of `base` that maps these parameters before it uses them."""

    class Mapped(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Takes the arguments of the class it is made of."""
            names = [each for each in base.__init__.__code__.co_varnames if each != "self"]
            given = {**dict(zip(names, args, strict=False)), "name": name, **kwargs}
            mapped = {key: f(tf.convert_to_tensor(given[key])) for key, f in positive.items()}
            super().__init__(**{**given, **mapped})
            self.parameters = given

    functions = " and ".join(f"{key} ({function.__name__})" for key, function in positive.items())
    Mapped.__name__ = Mapped.__qualname__ = name
    Mapped.__doc__ = f"`{base.__name__}` of positive parameters that are computed: {functions}."
    export(f"contrib.distributions.{name}")(Mapped)


_softplus, _abs = tf.nn.softplus, tf.abs
_made_positive(tf.distributions.Normal, "NormalWithSoftplusScale", {"scale": _softplus})
_made_positive(tf.distributions.Laplace, "LaplaceWithSoftplusScale", {"scale": _softplus})
_made_positive(
    tf.distributions.Beta, "BetaWithSoftplusConcentration", {"concentration1": _softplus, "concentration0": _softplus}
)
_made_positive(
    tf.distributions.Gamma, "GammaWithSoftplusConcentrationRate", {"concentration": _softplus, "rate": _softplus}
)
_made_positive(tf.distributions.Exponential, "ExponentialWithSoftplusRate", {"rate": _softplus})
_made_positive(tf.distributions.StudentT, "StudentTWithAbsDfSoftplusScale", {"df": _abs, "scale": _softplus})
_made_positive(Chi2, "Chi2WithAbsDf", {"df": _abs})
_made_positive(MultivariateNormalDiag, "MultivariateNormalDiagWithSoftplusScale", {"scale_diag": _softplus})

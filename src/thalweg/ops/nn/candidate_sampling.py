"""Candidate samplers: some classes drawn out of many, for losses that cannot afford all of them."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply
from thalweg.graph.default_graph import get_seed
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_SIGNATURE = (
    "true_classes: int64 -> sampled_candidates: int64, true_expected_count: float, sampled_expected_count: float"
)
_COUNTS = "num_true: int >= 1, num_sampled: int >= 1, unique: bool"
_SEEDS = "seed: int = 0, seed2: int = 0"


def _true_classes_shape(c: ShapeContext) -> TensorShape:
    return shapes.merge(c.input(0), TensorShape._of((None, c.attr("num_true"))))


def _sampler_shape(c: ShapeContext) -> list[TensorShape]:
    sampled = TensorShape._of((c.attr("num_sampled"),))
    return [sampled, _true_classes_shape(c), sampled]


for _op, _effect in (
    ("UniformCandidateSampler", Effect.RANDOM),
    ("LogUniformCandidateSampler", Effect.RANDOM),
    ("LearnedUnigramCandidateSampler", Effect.WRITES),  # It counts the classes that it is given.
    ("ThreadUnsafeUnigramCandidateSampler", Effect.WRITES),
):
    define(_op, _SIGNATURE, f"{_COUNTS}, range_max: int >= 1, {_SEEDS}", shape=_sampler_shape, effect=_effect)
    not_differentiable(_op)
define(
    "FixedUnigramCandidateSampler", _SIGNATURE,
    f"{_COUNTS}, range_max: int >= 1, vocab_file: string = '', distortion: float = 1.0, num_reserved_ids: int = 0, "
    f"num_shards: int >= 1 = 1, shard: int >= 0 = 0, unigrams: list(float) = [], {_SEEDS}",
    shape=_sampler_shape, effect=Effect.RANDOM,
)  # fmt: skip
define("AllCandidateSampler", _SIGNATURE, f"{_COUNTS}, {_SEEDS}", shape=_sampler_shape, effect=Effect.RANDOM)


def _hits_shape(c: ShapeContext) -> list[TensorShape]:
    _true_classes_shape(c)
    shapes.with_rank(c.input(1), 1)
    return [shapes.ANY_VECTOR] * 3


define(
    "ComputeAccidentalHits",
    "true_classes: int64, sampled_candidates: int64 -> indices: int32, ids: int64, weights: float",
    f"num_true: int, {_SEEDS}",
    shape=_hits_shape,
)
not_differentiable("FixedUnigramCandidateSampler", "AllCandidateSampler", "ComputeAccidentalHits")


def _sample(
    op_type: str, true_classes: Any, num_true: int, num_sampled: int, unique: bool, seed: int | None,
    name: str | None, **attrs: Any,
) -> Any:  # fmt: skip
    seed1, seed2 = get_seed(seed)
    return apply(
        op_type, true_classes, num_true=num_true, num_sampled=num_sampled, unique=unique, seed=seed1, seed2=seed2,
        name=name, **attrs,
    )  # fmt: skip


@export("nn.uniform_candidate_sampler", "random.uniform_candidate_sampler")
def uniform_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: int | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Draws classes from [0, range_max), each with the same probability.

    Args:
        true_classes: int64 matrix `[batch, num_true]`: the classes of the examples.
        num_true: How many classes each example has.
        num_sampled: How many classes to draw.
        unique: Whether they must differ from each other.
        range_max: The number of classes.
        seed: Seed of this op; see `tf.set_random_seed`.
        name: The node's name.

    Returns:
        A namedtuple (sampled_candidates, true_expected_count, sampled_expected_count): the classes drawn, and how often
        each of the true classes and of the drawn ones is expected among so many draws.
    """
    return _sample(
        "UniformCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name, range_max=range_max
    )


@export("nn.log_uniform_candidate_sampler", "random.log_uniform_candidate_sampler")
def log_uniform_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: int | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Draws class k with a probability of about 1/k, for classes numbered by falling frequency, such as words.

    The probability of k is `(log(k + 2) - log(k + 1)) / log(range_max + 1)`. For arguments and result see
    `uniform_candidate_sampler`.
    """
    return _sample(
        "LogUniformCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name, range_max=range_max
    )


@export("nn.learned_unigram_candidate_sampler", "random.learned_unigram_candidate_sampler")
def learned_unigram_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: int | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Draws classes as often as they were true classes in earlier steps of the session, plus one.

    For arguments and result see `uniform_candidate_sampler`.
    """
    return _sample(
        "LearnedUnigramCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name, range_max=range_max
    )


@export("nn.fixed_unigram_candidate_sampler", "random.fixed_unigram_candidate_sampler")
def fixed_unigram_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, vocab_file: str = "",
    distortion: float = 1.0, num_reserved_ids: int = 0, num_shards: int = 1, shard: int = 0, unigrams: Any = (),
    seed: int | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Draws classes by given weights.

    Args:
        true_classes: int64 matrix `[batch, num_true]`: the classes of the examples.
        num_true: How many classes each example has.
        num_sampled: How many classes to draw.
        unique: Whether they must differ from each other.
        range_max: The number of classes.
        vocab_file: A text file with a line per class, whose last column (behind the last comma) is the weight.
        distortion: The power to which weights are raised: 0 makes them equal.
        num_reserved_ids: So many classes in front of the given ones are never drawn.
        num_shards: Of so many consecutive classes, only one is taken: that number `shard`.
        shard: See `num_shards`.
        unigrams: The weights, instead of a file.
        seed: Seed of this op; see `tf.set_random_seed`.
        name: The node's name.

    Returns:
        The same as `uniform_candidate_sampler`.
    """
    return _sample(
        "FixedUnigramCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name, range_max=range_max,
        vocab_file=vocab_file, distortion=distortion, num_reserved_ids=num_reserved_ids, num_shards=num_shards,
        shard=shard, unigrams=list(unigrams),
    )  # fmt: skip


@export("nn.all_candidate_sampler", "random.all_candidate_sampler")
def all_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, seed: int | None = None, name: str | None = None
) -> Any:
    """Returns all of the `num_sampled` classes, once each: sampling for programs that want none."""
    return _sample("AllCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name)


@export("nn.compute_accidental_hits")
def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Finds the sampled classes that are true classes of an example.

    Args:
        true_classes: int64 matrix `[batch, num_true]`.
        sampled_candidates: int64 vector.
        num_true: How many classes each example has.
        seed: Ignored.
        name: The node's name.

    Returns:
        (indices, ids, weights): for each hit the example, the place among the samples, and the lowest float, which
        makes the class impossible when added to its logit.
    """
    seed1, seed2 = get_seed(seed)
    hits = apply(
        "ComputeAccidentalHits", true_classes, sampled_candidates, num_true=num_true, seed=seed1, seed2=seed2, name=name
    )
    return tuple(hits)

"""The parameters of functions in TensorFlow 2's interface, for `tf.compat.v2`.

Most public names are there as they are. Functions whose parameters have another order or other names are called by
keyword: a row of the table has their parameters in that interface.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

# Names and parameters. Those before `|` must be given. `new>old`: what the function calls it here; `a=x`: its default
# there; `!a=x`: given in each call.
_PARAMETERS: Final = """
argmax argmin math.argmax math.argmin: input axis output_type name
assert_equal assert_greater assert_less: x y message summarize name
debugging.assert_equal debugging.assert_greater debugging.assert_greater_equal: x y message summarize name
debugging.assert_less debugging.assert_less_equal: x y message summarize name
debugging.assert_none_equal: x y summarize message name
debugging.assert_near: x y rtol atol message summarize name
debugging.assert_negative debugging.assert_non_negative debugging.assert_non_positive: x message summarize name
debugging.assert_positive: x message summarize name
assert_rank debugging.assert_rank debugging.assert_rank_at_least: x rank message name
debugging.assert_rank_in: x ranks message name
debugging.assert_scalar: tensor message name
debugging.assert_all_finite: x message | name
batch_to_space: input block_shape crops | name
space_to_batch nn.space_to_batch: input block_shape paddings | name
boolean_mask: tensor mask axis name
cond: pred true_fn false_fn name !strict=True
constant: value dtype shape name
convert_to_tensor: value dtype dtype_hint name
expand_dims: input axis | name
gather: params indices validate_indices axis batch_dims name
gather_nd: params indices batch_dims name
gradients: ys xs grad_ys name gate_gradients aggregation_method stop_gradients unconnected_gradients
hessians: ys xs gate_gradients aggregation_method name
image.crop_and_resize: image boxes box_indices crop_size | method extrapolation_value name
image.draw_bounding_boxes: images boxes colors | name
io.parse_example io.parse_single_example: serialized features example_names name
io.serialize_many_sparse io.serialize_sparse: sp_input out_type name
linalg.l2_normalize math.l2_normalize nn.l2_normalize: x axis epsilon name
norm linalg.norm: tensor ord axis keepdims name
math.bincount: arr weights minlength maxlength dtype
math.confusion_matrix: labels predictions num_classes weights dtype name
math.count_nonzero: input | axis keepdims dtype name
math.in_top_k nn.in_top_k: targets predictions k name
math.log_softmax math.softmax nn.log_softmax nn.softmax: logits axis name
math.reduce_all math.reduce_any math.reduce_logsumexp math.reduce_max: input_tensor axis keepdims=False name
math.reduce_mean math.reduce_min math.reduce_prod math.reduce_sum: input_tensor axis keepdims=False name
reduce_all reduce_any reduce_logsumexp reduce_max: input_tensor axis keepdims=False name
reduce_mean reduce_min reduce_prod reduce_sum: input_tensor axis keepdims=False name
nn.avg_pool2d: input ksize strides padding | data_format name
nn.conv1d: input filters stride padding | data_format=NWC dilations name
nn.conv2d nn.conv3d: input filters strides padding | data_format dilations=None name
nn.conv2d_transpose nn.conv3d_transpose: input filters output_shape strides | padding data_format dilations name
nn.convolution: input filters | strides padding=VALID data_format dilations name
nn.crelu: features axis name
nn.depth_to_space nn.space_to_depth: input block_size data_format name
nn.depthwise_conv2d: input filter strides padding data_format dilations name
nn.separable_conv2d: input depthwise_filter pointwise_filter strides padding data_format dilations name
nn.dropout: x rate | noise_shape seed name
nn.embedding_lookup: params ids max_norm name !partition_strategy=div
nn.embedding_lookup_sparse: params sp_ids sp_weights combiner max_norm name !partition_strategy=div
nn.moments: x axes shift keepdims=False name
nn.pool: input window_shape pooling_type strides padding=VALID data_format dilations name
nn.sigmoid_cross_entropy_with_logits: labels logits name
nn.sparse_softmax_cross_entropy_with_logits: labels logits | name
nn.sufficient_statistics: x axes shift keepdims=False name
nn.weighted_cross_entropy_with_logits: labels logits pos_weight | name
nn.weighted_moments: x axes frequency_weights keepdims=False name
ones_like zeros_like: input>tensor dtype name
pad: tensor paddings mode constant_values name
random.poisson: shape lam dtype seed name
random_normal_initializer: mean stddev=0.05 seed
random_uniform_initializer: minval=-0.05 maxval=0.05 seed
reverse_sequence: input seq_lengths seq_axis batch_axis name
shape size: input out_type name
sparse.add: a b threshold=0
sparse.concat: axis sp_inputs | expand_nonconcat_dims=False name
sparse.reduce_max sparse.reduce_sum: sp_input axis keepdims
sparse.segment_mean sparse.segment_sqrt_n sparse.segment_sum: data indices segment_ids num_segments name
sparse.split: sp_input num_split axis name
squeeze: input axis name
strings.length: input unit name
strings.reduce_join: inputs axis keepdims=False separator name
strings.split: input | sep maxsplit name !result_type=RaggedTensor
strings.substr: input pos len unit name
strings.to_hash_bucket: input>string_tensor num_buckets | name
strings.to_number: input>string_tensor | out_type name
transpose: a perm conjugate name
tuple: tensors control_inputs name
while_loop: cond body loop_vars shape_invariants parallel_iterations back_prop swap_memory maximum_iterations name \
!return_same_structure=True
"""

# What has another name among the public ones.
ELSEWHERE: Final = {
    "where": "where_v2",
    "nn.avg_pool": "nn.avg_pool_v2",
    "nn.max_pool": "nn.max_pool_v2",
    "nn.ctc_loss": "nn.ctc_loss_v2",
    "nn.ctc_beam_search_decoder": "nn.ctc_beam_search_decoder_v2",
    "nn.softmax_cross_entropy_with_logits": "nn.softmax_cross_entropy_with_logits_v2",
    "random.set_seed": "random.set_random_seed",
    "saved_model.load": "saved_model.load_v2",
}

_Given = dict[str, Any]


def _constant(text: str) -> Any:
    known = {"True": True, "False": False, "None": None}
    try:
        return known[text] if text in known else float(text) if "." in text else int(text)
    except ValueError:
        return text


def _rows() -> dict[str, str]:
    lines = (line.partition(":") for line in _PARAMETERS.strip().splitlines())
    return {name: parameters for names, _, parameters in lines for name in names.split()}


def with_parameters(function: Callable[..., Any], row: str) -> Callable[..., Any]:
    """The function under the parameters of a row."""
    fixed: _Given = {}
    defaults: _Given = {}
    olds: dict[str, str] = {}
    required: list[str] = []
    for word in row.split():
        if word == "|":
            required = list(olds)
            continue
        word, equals, value = word.partition("=")
        if word.startswith("!"):
            fixed[word[1:]] = _constant(value)
            continue
        new, _, old = word.partition(">")
        olds[new] = old or new
        if equals:
            defaults[new] = _constant(value)
    order = list(olds)

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(order):
            raise TypeError(f"{called.__name__}() takes at most {len(order)} arguments, not {len(args)}")
        given = dict(zip(order, args, strict=False))
        for name in kwargs:
            if name in given:
                raise TypeError(f"{called.__name__}() got multiple values for argument '{name}'")
            if name not in olds:
                raise TypeError(f"{called.__name__}() got an unexpected keyword argument '{name}'")
        given = {**defaults, **given, **kwargs}
        missing = [name for name in required if name not in given]
        if missing:
            raise TypeError(f"{called.__name__}() missing required arguments: {', '.join(missing)}")
        return function(**{olds[name]: value for name, value in given.items()}, **fixed)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    here = inspect.signature(function).parameters
    parameters = []
    for name in order:
        default = here[olds[name]].default if olds[name] in here else None
        if name in required:
            default = inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=defaults.get(name, default)))
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


TABLE: Final = _rows()

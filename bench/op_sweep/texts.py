"""Strings: cases, parts, numbers, hashes, expressions, parsing."""

import base64

import numpy as np

from op_sweep import Sweep, integers, normal, words

COUNTS = {"1k": 1000, "50k": 50_000}


def _texts(count):
    """Sentences of about eight words."""

    def draw(dtype, rng):
        parts = words(count * 8)(dtype, rng)
        return np.array([b" ".join(parts[i * 8 : i * 8 + 8]) for i in range(count)], object)

    return draw


def _numerals(count):
    return lambda dtype, rng: np.array([b"%.6g" % x for x in rng.standard_normal(count)], object)


def _padded(count):
    return lambda dtype, rng: np.array([b"  " + w + b" \n" for w in words(count)(dtype, rng)], object)


def _encoded(count):
    return lambda dtype, rng: np.array(
        [base64.urlsafe_b64encode(w).rstrip(b"=") for w in words(count)(dtype, rng)], object
    )


def _rows(count, columns):
    return lambda dtype, rng: np.array(
        [b",".join(b"%.4f" % x for x in row) for row in rng.standard_normal((count, columns))], object
    )


def _raw(count, length):
    return lambda dtype, rng: np.array([rng.bytes(length) for _ in range(count)], object)


def _text(op, call, source=words, dtypes="str", **options):
    return Sweep(op, call, {size: [source(n)] for size, n in COUNTS.items()}, dtypes, **options)


SWEEPS = [
    _text("StringLower", lambda tf, x: tf.strings.lower(x)),
    _text("StringUpper", lambda tf, x: tf.strings.upper(x)),
    _text("StringUpper utf-8", lambda tf, x: tf.strings.upper(x, encoding="utf-8")),
    _text("StringLength", lambda tf, x: tf.strings.length(x)),
    _text("StringStrip", lambda tf, x: tf.strings.strip(x), _padded),
    _text("Substr", lambda tf, x: tf.strings.substr(x, 1, 2)),
    _text("StringSplitV2", lambda tf, x: tf.raw_ops.StringSplitV2(input=x, sep=" "), _texts),
    _text("StringSplit", lambda tf, x: tf.raw_ops.StringSplit(input=x, delimiter=" "), _texts),
    _text("StringSplit white", lambda tf, x: tf.raw_ops.StringSplitV2(input=x, sep=""), _texts),
    Sweep(
        "StringJoin",
        lambda tf, a, b: tf.strings.join([a, b], "-"),
        {s: [words(n), words(n)] for s, n in COUNTS.items()},
        "str",
    ),
    _text("ReduceJoin", lambda tf, x: tf.strings.reduce_join(tf.reshape(x, [-1, 10]), axis=1, separator=" ")),
    _text("Add strings", lambda tf, x: tf.raw_ops.Add(x=x, y=x)),
    Sweep(
        "Equal strings",
        lambda tf, a, b: tf.equal(a, b),
        {s: [words(n, 3, 4), words(n, 3, 4)] for s, n in COUNTS.items()},
        "str",
    ),
    _text("EncodeBase64", lambda tf, x: tf.io.encode_base64(x)),
    _text("DecodeBase64", lambda tf, x: tf.io.decode_base64(x), _encoded),
    _text("StringToNumber", lambda tf, x: tf.strings.to_number(x), _numerals),
    _text("StringToHashBucketFast", lambda tf, x: tf.strings.to_hash_bucket_fast(x, 1000)),
    _text("StringToHashBucketStrong", lambda tf, x: tf.strings.to_hash_bucket_strong(x, 1000, [1, 2])),
    _text("StringToHashBucket", lambda tf, x: tf.strings.to_hash_bucket(x, 1000)),
    _text("RegexReplace", lambda tf, x: tf.strings.regex_replace(x, "[aeiou]+", "-")),
    _text("RegexFullMatch", lambda tf, x: tf.strings.regex_full_match(x, "[a-z]+.*")),
    _text("UnicodeTranscode", lambda tf, x: tf.strings.unicode_transcode(x, "UTF-8", "UTF-16-BE")),
    _text("UnicodeScript", lambda tf, x: tf.strings.unicode_script(x), lambda n: integers(65, 1000, n)),
    _text("UnicodeDecode", lambda tf, x: tf.raw_ops.UnicodeDecode(input=x, input_encoding="UTF-8")),
    _text(
        "StringNGrams",
        lambda tf, x: tf.raw_ops.StringNGrams(
            data=x,
            data_splits=np.array([0, 500, 1000], np.int64),
            separator=" ",
            ngram_widths=[2],
            left_pad="",
            right_pad="",
            pad_width=0,
            preserve_short_sequences=False,
        ),
    ),
    _text("AsString", lambda tf, x: tf.strings.as_string(x), normal, "f32 i32 i64 bool"),
    _text("AsString precision", lambda tf, x: tf.strings.as_string(x, precision=3), normal, "f32 f64"),
    Sweep(
        "DecodeRaw",
        lambda tf, x: tf.io.decode_raw(x, tf.float32),
        {"1000x256": [_raw(1000, 256)]},
        "str",
        compared=False,
    ),
    Sweep(
        "DecodeCSV",
        lambda tf, x: tf.io.decode_csv(x, [[0.0]] * 8),
        {"1k": [_rows(1000, 8)], "10k": [_rows(10_000, 8)]},
        "str",
    ),
    Sweep(
        "Gather strings", lambda tf, x, i: tf.gather(x, i), {"50k": [words(50_000), integers(0, 50_000, 50_000)]}, "str"
    ),
    Sweep("Unique strings", lambda tf, x: tf.unique(x), {"50k": [words(50_000, 2, 4)]}, "str"),
    Sweep(
        "EditDistance",
        lambda tf, a, b: tf.edit_distance(
            tf.SparseTensor(_places(500), a, [500, 10]), tf.SparseTensor(_places(500), b, [500, 10])
        ),
        {"500x10": [integers(0, 5, 5000, dtype=np.int64), integers(0, 5, 5000, dtype=np.int64)]},
        "i64",
    ),
]


def _places(rows):
    """The indices of a full matrix of ten columns."""
    return np.stack(np.divmod(np.arange(rows * 10, dtype=np.int64), 10), 1)

"""tf.keras.utils, preprocessing and datasets: labels as rows, sequences of one length, words as numbers, local data."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Any

import numpy as np

from thalweg.graph.definitions.op_registry import export


@export("keras.utils.to_categorical")
def to_categorical(y: Any, num_classes: int | None = None, dtype: str = "float32") -> np.ndarray:
    """Rows with a one at the number of the class.

    Example:
        >>> tf.keras.utils.to_categorical([0, 2])
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    labels = np.array(y, dtype="int")
    shape = labels.shape[:-1] if labels.ndim > 1 and labels.shape[-1] == 1 else labels.shape
    flat = labels.ravel()
    count = num_classes or (int(flat.max()) + 1 if flat.size else 0)
    rows = np.zeros((flat.size, count), dtype=dtype)
    rows[np.arange(flat.size), flat] = 1
    return rows.reshape((*shape, count))


@export("keras.utils.normalize")
def normalize(x: Any, axis: int = -1, order: int = 2) -> np.ndarray:
    """An array whose norm along an axis is one."""
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    result: np.ndarray = np.asarray(x) / np.expand_dims(norms, axis)
    return result


@export("keras.utils.Sequence")
class Sequence:
    """Batches by number: subclasses define `__getitem__` and `__len__`."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def on_epoch_end(self) -> None:
        """After the last batch of an epoch."""

    def __iter__(self) -> Any:
        for index in range(len(self)):
            yield self[index]


@export("keras.preprocessing.sequence.pad_sequences")
def pad_sequences(
    sequences: Any, maxlen: int | None = None, dtype: str = "int32", padding: str = "pre", truncating: str = "pre",
    value: Any = 0.0,
) -> np.ndarray:  # fmt: skip
    """Sequences as rows of one array.

    Args:
        sequences: Lists of numbers (or of arrays).
        maxlen: The length of a row; that of the longest sequence if None.
        dtype: The type of the array.
        padding: Whether values are added 'pre' or 'post'.
        truncating: Which end of a longer sequence is cut: 'pre' or 'post'.
        value: The value that is added.
    """
    if not hasattr(sequences, "__len__"):
        raise ValueError("`sequences` must be iterable.")
    for name, where in (("Padding", padding), ("Truncating", truncating)):
        if where not in ("pre", "post"):
            raise ValueError(f'{name} type "{where}" not understood')
    for each in sequences:
        if not hasattr(each, "__len__"):
            raise ValueError(f"`sequences` must be a list of iterables. Found non-iterable: {each}")
    length = maxlen if maxlen is not None else max((len(each) for each in sequences), default=0)
    inner = next((np.asarray(each).shape[1:] for each in sequences if len(each)), ())
    kind = object if isinstance(value, str) and dtype == "int32" else dtype
    rows = np.full((len(sequences), length, *inner), value, dtype=kind)
    for row, each in zip(rows, sequences, strict=True):
        if not len(each) or not length:
            continue
        kept = np.asarray(each[-length:] if truncating == "pre" else each[:length], dtype=kind)
        if padding == "post":
            row[: len(kept)] = kept
        else:
            row[-len(kept) :] = kept
    return rows


_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


@export("keras.preprocessing.text.text_to_word_sequence")
def text_to_word_sequence(text: str, filters: str = _FILTERS, lower: bool = True, split: str = " ") -> list[str]:
    """The words of a text."""
    text = text.lower() if lower else text
    for character in filters:
        text = text.replace(character, split)
    return [word for word in text.split(split) if word]


@export("keras.preprocessing.text.Tokenizer")
class Tokenizer:
    """Words as numbers, the most frequent one is 1."""

    def __init__(self, num_words: int | None = None, filters: str = _FILTERS, lower: bool = True, split: str = " ",
                 char_level: bool = False, oov_token: str | None = None) -> None:  # fmt: skip
        """Takes how many words count, how texts are split, and a word for all unknown ones."""
        self.num_words, self.filters, self.lower, self.split = num_words, filters, lower, split
        self.char_level, self.oov_token = char_level, oov_token
        self.word_counts: OrderedDict[str, int] = OrderedDict()
        self.word_index: dict[str, int] = {}
        self.index_word: dict[int, str] = {}
        self.document_count = 0

    def _words(self, text: Any) -> list[str]:
        if self.char_level or isinstance(text, list):
            return [each.lower() for each in text] if self.lower else list(text)
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts: Any) -> None:
        """Counts words."""
        for text in texts:
            self.document_count += 1
            for word in self._words(text):
                self.word_counts[word] = self.word_counts.get(word, 0) + 1
        ordered = sorted(self.word_counts.items(), key=lambda item: -item[1])
        first = [] if self.oov_token is None else [self.oov_token]
        words = first + [word for word, _ in ordered if word != self.oov_token]
        self.word_index = {word: number for number, word in enumerate(words, 1)}
        self.index_word = {number: word for word, number in self.word_index.items()}

    def texts_to_sequences(self, texts: Any) -> list[list[int]]:
        """Texts as lists of numbers."""
        unknown = self.word_index.get(self.oov_token) if self.oov_token is not None else None
        result = []
        for text in texts:
            numbers = [self.word_index.get(word) for word in self._words(text)]
            known = [
                n if n is not None and (self.num_words is None or n < self.num_words) else unknown for n in numbers
            ]
            result.append([n for n in known if n is not None])
        return result

    def sequences_to_texts(self, sequences: Any) -> list[str]:
        """Lists of numbers as texts."""
        return [" ".join(self.index_word.get(n, self.oov_token or "") for n in each).strip() for each in sequences]

    def sequences_to_matrix(self, sequences: Any, mode: str = "binary") -> np.ndarray:
        """A row for each sequence, with a place for each word: 'binary', 'count' or 'freq'."""
        if mode not in ("binary", "count", "freq"):
            raise ValueError(f"Unknown vectorization mode: {mode}")
        rows = np.zeros((len(sequences), self.num_words or len(self.word_index) + 1))
        for row, each in zip(rows, sequences, strict=True):
            for number in each:
                if number < len(row):
                    row[number] = 1 if mode == "binary" else row[number] + 1
            if mode == "freq" and len(each):
                row /= len(each)
        return rows

    def texts_to_matrix(self, texts: Any, mode: str = "binary") -> np.ndarray:
        """`sequences_to_matrix` of texts."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)


@export("keras.utils.get_file")
def get_file(fname: str, origin: str | None = None, untar: bool = False, cache_subdir: str = "datasets",
             cache_dir: str | None = None, **kwargs: Any) -> str:  # fmt: skip
    """The path of a file below the folder of Keras. Nothing is downloaded.

    Raises:
        FileNotFoundError: If it is not there; the message says where to put it.
    """
    folder = cache_dir or os.path.join(os.path.expanduser("~"), ".keras")
    path = fname if os.path.isabs(fname) else os.path.join(folder, cache_subdir, fname)
    if not os.path.exists(path):
        raise FileNotFoundError(f"Nothing is downloaded here: put {origin or fname} to {path}.")
    return path


def _arrays_of(path: str, name: str) -> Any:
    with np.load(get_file(path, name)) as data:
        return (data["x_train"], data["y_train"]), (data["x_test"], data["y_test"])


@export("keras.datasets.mnist.load_data")
def load_mnist(path: str = "mnist.npz") -> Any:
    """((images, labels), (images, labels)) of MNIST, from the file mnist.npz of Keras's folder."""
    return _arrays_of(path, "mnist.npz")


@export("keras.datasets.boston_housing.load_data")
def load_boston(path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113) -> Any:
    """Prices of houses, from the file boston_housing.npz of Keras's folder."""
    with np.load(get_file(path, "boston_housing.npz")) as data:
        x, y = data["x"], data["y"]
    order = np.arange(len(x))
    np.random.RandomState(seed).shuffle(order)
    x, y = x[order], y[order]
    cut = int(len(x) * (1 - test_split))
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


@export("keras.datasets.fashion_mnist.load_data")
def load_fashion_mnist() -> Any:
    """((images, labels), (images, labels)) of Fashion-MNIST, from its four files in Keras's folder."""
    import gzip

    def read(name: str, header: int) -> np.ndarray:
        with gzip.open(get_file(os.path.join("fashion-mnist", name), name), "rb") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    def pair(kind: str) -> Any:
        labels = read(f"{kind}-labels-idx1-ubyte.gz", 8)
        return read(f"{kind}-images-idx3-ubyte.gz", 16).reshape(len(labels), 28, 28), labels

    return pair("train"), pair("t10k")


@export("keras.datasets.cifar10.load_data")
def load_cifar10() -> Any:
    """((images, labels), (images, labels)) of CIFAR-10, from its binary files in Keras's folder."""

    def read(names: list[str]) -> Any:
        rows = np.concatenate([
            np.fromfile(get_file(os.path.join("cifar-10-batches-bin", name), name), np.uint8).reshape(-1, 3073)
            for name in names
        ])  # fmt: skip
        return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, :1]

    return read([f"data_batch_{i}.bin" for i in range(1, 6)]), read(["test_batch.bin"])

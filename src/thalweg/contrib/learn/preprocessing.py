"""tf.contrib.learn.preprocessing: words of documents as numbers."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export

_WORDS = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE)
_SPACE = "contrib.learn.preprocessing"


@export(f"{_SPACE}.tokenizer", f"{_SPACE}.text.tokenizer")
def tokenizer(iterator: Any) -> Iterator[list[str]]:
    """The words of each text."""
    for value in iterator:
        yield _WORDS.findall(value)


@export(f"{_SPACE}.CategoricalVocabulary")
class CategoricalVocabulary:
    """Numbers of words, in the order in which they came; 0 for unknown ones."""

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        """Takes the name of unknown words."""
        self._unknown_token = unknown_token
        self._mapping: dict[str, int] = {unknown_token: 0}
        self._reverse_mapping = [unknown_token] if support_reverse else None
        self._freq: dict[str, int] = {}
        self._freeze = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Whether new words stay unknown."""
        self._freeze = freeze

    def get(self, category: str) -> int:
        """The number of a word, which is added if it is new."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._mapping[category] = len(self._mapping)
            if self._reverse_mapping is not None:
                self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category: str, count: int = 1) -> None:
        """Counts a word."""
        if self.get(category) > 0:
            self._freq[category] = self._freq.get(category, 0) + count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Drops rare words (and frequent ones), and numbers the rest anew, frequent ones first."""
        ordered = sorted(
            sorted(self._freq.items(), key=lambda x: (isinstance(x[0], str), x[0])), key=lambda x: x[1], reverse=True
        )
        kept = [
            word for word, count in ordered if count > min_frequency and (max_frequency <= 0 or count < max_frequency)
        ]
        self._mapping = {self._unknown_token: 0, **{word: i for i, word in enumerate(kept, 1)}}
        self._freq = {word: self._freq[word] for word in kept}
        if self._reverse_mapping is not None:
            self._reverse_mapping = [self._unknown_token, *kept]

    def reverse(self, class_id: int) -> str:
        """The word of a number."""
        if self._reverse_mapping is None:
            raise ValueError("This vocabulary wasn't initialized with support_reverse to support reverse() function.")
        return self._reverse_mapping[class_id]


@export(f"{_SPACE}.VocabularyProcessor")
class VocabularyProcessor:
    """Documents as rows of numbers of words, cut or filled with zeros to one length."""

    def __init__(
        self, max_document_length: int, min_frequency: int = 0, vocabulary: Any = None, tokenizer_fn: Any = None
    ) -> None:
        """Takes the length, the frequency below which words are dropped, a vocabulary, and a function of texts."""
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Any, unused_y: Any = None) -> VocabularyProcessor:
        """Learns the words of documents; returns itself."""
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Any, unused_y: Any = None) -> Any:
        """Learns the words, and gives the rows."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Any) -> Any:
        """The rows of documents, one after the other."""
        for tokens in self._tokenizer(raw_documents):
            row = np.zeros(self.max_document_length, np.int64)
            for i, token in enumerate(tokens[: self.max_document_length]):
                row[i] = self.vocabulary_.get(token)
            yield row

    def reverse(self, documents: Any) -> Iterator[str]:
        """The words of rows, with spaces between."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(number) for number in row)

    def save(self, filename: Any) -> None:
        """Writes itself to a file, by pickle."""
        with tf.gfile.GFile(filename, "wb") as file:
            file.write(pickle.dumps(self))

    @classmethod
    def restore(cls, filename: Any) -> Any:
        """Reads what `save` wrote. A pickle can run code: read only files that you trust."""
        with tf.gfile.GFile(filename, "rb") as file:
            return pickle.loads(file.read())


@export(f"{_SPACE}.ByteProcessor")
class ByteProcessor:
    """Documents as rows of bytes, cut or filled with zeros to one length."""

    def __init__(self, max_document_length: int) -> None:
        """Takes the length."""
        self.max_document_length = max_document_length

    def fit(self, x: Any) -> ByteProcessor:
        """Learns nothing; returns itself."""
        return self

    def fit_transform(self, x: Any) -> Any:
        """The rows of documents."""
        return self.transform(x)

    def transform(self, x: Any) -> Any:
        """The rows of documents, one after the other."""
        for document in x:
            data = document.encode("utf-8") if isinstance(document, str) else document
            row = np.frombuffer(data[: self.max_document_length], dtype=np.uint8)
            yield np.pad(row, (0, self.max_document_length - len(row)))

    def reverse(self, x: Any) -> Iterator[str]:
        """The texts of rows."""
        for data in x:
            yield np.trim_zeros(data.astype(np.uint8), "b").tobytes().decode("utf-8", errors="replace")

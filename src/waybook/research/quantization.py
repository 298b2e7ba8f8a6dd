"""Quantizes vectors to the bytes that are stored.

This module does not import numpy, because programs that only store vectors do not need it.
"""

from collections.abc import Sequence
from typing import NamedTuple

#: -128 is not used, so that opposite vectors have opposite codes.
MAX_CODE = 127
#: A remainder has sixteen values, and the value 8 means zero.
REMAINDER_BITS = 4
REMAINDER_STEPS = 16
ZERO_REMAINDER = 8


class Quantized(NamedTuple):
    codes: bytes
    remainders: bytes


def quantize(vector: Sequence[float]) -> Quantized:
    """Quantize a vector with an even number of components.

    >>> quantized = quantize([0.5, -0.25, 0.0, 0.1])
    >>> quantized.codes.hex(), quantized.remainders.hex()
    ('7fc10019', '88e0')
    """
    peak = max(map(abs, vector))
    factor = MAX_CODE * REMAINDER_STEPS / peak if peak else 0.0
    steps = [round(number * factor) + ZERO_REMAINDER for number in vector]
    codes = bytes([step >> REMAINDER_BITS & 0xFF for step in steps])
    half = len(steps) // 2
    pairs = zip(steps[:half], steps[half:], strict=True)
    return Quantized(codes, bytes([a & 0xF | (b & 0xF) << REMAINDER_BITS for a, b in pairs]))

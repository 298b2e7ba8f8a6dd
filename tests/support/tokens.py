"""Counter of the tokens in a text, with the o200k vocabulary of language models."""

from functools import cache

from splintr import AnyTokenizer, Tokenizer


@cache
def _tokenizer() -> AnyTokenizer:
    """Return the tokenizer, which is cached because loading it takes half a second."""
    return Tokenizer.from_pretrained("o200k_base")


def count_tokens(text: str) -> int:
    return len(_tokenizer().encode(text))

"""A search as it is asked: its words, how much each of them says, and what may have been meant."""

from dataclasses import dataclass
from math import log

from waybook.research.spelling import correct_word
from waybook.research.table import WordVectors, builtin_word_vectors
from waybook.research.words import split_words

MAX_QUERY_LENGTH = 1_000
MAX_TERMS = 12

#: English words that PostgreSQL leaves out of its indexes.
_STOP_WORDS = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her
hers herself it its itself they them their theirs themselves what which who whom this that these
those am is are was were be been being have has had having do does did doing a an the and but if or
because as until while of at by for with about against between into through during before after
above below to from up down in out on off over under again further then once here there when where
why how all any both each few more most other some such no nor not only own same so than too very s
t can will just don should now
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
#: What may stand around a word.
_AROUND = ".,;:!?()[]{}<>\"'`*-&|\\\u2013\u2014\u2026\u201c\u201d\u2018\u2019\xab\xbb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A word of a question, as it was written."""

    text: str
    #: What may have been meant, if it looks like a slip.
    correction: str | None
    #: Its share of what the question says: rare words say more. All shares make 1.
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    text: str
    terms: tuple[Term, ...]

    @property
    def embedding_text(self) -> str:
        """The text to be embedded: what was written, and what may have been meant."""
        return " ".join([self.text, *(term.correction for term in self.terms if term.correction)])

    def required_terms(self, least: float) -> tuple[Term, ...]:
        """The terms of which a passage must have one, if those it has are to weigh so much.

        The lightest are left out for as long as all that are left out weigh less together.
        """
        left_out, kept = 0.0, list[Term]()
        for term in sorted(self.terms, key=lambda term: term.weight):
            left_out += term.weight
            if left_out >= least or kept:
                kept.append(term)
        return tuple(kept)


def parse_query(text: str, table: WordVectors | None = None) -> SearchQuery:
    """Read what somebody asks for.

    >>> question = parse_query("how do vacines work?")
    >>> [(term.text, term.correction) for term in question.terms]
    [('vacines', 'vaccines'), ('work', None)]
    """
    table = table or builtin_word_vectors()
    text = " ".join(text[:MAX_QUERY_LENGTH].split())
    found: dict[str, tuple[str | None, float]] = {}
    for chunk in text.split(" "):
        term = _bare(chunk)
        inner = split_words(term)
        if inner and term.lower() not in STOP_WORDS and term not in found:
            instead = correct_word(inner[0], table) if len(inner) == 1 else None
            found[term] = instead, max(_information(instead or word, table) for word in inner)
    heaviest = sorted(found, key=lambda term: -found[term][1])[:MAX_TERMS]
    total = sum(found[term][1] for term in heaviest)
    terms = (
        Term(text=term, correction=found[term][0], weight=found[term][1] / total)
        for term in found
        if term in heaviest
    )
    return SearchQuery(text=text, terms=tuple(terms))


def _bare(chunk: str) -> str:
    """A chunk of the text without what stands around it, nor anything search would obey."""
    return chunk.strip(_AROUND).replace('"', " ").replace("\\", " ")


def _information(word: str, table: WordVectors) -> float:
    """How much it says that a text has this word: the square of the logarithm of its rank."""
    number = table.numbers.get(word)
    if number is None:
        stem = table.stem(word)
        number = table.numbers[stem] if stem else 2 * len(table.numbers)
    return log(number + 2) ** 2

"""Print the measures of plain language, or a sample to judge.

measure.py              the table
measure.py --hits NAME  every hit of the measures whose name contains NAME
measure.py --sample SEED [--where]  40 texts drawn at random
"""

import argparse
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from project.language import Text, corpus, measures  # noqa: E402 - the tests are found just above
from project.language_limits import ALLOWED, LIMITS  # noqa: E402

SAMPLES = 10
#: Shorter lines of docs are headings and table cells.
MIN_SENTENCE_LENGTH = 40


def print_table() -> None:
    """Print each measure with its total, its share and its limit."""
    sys.stdout.write(f"{'measure':45} {'hits':>6} {'of':>7} {'share':>7} {'limit':>6}\n")
    for name, total, hits in measures(ROOT, ALLOWED):
        share = 100 * len(hits) / total if total else 0
        sys.stdout.write(f"{name:45} {len(hits):6} {total:7} {share:6.1f}% {LIMITS[name]:6}\n")


def print_hits(part: str) -> None:
    """Print the hits of some measures with their places."""
    for name, _, hits in measures(ROOT, ALLOWED):
        if part in name:
            sys.stdout.writelines(f"{_where(hit)}: {_shown(hit)}\n" for hit in hits)


def print_sample(seed: str, *, where: bool) -> None:
    """Print as many comments, docstrings, test names and sentences, drawn with this seed."""
    read, chance = corpus(ROOT), random.Random(seed)  # noqa: S311 - a sample is no secret
    sentences = [
        text
        for text in read.sentences
        if len(text.text) >= MIN_SENTENCE_LENGTH and text.text[0] not in "#|<"
    ]
    kinds = {
        "comments": [text for text in read.comments if " " in text.text],
        "docstrings": read.docstrings,
        "test names": read.tests,
        "sentences of the docs": sentences,
    }
    number = 0
    for kind, texts in kinds.items():
        sys.stdout.write(f"\n{kind}\n")
        for text in chance.sample(texts, SAMPLES):
            number += 1
            place = f"  [{_where(text)}]" if where else ""
            sys.stdout.write(f"{number:3}. {_shown(text)}{place}\n")


def _where(text: Text) -> str:
    return f"{text.file}:{text.line}"


def _shown(text: Text) -> str:
    return " ".join(text.text.split())


def main(arguments: list[str]) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hits", metavar="NAME", help="list the hits of matching measures")
    parser.add_argument("--sample", metavar="SEED", help="draw texts to judge")
    parser.add_argument("--where", action="store_true", help="show where the samples are")
    options = parser.parse_args(arguments)
    if options.sample is not None:
        print_sample(options.sample, where=options.where)
    elif options.hits is not None:
        print_hits(options.hits)
    else:
        print_table()


if __name__ == "__main__":
    main(sys.argv[1:])

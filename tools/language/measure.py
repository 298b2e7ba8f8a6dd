"""Print measures of plain language, or random texts for a person to judge.

measure.py                          print the table of all measures
measure.py --hits NAME              list the hits of the measures whose name contains NAME
measure.py --sample SEED [--where]  print 40 random texts
"""

import argparse
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from project.language import Text, corpus, measures  # noqa: E402 - the path is set above
from project.language_limits import ALLOWED, LIMITS  # noqa: E402

SAMPLES_PER_KIND = 10
#: Minimum length of a line of the docs in the sample. Most shorter lines are headings and cells of
#: tables.
MIN_SENTENCE_LENGTH = 40


def print_table() -> None:
    """Print each measure with its number of hits, number of checked items, share and limit."""
    sys.stdout.write(f"{'measure':45} {'hits':>6} {'of':>7} {'share':>7} {'limit':>6}\n")
    for name, total, hits in measures(ROOT, ALLOWED):
        share = 100 * len(hits) / total if total else 0
        sys.stdout.write(f"{name:45} {len(hits):6} {total:7} {share:6.1f}% {LIMITS[name]:6}\n")


def print_hits(part: str) -> None:
    """Print file and line of each hit, for the measures whose names contain `part`."""
    for name, _, hits in measures(ROOT, ALLOWED):
        if part in name:
            sys.stdout.writelines(f"{_where(hit)}: {_single_line(hit)}\n" for hit in hits)


def print_sample(seed: str, *, where: bool) -> None:
    """Print random comments, docstrings, test names and sentences, ten of each."""
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
        for text in chance.sample(texts, SAMPLES_PER_KIND):
            number += 1
            place = f"  [{_where(text)}]" if where else ""
            sys.stdout.write(f"{number:3}. {_single_line(text)}{place}\n")


def _where(text: Text) -> str:
    return f"{text.file}:{text.line}"


def _single_line(text: Text) -> str:
    return " ".join(text.text.split())


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--hits", metavar="NAME", help="list the hits of the measures whose name contains NAME"
    )
    parser.add_argument("--sample", metavar="SEED", help="print random texts, drawn with this seed")
    parser.add_argument("--where", action="store_true", help="print file and line of each sample")
    options = parser.parse_args(arguments)
    if options.sample is not None:
        print_sample(options.sample, where=options.where)
    elif options.hits is not None:
        print_hits(options.hits)
    else:
        print_table()


if __name__ == "__main__":
    main(sys.argv[1:])

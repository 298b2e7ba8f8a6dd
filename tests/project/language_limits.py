"""For each language measure, the maximum number of matches, and the allowed exceptions."""

from typing import Final

from project.language import Allowed

#: Maximum number of matches of each language measure. A limit may be lowered, never raised.
LIMITS: Final = {
    "docstrings opening with a question word": 0,
    "comments of queries opening with a question word": 0,
    "docstrings with private idiom": 2,
    "comments with private idiom": 0,
    "comments of queries with private idiom": 0,
    "strings of the source with private idiom": 1,
    "lines of templates with private idiom": 0,
    "lines of docs with private idiom": 1,
    "names bound": 200,
    "limits outside MAX_ and MIN_": 0,
    "test names with pronouns or idiom": 0,
    "test names over 70 characters": 0,
    "British spellings": 0,
}

ALLOWED: Final = (
    Allowed(
        "src/waybook/embedded_postgres/data_directory.py", "nobody", "the name of a Unix account"
    ),
)

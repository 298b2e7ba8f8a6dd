"""Where vectors are stored and ranked."""

from enum import StrEnum


class Backend(StrEnum):
    """The place where vectors are stored and ranked."""

    #: Quantized, in an ordinary table, ranked in the process.
    PORTABLE = "portable"
    #: In a table of halfvec, ranked by the extension.
    PGVECTOR = "pgvector"

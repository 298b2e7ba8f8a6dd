"""Converts row values from the audit to parameters of SQL statements."""

from waybook.json_values import Json
from waybook.store.audit import Patch
from waybook.store.driver.queries import AsJson, Query, Statement, Value

JSON_FIELDS = frozenset(
    {
        *("result_schema", "result_summary", "report", "budget", "steps", "questions"),
        *("content", "tags", "metadata"),
    }
)


def scalar(value: Json) -> Value:
    if isinstance(value, list | dict):
        raise TypeError("a column of one value was given a structure")
    return value


def scalars(patch: Patch, names: tuple[str, ...]) -> tuple[Value, ...]:
    return tuple([scalar(patch.values[name]) for name in names])


def fill(query: Query, values: dict[str, Json], **extra_values: Value) -> Statement:
    row_values = {
        place: AsJson(values[place]) if place in JSON_FIELDS else scalar(values[place])
        for place in query.places
        if place not in extra_values
    }
    return query(**row_values, **extra_values)

"""Converts row values from the audit to parameters of SQL statements."""

from collections.abc import Mapping

from waybook.json_values import Json
from waybook.store.columns import JSON_COLUMNS, Table
from waybook.store.driver.queries import AsJson, Query, Statement, Value


def scalar(value: Json) -> Value:
    if isinstance(value, list | dict):
        raise TypeError("a column of one value was given a structure")
    return value


def new_row(table: Table, values: Mapping[str, Json], **extra_values: Value) -> tuple[Value, ...]:
    """Return the values of a new row in the order of the columns; missing values are null."""
    return tuple(
        [
            extra_values[name]
            if name in extra_values
            else AsJson(values.get(name))
            if kind == "json"
            else scalar(values.get(name))
            for name, kind, _ in table.inserted
        ]
    )


def fill(query: Query, values: Mapping[str, Json], **extra_values: Value) -> Statement:
    """Return a statement with these values; missing values are null."""
    row_values = {
        place: AsJson(values.get(place)) if place in JSON_COLUMNS else scalar(values.get(place))
        for place in query.places
        if place not in extra_values
    }
    return query(**row_values, **extra_values)

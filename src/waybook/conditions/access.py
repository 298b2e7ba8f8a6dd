"""Fields, keys and elements: how a condition reaches into JSON."""

from waybook.conditions.budget import TEXT_PER_UNIT, Budget
from waybook.conditions.faults import ConditionError
from waybook.conditions.values import SCALAR_TYPES, Json, kind, quoted, to_cel_value


def select(value: Json, field: str, at: int) -> Json:
    """The field of a map.

    Raises:
        Fault: there is no such field, or this is no map.
    """
    if type(value) is dict:
        if field not in value:
            raise _missing(field, at)
        found = value[field]
        return found if type(found) in SCALAR_TYPES else to_cel_value(found, at)
    raise ConditionError(f"cannot read field {quoted(field)} of a value of type {kind(value)}", at)


def has(value: Json, field: str, at: int) -> bool:
    """Say whether a map has the field; of anything else the question is an error, as in CEL."""
    if type(value) is dict:
        return field in value
    raise ConditionError(
        f"cannot look for field {quoted(field)} in a value of type {kind(value)}", at
    )


def index(value: Json, key: Json, at: int, budget: Budget) -> Json:
    """The element of a list, or the value at a key of a map.

    Raises:
        Fault: there is none, or this cannot be indexed so.
    """
    if type(value) is list:
        found = value[_place(key, len(value), at)]
        return found if type(found) in SCALAR_TYPES else to_cel_value(found, at)
    if type(value) is not dict:
        raise ConditionError(f"cannot index a value of type {kind(value)}", at)
    if type(key) is not str:
        raise ConditionError(f"no key of type {kind(key)} in this map, its keys are strings,", at)
    budget.spend(len(key) // TEXT_PER_UNIT, at)
    return select(value, key, at)


def _place(key: Json, length: int, at: int) -> int:
    """The place in a list; CEL also takes a double without fraction."""
    if type(key) is float and key.is_integer():
        place = int(key)
    elif type(key) is int:
        place = key
    else:
        raise ConditionError(f"the index of a list must be an int, found {kind(key)},", at)
    if 0 <= place < length:
        return place
    raise ConditionError(f"no element {key} in a list of {length}", at)


def _missing(field: str, at: int) -> ConditionError:
    return ConditionError(f"no field {quoted(field)}", at, "test it with has() first")

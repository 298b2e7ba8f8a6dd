"""Errors for invalid tool arguments, worded for the caller."""

from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from waybook.errors import InvalidInput, TooLarge

MAX_FAULTS = 10
MAX_NAME_LENGTH = 100


def refusal(names: Sequence[str], fault: ValidationError) -> InvalidInput:
    """Return the error for invalid arguments. `names` are the arguments that the tool accepts."""
    errors = sorted(fault.errors(include_url=False), key=_least_useful)
    faults = [_fault(names, error) for error in errors[:MAX_FAULTS]]
    limits = [
        e["ctx"]["max_length"] for e in errors if e["type"] in {"string_too_long", "too_long"}
    ]
    first = faults[0]
    more = f" (and {fault.error_count() - 1} more)" if fault.error_count() > 1 else ""
    message = f"{first['at']}: {first['fault']}{more}"
    if limits:
        return TooLarge(message, faults=faults, limit=limits[0])
    return InvalidInput(message, faults=faults)


def _least_useful(error: ErrorDetails) -> bool:
    return error["type"] != "extra_forbidden"


ERROR_TEXT = {
    "missing": "is missing",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}
LIMIT_ERRORS = {
    "too_short": ("must have at least {} items", "min_length"),
    "too_long": ("must have at most {} items", "max_length"),
    "string_too_long": ("must have at most {} characters", "max_length"),
    "greater_than": ("must be more than {}", "gt"),
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than": ("must be less than {}", "lt"),
    "less_than_equal": ("must be at most {}", "le"),
}


def _in_words(error: ErrorDetails) -> str:
    if error["type"] in LIMIT_ERRORS:
        message, limit = LIMIT_ERRORS[error["type"]]
        return message.format(error.get("ctx", {}).get(limit))
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
    return ERROR_TEXT.get(error["type"], message)


def _fault(names: Sequence[str], error: ErrorDetails) -> dict[str, str]:
    at = ".".join(str(part)[:MAX_NAME_LENGTH] for part in error["loc"]) or "arguments"
    message = _in_words(error)
    if error["type"] == "extra_forbidden":
        known = ", ".join(names)
        message = "unknown argument" + (
            f"; this tool accepts {known}" if len(error["loc"]) == 1 else ""
        )
    return {"at": at, "fault": message}

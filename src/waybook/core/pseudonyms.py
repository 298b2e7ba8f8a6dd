"""Replaces a person's name by a pseudonym in the fields that the server writes.

A text that a user or agent wrote stays unchanged even if it mentions the name, because the text
belongs to the org.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from waybook.core.changes import WHOLE_ROW
from waybook.core.decision_context import Channel
from waybook.json_values import Json

#: Suffixes and full names of the database columns that may contain a person's name.
_PERSON_FIELD_SUFFIXES = ("_by", "_as")
_PERSON_FIELDS = frozenset({"for_user", "by", "actor", "fail_reason", "assignee"})
#: Suffixes and full names of the JSON keys, in replies and audit entries, whose values may be a
#: person's name.
_PERSON_DETAIL_SUFFIXES = ("By", "As")
_PERSON_DETAIL_KEYS = frozenset(
    {"takenFrom", "actor", "by", "user", "author", "reason", "assignee"}
)


def rejection_reason(user: str) -> str:
    """Return the reason that the server records when a user rejects a plan.

    >>> rejection_reason("ann")
    'rejected by ann'
    """
    return f"rejected by {user}"


class Pseudonymization(NamedTuple):
    name: str
    pseudonym: str

    def replace(self, value: Json) -> Json:
        """Replace the person's name in a value, if the value contains it.

        >>> to = Pseudonymization("ann", "erased-1a2b")
        >>> to.replace("ann"), to.replace("mcp:ann"), to.replace("annabel"), to.replace(None)
        ('erased-1a2b', 'mcp:erased-1a2b', 'annabel', None)
        >>> to.replace("rejected by ann: too long"), to.replace("rejected by annabel")
        ('rejected by erased-1a2b: too long', 'rejected by annabel')
        """
        if not isinstance(value, str):
            return value
        for begin in ("", rejection_reason(""), *(f"{door}:" for door in Channel)):
            prefixed_name = f"{begin}{self.name}"
            if value == prefixed_name or (
                begin == rejection_reason("") and value.startswith(f"{prefixed_name}: ")
            ):
                return f"{begin}{self.pseudonym}{value[len(prefixed_name) :]}"
        return value


def is_person_field(field: str) -> bool:
    """Return whether this field of a database row contains a person's name.

    >>> is_person_field("held_by"), is_person_field("requested_as"), is_person_field("name")
    (True, True, False)
    """
    return field in _PERSON_FIELDS or field.endswith(_PERSON_FIELD_SUFFIXES)


def _is_person_detail(word: str) -> bool:
    return word in _PERSON_DETAIL_KEYS or word.endswith(_PERSON_DETAIL_SUFFIXES)


def pseudonymize_details(details: Mapping[str, Json], to: Pseudonymization) -> dict[str, Json]:
    fields: dict[str, Json] = {
        word: to.replace(value) if _is_person_detail(word) else value
        for word, value in details.items()
    }
    changes = details.get("changes")
    if isinstance(changes, list):
        fields["changes"] = [
            _with_values(group, lambda field, value: _renamed_value(field, value, to))
            for group in changes
        ]
    return fields


def _with_values(group: Json, convert: Callable[[str, Json], Json]) -> Json:
    match group:
        case [entity, row_id, dict() as fields]:
            converted: dict[str, Json] = {
                field: [convert(field, value) for value in values]
                if isinstance(values, list)
                else values
                for field, values in fields.items()
            }
            return [entity, row_id, converted]
        case _:
            return group


def _renamed_value(field: str, value: Json, to: Pseudonymization) -> Json:
    if field == WHOLE_ROW and isinstance(value, dict):
        return {name: _renamed_value(name, inner, to) for name, inner in value.items()}
    return to.replace(value) if is_person_field(field) else value


def remove_member_details(
    details: Mapping[str, Json], gone: frozenset[str], to: Pseudonymization
) -> dict[str, Json]:
    """Remove the personal data of the users `gone` from the details of an audit entry."""
    changes = details.get("changes")
    if not isinstance(changes, list):
        return dict(details)
    return {
        **details,
        "changes": [
            _with_values(group, lambda _, value: _blank(value, to))
            if isinstance(group, list) and len(group) > 1 and group[1] in gone
            else group
            for group in changes
        ],
    }


def _blank(value: Json, to: Pseudonymization) -> Json:
    if not isinstance(value, dict):
        return value
    blank: dict[str, Json] = {
        **dict.fromkeys(("name", "label"), to.pseudonym),
        **dict.fromkeys(("email", "issuer", "subject")),
    }
    return {name: blank.get(name, field_value) for name, field_value in value.items()}


def pseudonymize_answer(answer: Json, to: Pseudonymization, *, ours: bool = False) -> Json:
    """Replace the person's name in a stored answer: in error messages and in fields for names.

    >>> pseudonymize_answer(
    ...     {"error": {"message": "held by ann."}},
    ...     Pseudonymization("ann", "erased-1a2b"),
    ... )
    {'error': {'message': 'held by erased-1a2b.'}}
    """
    if isinstance(answer, list):
        return [pseudonymize_answer(inner, to) for inner in answer]
    if isinstance(answer, dict):
        renamed: dict[str, Json] = {}
        for word, value in answer.items():
            ours_too = ours or word == "error"
            if not isinstance(value, str):
                renamed[word] = pseudonymize_answer(value, to, ours=ours_too)
            elif ours_too and word == "message":
                renamed[word] = value.replace(to.name, to.pseudonym)
            else:
                renamed[word] = to.replace(value) if _is_person_detail(word) else value
        return renamed
    return answer

"""Webhook messages: their content, their signatures, and their retries."""

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from plan_builders import NOON, a_plan, a_review, a_step
from waybook.core.events import NotificationKind
from waybook.core.hidden_characters import escape_hidden, hidden_by_field
from waybook.errors import Misconfigured
from waybook.json_values import Json
from waybook.notifications.content import (
    WebhookFormat,
    encode_body,
    load_templates,
    sample_payload,
    template_file,
)
from waybook.notifications.message import (
    MAX_BACKOFF,
    MAX_DELIVERY_TIME,
    DeliveryOutcome,
    DeliveryStatus,
    WebhookMessage,
    backoff,
    decide_retry,
    parse_secrets,
    signature_headers,
)
from waybook.plan.notifications import NOTIFICATION_BY_STATUS, plan_notifications
from waybook.plan.states import PlanStatus, StepStatus

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "webhook.schema.json"
TEXTS = load_templates({})
#: Recommended by Standard Webhooks.
MOST_BYTES = 20_000

chances = st.floats(0, 1)
#: Any text an agent may write into a name.
names = st.text(max_size=2_000)


def a_letter(occasion: NotificationKind, attempt: int = 1, **values: Json) -> WebhookMessage:
    data: dict[str, Json] = {**sample_payload(occasion)["data"], **values}  # type: ignore[dict-item]  # an object
    return WebhookMessage(
        id="0190b2f0-0000-7000-8000-000000000009",
        event=str(occasion),
        data=data,
        at=NOON,
        now=NOON,
        attempt=attempt,
        expires_at=NOON + MAX_DELIVERY_TIME,
    )


# Timing


@given(st.integers(1, 10_000), chances)
def test_a_pause_is_never_too_long_nor_none(attempt: int, chance: float) -> None:
    assert timedelta(seconds=4) <= backoff(attempt, chance) <= 1.2 * MAX_BACKOFF


@given(st.lists(chances, min_size=40, max_size=40))
def test_a_letter_nobody_takes_is_tried_for_most_of_a_day_and_no_longer(
    chances: list[float],
) -> None:
    letter, refused = (
        a_letter(NotificationKind.PLAN_FAILED),
        DeliveryOutcome("it answered 500", 500),
    )
    for chance in chances:
        found = decide_retry(letter, refused, chance)
        if found.status is DeliveryStatus.GIVEN_UP:
            assert timedelta(hours=19) < letter.now - NOON <= MAX_DELIVERY_TIME
            return
        assert letter.now < found.due_at <= letter.expires_at
        letter = letter._replace(now=found.due_at, attempt=letter.attempt + 1)
    pytest.fail("it was never given up")


# Content


@pytest.mark.parametrize("occasion", NotificationKind)
def test_every_kind_of_letter_fits_its_schema(occasion: NotificationKind) -> None:
    Draft202012Validator.check_schema(json.loads(SCHEMA.read_text("utf-8")))
    body = orjson.loads(encode_body(a_letter(occasion), WebhookFormat.STANDARD, TEXTS).body)
    judge = Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    assert [*judge.iter_errors(body)] == []
    assert [*judge.iter_errors({**body, "type": "none"})] != []


@given(names, names, names, st.sampled_from([*NOTIFICATION_BY_STATUS]))
def test_a_plans_letter_is_short_whatever_its_names_are(
    name: str, title: str, summary: str, status: PlanStatus
) -> None:
    steps = [a_step(StepStatus.IN_PROGRESS, title=title) for _ in range(200)]
    before = a_plan(*steps)
    plan = before._replace(
        name=name, status=status, review=a_review(1, summary=summary, questions=("?",))
    )
    (notice,) = plan_notifications(before, plan)
    letter = a_letter(NOTIFICATION_BY_STATUS[status])._replace(data=notice.data)
    for form in WebhookFormat:
        assert len(encode_body(letter, form, TEXTS).body) <= MOST_BYTES
    assert plan_notifications(plan, plan) == ()


@given(names, st.sampled_from([*NotificationKind]))
def test_nothing_in_a_chat_acts(name: str, occasion: NotificationKind) -> None:
    letter = a_letter(occasion, planName=name, runName=name, stageName=name)
    said = orjson.loads(encode_body(letter, WebhookFormat.SLACK, TEXTS).body)["text"]
    assert "<" not in said
    assert ">" not in said


def odd_in_all(value: Json) -> Json:
    """Return the same with a hidden character in every text."""
    match value:
        case str():
            return f"{value}\u202e"
        case dict():
            return {name: odd_in_all(inner) for name, inner in value.items()}
        case list():
            return [odd_in_all(inner) for inner in value]
    return value


@pytest.mark.parametrize("occasion", NotificationKind)
def test_characters_that_nobody_sees_are_named_to_programs_and_shown_to_people(
    occasion: NotificationKind,
) -> None:
    plain = a_letter(occasion)
    letter = plain._replace(data={name: odd_in_all(told) for name, told in plain.data.items()})
    body = orjson.loads(encode_body(letter, WebhookFormat.STANDARD, TEXTS).body)
    assert body["data"] == {**letter.data, "oddCharacters": hidden_by_field(letter.data)}
    assert body["data"]["oddCharacters"]["by.user"] == {"bidi": 1}
    judge = Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    flag = body["data"]["oddCharacters"]
    told = sample_payload(occasion)
    assert [*judge.iter_errors({**told, "data": {**plain.data, "oddCharacters": flag}})] == []
    assert [*judge.iter_errors({**told, "data": {**plain.data, "oddCharacters": [flag]}})] != []
    for form in (WebhookFormat.SLACK, WebhookFormat.TEXT):
        said = encode_body(letter, form, TEXTS).body.decode()
        assert "⟦U+202E⟧" in said
        assert escape_hidden(said) == said
    assert b"oddCharacters" not in encode_body(plain, WebhookFormat.STANDARD, TEXTS).body


@pytest.mark.parametrize("occasion", NotificationKind)
def test_a_text_has_a_subject_a_body_and_the_link(occasion: NotificationKind) -> None:
    told = encode_body(a_letter(occasion), WebhookFormat.TEXT, TEXTS).body.decode()
    subject, empty, *body = told.splitlines()
    assert (bool(subject), empty) == (True, "")
    link = sample_payload(occasion)["data"]["url"]  # type: ignore[index,call-overload]  # JSON
    assert str(link) in body[-1]
    assert not any("  " in line or "{" in line or line.strip() == "" for line in body)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("plan.completed.txt", "{{ secrets }}", "secrets"),
        ("plan.completed.txt", "{{ data.__class__() }}", "a call"),
        ("plan.completed.txt", "{% include '/etc/passwd' %}", "include"),
        ("plan.completed.txt", "{% if %}", "line 1"),
        ("plan.completed.txt", " ", "says nothing"),
        ("plan.complete.txt", "Done.", "the text of no event"),
    ],
)
def test_a_template_that_is_none_is_refused_at_the_start(name: str, text: str, fault: str) -> None:
    with pytest.raises(Misconfigured, match=fault) as refused:
        load_templates({name: text})
    assert name in refused.value.message


def test_each_occasion_has_its_file_and_no_other() -> None:
    folder = Path(__file__).parents[2] / "src" / "waybook" / "notifications" / "templates"
    assert {path.name for path in folder.iterdir()} == {template_file(o) for o in NotificationKind}


# Signatures


@given(st.binary(min_size=24, max_size=64), st.binary(), st.integers(0, 2**40))
def test_a_signature_is_the_one_the_format_asks_for(key: bytes, body: bytes, at: int) -> None:
    (read,) = parse_secrets(f"whsec_{base64.b64encode(key).decode()}")
    told = signature_headers("id", at, body, (read,))
    expected = hmac.new(key, b"id.%d.%b" % (at, body), hashlib.sha256).digest()
    assert told == {
        "webhook-id": "id",
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(expected).decode()}",
    }


@pytest.mark.parametrize(
    "secret",
    ["secret", "whsec_", "whsec_c2hvcnQ=", "whsec_!!!", base64.b64encode(b"k" * 32).decode()],
)
def test_a_secret_of_another_form_is_refused_and_not_told(secret: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        parse_secrets(secret)
    assert secret in {"secret", "whsec_"} or secret not in refused.value.message

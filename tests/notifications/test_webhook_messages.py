"""Webhook messages: their content, signatures and retries."""

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

from plan_builders import NOON, make_plan, make_review, make_step
from waybook.core.events import NotificationKind
from waybook.core.hidden_characters import escape_hidden, hidden_by_field
from waybook.errors import Misconfigured
from waybook.json_values import Json
from waybook.notifications.delivery import (
    MAX_BACKOFF,
    MAX_DELIVERY_TIME,
    DeliveryOutcome,
    DeliveryStatus,
    WebhookFormat,
    WebhookMessage,
    backoff,
    decide_retry,
    parse_secrets,
    signature_headers,
)
from waybook.notifications.message import encode_body, load_templates, sample_payload, template_file
from waybook.plan.model import PlanStatus, StepStatus
from waybook.plan.progress import NOTIFICATION_BY_STATUS, plan_notifications

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "webhook.schema.json"
TEXTS = load_templates({})
#: Maximum size of a message in bytes, according to the Standard Webhooks specification.
MAX_BYTES = 20_000

chances = st.floats(0, 1)
#: Texts that an agent may use as a name.
names = st.text(max_size=2_000)


def make_message(occasion: NotificationKind, attempt: int = 1, **values: Json) -> WebhookMessage:
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


@given(st.integers(1, 10_000), chances)
def test_delay_before_any_webhook_retry_is_within_bounds(attempt: int, chance: float) -> None:
    assert timedelta(seconds=4) <= backoff(attempt, chance) <= 1.2 * MAX_BACKOFF


@given(st.lists(chances, min_size=40, max_size=40))
def test_refused_webhook_is_retried_until_the_maximum_delivery_time(chances: list[float]) -> None:
    message, refused = (
        make_message(NotificationKind.PLAN_FAILED),
        DeliveryOutcome("it answered 500", 500),
    )
    for chance in chances:
        status, due_at = decide_retry(message, refused, chance)
        if status is DeliveryStatus.GIVEN_UP:
            assert timedelta(hours=19) < message.now - NOON <= MAX_DELIVERY_TIME
            return
        assert message.now < due_at <= message.expires_at
        message = message._replace(now=due_at, attempt=message.attempt + 1)
    pytest.fail("it was never given up")


@pytest.mark.parametrize("occasion", NotificationKind)
def test_webhook_body_of_every_kind_conforms_to_the_schema(occasion: NotificationKind) -> None:
    Draft202012Validator.check_schema(json.loads(SCHEMA.read_text("utf-8")))
    body = orjson.loads(encode_body(make_message(occasion), WebhookFormat.STANDARD, TEXTS)[1])
    judge = Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    assert [*judge.iter_errors(body)] == []
    assert [*judge.iter_errors({**body, "type": "none"})] != []


@given(names, names, names, st.sampled_from([*NOTIFICATION_BY_STATUS]))
def test_webhook_body_with_any_names_stays_within_byte_limit(
    name: str, title: str, summary: str, status: PlanStatus
) -> None:
    steps = [make_step(StepStatus.IN_PROGRESS, title=title) for _ in range(200)]
    before = make_plan(*steps)
    plan = before._replace(
        name=name, status=status, review=make_review(1, summary=summary, questions=("?",))
    )
    (notice,) = plan_notifications(before, plan)
    message = make_message(NOTIFICATION_BY_STATUS[status])._replace(data=notice.data)
    for form in WebhookFormat:
        assert len(encode_body(message, form, TEXTS)[1]) <= MAX_BYTES
    assert plan_notifications(plan, plan) == ()


@given(names, st.sampled_from([*NotificationKind]))
def test_slack_message_with_any_name_contains_no_angle_brackets(
    name: str, occasion: NotificationKind
) -> None:
    message = make_message(occasion, planName=name, runName=name, stageName=name)
    text = orjson.loads(encode_body(message, WebhookFormat.SLACK, TEXTS)[1])["text"]
    assert "<" not in text
    assert ">" not in text


def odd_in_all(value: Json) -> Json:
    """Return a copy of the value with a hidden character in each string."""
    match value:
        case str():
            return f"{value}\u202e"
        case dict():
            return {name: odd_in_all(inner) for name, inner in value.items()}
        case list():
            return [odd_in_all(inner) for inner in value]
    return value


@pytest.mark.parametrize("occasion", NotificationKind)
def test_hidden_characters_are_listed_in_json_and_escaped_in_text(
    occasion: NotificationKind,
) -> None:
    plain = make_message(occasion)
    message = plain._replace(data={name: odd_in_all(sample) for name, sample in plain.data.items()})
    body = orjson.loads(encode_body(message, WebhookFormat.STANDARD, TEXTS)[1])
    assert body["data"] == {**message.data, "oddCharacters": hidden_by_field(message.data)}
    assert body["data"]["oddCharacters"]["by.user"] == {"bidi": 1}
    judge = Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    flag = body["data"]["oddCharacters"]
    sample = sample_payload(occasion)
    assert [*judge.iter_errors({**sample, "data": {**plain.data, "oddCharacters": flag}})] == []
    assert [*judge.iter_errors({**sample, "data": {**plain.data, "oddCharacters": [flag]}})] != []
    for form in (WebhookFormat.SLACK, WebhookFormat.TEXT):
        text = encode_body(message, form, TEXTS)[1].decode()
        assert "⟦U+202E⟧" in text
        assert escape_hidden(text) == text
    assert b"oddCharacters" not in encode_body(plain, WebhookFormat.STANDARD, TEXTS)[1]


@pytest.mark.parametrize("occasion", NotificationKind)
def test_text_message_has_subject_body_and_link_in_last_line(occasion: NotificationKind) -> None:
    text = encode_body(make_message(occasion), WebhookFormat.TEXT, TEXTS)[1].decode()
    subject, empty, *body = text.splitlines()
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
        ("plan.completed.txt", " ", "gives an empty text"),
        ("plan.complete.txt", "Done.", "no notification uses the template"),
    ],
)
def test_invalid_notification_template_raises_misconfigured(
    name: str, text: str, fault: str
) -> None:
    with pytest.raises(Misconfigured, match=fault) as refused:
        load_templates({name: text})
    assert name in refused.value.message


def test_every_kind_of_notification_has_a_single_template() -> None:
    folder = Path(__file__).parents[2] / "src" / "waybook" / "notifications" / "templates"
    assert {path.name for path in folder.iterdir()} == {template_file(o) for o in NotificationKind}


@given(st.binary(min_size=24, max_size=64), st.binary(), st.integers(0, 2**40))
def test_webhook_signature_is_hmac_sha256_of_id_timestamp_and_body(
    key: bytes, body: bytes, at: int
) -> None:
    (read,) = parse_secrets(f"whsec_{base64.b64encode(key).decode()}")
    headers = signature_headers("id", at, body, (read,))
    expected = hmac.new(key, b"id.%d.%b" % (at, body), hashlib.sha256).digest()
    assert headers == {
        "webhook-id": "id",
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(expected).decode()}",
    }


@pytest.mark.parametrize(
    "secret",
    ["secret", "whsec_", "whsec_c2hvcnQ=", "whsec_!!!", base64.b64encode(b"k" * 32).decode()],
)
def test_invalid_webhook_secret_is_not_shown_in_the_error(secret: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        parse_secrets(secret)
    assert secret in {"secret", "whsec_"} or secret not in refused.value.message

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.integrations.llm_messages import extract_json
from waybook.json_values import Json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
WRAPPINGS = [
    "{}",
    "\n  {}\n",
    "```json\n{}\n```",
    "```\n{}\n```",
    "Here you are:\n\n```json\n{}\n```\n\nAnything else?",
    '<think>Let me see: {{"a": maybe?</think>\n{}',
]


@given(value=JSON, wrapping=st.sampled_from(WRAPPINGS))
def test_json_is_extracted_from_every_form_of_model_answer(value: Json, wrapping: str) -> None:
    assert extract_json(wrapping.format(json.dumps(value))) == value


@given(value=JSON.filter(lambda value: isinstance(value, dict | list)))
def test_json_is_extracted_from_surrounding_text(value: Json) -> None:
    assert extract_json(f"The data are {json.dumps(value)}, I think.") == value


@given(text=st.text())
def test_extracting_json_from_any_text_raises_only_value_error(text: str) -> None:
    try:
        extract_json(text)
    except ValueError:
        return


@pytest.mark.parametrize(
    "text", ["", "No.", "3 rivers", "{", "[1,", "NaN", "[Infinity]", "{'a': 1}", "9" * 5_000]
)
def test_text_without_json_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        extract_json(text)


@pytest.mark.parametrize(
    "text", ["[" * 1_000_000, "```" * 700_000, '{"a":' * 400_000, "```\n[" * 400_000]
)
def test_json_extraction_from_long_unclosed_text_ends_within_5_seconds(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="no JSON"):
        extract_json(text)
    assert time.process_time() - began < 5

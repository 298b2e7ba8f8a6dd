"""Folders of skills: valid skills are loaded, and invalid ones are skipped and reported."""

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.app.skills import loader
from waybook.app.skills.loader import (
    InvalidSkill,
    find_skills,
    parse_skill,
    read_skill,
    read_skills,
)
from waybook.app.skills.skill import Skill

HEAD = {"name": "a-skill", "description": "Does it."}


def make_text(body: str = "Do it.", **head: Any) -> str:  # noqa: ANN401 - any JSON
    """Return the text of a `SKILL.md` file with these fields at its top."""
    fields = {name: value for name, value in {**HEAD, **head}.items() if value is not None}
    lines = "\n".join(f"{name}: {json.dumps(value)}" for name, value in fields.items())
    return f"---\n{lines}\n---\n\n{body}\n"


def make_folder(place: Path, text: str | None = None, name: str = "a-skill") -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(make_text(name=name) if text is None else text)
    return folder


def fault_of(place: Path) -> str:
    """Return the error about the only skill in this folder, which is invalid."""
    ((path, message),) = find_skills(str(place))[1]
    assert path.startswith(str(place))
    return message


def test_skill_parser_returns_all_front_matter_and_body() -> None:
    extra: dict[str, Any] = {
        "license": "MIT",
        "compatibility": "Needs git",
        "allowed-tools": ["Read"],
        "x": 1,
    }
    adds = {"output-media-type": "Text/CSV", "formatting-instructions": "As a table.", "y": "z"}
    skill = parse_skill(make_text(**extra, metadata=adds), "a-skill")
    assert (skill.name, skill.description, skill.body) == ("a-skill", "Does it.", "Do it.")
    assert skill.output_media_type == "text/csv"
    assert skill.formatting_instructions == "As a table."
    assert skill.front_matter == {**HEAD, **extra, "metadata": adds}


@pytest.mark.parametrize("name", ["a", "a-b", "x2", "9-lives", "a" * 64])
def test_skill_name_of_lowercase_letters_digits_and_hyphens_is_accepted(name: str) -> None:
    assert parse_skill(make_text(name=name), name).name == name


@pytest.mark.parametrize(
    "name", ["A", "a_b", "-a", "a-", "a--b", "a b", "ä", "a/b", "..", "a" * 65, "a\n", "claude:x"]
)
def test_skill_with_malformed_name_raises_invalid_skill(name: str) -> None:
    with pytest.raises(InvalidSkill, match="lower-case letters"):
        parse_skill(make_text(name=name), name)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"name": None}, "needs a name"),
        ({"name": 7}, "needs a name"),
        ({"description": None}, "needs a description"),
        ({"description": "  "}, "needs a description"),
        ({"description": "x" * 1025}, "over 1,024"),
        ({"compatibility": "x" * 501}, "1 to 500"),
        ({"compatibility": ""}, "1 to 500"),
        ({"license": ["MIT"]}, "license must be a text"),
        ({"metadata": "x"}, "metadata must be"),
        ({"allowed-tools": {"a": 1}}, "allowed-tools must be"),
        ({"metadata": {"output-media-type": "image/png"}}, "output-media-type"),
        ({"metadata": {"formatting-instructions": ["x"]}}, "formatting-instructions"),
        ({"x": "y" * 9_000}, "over 8,000"),
    ],
)
def test_skill_with_invalid_front_matter_field_raises_invalid_skill(
    head: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidSkill, match=said):
        parse_skill(make_text(**head), "a-skill")


def test_skill_description_of_1024_characters_is_accepted() -> None:
    assert parse_skill(make_text(description="x" * 1024), "a-skill").description == "x" * 1024


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "front matter"),
        ("Do it.", "front matter"),
        ("---\nname: a-skill\n", "front matter"),
        ("---\n[a\n---\n", "not YAML"),
        ("---\n- a\n---\n", "names to values"),
        ("---\n" + "[" * 5_000 + "\n---\n", "over 100 brackets"),
        ("---\n" + "[" * 99 + "\n---\n", "not YAML"),
        ("---\na: &a [x, x]\nb: [*a, *a]\n---\n", "alias"),
        (make_text("x" * 40_001), "over 40,000"),
        (make_text(name="other"), "differs from the folder"),
    ],
)
def test_skill_with_malformed_text_raises_invalid_skill(text: str, said: str) -> None:
    with pytest.raises(InvalidSkill, match=said):
        parse_skill(text, "a-skill")


def test_skill_text_keeps_horizontal_rules() -> None:
    skill = parse_skill("---\nname: a-skill\ndescription: x\n---\nOne.\n\n---\n\nTwo.", "a-skill")
    assert skill.body == "One.\n\n---\n\nTwo."


def test_skill_file_may_have_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    text = "\ufeff" + make_text().replace("\n", "\r\n")
    (folder / "SKILL.md").write_bytes(text.encode())
    assert read_skill(folder).body == "Do it."


TEXTS = st.text(st.characters(codec="utf-8"))


@given(TEXTS | st.builds("---\n{}\n---\n{}".format, TEXTS, TEXTS))
def test_any_text_parses_as_skill_or_raises_invalid_skill(text: str) -> None:
    with contextlib.suppress(InvalidSkill):
        assert isinstance(parse_skill(text, "a-skill"), Skill)


def test_builtin_skills_are_valid() -> None:
    skills, errors = find_skills("")
    assert [skill.name for skill in skills] == ["deep-research", "quick-scan"]
    assert errors == ()


def test_skill_in_later_folder_overrides_skill_with_same_name(tmp_path: Path) -> None:
    make_folder(tmp_path / "one", make_text("First."))
    make_folder(tmp_path / "two", make_text("Second."))
    make_folder(tmp_path / "two", name="another")
    (tmp_path / "two" / "no-skill").mkdir()
    (tmp_path / "two" / "a-file").touch()
    skills, errors = find_skills(os.pathsep.join([str(tmp_path / "one"), str(tmp_path / "two")]))
    assert errors == ()
    bodies = {skill.name: skill.body for skill in skills}
    assert bodies["a-skill"] == "Second."
    assert list(bodies) == ["a-skill", "another", "deep-research", "quick-scan"]


def test_invalid_skill_folder_is_skipped_with_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_folder(tmp_path, name="good")
    make_folder(tmp_path, "nothing", name="bad")
    with caplog.at_level(logging.WARNING):
        skills = read_skills(os.pathsep.join([str(tmp_path), str(tmp_path / "nowhere")]))
    assert "good" in {skill.name for skill in skills}
    assert "bad" not in {skill.name for skill in skills}
    no_head = "SKILL.md must begin with front matter between lines of ---"
    assert [record.getMessage() for record in caplog.records] == [
        f"skill {tmp_path / 'bad'} left out: {no_head}",
        f"skill {tmp_path / 'nowhere'} left out: there is no such folder",
    ]


def test_skill_file_not_in_utf8_is_rejected(tmp_path: Path) -> None:
    (make_folder(tmp_path) / "SKILL.md").write_bytes(b"---\nname: \xff\n---\n")
    assert fault_of(tmp_path) == "SKILL.md is not UTF-8"


def test_skills_beyond_the_maximum_number_are_reported_as_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "MAX_SKILLS", 3)
    for name in ("one", "two"):
        make_folder(tmp_path, name=name)
    skills, errors = find_skills(str(tmp_path))
    assert len(skills) == 3
    assert errors == ((str(tmp_path / "two"), "more than 3 skills; this one was not loaded"),)


def test_skill_reader_includes_extra_files_but_no_hidden_files(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder / "references").mkdir()
    (folder / "references" / "more.md").write_text("More.")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.bin").write_bytes(b"\x00\xff")
    (folder / ".hidden").write_text("no")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("no")
    skill = read_skill(folder)
    assert [file.path for file in skill.extra_files] == ["references/more.md", "scripts/run.bin"]
    assert skill.files == (skill.file("SKILL.md"), *skill.extra_files)
    assert skill.files[2].content == b"\x00\xff"
    assert skill.file("references/../SKILL.md") is None


def test_skill_md_linked_to_outside_file_is_rejected(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "elsewhere")
    linked = tmp_path / "skills" / "a-skill"
    linked.mkdir(parents=True)
    (linked / "SKILL.md").symlink_to(folder / "SKILL.md")
    assert "outside the folder" in fault_of(tmp_path / "skills")


@pytest.mark.parametrize(
    ("link", "target", "fault"),
    [
        ("more.md", "../../secret", "more.md is a symbolic link to a place outside the folder"),
        ("references", "/", "references is a symbolic link to a folder"),
        ("gone.md", "nothing", "it cannot be read"),
    ],
)
def test_skill_folder_with_symbolic_link_to_elsewhere_is_rejected(
    tmp_path: Path, link: str, target: str, fault: str
) -> None:
    (tmp_path / "secret").write_text("secret")
    (make_folder(tmp_path / "skills") / link).symlink_to(target)
    assert fault in fault_of(tmp_path / "skills")


def test_symbolic_link_to_or_within_a_skill_folder_is_accepted(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "elsewhere")
    (folder / "same.md").symlink_to(folder / "SKILL.md")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "a-skill").symlink_to(folder)
    assert "a-skill" in {skill.name for skill in find_skills(str(tmp_path / "skills"))[0]}


def test_skill_folder_with_named_pipe_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(make_folder(tmp_path) / "pipe")
    assert fault_of(tmp_path) == "pipe is not a regular file"


@pytest.mark.parametrize(("limit", "most"), [("MAX_FILES", 2), ("MAX_FOLDER_BYTES", 60)])
def test_skill_folder_with_too_many_files_or_bytes_reports_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    folder = make_folder(tmp_path)
    for name in "ab":
        (folder / name).write_text("x" * 40)
    assert len(read_skill(folder).files) == 3
    monkeypatch.setattr(loader, limit, most)
    assert any("it has over" in message for _, message in find_skills(str(tmp_path))[1])


def test_skill_folder_nested_more_than_8_levels_deep_is_rejected(tmp_path: Path) -> None:
    deep = make_folder(tmp_path)
    for _ in range(9):
        deep = deep / "in"
        deep.mkdir()
    assert "more than 8 levels deep" in fault_of(tmp_path)

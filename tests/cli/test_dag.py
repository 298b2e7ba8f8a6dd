"""`waybook dag`: list, map and add workflows; errors in definitions are reported."""

import json
from pathlib import Path

import pytest

from cli.terminal import Terminal
from waybook.dag.definitions.definition import definition_schema

MINE = """\
slug: {slug}
name: Two views
stages:
  - slug: views
    recipe:
      steps:
        - stepKey: view
          jobType: EXECUTE
          granularityStrategy: per_model
          inputsRequired:
            - {{documentKey: question}}
          outputs:
            - documentKey: view
"""
BAD = """\
slug: bad
stages:
  - slug: one
    recipe:
      steps:
        - {stepKey: a, jobType: EXECUTE, granularityStrategy: per_modl}
        - {stepKey: b, jobType: RENDER, granularityStrategy: per_model}
"""


def make_file(folder: Path, text: str, name: str = "dag.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_dag_list_shows_built_in_workflows(terminal: Terminal) -> None:
    dags = {dag["dagSlug"]: dag for dag in terminal.json_output("dag", "list")}
    assert len(dags["dialectic"]["stages"]) == 5
    output = terminal.say("dag", "list", columns=100)
    (row,) = [line for line in output.splitlines() if line.startswith("dialectic")]
    assert row.split() == ["dialectic", "Dialectic", "1", "5", "33"]


@pytest.mark.parametrize(
    ("models", "total"), [("1", 33), ("2", 96), ("3", 221), ("4", 432), ("a, b,c", 221)]
)
def test_dag_show_with_models_prints_number_of_jobs(
    terminal: Terminal, models: str, total: int
) -> None:
    reply = terminal.json_output("dag", "show", "dialectic", "--models", models)
    assert sum(stage["expected"]["total"] for stage in reply["stages"]) == total
    output = terminal.say("dag", "show", "dialectic", "--models", models, columns=100)
    assert f"{total} jobs with" in output


def test_dag_show_prints_tree_of_stages_and_steps(terminal: Terminal) -> None:
    lines = terminal.say("dag", "show", "dialectic", "--models", "3", columns=140).splitlines()
    assert lines[0] == "dialectic  Dialectic, version 1  221 jobs with 3 models"
    assert lines[1] == "├─ thesis  Proposal  5 steps, 13 jobs"
    assert lines[2].startswith("│ ├─ 1   thesis_build_stage_header ")
    assert lines[2].split()[-4:] == ["PLAN", "all_to_one", "1", "job"]
    (final,) = [line for line in lines if "generate_final_synthesis_header" in line]
    assert final.rstrip().endswith("1 job  after 6, 7, 8, 9")


@pytest.mark.parametrize("columns", [40, 60, 80, 90, 100, 140, 200])
def test_dag_show_output_fits_terminal_width(terminal: Terminal, columns: int) -> None:
    output = terminal.say("dag", "show", "dialectic", "--models", "3", columns=columns)
    assert all(len(line.rstrip()) <= columns for line in output.splitlines())


def test_dag_add_creates_version_only_if_definition_changed(
    terminal: Terminal, tmp_path: Path
) -> None:
    text = MINE.format(slug="mine")
    output = terminal.say("dag", "add", make_file(tmp_path, text))
    assert "✓ mine was added as version 1" in output
    assert "already exists as version 1" in terminal.say("dag", "add", make_file(tmp_path, text))
    changed = text.replace("Two views", "Several views")
    reply = terminal.json_output("dag", "add", make_file(tmp_path, changed))
    assert (reply["version"], reply["status"]) == (2, "added")
    assert "mine" in {dag["dagSlug"] for dag in terminal.json_output("dag", "list")}


def test_dag_add_reads_json_from_stdin(terminal: Terminal) -> None:
    step = {"stepKey": "a", "jobType": "EXECUTE", "granularityStrategy": "per_model"}
    stage = {"slug": "one", "recipe": {"steps": [step]}}
    typed = json.dumps({"slug": "from-stdin", "stages": [stage]})
    assert "✓ from-stdin was added" in terminal.say("dag", "add", "-", typed=typed)


def test_dag_add_prints_every_error_and_adds_nothing(terminal: Terminal, tmp_path: Path) -> None:
    failed = terminal.run("dag", "add", make_file(tmp_path, BAD))
    assert failed.exit_code == 1
    lines = failed.stderr.splitlines()
    assert lines[0] == "✗ BAD_RECIPE: 2 errors; nothing was added"
    assert lines[1] == "  stages[0].recipe.steps[0].granularityStrategy  unknown_strategy"
    assert "did you mean 'per_model'?" in " ".join(line.strip() for line in lines)
    assert "  stages[0].recipe.steps[1].jobType  bad_form" in lines
    assert "bad" not in {dag["dagSlug"] for dag in terminal.json_output("dag", "list")}


def test_dag_schema_command_prints_published_schema(terminal: Terminal) -> None:
    assert json.loads(terminal.say("dag", "schema")) == definition_schema()

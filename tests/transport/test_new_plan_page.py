"""Page that creates a plan from a template or from steps that the user types."""

import json
import re
from html import unescape
from pathlib import Path

import httpx2
import pytest

from database_fixtures import ON_POSTGRES_18
from org_env import AgentClient
from transport.full_app import TOKEN
from transport.page_client import Browser, make_browser, send, visible_text
from waybook.importers.templates import builtin_templates
from waybook.settings import LoadedSettings, Settings

pytestmark = ON_POSTGRES_18

PATH = "/plans/new"


def plan_of(reply: httpx2.Response) -> dict[str, str]:
    assert reply.status_code == 303, reply.text
    return {"planId": reply.headers["location"].rpartition("/")[2]}


async def test_preview_of_new_plan_creates_nothing(browser: Browser, agent: AgentClient) -> None:
    reply = await send(browser, PATH, name="Rivers", goal="Which?", steps="Read <all>\n\nWrite")
    text = visible_text(reply.text)
    assert reply.status_code == 200
    assert "Create this plan? Rivers Which?" in text
    assert "Read &lt;all&gt;" in reply.text
    assert "2 Write custom" in text
    assert (await agent.call("list_active_plans"))["plans"] == []


async def test_new_plan_form_sent_twice_creates_the_plan_once(
    browser: Browser, agent: AgentClient
) -> None:
    fields = {"name": "Rivers", "goal": "Which?", "steps": "Read\nWrite"}
    preview = await send(browser, PATH, **fields)
    key = re.search(r'name="key" value="([^"]+)"', preview.text)
    assert key
    fields |= {"step": "create", "key": key[1]}
    made = [await send(browser, PATH, **fields) for _ in range(2)]
    assert made[0].headers["location"] == made[1].headers["location"]
    assert len((await agent.call("list_active_plans"))["plans"]) == 1


async def test_new_plan_form_reads_name_goal_and_dependencies_from_markdown(
    browser: Browser,
) -> None:
    text = "# Rivers\n\nWhich is longest?\n\n1. Read\n2. Measure\n3. Write (after 1, 2)\n"
    shown = visible_text((await send(browser, PATH, steps=text)).text)
    assert "Create this plan? Rivers Which is longest?" in shown
    assert "3 Write custom 1, 2" in shown


@pytest.mark.parametrize("box", [{}, {"sequential": "yes"}])
async def test_new_plan_is_sequential_only_if_the_box_is_checked(
    browser: httpx2.AsyncClient, agent: AgentClient, box: dict[str, str]
) -> None:
    fields = {"name": "Rivers", "goal": "Which?", "steps": "Read\nWrite", **box}
    preview = await send(browser, PATH, **fields)
    assert ("each step waits for all steps before it" in preview.text) is bool(box)
    assert f'name="sequential" value="{box.get("sequential", "")}"' in preview.text
    plan = plan_of(await send(browser, PATH, step="create", **fields))
    assert (await agent.call("get_plan_status", **plan)).get("sequential", False) is bool(box)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (" \n", "Enter the steps, one per line."),
        ("- [x] Read\n- [x] Write", "Steps: line 1: all 2 tasks are done"),
        ("- Read (after 9)", "Steps: line 1"),
    ],
)
async def test_new_plan_form_refuses_unreadable_steps_and_shows_the_input(
    browser: Browser, steps: str, message: str
) -> None:
    reply = await send(browser, PATH, name="Rivers", goal="Which?", steps=steps)
    assert reply.status_code == 400
    assert message in unescape(visible_text(reply.text))
    assert "--" not in visible_text(reply.text)
    assert steps in unescape(reply.text)
    assert 'value="Rivers"' in reply.text


async def test_new_plan_form_keeps_input_when_the_plan_is_refused(browser: Browser) -> None:
    fields = {"name": "x" * 201, "steps": "Read", "step": "create", "key": "k"}
    reply = await send(browser, PATH, **fields)
    assert reply.status_code == 413
    assert "x" * 201 in reply.text
    assert "Read</textarea>" in reply.text


async def test_new_plan_form_accepts_a_built_in_template(
    browser: Browser, agent: AgentClient
) -> None:
    template = builtin_templates()["code-change"]
    path = f"{PATH}?template=code-change"
    form = (await browser.get(path)).text
    assert "the whole test suite</textarea>" in form
    values = {"parameter:change": "Sort rivers", "parameter:repository": "atlas"}
    fields = {**values, "parameter:check": "make test"}
    preview = visible_text((await send(browser, path, **fields)).text)
    assert "Sort rivers (in atlas)" in preview
    made = await send(browser, path, **fields, step="create", key="k")
    status = await agent.status(plan_of(made))
    assert status["totalSteps"] == len(template.arguments["steps"])  # type: ignore[arg-type]
    missing = await send(browser, path, **{**fields, "parameter:change": " "})
    assert missing.status_code == 400
    assert "Enter a value for: change." in visible_text(missing.text)
    assert "atlas</textarea>" in missing.text


async def test_new_plan_page_for_an_unknown_template_returns_404(browser: Browser) -> None:
    assert (await browser.get(f"{PATH}?template=nothing")).status_code == 404


async def test_saved_plan_template_returns_404_if_authentication_is_required(
    agent: AgentClient, tmp_path: Path
) -> None:
    folder = tmp_path / "templates"
    folder.mkdir()
    steps = [{"stepType": "search", "instructions": "Look at {{ what }}."}]
    arguments = {"name": "Look", "researchQuestion": "Why?", "steps": steps}
    template = {"template": "my-look", "parameters": {"what": "rivers, for example"}, **arguments}
    (folder / "my-look.yaml").write_text(json.dumps(template))
    for auth, status in (("none", 200), ("required", 404)):
        settings = Settings(data_dir=tmp_path, auth=auth)
        async with make_browser(agent, loaded=LoadedSettings(settings, {})) as browser:
            reply = await browser.get(f"{PATH}?template=my-look")
            assert reply.status_code == status
            if status == 200:
                fields = {"token": TOKEN, "parameter:what": "lakes", "step": "create", "key": "k"}
                made = await browser.post(f"{PATH}?template=my-look", data=fields)
                assert (await agent.take(plan_of(made)))["instructions"] == "Look at lakes."

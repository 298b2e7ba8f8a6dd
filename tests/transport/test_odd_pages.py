"""Pages make hidden characters visible, and no text changes the direction of other text."""

from org_env import OrgEnv, make_step
from run_documents import render_all
from transport.page_client import main_text, make_browser
from waybook.core.hidden_characters import count_hidden
from waybook.transport.http.html.assets import asset_url

TURNED = "Pay \u202eeno\u202c \x1b[31mnow\u200b"
SHOWN = "Pay ⟦U+202E⟧eno⟦U+202C⟧ ⟦U+001B⟧[31mnow⟦U+200B⟧"


async def test_plan_pages_show_hidden_characters_in_escaped_form(world: OrgEnv) -> None:
    agent = world.agent
    plan = await agent.plan([make_step(TURNED, title=TURNED)], name=TURNED, researchQuestion=TURNED)
    taken = await agent.take(plan)
    await agent.call("request_user_review", stepId=taken["stepId"], summary=TURNED)
    place = f"/plans/{plan['planId']}"
    async with make_browser(agent) as browser:
        for address in ("/", "/inbox", place, f"{place}/steps/{taken['stepId']}"):
            page = await browser.get(address)
            assert SHOWN in main_text(page)
            assert not count_hidden(main_text(page))


async def test_hidden_characters_are_escaped_on_page_but_not_in_markdown(world: OrgEnv) -> None:
    agent = world.agent
    run = await agent.run()
    await agent.submit_documents(await agent.job(run), f"# Found\n\n{TURNED}")
    await render_all(agent)
    report = await agent.progress(run, detail=True)
    document = report["stages"][0]["documents"][0]["resourceId"]
    async with make_browser(agent) as browser:
        page = (await browser.get(f"/api/documents/{document}")).text
        markdown = (await browser.get(f"/api/documents/{document}?format=markdown")).text
    assert "Pay ⟦U+202E⟧eno" in page
    assert "Pay \u202eeno" in markdown


async def test_style_sheet_isolates_text_direction_of_inline_elements(world: OrgEnv) -> None:
    async with make_browser(world.agent) as browser:
        style = (await browser.get(asset_url("waybook.css"))).text
    selectors = style.partition("{unicode-bidi:isolate")[0].rpartition("}")[2]
    assert {"a", "b", "span", "strong", "code"} <= {*selectors.strip().split(",")}

"""Org with an attack by script injection in every text field."""

from itertools import cycle
from typing import Any
from urllib.parse import urlencode

from browser.xss_payloads import ALL, PAYLOADS, payloads
from org_env import AgentClient, Body
from run_documents import render_all
from sample_definitions import make_definition, make_recipe_step, make_stage

#: Texts that contain one payload each, and are short enough for ids.
SHORT = [payload.replace("\n", " ").replace("\t", " ")[:180] for payload in PAYLOADS]


async def hostile_pages(agent: AgentClient) -> list[str]:
    pages = ["/", "/plans?state=all", "/inbox", "/runs", "/dags", "/outputs", "/audit", "/calls"]
    pages += [f"/search?{urlencode({'q': text[:500]})}" for text in (ALL, "alert")]
    for piece in payloads(180):
        pages += await _plan(agent, piece)
    for media in ("markdown", "html", "plain"):
        pages += await _output(agent, payloads(180)[0], media)
    for number in range(0, len(SHORT), 16):
        pages += await _run(agent, f"hostile-{number}", SHORT[number : number + 16])
    await agent.call("start_skill", name="survey", sessionId=SHORT[0])
    return pages


async def _plan(agent: AgentClient, text: str) -> list[str]:
    """Create a plan, research and two reviews, with hostile texts in all fields; return URLs."""
    author = agent.acting_as(text[:150])
    steps = [
        {"stepType": "custom", "title": text[:180], "instructions": ALL, "stallMinutes": 5}
        for _ in range(3)
    ]
    condition = {
        "afterStepOrder": 1,
        "conditionExpression": "true",
        "ifTrueAction": "add_steps",
        "actionParams": {"steps": [{"stepType": "search", "instructions": ALL}], "reason": text},
    }
    plan = await author.plan(
        steps,
        name=text,
        researchQuestion=ALL,
        outputFormattingNotes=text,
        branchingConditions=[condition],
        sessionId=text[:180],
    )
    first = await author.take(plan, sessionId=text[:180])
    research_url = await _research(author, plan, first, text)
    result: Any = {"found": ALL, text[:100]: [text, {"deep": ALL}]}
    notes = {"stepExecutionReport": {"said": ALL}, "outputFormattingNotes": text}
    await author.submit(first, result, sessionId=text[:180], **notes)
    second = await author.take(plan)
    changed = {"action": "update_step_instructions", "stepId": plan["stepIds"][2]}
    await author.call(
        "modify_plan",
        planId=plan["planId"],
        modifications=[{**changed, "instructions": ALL}],
        modificationRationale=text,
    )
    args = {"summary": ALL, "questions": [text], "resultSummary": result}
    await author.review(second, **args)
    decided = {"stepId": second["stepId"], "decision": "modify", "feedback": ALL}
    await author.call("submit_user_decision", **decided)
    await author.review(second, **args)
    place = f"/plans/{plan['planId']}"
    return [place, f"{place}/steps/{plan['stepIds'][0]}", research_url]


async def _research(agent: AgentClient, plan: Body, step: Body, text: str) -> str:
    text = "".join(character for character in text if character.isprintable())
    sources = [{"title": text[:180], "quote": ALL[:1_500]}]
    named = {"planId": plan["planId"], "stepId": step["stepId"], "kind": SHORT[0][:60]}
    research = {
        "title": text[:180],
        "content": ALL,
        "tags": [SHORT[0][:50]],
        "metadata": {"a": text},
    }
    stored = await agent.call("store_research", **named, **research, sources=sources)
    evil = [{"url": "javascript:window.__pwned=1", "title": "x"}]
    # The server may refuse or store this URL, but no page may show it as a link.
    await agent.ask("store_research", {**named, **research, "sources": evil})
    return f"/research/{stored['artifactId']}"


async def _output(agent: AgentClient, text: str, media: str) -> list[str]:
    plan = await agent.plan(1, name=text)
    await agent.work_through(plan)
    stored = await agent.call(
        "store_research_output",
        planId=plan["planId"],
        mediaType=f"text/{media}",
        title=text[:180],
        content=ALL,
    )
    return [f"/outputs/{stored['outputId']}", f"/plans/{plan['planId']}/outputs"]


async def _run(agent: AgentClient, slug: str, words: list[str]) -> list[str]:
    """Create a workflow, run, documents, errors and feedback, with hostile texts in all fields."""
    texts = cycle(words)
    prompt = ALL.replace("{", "(").replace("}", ")")
    steps = [
        make_recipe_step(f"step{n}", name=next(texts), prompt=prompt, outputType=next(texts)[:60])
        for n in range(2)
    ]
    stages = [
        make_stage("one", *steps),
        make_stage("two", make_recipe_step("last", name=next(texts))),
    ]
    named_stages = [{**stage, "name": next(texts)} for stage in stages]
    definition = make_definition(slug, *named_stages, description=prompt) | {"name": words[0]}
    await agent.call("add_dag", definition=definition)
    run = await agent.run(slug, words[:8], name=words[0], input=ALL)
    job = await agent.job(run, sessionId=words[0])
    await agent.fail_job(job, ALL[:1_900])
    failed = f"/runs/{run['runId']}"
    done = await agent.run(slug, words[8:] or words, name=words[-1], input={"a": ALL})
    while (job := await agent.call("get_next_job", runId=done["runId"]))["status"] == "job_ready":
        await agent.submit_documents(job, ALL)
    await agent.feedback(done, "one", ALL)
    await render_all(agent)
    report = await agent.progress(done, detail=True)
    read = [
        f"/api/documents/{document['resourceId']}"
        for document in report["stages"][0]["documents"][:2]
    ]
    place = f"/runs/{done['runId']}"
    return [failed, place, f"/dags/{slug}", f"/audit?subject={done['runId']}", *read]

"""Texts that agents get: prompts of steps, jobs and conflicts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from waybook.work.merging import Conflict

#: Parts of the context that the prompt shows elsewhere, or that only matter to a caller of tools.
_OMITTED: Final = frozenset(
    {"next", "cut", "status", "attempt", "instructions", "resultSchema", "stepId", "title"}
)
_MAX_NAME_LENGTH: Final = 60
_CONFLICT_TITLE: Final = "Resolve the conflicts of "


def step_prompt(
    reply: Mapping[str, Any],
    context: Mapping[str, Any],
    *,
    is_isolated: bool,
    is_resumed: bool,
    review_mark: str,
) -> str:
    """Return the prompt of a step from the reply that claimed it, and its context."""
    shown = {name: value for name, value in context.items() if name not in _OMITTED and value}
    ask = (
        "If a person has to decide before you can finish, end with one line instead of a result: "
        f"{review_mark}: and your question"
    )
    rules = [
        "Do this step only, and do it completely. The other steps are done by others.",
        "Work without a person: questions are not answered during your work.",
        "Do not call submit_step_result: what you answer at the end is submitted for you.",
        ask,
    ]
    if is_isolated:
        rules.append(
            "The current folder is a git worktree for this step. Change files only in it. "
            "Your changes are committed and merged for you."
        )
    if touches := reply.get("touches"):
        rules.append(f"Change only files that match: {', '.join(touches)}")
    return "\n\n".join(
        [
            "You have worked on this step before. A person has answered; continue."
            if is_resumed
            else "You work on one step of a plan.",
            f"# Step {reply['stepOrder']}: {name_of(reply)}",
            str(reply.get("instructions") or ""),
            "# Rules\n\n" + "\n".join(f"- {rule}" for rule in rules),
            f"# Context\n\n```json\n{json.dumps(shown, ensure_ascii=False, indent=1)}\n```",
        ]
    )


def name_of(reply: Mapping[str, Any]) -> str:
    """Return the title of a step or, without one, the first line of its instructions."""
    first = str(reply.get("instructions") or "").strip().partition("\n")[0]
    return str(reply.get("title") or first[:_MAX_NAME_LENGTH] or reply["stepType"])


def job_prompt(prompt: str, inputs: Sequence[tuple[str, str]], so_far: str) -> str:
    parts = [prompt, *(f"# Input {name}\n\n{text}" for name, text in inputs)]
    if so_far:
        parts.append(f"# Continue this text\n\nWrite only what follows after:\n\n{so_far}")
    return "\n\n".join(parts)


def conflict_title(branch: str) -> str:
    """Return the title of the step that resolves the conflicts of a branch."""
    return _CONFLICT_TITLE + branch


def branch_to_resolve(reply: Mapping[str, Any]) -> str | None:
    """Return the branch of the same plan that a step has to merge, or None.

    >>> branch_to_resolve({"planId": "p", "title": conflict_title("waybook/p/step")})
    'waybook/p/step'
    >>> branch_to_resolve({"planId": "p", "title": conflict_title("main")})
    """
    title = str(reply.get("title") or "")
    branch = title.removeprefix(_CONFLICT_TITLE)
    is_ours = branch != title and branch.startswith(f"waybook/{reply['planId']}/")
    return branch if is_ours else None


def conflict_instructions(branch: str, conflict: Conflict) -> str:
    task = (
        f"The branch {branch} conflicts with {conflict.target} in these files: "
        f"{', '.join(conflict.files)}. The merge is started in your worktree. Edit these "
        "files so that the intent of both sides is kept, and remove the conflict markers. "
        "Do not abort the merge."
    )
    return "\n\n".join(
        [
            task,
            f"Changes of {conflict.target}:\n\n```diff\n{conflict.ours}\n```",
            f"Changes of {branch}:\n\n```diff\n{conflict.theirs}\n```",
        ]
    )

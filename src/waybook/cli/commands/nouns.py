"""The nouns of the command line, such as `waybook plan`, with the verbs of each."""

from waybook.cli.access import verbs
from waybook.cli.lazy import CommandGroup
from waybook.core.actions import Kind

plan = CommandGroup(
    help="Plans: list, view, watch, start, retry, cancel, copy, share. Without a verb, view one.",
    usual="view",
    table={
        "list": ("commands.lists:plan_list", "List the plans, newest activity first."),
        "view": ("commands.plan:view_command", "Show a plan with its steps."),
        "watch": ("commands.plan:watch_command", "Watch a plan live."),
        "start": ("commands.import_plan:command", "Create a plan from a file."),
        **verbs(Kind.PLAN),
    },
)
run = CommandGroup(
    help="Runs: list, view, watch, start, retry, cancel, copy. Without a verb, view one.",
    usual="view",
    table={
        "list": ("commands.lists:run_list", "List the runs, newest activity first."),
        "view": ("commands.run:view_command", "Show the progress of a run."),
        "watch": ("commands.run:watch_command", "Watch a run live."),
        **verbs(Kind.WORKFLOW, "run"),
        **verbs(Kind.RUN),
    },
)
review = CommandGroup(
    help="Reviews: list, view, approve, modify, skip, reject. "
    "Without a verb, go through the reviews.",
    usual="decide",
    table={
        "list": ("commands.lists:review_list", "List what waits for a person."),
        "view": ("commands.review:view_command", "Show the open reviews with their results."),
        "decide": ("commands.review:review_command", "Review and decide pending requests."),
        **verbs(Kind.REVIEW),
    },
)
agent = CommandGroup(
    help="Agents that made calls in the last 30 days: list, view. Without a verb, list them.",
    usual="list",
    table={
        "list": ("commands.lists:agent_list", "List the agents, last seen first."),
        "view": ("commands.agent:view_command", "Show an agent and the work that it holds."),
    },
)
workflow = CommandGroup(
    help="Prepared workflows: list, view, add, start. Without a verb, list them.",
    usual="list",
    aliases={"show": "view"},
    table={
        "list": ("commands.lists:workflow_list", "List available workflows."),
        "view": ("commands.dag:show_command", "Show the map of a workflow."),
        **verbs(Kind.WORKFLOW, "run"),
        "add": ("commands.dag:add_command", "Add a workflow, or a new version of it."),
        "schema": ("commands.dag:schema_command", "Print the JSON Schema of definitions."),
    },
)
work = CommandGroup(
    help="Workers: let agents of this machine work on plans and runs.",
    usual="start",
    table={
        "start": ("commands.work:start_command", "Let agents work on a plan or run."),
        "init": (
            "commands.work:init_command",
            "Find the installed agents, and write the file agents.toml for your changes.",
        ),
    },
)

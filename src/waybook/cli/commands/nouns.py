"""The nouns of the command line, such as `waybook plan`, with the verbs of each."""

from waybook.cli.lazy import CommandGroup

plan = CommandGroup(
    help="Plans: list, view, watch, start, retry, cancel, copy, share. Without a verb, view one.",
    usual="view",
    table={
        "list": ("commands.lists:plan_list", "List the plans, newest activity first."),
        "view": ("commands.plan:view_command", "Show a plan with its steps."),
        "watch": ("commands.plan:watch_command", "Watch a plan live."),
        "start": ("commands.import_plan:command", "Create a plan from a file."),
        "retry": ("commands.plan:retry_command", "Retry the failed steps."),
        "reassign": ("commands.plan:reassign_command", "Take steps back from silent agents."),
        "cancel": ("commands.plan:cancel_command", "Cancel a plan."),
        "copy": ("commands.plan:copy_command", "Copy a plan, to continue or redo it."),
        "share": ("commands.plan:share_command", "Create a link to a snapshot of a plan."),
    },
)
run = CommandGroup(
    help="Runs of workflows: list, view, watch, start, retry, cancel, copy. "
    "Without a verb, view one.",
    usual="view",
    table={
        "list": ("commands.lists:run_list", "List the runs, newest activity first."),
        "view": ("commands.run:view_command", "Show the progress of a run."),
        "watch": ("commands.run:watch_command", "Watch a run live."),
        "start": ("commands.run:start_command", "Start a run of a workflow."),
        "retry": ("commands.run:retry_command", "Retry the failed jobs."),
        "cancel": ("commands.run:cancel_command", "Cancel a run."),
        "copy": ("commands.run:copy_command", "Copy a run, to repeat it from a stage on."),
        "feedback": ("commands.run:feedback_command", "Give feedback on a completed stage."),
    },
)
review = CommandGroup(
    help="What waits for you: list, view, approve, modify, skip, reject. "
    "Without a verb, go through the reviews.",
    usual="decide",
    table={
        "list": ("commands.review:list_command", "List what waits for a person."),
        "view": ("commands.review:view_command", "Show the open reviews with their results."),
        "decide": ("commands.review:review_command", "Review and decide pending requests."),
        "approve": ("commands.review:approve_command", "Accept the result of a step."),
        "modify": ("commands.review:modify_command", "Request changes."),
        "skip": ("commands.review:skip_command", "Skip the step."),
        "reject": ("commands.review:reject_command", "Reject the step and fail the plan."),
    },
)
agent = CommandGroup(
    help="Agents that made calls in the last 30 days: list, view. Without a verb, list them.",
    usual="list",
    table={
        "list": ("commands.agent:list_command", "List the agents, last seen first."),
        "view": ("commands.agent:view_command", "Show an agent and the work that it holds."),
    },
)
workflow = CommandGroup(
    help="Prepared workflows: list, view, add, start. Without a verb, list them.",
    usual="list",
    aliases={"show": "view"},
    table={
        "list": ("commands.dag:list_command", "List available workflows."),
        "view": ("commands.dag:show_command", "Show the map of a workflow."),
        "start": ("commands.run:start_command", "Start a run of a workflow."),
        "add": ("commands.dag:add_command", "Add a workflow, or a new version of it."),
        "schema": ("commands.dag:schema_command", "Print the JSON Schema of definitions."),
    },
)

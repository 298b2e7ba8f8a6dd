"""Tool names, grouped by whether a call may be repeated."""

from typing import Final

KEYED_TOOLS: Final = frozenset(
    {
        "add_dag",
        "cancel_run",
        "complete_skill",
        "copy_plan",
        "copy_run",
        "create_research_plan",
        "fail_job",
        "get_next_job",
        "get_next_step",
        "modify_plan",
        "regenerate_document",
        "request_user_review",
        "retry_failed",
        "start_run",
        "start_skill",
        "start_stage",
        "store_research",
        "store_research_output",
        "submit_job_result",
        "submit_stage_feedback",
        "submit_step_result",
        "submit_user_decision",
    }
)
#: Tools that can be called again. `extract_data` is not listed, because a language model would work
#: again.
REPEATABLE_TOOLS: Final = frozenset(
    {
        "draw_map",
        "get_artifact",
        "get_dag_map",
        "get_job_input",
        "get_plan_status",
        "get_research_context",
        "get_run_progress",
        "get_step_context",
        "list_active_plans",
        "list_dags",
        "list_skills",
        "ping",
        "search_sources",
    }
)

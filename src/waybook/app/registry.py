"""Registry of the MCP tools, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from waybook.app.request.tool import Tool
from waybook.app.tools import ping
from waybook.app.tools.plans import (
    complete_skill,
    create_research_plan,
    get_next_step,
    get_plan_status,
    get_research_context,
    get_step_context,
    list_active_plans,
    list_skills,
    modify_plan,
    request_user_review,
    start_skill,
    store_research_output,
    submit_step_result,
    submit_user_decision,
)
from waybook.app.tools.research import extract_data, get_artifact, search_sources, store_research
from waybook.app.tools.runs import (
    add_dag,
    cancel_run,
    draw_map,
    fail_job,
    get_dag_map,
    get_job_input,
    get_next_job,
    get_run_progress,
    list_dags,
    regenerate_document,
    retry_failed,
    start_run,
    start_stage,
    submit_job_result,
    submit_stage_feedback,
)

TOOLS: Mapping[str, Tool] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            get_next_step.TOOL,
            submit_step_result.TOOL,
            create_research_plan.TOOL,
            get_step_context.TOOL,
            get_plan_status.TOOL,
            list_active_plans.TOOL,
            get_research_context.TOOL,
            request_user_review.TOOL,
            submit_user_decision.TOOL,
            modify_plan.TOOL,
            store_research_output.TOOL,
            list_skills.TOOL,
            start_skill.TOOL,
            complete_skill.TOOL,
            store_research.TOOL,
            search_sources.TOOL,
            get_artifact.TOOL,
            extract_data.TOOL,
            list_dags.TOOL,
            get_dag_map.TOOL,
            start_run.TOOL,
            get_next_job.TOOL,
            submit_job_result.TOOL,
            fail_job.TOOL,
            get_job_input.TOOL,
            get_run_progress.TOOL,
            submit_stage_feedback.TOOL,
            start_stage.TOOL,
            retry_failed.TOOL,
            regenerate_document.TOOL,
            cancel_run.TOOL,
            add_dag.TOOL,
            draw_map.TOOL,
            ping.TOOL,
        )
    }
)

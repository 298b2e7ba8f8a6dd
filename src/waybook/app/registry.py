"""Registry of the MCP tools, by name."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Final

from waybook.app.request.tool import Tool

#: Module of each tool in `app/tools`, in the order of the tool list.
MODULES: Final = {
    "get_next_step": "plans.get_next_step",
    "submit_step_result": "plans.submit",
    "create_research_plan": "plans.edit",
    "copy_plan": "plans.edit",
    "get_step_context": "plans.context",
    "get_plan_status": "plans.status",
    "list_active_plans": "plans.status",
    "get_research_context": "plans.context",
    "request_user_review": "plans.submit",
    "submit_user_decision": "plans.submit",
    "modify_plan": "plans.edit",
    "store_research_output": "plans.submit",
    "list_skills": "plans.skills",
    "start_skill": "plans.skills",
    "complete_skill": "plans.skills",
    "store_research": "research.stored_research",
    "search_sources": "research.stored_research",
    "get_artifact": "research.stored_research",
    "extract_data": "research.extract_data",
    "list_dags": "runs.workflows",
    "get_dag_map": "runs.workflows",
    "start_run": "runs.start",
    "copy_run": "runs.start",
    "get_next_job": "runs.get_next_job",
    "submit_job_result": "runs.jobs",
    "fail_job": "runs.jobs",
    "get_job_input": "runs.jobs",
    "get_run_progress": "runs.workflows",
    "submit_stage_feedback": "runs.start",
    "start_stage": "runs.start",
    "retry_failed": "runs.start",
    "regenerate_document": "runs.start",
    "cancel_run": "runs.start",
    "add_dag": "runs.workflows",
    "reserve_work": "work.caps",
    "settle_work": "work.caps",
    "decide_cap": "work.caps",
    "give_back": "work.workers",
    "report_worker": "work.workers",
    "comment": "comments",
    "draw_map": "runs.draw_map",
    "ping": "ping",
}


class ToolRegistry(Mapping[str, Tool]):
    """Maps names to tools. The module of a tool is imported when the tool is first used."""

    @staticmethod
    @cache
    def _import(name: str) -> Tool:
        tool: Tool = getattr(import_module(f"waybook.app.tools.{MODULES[name]}"), name)
        return tool

    def __getitem__(self, name: str) -> Tool:
        return self._import(name)

    def __contains__(self, name: object) -> bool:
        return name in MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


TOOLS: Mapping[str, Tool] = ToolRegistry()

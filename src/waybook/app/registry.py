"""Registry of the MCP tools, by name."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from waybook.app.request.tool import Tool

#: Names of the tools in each package of `app/tools`. Each is also the name of a module.
PACKAGES: Final = {
    ".plans": (
        "get_next_step submit_step_result create_research_plan copy_plan get_step_context "
        "get_plan_status list_active_plans get_research_context request_user_review "
        "submit_user_decision modify_plan store_research_output list_skills start_skill "
        "complete_skill"
    ),
    ".research": "store_research search_sources get_artifact extract_data",
    ".runs": (
        "list_dags get_dag_map start_run copy_run get_next_job submit_job_result fail_job "
        "get_job_input get_run_progress submit_stage_feedback start_stage retry_failed "
        "regenerate_document cancel_run add_dag draw_map"
    ),
    "": "ping",
}
MODULES: Final = {
    name: f"waybook.app.tools{package}.{name}"
    for package, names in PACKAGES.items()
    for name in names.split()
}


class ToolRegistry(Mapping[str, Tool]):
    """The tools. The module of a tool is imported when the tool is first used."""

    def __init__(self) -> None:
        self._imported: dict[str, Tool] = {}

    def __getitem__(self, name: str) -> Tool:
        tool = self._imported.get(name)
        if tool is None:
            tool = import_module(MODULES[name]).TOOL
            self._imported[name] = tool
        return tool

    def __contains__(self, name: object) -> bool:
        return name in MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


TOOLS: Mapping[str, Tool] = ToolRegistry()

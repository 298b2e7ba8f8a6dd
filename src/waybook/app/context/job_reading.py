"""Reads the prompt and inputs of a job for people, without claiming the job."""

from waybook.app.context.job import load_job_materials
from waybook.app.context.job_inputs import JobMaterials
from waybook.app.request.locks.locked_run import LockedRun
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.app.request.run_access import job_not_found
from waybook.store.runs import jobs


async def read_job_materials(ctx: RequestContext, run_id: str, job_id: str) -> JobMaterials:
    """Return the prompt, inputs and submitted parts of a job."""
    statement = jobs.job_statement(id_or_nil(job_id).lower())
    async with LockedRun(ctx, run_id, statement, is_locked=False) as locked:
        job = jobs.first_job(locked.results[0])
        if job is None:
            raise job_not_found()
        return await load_job_materials(locked, job)

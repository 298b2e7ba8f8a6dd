"""URLs of pages of the dashboard."""


def plan_url(plan_id: str, base_url: str) -> str:
    """Return the dashboard URL of a plan.

    >>> plan_url("1", "http://127.0.0.1:8750")
    'http://127.0.0.1:8750/plans/1'
    """
    return f"{base_url}/plans/{plan_id}"


def review_url(plan_id: str, base_url: str) -> str:
    return f"{plan_url(plan_id, base_url)}#review"


def run_url(run_id: str, base_url: str) -> str:
    return f"{base_url}/runs/{run_id}"

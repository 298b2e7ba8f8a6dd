"""Page of a thread of comments, and its forms, which other pages show too."""

from typing import Any

from starlette.responses import Response

from waybook.app.queries.comments import find_subject
from waybook.transport.http.dashboard.page import (
    PageRequest,
    error_message,
    error_status,
    redirect,
)


async def comments_page(page: PageRequest) -> Response:
    """Show a thread, write a comment, or resolve one.

    A form that is refused is shown again with the reason, so that no text is lost.
    """
    subject = await find_subject(await page.context(), page.path("subject_id"))
    typed, error, status = dict[str, Any](), "", 200
    if page.is_post:
        form = await page.form()
        typed = {name: form.text(name).strip() for name in ("text", "assignee")}
        sent = {name: value for name, value in typed.items() if value}
        if resolved := form.text("resolve"):
            sent = {"resolveIds": [resolved]}
        if key := form.text("key")[:64]:
            sent["idempotencyKey"] = key
        answer = await page.call_tool("comment", {"subjectId": subject.id, **sent})
        if not answer.is_error:
            return redirect(f"{form.return_path.partition('#')[0]}#comments-{subject.id}")
        error, status = error_message(answer), error_status(answer)
    before = page.query("before")
    return await page.render(
        "comments",
        status=status,
        thread_of=subject,
        path=f"/comments/{subject.id}",
        before=before,
        typed=typed,
        error=error,
    )

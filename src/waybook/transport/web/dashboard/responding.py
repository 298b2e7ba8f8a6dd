"""What a form said, and the card that answers it."""

from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.transport.web.dashboard.back import safe_return_path
from waybook.transport.web.dashboard.desk import PageContext
from waybook.usecases.exchange import Answer


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    """The fields of a form."""

    fields: FormData

    def text(self, name: str) -> str:
        """What stands in a field, its lines ended as we end them."""
        value = self.fields.get(name)
        # What PostgreSQL cannot keep, it cannot find either.
        return value.replace("\r\n", "\n").replace("\0", "") if isinstance(value, str) else ""

    @property
    def return_path(self) -> str:
        """Where the person came from."""
        return safe_return_path(self.fields.get("back"))

    def redirect_back(self, request: Request) -> Response | None:
        """Back to where they came from, unless their page waits for the card alone."""
        if is_partial_request(request):
            return None
        return RedirectResponse(self.return_path, HTTPStatus.SEE_OTHER)


def is_partial_request(request: Request) -> bool:
    """Whether a page that stays open asks for a piece of it."""
    return request.headers.get("hx-request") == "true"


def error_message(answer: Answer) -> str:
    """What an error says to people."""
    error = answer.body.get("error")
    return str(error.get("message", "")) if isinstance(error, dict) else ""


def error_details(answer: Answer) -> dict[str, object]:
    """What an error says beside its message."""
    error = answer.body.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    return details if isinstance(details, dict) else {}


async def respond(
    desk: PageContext, request: Request, said: SubmittedForm, status: int, **card: object
) -> Response:
    """A page with the card alone; a page that is open takes it from there."""
    shown: dict[str, object] = {"decision": None, "feedback": None, **card}
    code = HTTPStatus.OK if is_partial_request(request) else status
    return await desk.render_page(
        request, "decide", status_code=code, back=said.return_path, **shown
    )

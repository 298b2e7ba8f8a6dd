"""What a form said, and the card that answers it."""

from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.transport.web.dashboard.back import own_path
from waybook.transport.web.dashboard.desk import Desk
from waybook.usecases.exchange import Answer


@dataclass(frozen=True, slots=True)
class Said:
    """The fields of a form."""

    fields: FormData

    def text(self, name: str) -> str:
        """What stands in a field, its lines ended as we end them."""
        value = self.fields.get(name)
        # What PostgreSQL cannot keep, it cannot find either.
        return value.replace("\r\n", "\n").replace("\0", "") if isinstance(value, str) else ""

    @property
    def back(self) -> str:
        """Where the person came from."""
        return own_path(self.fields.get("back"))

    def way_back(self, request: Request) -> Response | None:
        """Back to where they came from, unless their page waits for the card alone."""
        if is_piecewise(request):
            return None
        return RedirectResponse(self.back, HTTPStatus.SEE_OTHER)


def is_piecewise(request: Request) -> bool:
    """Whether a page that stays open asks for a piece of it."""
    return request.headers.get("hx-request") == "true"


def message_of(answer: Answer) -> str:
    """What an error says to people."""
    error = answer.body.get("error")
    return str(error.get("message", "")) if isinstance(error, dict) else ""


def details_of(answer: Answer) -> dict[str, object]:
    """What an error says beside its message."""
    error = answer.body.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    return details if isinstance(details, dict) else {}


async def respond(
    desk: Desk, request: Request, said: Said, status: int, **card: object
) -> Response:
    """A page with the card alone; a page that is open takes it from there."""
    shown: dict[str, object] = {"decision": None, "feedback": None, **card}
    code = HTTPStatus.OK if is_piecewise(request) else status
    return await desk.page(request, "decide", status_code=code, back=said.back, **shown)

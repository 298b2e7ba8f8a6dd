"""Whom to tell of what, and how: the operator's settings, and never anything that is stored."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from waybook.errors import Misconfigured
from waybook.notices.signature import parse_secrets
from waybook.record.notice import NotificationKind
from waybook.settings import LOOPBACK, Settings

#: The templates of an operator, at most: larger files are none.
MAX_TEMPLATE_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    #: Often a secret in itself.
    url: str = field(repr=False)
    secrets: tuple[bytes, ...] = field(repr=False)
    format: str
    events: frozenset[str]
    templates_dir: Path | None

    @property
    def is_unencrypted(self) -> bool:
        """Whether what is sent can be read on the way."""
        where = urlsplit(self.url)
        return where.scheme == "http" and where.hostname not in LOOPBACK

    def custom_templates(self) -> dict[str, str]:
        """The texts in the operator's folder, by the names of their files.

        Raises:
            Misconfigured: they cannot be read.
        """
        if self.templates_dir is None:
            return {}
        try:
            if not self.templates_dir.is_dir():
                raise Misconfigured(f"webhook_templates_dir: there is no {self.templates_dir}")
            return {path.name: _text(path) for path in sorted(self.templates_dir.glob("*.txt"))}
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"webhook_templates_dir: {error}") from error


def webhook_from_settings(settings: Settings) -> WebhookSettings | None:
    """The webhook that is configured; none if there is none.

    Raises:
        Misconfigured: the settings do not fit together.
    """
    if settings.webhook_url is None:
        return None
    secrets = parse_secrets(settings.webhook_secret or "")
    if settings.webhook_format == "standard" and not secrets:
        raise Misconfigured(
            "webhook_url needs a webhook_secret, by which the receiver knows who sends; make one "
            "with: echo whsec_$(openssl rand -base64 32)"
        )
    folder = settings.webhook_templates_dir
    return WebhookSettings(
        url=settings.webhook_url,
        secrets=secrets,
        format=settings.webhook_format,
        events=_events(settings.webhook_events),
        templates_dir=Path(folder).expanduser() if folder else None,
    )


def _events(text: str) -> frozenset[str]:
    """The events that are named; all if none is."""
    there = {
        str(occasion) for occasion in NotificationKind if occasion is not NotificationKind.TEST
    }
    named = set(text.replace(",", " ").split())
    unknown = sorted(named - there)
    if unknown:
        raise Misconfigured(
            f"webhook_events: there is no event {unknown[0]!r}; there are "
            f"{', '.join(sorted(there))}"
        )
    return frozenset(named or there)


def _text(path: Path) -> str:
    if not path.is_file():
        raise Misconfigured(f"webhook_templates_dir: {path.name} is not a file")
    if path.stat().st_size > MAX_TEMPLATE_BYTES:
        raise Misconfigured(f"webhook_templates_dir: {path.name} is too large")
    return path.read_text("utf-8")

"""What happened, as sentences for a terminal."""

from waybook.usecases.deeds import event_label
from waybook.usecases.verify_audit import RUN
from waybook.usecases.watch_plan import LastEvent
from waybook.usecases.watch_run import RunEvent


def event_sentence(happening: LastEvent) -> str:
    """Who did what, as a sentence without its end."""
    return (
        f"{happening.session or happening.actor} {event_label(happening.event, happening.action)}"
    )


def run_event_sentence(news: RunEvent) -> str:
    """Who did what in a run, as a sentence without its end."""
    about = f": {news.subject}" if news.subject else ""
    return f"{news.session or news.actor} {event_label(news.event, news.action, RUN)}{about}"

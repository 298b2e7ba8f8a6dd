"""What happened, as sentences for a terminal."""

from waybook.usecases.deeds import deed
from waybook.usecases.verify_audit import RUN
from waybook.usecases.watch_plan import Happening
from waybook.usecases.watch_run import News


def told_event(happening: Happening) -> str:
    """Who did what, as a sentence without its end."""
    return f"{happening.session or happening.actor} {deed(happening.event, happening.action)}"


def told_news(news: News) -> str:
    """Who did what in a run, as a sentence without its end."""
    about = f": {news.about}" if news.about else ""
    return f"{news.session or news.actor} {deed(news.event, news.action, RUN)}{about}"

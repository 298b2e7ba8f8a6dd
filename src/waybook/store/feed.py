"""A feed: the topics of which somebody has not heard yet, for one who reads in their own time."""

import asyncio

from waybook.record.news import ChangeEvent, event_topics

#: Topics that may wait for a slow reader; beyond, all is said to have changed.
MAX_TOPICS = 200
#: The topic of everything.
ALL_TOPICS = "*"


class ChangeFeed:
    """Topics, each once however often it changed, until they are read."""

    def __init__(self) -> None:
        """A feed with nothing in it."""
        self._topics: dict[str, None] = {}
        self._ended = False
        self._has_news = asyncio.Event()

    def on_event(self, event: ChangeEvent) -> None:
        """Something changed."""
        if ALL_TOPICS in self._topics:
            return
        self._topics |= dict.fromkeys(event_topics(event))
        if len(self._topics) > MAX_TOPICS:
            self._topics = {ALL_TOPICS: None}
        self._has_news.set()

    def on_gap(self) -> None:
        """Anything may have changed."""
        self._topics = {ALL_TOPICS: None}
        self._has_news.set()

    def on_close(self) -> None:
        """There will be no more."""
        self._ended = True
        self._has_news.set()

    @property
    def has_ended(self) -> bool:
        return self._ended

    async def read(self, seconds: float) -> tuple[str, ...]:
        """The topics that changed since the last time: none if none does for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._has_news.wait()
        except TimeoutError:
            return ()
        return self.take()

    def take(self) -> tuple[str, ...]:
        """The topics that changed since the last time, without waiting."""
        if not self._ended:
            self._has_news.clear()
        topics, self._topics = tuple(self._topics), {}
        return topics

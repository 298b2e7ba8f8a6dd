"""Formats durations and ages."""

from datetime import datetime, timedelta

MINUTE, HOUR, DAY = 60, 3_600, 86_400


def format_duration(gap: timedelta) -> str:
    """Return a duration in its shortest readable form.

    >>> (
    ...     format_duration(timedelta(seconds=5.4)),
    ...     format_duration(timedelta(seconds=761)),
    ...     format_duration(timedelta(hours=5)),
    ... )
    ('5 s', '12 min', '5 h')
    >>> format_duration(timedelta(days=3, hours=2)), format_duration(timedelta(seconds=-1))
    ('3 d 2 h', '0 s')
    """
    seconds = max(0, round(gap.total_seconds()))
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min"
    large, small, names = (HOUR, MINUTE, ("h", "min")) if seconds < DAY else (DAY, HOUR, ("d", "h"))
    rest = seconds % large // small
    return f"{seconds // large} {names[0]}" + (f" {rest} {names[1]}" if rest else "")


def format_age(at: datetime, now: datetime) -> str:
    """Return the age of a time as a short phrase.

    >>> noon = datetime.fromisoformat("2030-01-01T12:00:00Z")
    >>> (
    ...     format_age(noon, noon),
    ...     format_age(noon, noon + timedelta(minutes=3)),
    ...     format_age(noon, noon + timedelta(2)),
    ... )
    ('just now', '3 min ago', '2 days ago')
    """
    seconds = int((now - at).total_seconds())
    for unit, most, name in ((1, MINUTE, "s"), (MINUTE, HOUR, " min"), (HOUR, DAY, " h")):
        if seconds < most:
            return (
                f"{seconds // unit}{name} ago"
                if seconds >= unit * 2
                else {"s": "just now", " min": "1 min ago", " h": "1 h ago"}[name]
            )
    return f"{seconds // DAY} days ago" if seconds >= 2 * DAY else "yesterday"

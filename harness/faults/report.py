"""Summary of a fault test, as text."""

from collections import Counter
from statistics import median
from typing import Final

from faults.conduct import Result
from faults.history import Outcome
from faults.schedule import Kind

MAX_SHOWN: Final = 5
MAX_LINE: Final = 400


def summary(result: Result) -> str:
    parts = [_calls(result), _faults(result), _recoveries(result), _violations(result)]
    return "\n\n".join(part for part in parts if part)


def _calls(result: Result) -> str:
    history, seed = result.history, result.assignment.seed
    counts = history.counts
    rate = history.acknowledged / max(result.seconds, 1.0)
    refused = Counter(call.code for call in history.calls if call.outcome is Outcome.REFUSED)
    lines = [
        f"seed {seed}, {result.seconds:.0f} s, {rate:.0f} acknowledged calls a second",
        f"{'acknowledged':<34}{counts[Outcome.ACKNOWLEDGED]:>8}",
        f"{'refused by a rule':<34}{counts[Outcome.REFUSED]:>8}  {_listed(refused)}",
        f"{'unknown':<34}{counts[Outcome.UNKNOWN]:>8}",
        f"{'requests sent':<34}{history.tries:>8}  repeated after: {_listed(history.retried)}",
        f"{'requests that hung':<34}{len(history.hung):>8}",
        f"{'internal errors in logs':<34}{len(result.internal_errors):>8}",
        f"{'starts of the servers':<34}{sum(result.server_starts.values()):>8}",
    ]
    if result.drain_seconds is not None:
        lines.append(f"{'seconds to drain after healing':<34}{result.drain_seconds:>8.1f}")
    return "\n".join(lines)


def _faults(result: Result) -> str:
    lines = [f"{'fault':<38}{'count':>6}"]
    lines += [f"{kind:<38}{result.injector.counts[kind]:>6}" for kind in Kind]
    lines += sorted(result.injector.skipped)
    return "\n".join(lines)


def _recoveries(result: Result) -> str:
    recoveries = result.injector.recoveries
    if not recoveries:
        return ""
    lines = [f"{'first success after healing, s':<38}{'server':<8}{'p50':>7}{'max':>7}{'n':>5}"]
    for (kind, server), seconds in sorted(recoveries.items()):
        figures = f"{median(seconds):>7.2f}{max(seconds):>7.2f}{len(seconds):>5}"
        lines.append(f"{kind:<38}{server:<8}{figures}")
    return "\n".join(lines)


def _violations(result: Result) -> str:
    if not result.violations:
        return "0 violations"
    counts = Counter(violation.checker for violation in result.violations)
    lines = [f"{len(result.violations)} VIOLATIONS with seed {result.assignment.seed}"]
    for checker, count in counts.items():
        lines.append(f"{checker}: {count}")
        messages = [v.message for v in result.violations if v.checker == checker]
        lines += [f"    {message[:MAX_LINE]}" for message in messages[:MAX_SHOWN]]
    lines.append(f"history and logs: {result.home}")
    return "\n".join(lines)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())

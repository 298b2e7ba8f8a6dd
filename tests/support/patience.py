"""Timeouts after which a test that waits for an event fails."""

from typing import Final

#: Timeout for events that must always happen. It is longer than any wait on a busy machine, and
#: shorter than `faulthandler_timeout`; a test that waits this long fails.
PATIENCE_SECONDS: Final = 240.0

#: Timeout for events that the tested feature makes happen early. Without the feature, they would
#: happen later: a waiting call ends after 50 seconds, and a silent connection is closed after 30
#: seconds.
NOTICE_SECONDS: Final = 20.0

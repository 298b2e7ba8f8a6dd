"""Times that a test waits for an event before it fails."""

from typing import Final

#: Longer than any wait takes on a busy machine, and shorter than `faulthandler_timeout`. Only a
#: test that fails waits this long.
PATIENCE_SECONDS: Final = 240.0

#: For an event that must be early: without the tested feature, it would happen later. For example,
#: a waiting call ends after 50 seconds, and the server closes a silent connection after 30 seconds.
NOTICE_SECONDS: Final = 20.0

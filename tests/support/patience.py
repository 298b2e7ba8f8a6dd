"""Limits of the time that a test waits for something that must happen."""

from typing import Final

#: Far more than any wait takes on a busy machine, and less than `faulthandler_timeout`. A test that
#: fails takes this long; one that passes never does.
PATIENCE_SECONDS: Final = 240.0

#: For an event that would also happen without what the test is about, but later: a waiting call
#: ends after 50 seconds, and the server closes a silent connection after 30 seconds.
NOTICE_SECONDS: Final = 20.0

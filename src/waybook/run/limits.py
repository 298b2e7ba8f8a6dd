"""What a run may hold, so that nothing grows without bound."""

#: Jobs of one stage.
MAX_JOBS = 20_000
#: Models of one stage.
MAX_MODELS = 20
#: Steps of one stage that we are to carry out ourselves.
MAX_STEPS = 500
#: Claims of a job before it is given up.
MAX_ATTEMPTS = 4
#: Parts of one unit's result.
MAX_PARTS = 50
#: The first wait before a retry, and the longest, in seconds.
BACKOFF_SECONDS = 5
MAX_BACKOFF_SECONDS = 300

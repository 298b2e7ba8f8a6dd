"""How large a plan may be."""

MAX_STEPS = 200
MAX_CONDITIONS = 50
MAX_OUTPUTS = 200
#: How many sources a step may require; the loader of steps counts no further.
MAX_REQUIRED_SOURCES = 50

"""How large a plan may be."""

MAX_STEPS = 200
MAX_CONDITIONS = 50
MAX_OUTPUTS = 200

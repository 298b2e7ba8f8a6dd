"""Compatibility test with the AI SDK, over the chat completions API."""

from command_line import run_script
from trial import read_trial

run_script(read_trial(), "drive_ai_sdk.mjs")

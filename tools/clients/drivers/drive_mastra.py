"""Compatibility test with Mastra, over the chat completions API."""

from command_line import run_script
from trial import read_trial

run_script(read_trial(), "drive_mastra.mjs")

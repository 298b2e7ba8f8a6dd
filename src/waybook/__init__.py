"""Waybook: the plan book that AI agents and people share."""

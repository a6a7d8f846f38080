"""Sections of ``params.yaml``, one class per stage, by area."""

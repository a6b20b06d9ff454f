"""A small storm of processes that end (exit_storm.py)."""

import exit_storm


def test_processes_end():
    count, problems = exit_storm.storm(2, 3, patience=60)
    assert not problems and count >= 3, problems

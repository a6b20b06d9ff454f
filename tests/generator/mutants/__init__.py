"""Bugs seeded into a copy of the compiler, to measure what the random programs find. See docs/generator.md."""

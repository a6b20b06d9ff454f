"""Random programs of the language, compared between the compiler's targets and NumPy. See docs/generator.md."""

"""The generator is a package of its own: its parent folder is where it is imported from."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

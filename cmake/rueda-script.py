#!python
"""The program `rueda` of a wheel that carries shared libraries: becomes the one in the package."""
import importlib.util
import os
import sys

package = importlib.util.find_spec("rueda").submodule_search_locations[0]
os.execv(os.path.join(package, "bin", "rueda"), sys.argv)

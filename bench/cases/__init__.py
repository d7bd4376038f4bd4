"""The benchmark cases: every module here has a dictionary CASES of name and Case, found by `all_cases`."""

import importlib
import pkgutil

from case import Case


def all_cases() -> dict[str, Case]:
    """All cases by name, in the order of the modules' ORDER and then of their dictionaries."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    modules.sort(key=lambda module: module.ORDER)
    return {name: case for module in modules for name, case in module.CASES.items()}

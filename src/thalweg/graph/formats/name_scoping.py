"""Names moved into and out of a name scope, as exporting and importing parts of graphs needs them."""

from __future__ import annotations

import re

# A name as it stands in a NodeDef: after '^' (a control input), after 'loc:@' (a colocation group), or alone.
_NAME = re.compile(r"(\^|loc:@|)(.*)", re.DOTALL)


def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """Puts a name under a scope; '^x' and 'loc:@x' keep their marks."""
    if not import_scope:
        return name
    match = _NAME.fullmatch(name)
    assert match is not None
    return f"{match[1]}{import_scope.rstrip('/')}/{match[2]}"


def strip_name_scope(name: str, export_scope: str | None) -> str:
    """Takes a name out of a scope; a name outside of the scope stays as it is."""
    if not export_scope:
        return name
    match = _NAME.fullmatch(name)
    assert match is not None
    prefix = export_scope.rstrip("/") + "/"
    return match[1] + match[2].removeprefix(prefix)


def in_name_scope(name: str, scope: str | None) -> bool:
    """Whether a name (with or without a mark) lies under a scope."""
    match = _NAME.fullmatch(name)
    return not scope or (match is not None and match[2].startswith(scope.rstrip("/") + "/"))

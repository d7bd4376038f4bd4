"""Writes the sources of the documentation site: `python -m reference build/docs`.

Pages that have not changed are left alone, so that the site generator reads only what is new.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from reference import guides, names, pages, sources
from reference.links import REFERENCE, SOURCES
from reference.paths import REPOSITORY


def write_if_changed(path: Path, text: str) -> bool:
    """Writes a file unless it has that text already."""
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


def main(folder: Path) -> None:
    """Writes pages to `folder/source`, and copies of the repository's files to `folder/html/sources`."""
    reference = names.collect()
    texts = {f"{REFERENCE}/{page}.md": text for page, text in pages.all_pages(reference).items()}
    texts |= {page: guides.guide_page(reference, page, path) for page, path in guides.guide_files().items()}
    site = REPOSITORY / "docs" / "site"
    texts["index.md"] = guides.guide_page(reference, "index.md", site / "index.md")
    target = folder / "source"
    for old in target.rglob("*.md") if target.exists() else ():
        if str(old.relative_to(target)) not in texts:
            old.unlink()
    changed = sum(write_if_changed(target / page, text) for page, text in texts.items())
    for picture in (REPOSITORY / "docs").glob("*.svg"):
        shutil.copy(picture, target / picture.name)
    shutil.copytree(REPOSITORY / "docs" / "pictures", target / "pictures", dirs_exist_ok=True)
    shutil.copytree(site / "static", target / "static", dirs_exist_ok=True)
    copied = sources.write(folder / "html" / SOURCES, sources.linked(texts.values()))
    print(f"{len(texts)} pages ({changed} changed), {copied} source files copied")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

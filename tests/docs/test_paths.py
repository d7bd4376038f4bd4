"""Files and folders that the guides and comments of docs/ name are there."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest

from reference import guides, names, paths

GUIDES = [*sorted(paths.REPOSITORY.glob("*.md")), *sorted((paths.REPOSITORY / "docs").rglob("*.md"))]


@pytest.mark.parametrize("file", GUIDES, ids=lambda file: str(file.relative_to(paths.REPOSITORY)))
def test_every_path_in_a_guide_exists(file: Path) -> None:
    if file.parent.name == "site":  # The site's first page links to pages that are made.
        return
    missing = [m for m in paths.mentions(file.read_text()) if paths.is_missing(m, file.parent)]
    assert [f"line {m.line}: {m.text}" for m in missing] == []


def test_every_path_in_tiny_exists() -> None:
    text = (paths.REPOSITORY / "docs" / "tiny.py").read_text()
    mentioned = re.findall(r"\b\w+(?:/\w+)*/\w+\.(?:py|h|cc)\b|\b\w+(?:/\w+)*/(?=[\s,)])", text)
    assert len(mentioned) > 10
    assert [path for path in mentioned if paths.resolve_span(path) is None] == []


def test_a_path_that_does_not_exist_is_found() -> None:
    text = "See `passes/nowhere.py`, `passes/prune.py`, [this](nowhere.md) and `a/b`.\n```sh\ncat no/such.py\n```\n"
    missing = [m.text for m in paths.mentions(text) if paths.is_missing(m, paths.REPOSITORY / "docs")]
    assert missing == ["nowhere.md", "passes/nowhere.py"]


def test_headings_that_links_name_exist() -> None:
    for file in GUIDES:
        for target, anchor in re.findall(r"\]\(([^)\s#:]*\.md)?#([\w-]+)\)", paths.without_code(file.read_text())):
            text = (file.parent / target if target else file).read_text()
            slugs = {
                re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-")
                for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
            }
            assert anchor in slugs, f"{file.name} links to #{anchor}"


def test_every_guide_is_on_the_site() -> None:
    first = (paths.REPOSITORY / "docs" / "site" / "index.md").read_text()
    listed = set(
        re.findall(r"^([\w/]+)$", "\n".join(re.findall(r"```\{toctree\}(.*?)```", first, re.DOTALL)), re.MULTILINE)
    )
    pages = {page.removesuffix(".md") for page in guides.guide_files()}
    assert {page for page in pages if not page.startswith("decisions/0")} <= listed


def test_links_of_the_guides_lead_to_pages_and_sources_of_the_site() -> None:
    reference = names.collect()
    made = {f"reference/{page}.md" for page in [*reference.spaces, *(e.page for e in reference.unique())]}
    files = guides.guide_files()
    for page, path in files.items():
        folder = posixpath.dirname(page)
        text = guides.guide_page(reference, page, path)
        for target in re.findall(r"\]\(([^)\s:#]+\.md)", text):
            assert posixpath.normpath(posixpath.join(folder, target)) in made | set(files) | {"index.md"}, (
                page,
                target,
            )
        for target in re.findall(r'href="((?:\.\./)*sources/[^"#]+)\.html"', text):
            source = posixpath.normpath(posixpath.join(folder, target)).removeprefix("sources/").removesuffix("/index")
            assert (paths.REPOSITORY / source).exists(), (page, source)


def test_a_link_with_the_name_of_a_guide_shows_its_title_on_the_site() -> None:
    page = guides.guide_page(names.collect(), "placement.md", paths.REPOSITORY / "docs" / "placement.md")
    assert "[Many devices](devices.md)" in page
    assert not re.search(r"\[\w+\.md\]", page)


def test_pictures_are_there_and_small() -> None:
    shown = {
        (page.parent / target).resolve()
        for page in (paths.REPOSITORY / "docs").glob("*.md")
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    }
    assert [str(path) for path in shown if not path.is_file()] == []
    pictures = set((paths.REPOSITORY / "docs" / "pictures").iterdir())
    assert pictures and pictures <= shown, "a picture that no page shows"
    assert [path.name for path in pictures if path.stat().st_size > 50_000] == []

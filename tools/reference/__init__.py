"""The reference of the documentation site: Markdown pages made from the op registry and the docstrings.

Needs Thalweg, but not the site generator: tests/docs checks the pages without it. `make docs` runs it.
"""

"""The site: `python -m mkdocs build --strict` writes it to build/site.

mkdocs.yml has its navigation and settings. MkDocs calls the module `hooks`.
"""

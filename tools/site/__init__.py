"""What `mkdocs build --strict` adds to the pages of docs/ (mkdocs.yml); `hooks` is its entry."""

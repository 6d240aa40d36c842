"""The documentation as a web site: the pages of the repository and the API reference.

python -m tools.docs [FOLDER]      write it, by default into build/docs
"""

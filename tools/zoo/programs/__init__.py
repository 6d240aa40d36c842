"""The programs, a file per family. A function builds one; its docstring says what it is."""

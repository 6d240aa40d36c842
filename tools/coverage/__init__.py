"""The op-coverage page: what the tests translate, beside what the registry and the limitations say.

`recorder` is a pytest plugin that notes which ops, of which element types, the passing tests
translate; `page` renders its notes.
"""

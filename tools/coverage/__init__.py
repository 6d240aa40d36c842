"""The op-coverage page: ops that the tests translate, their handlers and their limitations.

`recorder` is a pytest plugin that records the ops and element types that passing tests translate.
`page` renders the record.
"""

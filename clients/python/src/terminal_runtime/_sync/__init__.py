# Made from _aio/__init__.py by clients/generate; do not edit.
"""The blocking API, and the source that the blocking one is made from."""

"""Makes the types and method stubs of the clients from the protocol's contract.

`clients/generate` runs it. The contract is `docs/contract/protocol.json`; `contract.py`
reads it into the model of `model.py`; `python.py` and `typescript.py` write one
language each; `blocking.py` makes the blocking Python API from the asyncio one.
"""

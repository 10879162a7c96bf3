"""The asyncio API, and the source that the blocking one is made from."""

"""The live view: a websocket that sends a run's events after a cursor. The database is the bus."""

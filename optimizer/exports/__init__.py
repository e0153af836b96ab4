"""What an engineer takes away: a run as one zip."""

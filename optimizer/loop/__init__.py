"""The optimisation loop: durable stages of a step, run by one worker at a time."""

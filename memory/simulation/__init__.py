"""Replays of the selection policy on recorded outcomes: plain Python, no Django, no device.

`tables` holds what real evaluations said, `episode` plays one run on one operator by the product's rules, `memory`
learns as a bank does, `policies` names what can be compared, `replay` plays thousands, `curves` sums them up.
"""

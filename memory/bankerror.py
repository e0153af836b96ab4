"""The one refusal of bank files in any form."""


class BankError(ValueError):
    """A bank file is unusable. The message is one sentence that names the place as a JSON path or a line."""

"""What does a report say when its input cannot be used?"""

from lit_attn.errors import UserError


class ReportError(UserError):
    """The user gave a run folder, or a file in one, that cannot be reported. The message names it and the way out."""

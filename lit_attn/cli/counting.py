"""How many, and of what? `1 text`, `2 texts`."""


def counted(number: int, what: str) -> str:
    """A number with its noun, which takes an s unless it is one."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

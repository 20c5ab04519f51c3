"""How do small verbs read their options? argparse whose complaints are ours: one line, and exit code 2."""

import argparse
from typing import NoReturn

from lit_attn.errors import UserError


class Parser(argparse.ArgumentParser):
    """`--help` prints and leaves; a mistake is a UserError that names the way to the help."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(prog=command, description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. See {self.prog} --help.")
